//! Bounded publish and subscribe: who watches a task or a resource hears that it changed, and reads
//! it again.
//!
//! A subscription never queues changes. It remembers *which* of its keys changed, so its memory is
//! bounded by what it watches, however fast a task changes or however slowly its watcher reads.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use crate::task::{TaskKey, TenantId};

/// A resource as one tenant sees it. The plugin is part of it, so that what another plugin says of
/// the same URI reaches nobody.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceKey {
    pub tenant: TenantId,
    pub plugin: String,
    pub uri: String,
}

type Watchers<K> = HashMap<K, Vec<Weak<Watcher<K>>>>;

/// Tells subscriptions of what changed. Cheap to clone.
#[derive(Clone)]
pub struct Notifier<K = TaskKey> {
    watchers: Arc<Mutex<Watchers<K>>>,
}

/// What one watcher has not read yet.
struct Watcher<K> {
    changed: Mutex<BTreeSet<K>>,
    wake: Notify,
}

/// What one client watches; ends when dropped.
pub struct Subscription<K: Clone + Eq + Hash = TaskKey> {
    watcher: Arc<Watcher<K>>,
    keys: Vec<K>,
    notifier: Notifier<K>,
}

impl<K> Default for Notifier<K> {
    fn default() -> Notifier<K> {
        Notifier {
            watchers: Arc::default(),
        }
    }
}

impl<K: Clone + Ord + Hash> Notifier<K> {
    /// Watches `keys`. Whoever subscribes reads them *after* this returns and misses nothing.
    pub fn subscribe(&self, keys: Vec<K>) -> Subscription<K> {
        let watcher = Arc::new(Watcher {
            changed: Mutex::default(),
            wake: Notify::new(),
        });
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
    pub fn publish(&self, key: &K) {
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

    /// How many keys are watched by anyone.
    pub fn watched(&self) -> usize {
        lock(&self.watchers).len()
    }
}

impl<K: Clone + Ord + Hash> Subscription<K> {
    /// The next key that changed since it was last returned. Safe to cancel.
    pub async fn changed(&mut self) -> K {
        loop {
            if let Some(key) = lock(&self.watcher.changed).pop_first() {
                return key;
            }
            self.watcher.wake.notified().await;
        }
    }

    /// What is watched.
    pub fn keys(&self) -> &[K] {
        &self.keys
    }
}

impl<K: Clone + Eq + Hash> Drop for Subscription<K> {
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
