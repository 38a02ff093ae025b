//! What calls without a task leave between two rounds: a state that is too large to travel through
//! its client, and the mark of a round that may be begun once only. Both are named by a handle that
//! the client holds sealed, and go with time. It must not know what a state holds.

use tokio::sync::oneshot;

use super::bodies::Body;
use super::committer::Command;
use super::keys::{self, Slot};
use super::quota::TenantBytes;
use super::records::Records;
use super::{Store, StoreError};
use crate::clock::Timestamp;
use crate::task::TaskKey;

/// What a mark is counted with, bytes: its records and their share of the database.
pub(super) const MARK_BYTES: u64 = 256;

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
        bytes: u64,
        body: Body,
    },
    Use {
        at: Timestamp,
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
        self.core().disk.check_room()?;
        self.refuse_without_room()?;
        let bytes = MARK_BYTES.saturating_add(state.len() as u64);
        self.take_round(round, bytes)?;
        let kept = self.try_keep(round, bytes, state).await;
        if kept.is_err() {
            self.core().round_bytes.give_back(&round.key.tenant, bytes);
        }
        kept
    }

    async fn try_keep(
        &self,
        round: &RoundName,
        bytes: u64,
        state: Vec<u8>,
    ) -> Result<(), StoreError> {
        // Only its length counts for how it is written.
        let written = self.write_bodies(&round.key, vec![(Slot::Checkpoint, state)]);
        let Some((_, body)) = written.await?.pop() else {
            return Err(StoreError::Closed);
        };
        let at = round.expires_at;
        let change = RoundChange::Keep { at, bytes, body };
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

    /// Marks a round as begun, durably; refused with [`StoreError::RoundUsed`] when it was before.
    pub async fn use_round(&self, round: &RoundName) -> Result<(), StoreError> {
        self.refuse_without_room()?;
        self.take_round(round, MARK_BYTES)?;
        let change = RoundChange::Use {
            at: round.expires_at,
        };
        let used = self.change_round(&round.key, change).await;
        if used.is_err() {
            let bytes = &self.core().round_bytes;
            bytes.give_back(&round.key.tenant, MARK_BYTES);
        }
        used
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
        let place = keys::round_expiry(&round.key, round.expires_at);
        let value = self.core().records.get(&place)?;
        let bytes = value.map(|value| read_count(&value));
        let change = RoundChange::Remove {
            at: round.expires_at,
        };
        self.change_round(&round.key, change).await?;
        let counted = &self.core().round_bytes;
        counted.give_back(&round.key.tenant, bytes.unwrap_or_default());
        Ok(())
    }

    fn take_round(&self, round: &RoundName, bytes: u64) -> Result<(), StoreError> {
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

/// The bytes a round is counted with.
pub(super) fn read_count(value: &[u8]) -> u64 {
    value.try_into().map_or(0, u64::from_be_bytes)
}
