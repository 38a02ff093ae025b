//! What calls without a task leave between two rounds: a state that is too large to travel through
//! its client, and the mark of a round that may be begun once only. Both are named by a handle that
//! the client holds sealed, and go with time. It must not know what a state holds.

use tokio::sync::oneshot;

use super::bodies::Body;
use super::committer::Command;
use super::draft::{Draft, Garbage};
use super::keys::{self, Slot};
use super::quota::{Taken, TenantBytes, read_count, write_count};
use super::records::Records;
use super::room::WhenFull;
use super::{Store, StoreError};
use crate::clock::Timestamp;
use crate::task::TaskKey;

/// What a mark is counted with, bytes: its records and their share of the database.
const MARK_BYTES: u64 = 256;

/// A round of a call: its name, of the same kind as a task's, and when it is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundName {
    pub key: TaskKey,
    pub expires_at: Timestamp,
}

/// What the committer is told of a round that is over `at` a time.
pub(super) enum RoundChange {
    Keep {
        at: Timestamp,
        counted: Taken,
        body: Body,
    },
    Use {
        at: Timestamp,
        counted: Taken,
    },
    Remove {
        at: Timestamp,
    },
}

impl RoundChange {
    pub(super) fn weight(&self) -> usize {
        match self {
            RoundChange::Keep { body, .. } => body.weight(),
            RoundChange::Use { .. } | RoundChange::Remove { .. } => 0,
        }
    }
}

impl Store {
    /// Keeps what a round left, durably, until it is over.
    pub async fn keep_round(&self, round: &RoundName, state: Vec<u8>) -> Result<(), StoreError> {
        self.core().room.disk.check_room()?;
        let bytes = MARK_BYTES.saturating_add(state.len() as u64);
        let counted = self.take_round(round, bytes)?;
        // Only its length counts for how it is written.
        let written = self.write_bodies(
            &round.key,
            vec![(Slot::Checkpoint, state)],
            WhenFull::Refuse,
        );
        let Some((_, body)) = written.await?.pop() else {
            return Err(StoreError::Closed);
        };
        let at = round.expires_at;
        let change = RoundChange::Keep { at, counted, body };
        self.change_round(&round.key, change).await
    }

    /// What a round left; None when nothing is kept of it, or not any more.
    pub fn kept_round(&self, round: &RoundName) -> Result<Option<Vec<u8>>, StoreError> {
        let core = self.core();
        let name = keys::round(&round.key);
        match core.records.get(&name)? {
            Some(value) => core.body_of(&round.key, &name, &value, "state of the call"),
            None => Ok(None),
        }
    }

    /// Marks a round as begun, durably; refused with [`StoreError::RoundUsed`] when it was before,
    /// and with [`StoreError::RoundOver`] when the mark of an earlier beginning may be gone by now.
    pub async fn use_round(&self, round: &RoundName) -> Result<(), StoreError> {
        let _room = self.core().room.reserve(0, WhenFull::Refuse).await?;
        let counted = self.take_round(round, MARK_BYTES)?;
        let at = round.expires_at;
        self.change_round(&round.key, RoundChange::Use { at, counted })
            .await
    }

    /// At most `limit` rounds that were over by `now`, oldest first.
    pub fn expired_rounds(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<RoundName>, StoreError> {
        let end = keys::expired_end(keys::ROUND_EXPIRY, now);
        let names = self
            .core()
            .records
            .keys_between(keys::ROUND_EXPIRY, &end)
            .take(limit);
        let mut expired = Vec::new();
        for name in names {
            expired.extend(read_place(&name?));
        }
        Ok(expired)
    }

    /// Deletes all that is kept of a round.
    pub async fn remove_round(&self, round: &RoundName) -> Result<(), StoreError> {
        let at = round.expires_at;
        self.change_round(&round.key, RoundChange::Remove { at })
            .await
    }

    fn take_round(&self, round: &RoundName, bytes: u64) -> Result<Taken, StoreError> {
        let taken = self.core().round_bytes.take(&round.key.tenant, bytes);
        taken.map_err(|exceeded| StoreError::TooManyRounds { max: exceeded.0 })
    }

    async fn change_round(&self, key: &TaskKey, change: RoundChange) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        let key = key.clone();
        self.command(Command::Round { key, change, reply }).await?;
        answer.await.map_err(|_| self.lost())?
    }
}

impl Draft<'_> {
    /// Changes what is kept of a round.
    pub(super) fn round(
        &mut self,
        key: &TaskKey,
        change: RoundChange,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        match change {
            RoundChange::Keep { at, counted, body } => {
                let value = body.into_value();
                self.writes.insert(keys::round(key), Some(value));
                self.count_round(key, at, counted)?;
            }
            RoundChange::Use { at, counted } => {
                // From then on the mark of an earlier use may be swept, and proves nothing.
                if at <= now {
                    return Err(StoreError::RoundOver);
                }
                let name = keys::used(key);
                if self.value(&name)?.is_some() {
                    return Err(StoreError::RoundUsed);
                }
                self.writes.insert(name, Some(Vec::new()));
                self.count_round(key, at, counted)?;
            }
            RoundChange::Remove { at } => {
                let place = keys::round_expiry(key, at);
                let bytes = self.value(&place)?.map_or(0, |value| read_count(&value));
                let counted = &self.core.round_bytes;
                self.quota.free(counted, &key.tenant, bytes);
                for name in [keys::round(key), keys::used(key), place] {
                    self.writes.insert(name, None);
                }
                self.garbage.push(Garbage::Task(key.clone()));
            }
        }
        self.rounds.insert(key.clone());
        Ok(())
    }

    fn count_round(
        &mut self,
        key: &TaskKey,
        at: Timestamp,
        counted: Taken,
    ) -> Result<(), StoreError> {
        let name = keys::round_expiry(key, at);
        let before = self.value(&name)?.map_or(0, |value| read_count(&value));
        let sum = before.saturating_add(counted.bytes());
        self.writes.insert(name, Some(write_count(sum)));
        self.quota.take(counted);
        Ok(())
    }
}

/// Counts what an earlier process left.
pub(super) fn count(records: &Records, max: u64) -> Result<TenantBytes, sled::Error> {
    let counted = TenantBytes::new(max);
    for entry in records.scan(keys::ROUND_EXPIRY) {
        let (name, value) = entry?;
        if let Some(round) = read_place(&name) {
            counted.add(&round.key.tenant, read_count(&value));
        }
    }
    Ok(counted)
}

fn read_place(name: &[u8]) -> Option<RoundName> {
    let key = keys::read_timed(name)?;
    let expires_at = name.get(2..10)?.try_into().ok()?;
    Some(RoundName {
        key,
        expires_at: Timestamp(u64::from_be_bytes(expires_at)),
    })
}
