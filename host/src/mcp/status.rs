//! What the host has open and under way, for the user who runs it. It is answered over lines only, where
//! every client is that user's process: over HTTP the method does not exist, because the counts are of all
//! tenants (I4). It counts; it changes nothing.

use std::sync::Arc;

use bytes::Bytes;

use super::{Endpoint, RequestId, wire};

/// This host's own, and not MCP's: it needs no version and no capabilities.
pub const METHOD: &str = "longshore/status";

/// Clients that are being served: as many as there are entries.
#[derive(Default)]
pub struct Clients(Arc<()>);

/// One client; leaves when dropped.
pub struct Entry {
    _counted: Arc<()>,
}

impl Clients {
    pub fn enter(&self) -> Entry {
        Entry {
            _counted: Arc::clone(&self.0),
        }
    }

    fn count(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

/// The counts of this moment. Each is true by itself; together they may be a moment apart.
pub fn answer(endpoint: &Endpoint, id: &RequestId) -> Bytes {
    let parts = &endpoint.0;
    let (all, legacy) = (parts.service.counts(), parts.legacy.counts());
    wire::response(id, |result| {
        result.text("resultType", "complete");
        result.integer("pid", std::process::id().into());
        let mut count = |name: &str, count: usize| {
            result.raw(name, &count.to_string());
        };
        count("localClients", parts.line_clients.count());
        count("subscriptions", parts.streams.open());
        count("watchedTasks", all.watched_tasks);
        count("watchedResources", all.watched_resources);
        count("legacySessions", legacy.sessions);
        count("legacyStreams", legacy.streams);
        count("legacyCalls", legacy.calls);
        count("calls", all.scheduler.calls);
        count("runs", all.scheduler.runs);
        count("places", all.scheduler.places);
        count("queuedTasks", all.scheduler.queued);
        count("heldInstances", all.scheduler.held);
        count("instances", all.instances);
        count("unfinishedTasks", all.unfinished_tasks);
        wire::result_meta(result, |_| {});
    })
}
