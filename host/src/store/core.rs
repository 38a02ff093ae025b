//! The open store without its front: what the committer's thread and readers share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{
    Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

use super::bodies::Bodies;
use super::codec::{self, FORMAT};
use super::compact::COPY;
use super::disk::{self, Disk, sync_directory};
use super::draft::Change;
use super::error::{BodyError, Damage};
use super::keys::{self, Slot};
use super::logs::Logs;
use super::offline::delete_folder;
use super::quota::TenantBytes;
use super::records::{self, Records, Writes};
use super::room::Room;
use super::state::{StateDraft, Usages, visible_names};
use super::watermark::{Watermark, last_commit, lost_commits};
use super::{OpenError, StoreError, StoreOptions};
use super::{parts, rounds, scratch};
use crate::task::{Phase, Task, TaskKey, TenantId};

/// A checkpoint may be replaced while its file is being read; the next one is there then.
const READ_TRIES: u32 = 5;

/// Damaged tasks told one by one; `store check` tells of all.
const DAMAGED_TOLD_MAX: usize = 100;

pub(super) struct Core {
    pub(super) records: Records,
    pub(super) bodies: Bodies,
    pub(super) logs: Logs,
    pub(super) room: Room,
    watermark: Watermark,
    /// The number of the last commit.
    commits: AtomicU64,
    seen: RwLock<Seen>,
    /// What calls left between rounds, and what is kept of large results.
    pub(super) round_bytes: TenantBytes,
    pub(super) part_bytes: TenantBytes,
    /// What plugins keep, by tenant and plugin.
    pub(super) usages: Usages,
    /// Tasks that have not ended, by tenant.
    unfinished: Mutex<HashMap<TenantId, usize>>,
    /// How many of them a tenant may have.
    unfinished_max: usize,
    /// Why nothing is written any more.
    failure: OnceLock<StoreError>,
    /// Damaged tasks that the log has.
    told: Mutex<BTreeSet<TaskKey>>,
    /// Last, so that it is given up after the database is closed.
    _lock: File,
}

/// What readers see in the database's stead.
#[derive(Default)]
struct Seen {
    /// What a commit is changing, as it is until that is durable. The database shows a change at
    /// once; a reader must not (I1).
    tasks: HashMap<TaskKey, Option<Task>>,
    state: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Tasks that run, as last committed: they are read and changed most, and no more run than may.
    running: HashMap<TaskKey, Task>,
}

impl Core {
    /// Opens or creates everything in `directory`.
    pub(super) fn open(directory: &Path, options: &StoreOptions) -> Result<Core, OpenError> {
        let name = directory.display().to_string();
        let unusable = |source| OpenError::Directory {
            directory: name.clone(),
            source,
        };
        let unreadable = |error| explain(directory, error);
        fs::create_dir_all(directory).map_err(unusable)?;
        let lock = disk::lock(directory)?;
        scratch::sweep();
        // Of a compaction or an import that was cut short.
        delete_folder(&directory.join(COPY)).map_err(unusable)?;
        let disk = Disk::new(directory, options.free_disk_min_bytes);
        disk.release_ballast().map_err(unusable)?;
        let place = directory.join("records");
        let records = Records::open(&place, options.cache_bytes).map_err(unreadable)?;
        refuse_loss(
            directory,
            lost_commits(&place, &records).map_err(unreadable)?,
        )?;
        check_format(directory, &records)?;
        mark_format(&records).map_err(unreadable)?;
        let bodies = Bodies::open(directory.join("bodies")).map_err(unusable)?;
        let core = Core {
            watermark: Watermark::open(&place).map_err(unusable)?,
            commits: AtomicU64::new(last_commit(&records).map_err(unreadable)?),
            logs: Logs::open(directory.join("logs")).map_err(unusable)?,
            unfinished: Mutex::new(count_unfinished(&records).map_err(unreadable)?),
            round_bytes: rounds::count(&records, options.tenant_rounds_max_bytes)
                .map_err(unreadable)?,
            part_bytes: parts::count(&records, &bodies, options.tenant_results_kept_max_bytes)
                .map_err(unreadable)?,
            unfinished_max: options.tasks_unfinished_max,
            seen: RwLock::default(),
            usages: Usages::default(),
            failure: OnceLock::new(),
            told: Mutex::default(),
            bodies,
            records,
            room: Room::new(disk),
            _lock: lock,
        };
        core.sweep().map_err(|error| match error {
            SweepError::File(source) => unusable(source),
            SweepError::Records(source) => unreadable(source),
        })?;
        core.room.disk.keep_ballast();
        sync_directory(directory).map_err(unusable)?;
        if let Some(parent) = directory.canonicalize().map_err(unusable)?.parent() {
            // A parent that may not be read was there before and needs no sync.
            let _ = sync_directory(parent);
        }
        Ok(core)
    }

    /// A store over records that outlive it, without a directory of its own to lock.
    #[cfg(test)]
    pub(super) fn simulated(
        records: Records,
        directory: &Path,
        unfinished_max: usize,
        results_max_bytes: u64,
    ) -> Core {
        let bodies = Bodies::open(directory.join("bodies")).unwrap();
        Core {
            watermark: Watermark::open(directory).unwrap(),
            commits: AtomicU64::new(last_commit(&records).unwrap()),
            logs: Logs::open(directory.join("logs")).unwrap(),
            room: Room::new(Disk::new(directory, 0)),
            seen: RwLock::default(),
            usages: Usages::default(),
            unfinished: Mutex::new(count_unfinished(&records).unwrap()),
            round_bytes: rounds::count(&records, u64::MAX).unwrap(),
            part_bytes: parts::count(&records, &bodies, results_max_bytes).unwrap(),
            bodies,
            unfinished_max,
            failure: OnceLock::new(),
            told: Mutex::default(),
            records,
            _lock: File::open(directory).unwrap(),
        }
    }

    /// The task as last committed.
    pub(super) fn get(&self, key: &TaskKey) -> Result<Option<Task>, StoreError> {
        // Held over the read: otherwise a commit could begin between the two looks.
        let seen = self.seen();
        if let Some(committed) = seen.tasks.get(key) {
            return Ok(committed.clone());
        }
        if let Some(running) = seen.running.get(key) {
            return Ok(Some(running.clone()));
        }
        let record = self.records.get(&keys::task(key))?;
        drop(seen);
        let task = record.map(|bytes| codec::decode_task(key.clone(), &bytes));
        Ok(task.transpose()?)
    }

    pub(super) fn body(&self, key: &TaskKey, slot: &Slot) -> Result<Option<Vec<u8>>, StoreError> {
        let name = keys::body(key, slot);
        match self.records.get(&name)? {
            Some(value) => self.body_of(key, &name, &value, slot.kind()),
            None => Ok(None),
        }
    }

    /// A record of somebody's state, as last committed.
    pub(super) fn state_value(&self, name: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        // Held over the read, as above.
        let seen = self.seen();
        if let Some(committed) = seen.state.get(name) {
            return Ok(committed.clone());
        }
        Ok(self.records.get(name)?.map(|value| value.to_vec()))
    }

    /// Names of somebody's state from `from` on that begin with `prefix`, as last committed.
    pub(super) fn state_names(
        &self,
        prefix: &[u8],
        from: &[u8],
        max: usize,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let seen = self.seen();
        let names = self.records.keys_between(from, keys::STATE_END);
        let names = names.map(|name| Ok(name?.to_vec()));
        visible_names(names, &seen.state, prefix, from, max)
    }

    /// The body that the record `name` of the task names by `value`; none if it is gone meanwhile.
    pub(super) fn body_of(
        &self,
        key: &TaskKey,
        name: &[u8],
        value: &[u8],
        what: &'static str,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let mut value = value.to_vec();
        for _ in 1..READ_TRIES {
            match self.bodies.read(key, &value) {
                Err(BodyError::Damaged(Damage::Missing)) => {}
                outcome => return outcome.map(Some).map_err(|error| error.of(what)),
            }
            match self.records.get(name)? {
                Some(newer) => value = newer.to_vec(),
                None => return Ok(None),
            }
        }
        let outcome = self.bodies.read(key, &value);
        outcome.map(Some).map_err(|error| error.of(what))
    }

    /// Makes `writes` durable (I1); the tasks that were changed. Until it returns, readers see what is
    /// changed as it was.
    pub(super) fn commit(
        &self,
        mut writes: Writes,
        changes: Vec<Change>,
        state: StateDraft,
    ) -> Result<Vec<TaskKey>, StoreError> {
        let number = self.commits.load(Ordering::SeqCst) + 1;
        writes.insert(keys::COMMITS.to_vec(), Some(number.to_be_bytes().to_vec()));
        {
            let before = changes.iter().map(|c| (c.key.clone(), c.before.clone()));
            let mut seen = self.seen_mut();
            seen.tasks.extend(before);
            seen.state.extend(state.before);
        }
        // After an error nobody knows what is on the disk; readers go on seeing what was.
        self.records.commit(writes)?;
        self.commits.store(number, Ordering::SeqCst);
        if let Err(error) = self.watermark.write(number) {
            // Nothing is lost by it; a loss would be noticed later or not at all.
            tracing::warn!(%error, "the number of the last commit could not be noted");
        }
        self.count(&changes);
        self.usages.take(state.usages);
        let mut seen = self.seen_mut();
        seen.tasks.clear();
        seen.state.clear();
        let mut changed = Vec::with_capacity(changes.len());
        for change in changes {
            match change.after {
                Some(task) if task.phase == Phase::Running => {
                    seen.running.insert(change.key.clone(), task);
                }
                _ => {
                    seen.running.remove(&change.key);
                }
            }
            changed.push(change.key);
        }
        Ok(changed)
    }

    fn seen(&self) -> RwLockReadGuard<'_, Seen> {
        self.seen.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen_mut(&self) -> RwLockWriteGuard<'_, Seen> {
        self.seen.write().unwrap_or_else(PoisonError::into_inner)
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

    /// Says once that a task's record can't be read, of those who list tasks again and again.
    pub(super) fn tell_damaged(&self, key: &TaskKey, error: &StoreError) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < DAMAGED_TOLD_MAX && told.insert(key.clone()) {
            tracing::error!(
                task = %key.id,
                error = error as &dyn std::error::Error,
                "a task can't be read and is left out; stop the host and run `longshore store check`"
            );
        }
    }

    pub(super) fn unfinished(&self, tenant: &TenantId) -> usize {
        self.counts().get(tenant).copied().unwrap_or_default()
    }

    pub(super) fn unfinished_of_all(&self) -> usize {
        self.counts().values().sum()
    }

    /// Refuses when the tenant has as many tasks as it may; `growth` more are about to be committed.
    pub(super) fn check_quota(&self, tenant: &TenantId, growth: isize) -> Result<(), StoreError> {
        let unfinished = self.unfinished(tenant).saturating_add_signed(growth);
        match unfinished >= self.unfinished_max {
            true => Err(StoreError::TooManyTasks(self.unfinished_max)),
            false => Ok(()),
        }
    }

    fn count(&self, changes: &[Change]) {
        let mut counts = self.counts();
        for change in changes {
            let tenant = &change.key.tenant;
            match (change.was_unfinished, is_unfinished(&change.after)) {
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

/// Whether it is there and has not ended.
pub(super) fn is_unfinished(task: &Option<Task>) -> bool {
    task.as_ref().is_some_and(|task| !task.is_terminal())
}

/// Refuses what a newer version or another program wrote; marks what is new as ours.
pub(super) fn check_format(directory: &Path, records: &Records) -> Result<(), OpenError> {
    let unreadable = |error| explain(directory, error);
    let name = || directory.display().to_string();
    match records.get(keys::SCHEMA).map_err(unreadable)?.as_deref() {
        Some(&[found]) if found <= FORMAT => Ok(()),
        Some(&[found]) => Err(OpenError::NewerFormat {
            directory: name(),
            found,
            supported: FORMAT,
        }),
        None if records.is_empty() => mark_format(records).map_err(unreadable),
        _ => Err(OpenError::Foreign(name())),
    }
}

/// Refuses a database that has forgotten what was acknowledged (I8).
pub(super) fn refuse_loss(directory: &Path, commits: u64) -> Result<(), OpenError> {
    let directory = directory.display().to_string();
    match commits {
        0 => Ok(()),
        commits => Err(OpenError::Lost { directory, commits }),
    }
}

/// Has versions that know less keep away. This one reads what earlier formats hold as it is.
fn mark_format(records: &Records) -> Result<(), sled::Error> {
    if records.get(keys::SCHEMA)?.as_deref() == Some(&[FORMAT]) {
        return Ok(());
    }
    let mark = Writes::from([(keys::SCHEMA.to_vec(), Some(vec![FORMAT]))]);
    records.commit(mark)
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
    let places = keys::INDEXES
        .iter()
        .filter(|(family, _)| *family != keys::EXPIRY);
    for (family, read) in places {
        for entry in records.scan(family) {
            if let Some(key) = read(&entry?.0) {
                *counts.entry(key.tenant).or_default() += 1;
            }
        }
    }
    Ok(counts)
}
