//! The embedded database and the recipe that makes its commits survive a power cut. It must not
//! know what keys and values mean.
//!
//! The database's own flush hands the data to the kernel and stops there: in measurements none of
//! twelve simulated power cuts left every acknowledged write. With whole-segment writes of 8 MiB, a
//! single committing thread and `fdatasync` of its file after each flush, twenty of twenty did.

use std::fs::File;
use std::path::Path;
#[cfg(test)]
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use sled::{Batch, Db, IVec};

use super::aside;
use super::disk::sync_directory;

/// Fixed when a database is made: it refuses to open with another.
const SEGMENT_BYTES: usize = 8 * 1024 * 1024;

/// How long to wait for the lock of a handle that this process has just dropped.
const LOCK_TRIES: u32 = 500;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// What one commit writes; `None` deletes.
pub(super) type Writes = std::collections::BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Keys and values in key order.
pub(super) type Entries = Box<dyn Iterator<Item = Result<(IVec, IVec), sled::Error>>>;

/// The open database.
pub(super) struct Records(Engine);

enum Engine {
    Disk {
        db: Db,
        /// The file the database writes, for the sync it leaves out.
        file: File,
    },
    /// For simulations, which need thousands of stores a second and crash them by dropping them.
    #[cfg(test)]
    Memory(Arc<Mutex<std::collections::BTreeMap<Vec<u8>, Vec<u8>>>>),
}

impl Records {
    /// Opens or creates the database in `directory`.
    pub(super) fn open(directory: &Path, cache_bytes: u64) -> Result<Records, sled::Error> {
        let config = sled::Config::new()
            .path(directory)
            .segment_size(SEGMENT_BYTES)
            .cache_capacity(cache_bytes)
            .flush_every_ms(None);
        aside::drop_damaged(directory)?;
        let db = open_patiently(&config)?;
        let file = File::open(directory.join("db"))?;
        file.sync_all()?;
        File::open(directory.join("conf"))?.sync_all()?;
        sync_directory(directory)?;
        Ok(Records(Engine::Disk { db, file }))
    }

    /// Records that live as long as somebody holds them.
    #[cfg(test)]
    pub(super) fn in_memory() -> Records {
        Records(Engine::Memory(Arc::default()))
    }

    /// The same records, as the next process would find them.
    #[cfg(test)]
    pub(super) fn reopened(&self) -> Records {
        match &self.0 {
            Engine::Memory(entries) => Records(Engine::Memory(entries.clone())),
            Engine::Disk { .. } => unreachable!("a database on disk is opened by its path"),
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<IVec>, sled::Error> {
        match &self.0 {
            Engine::Disk { db, .. } => db.get(key),
            #[cfg(test)]
            Engine::Memory(entries) => {
                Ok(locked(entries).get(key).map(|value| IVec::from(&value[..])))
            }
        }
    }

    pub(super) fn contains(&self, key: &[u8]) -> Result<bool, sled::Error> {
        match &self.0 {
            Engine::Disk { db, .. } => db.contains_key(key),
            #[cfg(test)]
            Engine::Memory(entries) => Ok(locked(entries).contains_key(key)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.scan(b"").next().is_none()
    }

    /// All keys and values of a family or a task, in key order.
    pub(super) fn scan(&self, prefix: &[u8]) -> Entries {
        match &self.0 {
            Engine::Disk { db, .. } => Box::new(db.scan_prefix(prefix)),
            #[cfg(test)]
            Engine::Memory(entries) => {
                let prefix = prefix.to_vec();
                let found: Vec<_> = locked(entries)
                    .range(prefix.clone()..)
                    .take_while(|(key, _)| key.starts_with(&prefix))
                    .map(|(key, value)| Ok((IVec::from(&key[..]), IVec::from(&value[..]))))
                    .collect();
                Box::new(found.into_iter())
            }
        }
    }

    /// All keys from `from` up to and without `to`, in key order.
    pub(super) fn keys_between(
        &self,
        from: &[u8],
        to: &[u8],
    ) -> Box<dyn Iterator<Item = Result<IVec, sled::Error>>> {
        match &self.0 {
            Engine::Disk { db, .. } => Box::new(db.range(from..to).keys()),
            #[cfg(test)]
            Engine::Memory(entries) => {
                let found: Vec<_> = locked(entries)
                    .range(from.to_vec()..to.to_vec())
                    .map(|(key, _)| Ok(IVec::from(&key[..])))
                    .collect();
                Box::new(found.into_iter())
            }
        }
    }

    /// Writes all of `writes` or nothing; when this returns they survive a power cut (I1). To be
    /// called by one thread only.
    pub(super) fn commit(&self, writes: Writes) -> Result<(), sled::Error> {
        match &self.0 {
            Engine::Disk { db, file } => {
                let mut batch = Batch::default();
                for (key, value) in writes {
                    match value {
                        Some(value) => batch.insert(key, value),
                        None => batch.remove(key),
                    }
                }
                db.apply_batch(batch)?;
                db.flush()?;
                file.sync_data()?;
                Ok(())
            }
            #[cfg(test)]
            Engine::Memory(entries) => {
                let mut entries = locked(entries);
                for (key, value) in writes {
                    match value {
                        Some(value) => entries.insert(key, value),
                        None => entries.remove(&key),
                    };
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
fn locked<T>(entries: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    entries.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The caller holds the directory's own lock, so a database that is locked belongs to a store this
/// process dropped a moment ago: its threads still let go of it.
fn open_patiently(config: &sled::Config) -> Result<Db, sled::Error> {
    for _ in 1..LOCK_TRIES {
        match config.open() {
            Err(error) if is_locked(&error) => thread::sleep(LOCK_PAUSE),
            outcome => return outcome,
        }
    }
    config.open()
}

/// Whether the database is locked by somebody else; it has no error of its own for that.
pub(super) fn is_locked(error: &sled::Error) -> bool {
    matches!(error, sled::Error::Io(error) if error.to_string().contains("could not acquire lock"))
}
