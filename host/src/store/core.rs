//! The open store without its front: what the committer's thread and readers share.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use super::bodies::Bodies;
use super::codec::{self, VERSION};
use super::compact::COPY;
use super::disk::{self, Disk, sync_directory};
use super::draft::Change;
use super::keys::{self, Slot};
use super::logs::Logs;
use super::offline::delete_folder;
use super::records::{self, Records, Writes};
use super::rounds::RoundBytes;
use super::{OpenError, StoreError, StoreOptions};
use crate::clock::Clock;
use crate::task::{Task, TaskKey, TenantId};

/// A checkpoint may be replaced while its file is being read; the next one is there then.
const READ_TRIES: u32 = 5;

pub(super) struct Core {
    pub(super) records: Records,
    pub(super) bodies: Bodies,
    pub(super) logs: Logs,
    pub(super) disk: Disk,
    /// The tasks a commit is changing, as they are until it is durable. The database shows a
    /// change at once; a reader must not (I1).
    in_flight: RwLock<HashMap<TaskKey, Option<Task>>>,
    /// Tasks that have not ended, by tenant.
    unfinished: Mutex<HashMap<TenantId, usize>>,
    pub(super) round_bytes: RoundBytes,
    /// Why nothing is written any more.
    failure: OnceLock<StoreError>,
    /// Last, so that it is given up after the database is closed.
    _lock: File,
}

impl Core {
    /// Opens or creates everything in `directory`.
    pub(super) fn open(
        directory: &Path,
        options: &StoreOptions,
        clock: Clock,
    ) -> Result<Core, OpenError> {
        let name = directory.display().to_string();
        let unusable = |source| OpenError::Directory {
            directory: name.clone(),
            source,
        };
        let unreadable = |error| explain(directory, error);
        fs::create_dir_all(directory).map_err(unusable)?;
        let lock = disk::lock(directory)?;
        // Of a compaction or an import that was cut short.
        delete_folder(&directory.join(COPY)).map_err(unusable)?;
        let disk = Disk::new(directory, options.free_disk_min_bytes, clock);
        disk.release_ballast().map_err(unusable)?;
        let records =
            Records::open(&directory.join("records"), options.cache_bytes).map_err(unreadable)?;
        check_format(directory, &records)?;
        let core = Core {
            bodies: Bodies::open(directory.join("bodies")).map_err(unusable)?,
            logs: Logs::open(directory.join("logs")).map_err(unusable)?,
            unfinished: Mutex::new(count_unfinished(&records).map_err(unreadable)?),
            round_bytes: RoundBytes::count(&records, options.tenant_rounds_max_bytes)
                .map_err(unreadable)?,
            in_flight: RwLock::default(),
            failure: OnceLock::new(),
            records,
            disk,
            _lock: lock,
        };
        core.sweep().map_err(|error| match error {
            SweepError::File(source) => unusable(source),
            SweepError::Records(source) => unreadable(source),
        })?;
        core.disk.keep_ballast();
        sync_directory(directory).map_err(unusable)?;
        if let Some(parent) = directory.canonicalize().map_err(unusable)?.parent() {
            // A parent that may not be read was there before and needs no sync.
            let _ = sync_directory(parent);
        }
        Ok(core)
    }

    /// A store over records that outlive it, without a directory of its own to lock.
    #[cfg(test)]
    pub(super) fn simulated(records: Records, directory: &Path, clock: Clock) -> Core {
        Core {
            bodies: Bodies::open(directory.join("bodies")).unwrap(),
            logs: Logs::open(directory.join("logs")).unwrap(),
            disk: Disk::new(directory, 0, clock),
            in_flight: RwLock::default(),
            unfinished: Mutex::new(count_unfinished(&records).unwrap()),
            round_bytes: RoundBytes::count(&records, u64::MAX).unwrap(),
            failure: OnceLock::new(),
            records,
            _lock: File::open(directory).unwrap(),
        }
    }

    /// The task as last committed.
    pub(super) fn get(&self, key: &TaskKey) -> Result<Option<Task>, StoreError> {
        // Held over the read: otherwise a commit could begin between the two looks.
        let in_flight = self
            .in_flight
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(committed) = in_flight.get(key) {
            return Ok(committed.clone());
        }
        let record = self.records.get(&keys::task(key))?;
        drop(in_flight);
        let task = record.map(|bytes| codec::decode_task(key.clone(), &bytes));
        Ok(task.transpose()?)
    }

    pub(super) fn body(&self, key: &TaskKey, slot: &Slot) -> Result<Option<Vec<u8>>, StoreError> {
        let name = keys::body(key, slot);
        let mut tries = 0;
        loop {
            tries += 1;
            let Some(value) = self.records.get(&name)? else {
                return Ok(None);
            };
            match self.bodies.read(key, &value) {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(error)
                    if error.kind() == std::io::ErrorKind::NotFound && tries < READ_TRIES => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Makes `writes` durable (I1). Until it returns, readers see the tasks as they were.
    pub(super) fn commit(&self, writes: Writes, changes: &[Change]) -> Result<(), StoreError> {
        let before = changes.iter().map(|c| (c.key.clone(), c.before.clone()));
        self.in_flight
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(before);
        // After an error nobody knows what is on the disk; readers go on seeing what was.
        self.records.commit(writes)?;
        self.count(changes);
        self.in_flight
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        Ok(())
    }

    /// Takes no more writes, whatever happens (I8).
    pub(super) fn fail(&self, error: StoreError) {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "the store takes no more writes"
        );
        // A second failure changes nothing.
        let _ = self.failure.set(error);
    }

    pub(super) fn failure(&self) -> Option<&StoreError> {
        self.failure.get()
    }

    pub(super) fn unfinished(&self, tenant: &TenantId) -> usize {
        self.counts().get(tenant).copied().unwrap_or_default()
    }

    fn count(&self, changes: &[Change]) {
        let is_unfinished = |task: &Option<Task>| task.as_ref().is_some_and(|t| !t.is_terminal());
        let mut counts = self.counts();
        for change in changes {
            let tenant = &change.key.tenant;
            match (is_unfinished(&change.before), is_unfinished(&change.after)) {
                (false, true) => *counts.entry(tenant.clone()).or_default() += 1,
                (true, false) => {
                    if let Some(count) = counts.get_mut(tenant) {
                        *count = count.saturating_sub(1);
                    }
                }
                _ => {}
            }
        }
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<TenantId, usize>> {
        self.unfinished
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletes files that a crash left without a record. Looks only at what has files.
    fn sweep(&self) -> Result<(), SweepError> {
        self.bodies.sweep::<SweepError>(|key| {
            let mut values = Vec::new();
            for prefix in keys::bodies(key) {
                for entry in self.records.scan(&prefix) {
                    values.push(entry.map_err(SweepError::Records)?.1.to_vec());
                }
            }
            Ok(values)
        })?;
        self.logs.sweep::<SweepError>(|key| {
            let found = self.records.contains(&keys::task(key));
            found.map_err(SweepError::Records)
        })
    }
}

enum SweepError {
    File(std::io::Error),
    Records(sled::Error),
}

impl From<std::io::Error> for SweepError {
    fn from(error: std::io::Error) -> SweepError {
        SweepError::File(error)
    }
}

/// Refuses what a newer version or another program wrote; marks what is new as ours.
pub(super) fn check_format(directory: &Path, records: &Records) -> Result<(), OpenError> {
    let unreadable = |error| explain(directory, error);
    let name = || directory.display().to_string();
    match records.get(keys::SCHEMA).map_err(unreadable)?.as_deref() {
        Some(&[found]) if found <= VERSION => Ok(()),
        Some(&[found]) => Err(OpenError::NewerFormat {
            directory: name(),
            found,
            supported: VERSION,
        }),
        None if records.is_empty() => {
            let mark = Writes::from([(keys::SCHEMA.to_vec(), Some(vec![VERSION]))]);
            records.commit(mark).map_err(unreadable)
        }
        _ => Err(OpenError::Foreign(name())),
    }
}

/// What an error of the database means for whoever opens it.
pub(super) fn explain(directory: &Path, error: sled::Error) -> OpenError {
    let directory = directory.display().to_string();
    match error {
        error if records::is_locked(&error) => OpenError::InUse(directory),
        sled::Error::Io(source) => OpenError::Directory { directory, source },
        source => OpenError::Records { directory, source },
    }
}

/// Counts by the indexes: no task's record is read.
fn count_unfinished(records: &Records) -> Result<HashMap<TenantId, usize>, sled::Error> {
    let mut counts = HashMap::new();
    for (family, read) in [
        (keys::QUEUE, keys::read_timed as fn(&[u8]) -> _),
        (keys::RUNNING, keys::read_named),
        (keys::PARKED, keys::read_named),
    ] {
        for entry in records.scan(family) {
            if let Some(key) = read(&entry?.0) {
                *counts.entry(key.tenant).or_default() += 1;
            }
        }
    }
    Ok(counts)
}
