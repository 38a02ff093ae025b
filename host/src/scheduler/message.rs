//! What a run tells beside its result: messages for the client that made the call, and resources
//! that changed. Neither is kept; a task's wire has no messages.

use tokio::sync::mpsc;

use super::run::Run;
use crate::notify::{ResourceKey, Subscription};
use crate::scheduler::Scheduler;

/// Changed resources a run may name before they are told to whoever watches them.
const UPDATED_MAX: usize = 256;

/// How much a message matters (RFC 5424), the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LogLevel {
    /// All of them, the least first.
    pub const ALL: [LogLevel; 8] = [
        LogLevel::Debug,
        LogLevel::Info,
        LogLevel::Notice,
        LogLevel::Warning,
        LogLevel::Error,
        LogLevel::Critical,
        LogLevel::Alert,
        LogLevel::Emergency,
    ];

    /// The protocol's word.
    pub fn as_str(self) -> &'static str {
        match self {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Notice => "notice",
            LogLevel::Warning => "warning",
            LogLevel::Error => "error",
            LogLevel::Critical => "critical",
            LogLevel::Alert => "alert",
            LogLevel::Emergency => "emergency",
        }
    }
}

/// What a guest says to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub level: LogLevel,
    pub logger: Option<String>,
    /// JSON text.
    pub data: String,
}

/// A client that wants to hear what a call says.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Less than this it does not want to hear.
    pub level: LogLevel,
    /// What finds no room in it is dropped: a slow reader must not hold up a guest.
    pub sender: mpsc::Sender<Message>,
}

impl Run {
    /// Tells the call's client, if it listens; a task's does not.
    pub fn tell(&self, message: Message) {
        if let Some(listener) = &self.0.submission.listener
            && message.level >= listener.level
            && self.has_caller()
        {
            let _ = listener.sender.try_send(message);
        }
    }

    /// Names a resource that changed; false when there are too many, and this one is left out.
    pub fn resource_updated(&self, uri: String) -> bool {
        let mut updated = self.updated();
        if updated.len() >= UPDATED_MAX && !updated.contains(&uri) {
            return false;
        }
        updated.insert(uri);
        drop(updated);
        self.0.updates.notify_one();
        true
    }

    /// Publishes what changed, to the run's own tenant (I4) and under its own plugin's name.
    pub(super) fn publish_updates(&self) {
        let updated = std::mem::take(&mut *self.updated());
        for uri in updated {
            self.0.scheduler.0.resources.publish(&ResourceKey {
                tenant: self.0.submission.tenant.clone(),
                plugin: self.0.submission.tool.plugin.clone(),
                uri,
            });
        }
    }
}

impl Scheduler {
    /// Follows resources.
    pub fn watch_resources(&self, keys: Vec<ResourceKey>) -> Subscription<ResourceKey> {
        self.0.resources.subscribe(keys)
    }

    /// How many resources are followed by anyone.
    pub fn watched_resources(&self) -> usize {
        self.0.resources.watched()
    }
}
