//! What the next commit will write. Here events meet the state machine: every command is decided
//! against the newest state, which may be one that is not committed yet, so there is nothing to
//! compare and swap. It must not write.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::bodies::Body;
use super::codec::encode_task;
use super::core::{Core, is_unfinished};
use super::keys::{self, Slot};
use super::quota::QuotaDraft;
use super::records::Writes;
use super::state::StateDraft;
use super::{StoreError, UpdateError};
use crate::clock::Timestamp;
use crate::task::{Ending, Event, Phase, Task, TaskKey, TenantId, apply};

/// What a task's record may hold, bytes. Its texts come from tools, and whoever takes them in
/// bounds them; this keeps the engine's nodes small if somebody does not.
pub(super) const RECORD_BYTES_MAX: usize = 256 * 1024;

/// Commands decided and not yet committed.
pub(super) struct Draft<'a> {
    pub(super) core: &'a Core,
    pub(super) writes: Writes,
    pub(super) state: StateDraft,
    pub(super) quota: QuotaDraft,
    tasks: HashMap<TaskKey, Entry>,
    /// Rounds that a command of this draft changes.
    pub(super) rounds: HashSet<TaskKey>,
    /// How many unfinished tasks more a tenant will have.
    growth: HashMap<TenantId, isize>,
    pub(super) garbage: Vec<Garbage>,
}

/// A task that a command of this draft looked at.
struct Entry {
    /// Whether it counts as unfinished while the draft is not committed.
    was_unfinished: bool,
    committed: Option<Task>,
    newest: Option<Task>,
    is_written: bool,
}

/// A task this draft changes: as it is committed now, and as it will be.
pub(super) struct Change {
    pub(super) key: TaskKey,
    /// Also known of one whose record can't be read.
    pub(super) was_unfinished: bool,
    pub(super) before: Option<Task>,
    pub(super) after: Option<Task>,
}

/// Files that nothing names once the draft is committed.
pub(super) enum Garbage {
    Body { key: TaskKey, value: Vec<u8> },
    Task(TaskKey),
}

/// A draft taken apart for the commit.
pub(super) struct Finished {
    pub(super) writes: Writes,
    pub(super) changes: Vec<Change>,
    pub(super) garbage: Vec<Garbage>,
    pub(super) state: StateDraft,
    pub(super) quota: QuotaDraft,
}

impl<'a> Draft<'a> {
    pub(super) fn new(core: &'a Core) -> Draft<'a> {
        Draft {
            core,
            writes: Writes::new(),
            state: StateDraft::default(),
            quota: QuotaDraft::default(),
            tasks: HashMap::new(),
            rounds: HashSet::new(),
            growth: HashMap::new(),
            garbage: Vec::new(),
        }
    }

    /// Whether the newest state of the task, or of the round, is one that is not committed yet.
    pub(super) fn has_written(&self, key: &TaskKey) -> bool {
        let task = self.tasks.get(key);
        task.is_some_and(|entry| entry.is_written) || self.rounds.contains(key)
    }

    /// Whether the draft changes anybody's state.
    pub(super) fn has_written_state(&self) -> bool {
        !self.state.before.is_empty()
    }

    pub(super) fn insert(
        &mut self,
        task: Task,
        bodies: Vec<(Slot, Body)>,
    ) -> Result<(), StoreError> {
        // Nor may it take the name of one removed just now, whose files are still to be deleted.
        if self.newest(&task.key)?.is_some() || self.has_written(&task.key) {
            return Err(StoreError::Exists);
        }
        if !task.is_terminal() {
            // Decided here, in order: checks by whoever inserts would all see the same count.
            let tenant = &task.key.tenant;
            let growth = self.growth.get(tenant).copied().unwrap_or_default();
            self.core.check_quota(tenant, growth)?;
        }
        let record = encode_bounded(&task)?;
        self.write(None, task, record, bodies)
    }

    /// The task after the event. An event that changes nothing writes nothing.
    pub(super) fn update(
        &mut self,
        key: &TaskKey,
        event: &Event,
        bodies: Vec<(Slot, Body)>,
        now: Timestamp,
    ) -> Result<Task, UpdateError> {
        let Some(current) = self.newest(key)?.cloned() else {
            return Err(UpdateError::Unknown);
        };
        let mut next = apply(&current, event, now)?;
        let is_other_end = next.is_terminal() && next.phase != Phase::Ended(Ending::Completed);
        if is_other_end || matches!(event, Event::Claimed) {
            // Of a run that kept a large result and died before it ended with it.
            self.clear_parts(key)?;
        }
        let bodies = self.wanted(&current, bodies)?;
        let updated_at = std::mem::replace(&mut next.updated_at, current.updated_at);
        if bodies.is_empty() && next == current {
            return Ok(current);
        }
        next.updated_at = updated_at;
        let record = encode_bounded(&next)?;
        self.write(Some(&current), next.clone(), record, bodies)?;
        Ok(next)
    }

    /// Deletes all records of a task; fine when there is none.
    pub(super) fn remove(&mut self, key: &TaskKey) -> Result<(), StoreError> {
        let indexes = match self.newest(key) {
            Ok(Some(task)) => keys::index(task),
            Ok(None) => return Ok(()),
            // Its time is over all the same, and it must not keep others from being swept.
            Err(StoreError::Record(_)) => self.indexes_of_unread(key)?,
            Err(error) => return Err(error),
        };
        let mut doomed = BTreeSet::from([keys::task(key)]);
        doomed.extend(indexes);
        self.free_parts(key)?;
        for prefix in keys::bodies(key) {
            doomed.extend(self.names_under(&prefix)?);
        }
        self.writes
            .extend(doomed.into_iter().map(|key| (key, None)));
        self.garbage.push(Garbage::Task(key.clone()));
        self.set_newest(key, None);
        Ok(())
    }

    pub(super) fn finish(self) -> Finished {
        let written = self.tasks.into_iter().filter(|(_, entry)| entry.is_written);
        let changes = written.map(|(key, entry)| Change {
            key,
            was_unfinished: entry.was_unfinished,
            before: entry.committed,
            after: entry.newest,
        });
        Finished {
            writes: self.writes,
            changes: changes.collect(),
            garbage: self.garbage,
            state: self.state,
            quota: self.quota,
        }
    }

    pub(super) fn newest(&mut self, key: &TaskKey) -> Result<Option<&Task>, StoreError> {
        if !self.tasks.contains_key(key) {
            let committed = self.core.get(key)?;
            let entry = Entry {
                was_unfinished: is_unfinished(&committed),
                newest: committed.clone(),
                committed,
                is_written: false,
            };
            self.tasks.insert(key.clone(), entry);
        }
        Ok(self.tasks.get(key).and_then(|entry| entry.newest.as_ref()))
    }

    /// Where the indexes have a task whose record can't be read, which is then taken for gone.
    fn indexes_of_unread(&mut self, key: &TaskKey) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut found = Vec::new();
        // It was counted by its place, as at the start.
        let mut was_unfinished = false;
        for (family, read) in keys::INDEXES {
            for entry in self.core.records.scan(family) {
                let name = entry?.0;
                if read(&name).as_ref() == Some(key) {
                    was_unfinished |= family != keys::EXPIRY;
                    found.push(name.to_vec());
                }
            }
        }
        if was_unfinished {
            *self.growth.entry(key.tenant.clone()).or_default() -= 1;
        }
        let gone = Entry {
            was_unfinished,
            committed: None,
            newest: None,
            is_written: false,
        };
        self.tasks.insert(key.clone(), gone);
        Ok(found)
    }

    fn set_newest(&mut self, key: &TaskKey, task: Option<Task>) {
        if let Some(entry) = self.tasks.get_mut(key) {
            let growth = self.growth.entry(key.tenant.clone()).or_default();
            *growth +=
                isize::from(is_unfinished(&task)) - isize::from(is_unfinished(&entry.newest));
            entry.newest = task;
            entry.is_written = true;
        }
    }

    /// The one place where what a command changes is turned into writes.
    pub(super) fn write(
        &mut self,
        before: Option<&Task>,
        after: Task,
        record: Vec<u8>,
        bodies: Vec<(Slot, Body)>,
    ) -> Result<(), StoreError> {
        let key = after.key.clone();
        for (slot, body) in bodies {
            let name = keys::body(&key, &slot);
            // Nothing else is ever written over.
            if matches!(slot, Slot::Checkpoint)
                && let Some(value) = self.value(&name)?
            {
                let key = key.clone();
                self.garbage.push(Garbage::Body { key, value });
            }
            self.writes.insert(name, Some(body.into_value()));
        }
        let old = before.map(keys::index).unwrap_or_default();
        let new = keys::index(&after);
        for gone in old.iter().filter(|name| !new.contains(name)) {
            self.writes.insert(gone.clone(), None);
        }
        for name in new.into_iter().filter(|name| !old.contains(name)) {
            self.writes.insert(name, Some(Vec::new()));
        }
        self.writes.insert(keys::task(&key), Some(record));
        self.set_newest(&key, Some(after));
        Ok(())
    }

    /// Those of an event's bodies that are to be recorded. The first record of a step wins; a key
    /// is asked once, and its first answer wins (I7).
    fn wanted(
        &self,
        current: &Task,
        bodies: Vec<(Slot, Body)>,
    ) -> Result<Vec<(Slot, Body)>, StoreError> {
        let mut wanted: Vec<(Slot, Body)> = Vec::with_capacity(bodies.len());
        for (slot, body) in bodies {
            let is_new = match &slot {
                Slot::Arguments | Slot::Checkpoint | Slot::Result | Slot::Part(_) => true,
                Slot::Step(_) => self.value(&keys::body(&current.key, &slot))?.is_none(),
                Slot::Question(input) => !current.inputs.contains_key(input),
                Slot::Answer(input) => current.open_inputs().any(|open| open == input),
            };
            if is_new && !wanted.iter().any(|(earlier, _)| *earlier == slot) {
                wanted.push((slot, body));
            }
        }
        Ok(wanted)
    }

    /// The keys that begin with `prefix`, committed or drafted.
    pub(super) fn names_under(&self, prefix: &[u8]) -> Result<BTreeSet<Vec<u8>>, StoreError> {
        let mut names = BTreeSet::new();
        for entry in self.core.records.scan(prefix) {
            names.insert(entry?.0.to_vec());
        }
        let drafted = self.writes.range(prefix.to_vec()..);
        let drafted = drafted.map(|(name, _)| name);
        names.extend(drafted.take_while(|name| name.starts_with(prefix)).cloned());
        Ok(names)
    }

    pub(super) fn value(&self, name: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.writes.get(name) {
            Some(drafted) => Ok(drafted.clone()),
            None => Ok(self.core.records.get(name)?.map(|value| value.to_vec())),
        }
    }
}

pub(super) fn encode_bounded(task: &Task) -> Result<Vec<u8>, StoreError> {
    let record = encode_task(task);
    if record.len() > RECORD_BYTES_MAX {
        return Err(StoreError::TooLarge {
            bytes: record.len(),
            max: RECORD_BYTES_MAX,
        });
    }
    Ok(record)
}
