//! Bounded publish and subscribe: who watches a task hears that it changed, and reads it again.
//!
//! A subscription never queues changes. It remembers *which* of its tasks changed, so its memory is
//! bounded by what it watches, however fast a task changes or however slowly its watcher reads.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use crate::task::TaskKey;

/// Tells subscriptions of changed tasks. Cheap to clone.
#[derive(Clone, Default)]
pub struct Notifier {
    watchers: Arc<Mutex<HashMap<TaskKey, Vec<Weak<Watcher>>>>>,
}

/// What one watcher has not read yet.
#[derive(Default)]
struct Watcher {
    changed: Mutex<BTreeSet<TaskKey>>,
    wake: Notify,
}

/// The tasks one client watches; ends when dropped.
pub struct Subscription {
    watcher: Arc<Watcher>,
    keys: Vec<TaskKey>,
    notifier: Notifier,
}

impl Notifier {
    /// Watches `keys`. Whoever subscribes reads the tasks *after* this returns and misses nothing.
    pub fn subscribe(&self, keys: Vec<TaskKey>) -> Subscription {
        let watcher = Arc::new(Watcher::default());
        let mut watchers = lock(&self.watchers);
        for key in &keys {
            watchers
                .entry(key.clone())
                .or_default()
                .push(Arc::downgrade(&watcher));
        }
        drop(watchers);
        Subscription {
            watcher,
            keys,
            notifier: self.clone(),
        }
    }

    /// Says that `key` changed.
    pub fn publish(&self, key: &TaskKey) {
        let watchers = lock(&self.watchers);
        for watcher in watchers
            .get(key)
            .into_iter()
            .flatten()
            .filter_map(Weak::upgrade)
        {
            lock(&watcher.changed).insert(key.clone());
            watcher.wake.notify_one();
        }
    }

    /// How many tasks are watched by anyone.
    pub fn watched(&self) -> usize {
        lock(&self.watchers).len()
    }
}

impl Subscription {
    /// The next task that changed since it was last returned. Safe to cancel.
    pub async fn changed(&mut self) -> TaskKey {
        loop {
            if let Some(key) = lock(&self.watcher.changed).pop_first() {
                return key;
            }
            self.watcher.wake.notified().await;
        }
    }

    /// The tasks watched.
    pub fn keys(&self) -> &[TaskKey] {
        &self.keys
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut watchers = lock(&self.notifier.watchers);
        for key in &self.keys {
            if let Some(list) = watchers.get_mut(key) {
                list.retain(|watcher| !std::ptr::eq(watcher.as_ptr(), Arc::as_ptr(&self.watcher)));
                if list.is_empty() {
                    watchers.remove(key);
                }
            }
        }
    }
}

/// A poisoned lock means a panic elsewhere; the sets here are consistent after every statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
