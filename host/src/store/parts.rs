//! The parts of results that are too large for one message. They are written before the end that
//! names them, under the lease of the run that returned them (I2), and go with their task.

use tokio::sync::oneshot;

use super::bodies::{Bodies, Body};
use super::codec;
use super::committer::Command;
use super::draft::{Draft, Garbage, encode_bounded};
use super::keys::{self, Slot};
use super::quota::{Taken, TenantBytes, read_count, write_count};
use super::records::Records;
use super::room::WhenFull;
use super::{Store, StoreError, UpdateError};
use crate::task::{Attempt, Phase, Rejected, ResultPart, Task, TaskKey};

/// Where what all parts of a task take is kept.
pub(super) const HEAD: Slot = Slot::Part(0);

impl Store {
    /// Keeps the parts of a result durably, numbered from 1, in the place of those of earlier runs.
    /// An end waits for room on the disk as every word of a run does.
    pub async fn keep_parts(
        &self,
        key: &TaskKey,
        attempt: Attempt,
        parts: Vec<ResultPart>,
    ) -> Result<(), UpdateError> {
        let bytes: u64 = parts.iter().map(|part| part.size_bytes() as u64).sum();
        let taken = self.core().part_bytes.take(&key.tenant, bytes);
        let counted = taken.map_err(|exceeded| StoreError::TooManyResults { max: exceeded.0 })?;
        let mut contents = vec![(HEAD, write_count(bytes))];
        let numbers = 1_u32..;
        contents.extend(
            numbers
                .zip(parts)
                .map(|(number, part)| (Slot::Part(number), codec::encode_part(part))),
        );
        let bodies = self.write_bodies(key, contents, WhenFull::Wait).await?;
        let (reply, answer) = oneshot::channel();
        let key = key.clone();
        self.command(Command::Parts {
            key,
            attempt,
            counted,
            bodies,
            reply,
        })
        .await?;
        answer.await.map_err(|_| self.lost())?.map(|_| ())
    }

    /// One part of a task's result, counted from 1.
    pub fn part(&self, key: &TaskKey, number: u32) -> Result<Option<ResultPart>, StoreError> {
        if number == 0 {
            return Ok(None);
        }
        let bytes = self.core().body(key, &Slot::Part(number))?;
        Ok(bytes.map(codec::decode_part).transpose()?)
    }
}

impl Draft<'_> {
    /// Writes the parts of a result beside a task that `attempt` runs (I2), in the place of all that
    /// were there.
    pub(super) fn parts(
        &mut self,
        key: &TaskKey,
        attempt: Attempt,
        counted: Taken,
        bodies: Vec<(Slot, Body)>,
    ) -> Result<Task, UpdateError> {
        let Some(task) = self.newest(key)?.cloned() else {
            return Err(UpdateError::Unknown);
        };
        if task.phase != Phase::Running || task.attempt != attempt {
            return Err(Rejected::StaleRun.into());
        }
        let record = encode_bounded(&task)?;
        self.clear_parts(key)?;
        self.write(Some(&task), task.clone(), record, bodies)?;
        self.quota.take(counted);
        Ok(task)
    }

    /// Deletes what is kept of a result: another takes its place, or none does.
    pub(super) fn clear_parts(&mut self, key: &TaskKey) -> Result<(), StoreError> {
        let names = self.names_under(&keys::parts(key))?;
        if names.is_empty() {
            return Ok(());
        }
        self.free_parts(key)?;
        for name in names {
            if let Some(value) = self.value(&name)? {
                let key = key.clone();
                self.garbage.push(Garbage::Body { key, value });
            }
            self.writes.insert(name, None);
        }
        Ok(())
    }

    /// Gives back what the parts of a task are counted with.
    pub(super) fn free_parts(&mut self, key: &TaskKey) -> Result<(), StoreError> {
        let Some(value) = self.value(&keys::body(key, &HEAD))? else {
            return Ok(());
        };
        // One that can't be read was never counted.
        if let Ok(head) = self.core.bodies.read(key, &value) {
            let counted = &self.core.part_bytes;
            self.quota.free(counted, &key.tenant, read_count(&head));
        }
        Ok(())
    }
}

/// Counts what an earlier process left.
pub(super) fn count(
    records: &Records,
    bodies: &Bodies,
    max: u64,
) -> Result<TenantBytes, sled::Error> {
    let counted = TenantBytes::new(max);
    for entry in records.scan(keys::PARTS) {
        let (name, value) = entry?;
        if let Some(key) = keys::read_part_head(&name) {
            // One that can't be read is for `store check` to tell; it counts for nothing here.
            let bytes = bodies.read(&key, &value).map(|head| read_count(&head));
            counted.add(&key.tenant, bytes.unwrap_or_default());
        }
    }
    Ok(counted)
}
