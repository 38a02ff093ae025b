//! The parts of results that are too large for one message. They are written before the end that
//! names them, under the lease of the run that returned them (I2), and go with their task.

use tokio::sync::oneshot;

use super::bodies::Bodies;
use super::codec;
use super::committer::Command;
use super::keys::{self, Slot};
use super::quota::TenantBytes;
use super::records::Records;
use super::rounds::read_count;
use super::{Store, StoreError, UpdateError};
use crate::task::{Attempt, ResultPart, TaskKey};

/// Where what all parts of a task take is kept.
pub(super) const HEAD: Slot = Slot::Part(0);

impl Store {
    /// Keeps the parts of a result durably, numbered from 1, in the place of those of earlier runs.
    pub async fn keep_parts(
        &self,
        key: &TaskKey,
        attempt: Attempt,
        parts: Vec<ResultPart>,
    ) -> Result<(), UpdateError> {
        self.core().disk.check_room()?;
        let bytes: u64 = parts.iter().map(|part| part.size_bytes() as u64).sum();
        let quota = &self.core().part_bytes;
        quota
            .take(&key.tenant, bytes)
            .map_err(|exceeded| StoreError::TooManyResults { max: exceeded.0 })?;
        let before = self.part_bytes(key);
        let kept = self.write_parts(key, attempt, bytes, parts).await;
        match &kept {
            Ok(()) => quota.give_back(&key.tenant, before.unwrap_or_default()),
            Err(_) => quota.give_back(&key.tenant, bytes),
        }
        kept
    }

    async fn write_parts(
        &self,
        key: &TaskKey,
        attempt: Attempt,
        bytes: u64,
        parts: Vec<ResultPart>,
    ) -> Result<(), UpdateError> {
        let mut contents = vec![(HEAD, bytes.to_be_bytes().to_vec())];
        let numbers = 1_u32..;
        contents.extend(
            numbers
                .zip(parts)
                .map(|(number, part)| (Slot::Part(number), codec::encode_part(part))),
        );
        let bodies = self.write_bodies(key, contents).await?;
        let (reply, answer) = oneshot::channel();
        let key = key.clone();
        self.command(Command::Parts {
            key,
            attempt,
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

    /// What a task's parts are counted with.
    pub(super) fn part_bytes(&self, key: &TaskKey) -> Option<u64> {
        let head = self.core().body(key, &HEAD).ok()??;
        Some(read_count(&head))
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
