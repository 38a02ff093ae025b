//! `subscriptions/listen`: a stream that first says what it will tell, then tells of changed lists,
//! resources and tasks, and answers the request itself when the host shuts down.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec;

use bytes::Bytes;
use futures_util::future::select_all;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::sync::watch;

use super::envelope::Request;
use super::error::Refusal;
use super::filter::{Agreed, Filter, acknowledge, notification_of, write_subscription};
use super::wire;
use super::{Output, RequestId, stopping, tasks};
use crate::catalog::List;
use crate::notify::{ResourceKey, Subscription};
use crate::service::Service;
use crate::task::{TaskKey, TenantId};

/// Streams one tenant may have open.
const STREAMS_MAX: usize = 64;

/// A list that a stream follows.
struct Followed {
    list: List,
    /// None once the catalog is gone.
    changes: Option<watch::Receiver<u64>>,
}

/// How many streams each tenant has open.
#[derive(Default)]
pub struct Streams(Mutex<HashMap<TenantId, usize>>);

/// A stream's place among its tenant's.
struct Place {
    streams: Arc<Streams>,
    tenant: TenantId,
}

impl Streams {
    fn take(self: &Arc<Streams>, tenant: &TenantId) -> Result<Place, Refusal> {
        let mut counts = self.lock();
        let open = counts.entry(tenant.clone()).or_default();
        if *open >= STREAMS_MAX {
            return Err(Refusal::TooManyStreams {
                open: *open,
                max: STREAMS_MAX,
            });
        }
        *open += 1;
        Ok(Place {
            streams: Arc::clone(self),
            tenant: tenant.clone(),
        })
    }

    /// How many are open, all tenants together.
    pub fn open(&self) -> usize {
        self.lock().values().sum()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, usize>> {
        // Counts are whole after every statement, so a panic elsewhere left nothing broken.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.streams.lock();
        if let Some(open) = counts.get_mut(&self.tenant) {
            *open -= 1;
            if *open == 0 {
                counts.remove(&self.tenant);
            }
        }
    }
}

pub fn listen(
    service: &Service,
    streams: &Arc<Streams>,
    shutdown: watch::Receiver<bool>,
    tenant: &TenantId,
    request: &Request,
) -> Result<Output, Refusal> {
    let Filter { lists, uris, ids } = Filter::read(request)?;
    if ids.is_some() && !request.client.takes_tasks {
        return Err(Refusal::NeedsTasks {
            method: "subscriptions/listen with taskIds",
        });
    }
    let place = streams.take(tenant)?;
    let lists: Vec<Followed> = lists
        .into_iter()
        .map(|list| Followed {
            list,
            changes: Some(service.changes(list)),
        })
        .collect();
    let resources = uris.map(|uris| service.watch_resources(tenant, uris));
    let tasks = ids.as_ref().map(|ids| service.watch(tenant, ids));
    let ids = ids.map(|ids| agreed_ids(ids, tasks.as_ref()));
    let agreed = Agreed {
        lists: lists.iter().map(|followed| followed.list).collect(),
        uris: resources.as_ref().map(uris_of),
        ids,
    };
    let acknowledgement = acknowledge(&request.id, &agreed);
    let listening = Listening {
        id: request.id.clone(),
        service: service.clone(),
        acknowledgement: Some(acknowledgement),
        // Watched first and read after: nothing that changes in between is lost. The state at the
        // start is told too, because a task may have ended before the client could listen.
        untold: match &tasks {
            Some(tasks) => tasks.keys().to_vec().into_iter(),
            None => Vec::new().into_iter(),
        },
        lists,
        resources,
        tasks,
        shutdown,
        is_over: false,
        _place: place,
    };
    Ok(Output::Stream(
        stream::unfold(listening, Listening::next).boxed(),
    ))
}

/// The URIs that some plugin serves.
fn uris_of(resources: &Subscription<ResourceKey>) -> Vec<String> {
    let keys = resources.keys().iter();
    keys.map(|key| key.uri.clone()).collect()
}

/// The ids that are tasks of the tenant, in the client's order. Unknown and foreign ones are left
/// out alike (I4).
fn agreed_ids(ids: Vec<String>, tasks: Option<&Subscription>) -> Vec<String> {
    let watched: HashSet<&str> = tasks
        .into_iter()
        .flat_map(Subscription::keys)
        .map(|key| key.id.as_str())
        .collect();
    ids.into_iter()
        .filter(|id| watched.contains(id.as_str()))
        .collect()
}

/// An open stream. It holds no messages: what changed is read when the client takes it.
struct Listening {
    id: RequestId,
    service: Service,
    acknowledgement: Option<Bytes>,
    /// Tasks whose state at the start was not told yet.
    untold: vec::IntoIter<TaskKey>,
    lists: Vec<Followed>,
    resources: Option<Subscription<ResourceKey>>,
    tasks: Option<Subscription>,
    shutdown: watch::Receiver<bool>,
    is_over: bool,
    _place: Place,
}

impl Listening {
    async fn next(mut self) -> Option<(Bytes, Listening)> {
        if self.is_over {
            return None;
        }
        if let Some(message) = self.acknowledgement.take() {
            return Some((message, self));
        }
        while let Some(key) = self.untold.next() {
            if let Some(message) = self.task(&key) {
                return Some((message, self));
            }
        }
        loop {
            let message = tokio::select! {
                biased;
                () = stopping(&mut self.shutdown) => {
                    self.is_over = true;
                    Some(self.response())
                }
                list = list_changed(&mut self.lists) => {
                    Some(self.notification(notification_of(list), None))
                }
                key = changed(&mut self.resources) => {
                    Some(self.notification("notifications/resources/updated", Some(&key.uri)))
                }
                key = changed(&mut self.tasks) => self.task(&key),
            };
            if let Some(message) = message {
                return Some((message, self));
            }
        }
    }

    /// The task as it is now; None once it is gone.
    fn task(&self, key: &TaskKey) -> Option<Bytes> {
        let view = self.service.watched(key)?;
        Some(wire::notification("notifications/tasks", |params| {
            tasks::write_detailed(params, &view);
            params.object("_meta", |meta| {
                write_subscription(meta, &self.id);
                tasks::write_extras(meta, &view);
            });
        }))
    }

    fn notification(&self, method: &str, uri: Option<&str>) -> Bytes {
        wire::notification(method, |params| {
            params.object("_meta", |meta| write_subscription(meta, &self.id));
            if let Some(uri) = uri {
                params.text("uri", uri);
            }
        })
    }

    /// The answer to the listen request itself ("Graceful Closure").
    fn response(&self) -> Bytes {
        wire::response(&self.id, |result| {
            result.text("resultType", "complete");
            wire::result_meta(result, |meta| write_subscription(meta, &self.id));
        })
    }
}

/// The next list that changes; for ever when none is followed.
async fn list_changed(lists: &mut [Followed]) -> List {
    let waiting = lists.iter_mut().map(|followed| {
        async {
            if let Some(changes) = &mut followed.changes
                && changes.changed().await.is_ok()
            {
                return followed.list;
            }
            followed.changes = None;
            std::future::pending().await
        }
        .boxed()
    });
    let waiting: Vec<_> = waiting.collect();
    if waiting.is_empty() {
        return std::future::pending().await;
    }
    select_all(waiting).await.0
}

async fn changed<K: Clone + Ord + Hash>(subscription: &mut Option<Subscription<K>>) -> K {
    match subscription {
        Some(subscription) => subscription.changed().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_only_so_many_streams_and_gets_them_back() {
        let streams = Arc::new(Streams::default());
        let (ours, theirs) = (TenantId::local(), TenantId::parse("other").unwrap());
        let mut places: Vec<_> = (0..STREAMS_MAX)
            .map(|_| streams.take(&ours).ok().unwrap())
            .collect();
        assert!(streams.take(&ours).is_err());
        assert!(streams.take(&theirs).is_ok(), "tenants are apart (I4)");
        places.pop();
        assert!(streams.take(&ours).is_ok());
        drop(places);
        assert!(streams.lock().is_empty());
    }
}
