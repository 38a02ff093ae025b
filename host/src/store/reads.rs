//! What is read of the store: tasks with their bodies, and which tasks there are, as last committed
//! (I1). It must not write.

use std::collections::BTreeMap;

use super::keys::{self, Side, Slot};
use super::{Store, StoreError, StoredInput, codec};
use crate::clock::Timestamp;
use crate::task::{Answer, CallResult, InputKey, Task, TaskId, TaskKey, TenantId};

impl Store {
    /// The task as last committed.
    pub fn get(&self, key: &TaskKey) -> Result<Option<Task>, StoreError> {
        self.core().get(key)
    }

    pub fn arguments(&self, key: &TaskKey) -> Result<Option<String>, StoreError> {
        let text = self.core().body(key, &Slot::Arguments)?;
        Ok(text.map(codec::decode_text).transpose()?)
    }

    pub fn checkpoint(&self, key: &TaskKey) -> Result<Option<Vec<u8>>, StoreError> {
        self.core().body(key, &Slot::Checkpoint)
    }

    pub fn step(&self, key: &TaskKey, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.core().body(key, &Slot::Step(name.to_owned()))
    }

    /// Every question of the task, in key order.
    pub fn inputs(&self, key: &TaskKey) -> Result<Vec<StoredInput>, StoreError> {
        let core = self.core();
        let mut questions = BTreeMap::new();
        let mut answers: BTreeMap<InputKey, Answer> = BTreeMap::new();
        for entry in core.records.scan(&keys::inputs(key)) {
            let (name, value) = entry?;
            let Some((input, side)) = keys::read_input(&name) else {
                continue;
            };
            let what = match side {
                Side::Question => "question",
                Side::Answer => "answer",
            };
            let Some(bytes) = core.body_of(key, &name, &value, what)? else {
                continue;
            };
            match side {
                Side::Question => {
                    questions.insert(input.clone(), codec::decode_request(input, &bytes)?);
                }
                Side::Answer => {
                    answers.insert(input, codec::decode_answer(&bytes)?);
                }
            }
        }
        let inputs = questions.into_iter().map(|(input, request)| StoredInput {
            answer: answers.remove(&input),
            request,
        });
        Ok(inputs.collect())
    }

    pub fn result(&self, key: &TaskKey) -> Result<Option<CallResult>, StoreError> {
        let bytes = self.core().body(key, &Slot::Result)?;
        Ok(bytes.map(codec::decode_result).transpose()?)
    }

    /// The task's log, as bounded as it was kept; empty when its guest wrote nothing.
    pub fn log(&self, key: &TaskKey) -> Result<Vec<u8>, StoreError> {
        Ok(self.core().logs.read(key)?)
    }

    /// Tasks that wait for a run, oldest first.
    pub fn queued(&self) -> Result<Vec<TaskKey>, StoreError> {
        self.listed(keys::QUEUE, keys::read_timed)
    }

    /// Tasks that are marked as running. After [`Store::open`] these are a dead process's.
    pub fn running(&self) -> Result<Vec<TaskKey>, StoreError> {
        self.listed(keys::RUNNING, keys::read_named)
    }

    /// Every task that has not ended; and how many there are whose records can't be read.
    pub fn unfinished_tasks(&self) -> Result<(Vec<Task>, usize), StoreError> {
        let mut keys = self.queued()?;
        keys.extend(self.running()?);
        keys.extend(self.listed(keys::PARKED, keys::read_named)?);
        // A parked task may have been queued while the others were read.
        keys.extend(self.queued()?);
        keys.sort();
        keys.dedup();
        let mut tasks = Vec::with_capacity(keys.len());
        let mut unreadable = 0;
        for key in keys {
            match self.get(&key) {
                Ok(task) => tasks.extend(task.filter(|task| !task.is_terminal())),
                Err(error @ StoreError::Record(_)) => {
                    self.core().tell_damaged(&key, &error);
                    unreadable += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Ok((tasks, unreadable))
    }

    /// At most `limit` tasks of the tenant, in the order of their ids, from the one after `after` on;
    /// fewer only when there are no more. One whose record can't be read is left out.
    pub fn tasks(
        &self,
        tenant: &TenantId,
        after: Option<&TaskId>,
        limit: usize,
    ) -> Result<Vec<Task>, StoreError> {
        let (from, to) = keys::tasks(tenant, after);
        let mut names = self.core().records.keys_between(&from, &to);
        let mut tasks = Vec::new();
        while tasks.len() < limit
            && let Some(name) = names.next()
        {
            let Some(key) = keys::read_named(&name?) else {
                continue;
            };
            match self.get(&key) {
                // None: it is being stored, or was removed just now.
                Ok(task) => tasks.extend(task),
                Err(error @ StoreError::Record(_)) => self.core().tell_damaged(&key, &error),
                Err(error) => return Err(error),
            }
        }
        Ok(tasks)
    }

    /// At most `limit` tasks that expired by `now`, oldest first.
    pub fn expired(&self, now: Timestamp, limit: usize) -> Result<Vec<TaskKey>, StoreError> {
        let records = &self.core().records;
        let mut expired = Vec::new();
        for name in records
            .keys_between(keys::EXPIRY, &keys::expired_end(keys::EXPIRY, now))
            .take(limit)
        {
            expired.extend(keys::read_timed(&name?));
        }
        Ok(expired)
    }

    /// Tasks of the tenant that have not ended.
    pub fn unfinished(&self, tenant: &TenantId) -> usize {
        self.core().unfinished(tenant)
    }

    /// Tasks of all tenants that have not ended.
    pub fn unfinished_of_all(&self) -> usize {
        self.core().unfinished_of_all()
    }

    fn listed(
        &self,
        family: &[u8],
        read: fn(&[u8]) -> Option<TaskKey>,
    ) -> Result<Vec<TaskKey>, StoreError> {
        let mut listed = Vec::new();
        for entry in self.core().records.scan(family) {
            listed.extend(read(&entry?.0));
        }
        Ok(listed)
    }
}
