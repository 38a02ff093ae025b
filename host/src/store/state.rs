//! The key-value state of plugins: what they keep beyond one task, by tenant (I4) and plugin. Its
//! changes go through the committer like everything else (I1); its quota is counted here. Values
//! are small and live in the records. It must not know what a value means.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tokio::sync::oneshot;

use super::committer::Command;
use super::draft::Draft;
use super::keys;
use super::offline::Offline;
use super::records::{Records, Writes};
use super::room::WhenFull;
use super::{OpenError, Store, StoreError};
use crate::task::TenantId;

/// A key, bytes: keys are copied up the tree, and a long one would push a node over what the
/// engine keeps in its own file.
pub const STATE_KEY_MAX_BYTES: usize = 200;

/// A value, bytes: what the engine keeps well.
pub const STATE_VALUE_MAX_BYTES: usize = 64 * 1024;

/// Keys that are listed at once.
pub const STATE_KEYS_PAGE: usize = 1_000;

/// Before every value, so that a later version can keep values in another way.
const PLAIN: u8 = 0;

/// Whose state it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateOwner {
    pub tenant: TenantId,
    pub plugin: String,
}

/// What an owner may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateQuota {
    /// Keys and values together.
    pub bytes: u64,
    pub keys: u64,
}

/// What an owner keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateUsage {
    pub bytes: u64,
    pub keys: u64,
}

/// One change of a value.
#[derive(Clone, Debug)]
pub struct StateChange {
    pub key: String,
    /// Only if this is the present value (`Some(None)`: if there is none).
    pub expected: Option<Option<Vec<u8>>>,
    /// None removes it.
    pub value: Option<Vec<u8>>,
}

/// Why a change was not made.
#[derive(Clone, Debug, Error)]
pub enum StateError {
    #[error(
        "the plugin's state would have {keys} keys for this tenant and may have {max}; delete some \
         that it no longer needs, or have the operator raise `quota_keys` of its grant"
    )]
    TooManyKeys { keys: u64, max: u64 },
    #[error(
        "the plugin's state would have {bytes} bytes for this tenant and may have {max}; delete \
         values that it no longer needs, or have the operator raise `quota_bytes` of its grant"
    )]
    TooManyBytes { bytes: u64, max: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A change on its way to the committer.
pub(super) struct StateCommand {
    pub owner: StateOwner,
    pub change: StateChange,
    pub quota: StateQuota,
    pub reply: oneshot::Sender<Result<bool, StateError>>,
}

/// What owners keep, as committed; counted when an owner first changes something.
#[derive(Default)]
pub(super) struct Usages(Mutex<HashMap<StateOwner, StateUsage>>);

/// What a draft changes of the state.
#[derive(Default)]
pub(super) struct StateDraft {
    /// The committed values of what is written, for readers until it is durable.
    pub before: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    pub usages: HashMap<StateOwner, StateUsage>,
}

impl Store {
    /// The value as last committed.
    pub fn state(&self, owner: &StateOwner, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.core().state_value(&keys::state(owner, key))?;
        Ok(value.map(plain))
    }

    /// At most [`STATE_KEYS_PAGE`] keys that begin with `prefix` and come after `after`, in order.
    pub fn state_keys(
        &self,
        owner: &StateOwner,
        prefix: &str,
        after: Option<&str>,
    ) -> Result<Vec<String>, StoreError> {
        let prefix = keys::state(owner, prefix);
        let mut from = prefix.clone();
        if let Some(after) = after {
            let mut next = keys::state(owner, after);
            next.push(0);
            from = from.max(next);
        }
        let names = self.core().state_names(&prefix, &from, STATE_KEYS_PAGE)?;
        let keys = names.iter().filter_map(|name| keys::read_state(name));
        Ok(keys.map(|(_, key)| key).collect())
    }

    /// Changes a value, durably (I1). False: the present value is not the expected one.
    pub async fn change_state(
        &self,
        owner: StateOwner,
        change: StateChange,
        quota: StateQuota,
    ) -> Result<bool, StateError> {
        // It comes from a run, which waits as with all it has to say.
        let _room = self.core().room.reserve(0, WhenFull::Wait).await?;
        let (reply, answer) = oneshot::channel();
        self.command(Command::State(Box::new(StateCommand {
            owner,
            change,
            quota,
            reply,
        })))
        .await?;
        answer.await.map_err(|_| self.lost())?
    }
}

impl Usages {
    fn lock(&self) -> MutexGuard<'_, HashMap<StateOwner, StateUsage>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After a commit.
    pub(super) fn take(&self, usages: HashMap<StateOwner, StateUsage>) {
        self.lock().extend(usages);
    }
}

impl Draft<'_> {
    /// Decides a change against the newest state.
    pub(super) fn change_state(
        &mut self,
        owner: &StateOwner,
        change: StateChange,
        quota: StateQuota,
    ) -> Result<bool, StateError> {
        let name = keys::state(owner, &change.key);
        let present = self.value(&name)?.map(plain);
        if let Some(expected) = change.expected
            && expected != present
        {
            return Ok(false);
        }
        if present == change.value {
            return Ok(true);
        }
        let usage = self.state_usage(owner)?;
        let next = usage.after(&change.key, present.as_deref(), change.value.as_deref());
        next.check(&usage, &quota)?;
        if !self.state.before.contains_key(&name) {
            let committed = self.core.records.get(&name).map_err(StoreError::from)?;
            let committed = committed.map(|value| value.to_vec());
            self.state.before.insert(name.clone(), committed);
        }
        let value = change.value.map(|bytes| record(&bytes));
        self.writes.insert(name, value);
        self.state.usages.insert(owner.clone(), next);
        Ok(true)
    }

    fn state_usage(&self, owner: &StateOwner) -> Result<StateUsage, StoreError> {
        if let Some(usage) = self.state.usages.get(owner) {
            return Ok(*usage);
        }
        let mut known = self.core.usages.lock();
        if let Some(usage) = known.get(owner) {
            return Ok(*usage);
        }
        let usage = count(&self.core.records, owner)?;
        known.insert(owner.clone(), usage);
        Ok(usage)
    }
}

impl StateUsage {
    fn after(self, key: &str, old: Option<&[u8]>, new: Option<&[u8]>) -> StateUsage {
        let weight = |value: Option<&[u8]>| value.map_or(0, |value| weight(key, value));
        StateUsage {
            bytes: (self.bytes + weight(new)).saturating_sub(weight(old)),
            keys: (self.keys + u64::from(new.is_some())).saturating_sub(u64::from(old.is_some())),
        }
    }

    /// What does not grow is always allowed: a quota that was lowered must not keep a plugin from
    /// making room.
    fn check(&self, before: &StateUsage, quota: &StateQuota) -> Result<(), StateError> {
        if self.keys > quota.keys && self.keys > before.keys {
            return Err(StateError::TooManyKeys {
                keys: self.keys,
                max: quota.keys,
            });
        }
        if self.bytes > quota.bytes && self.bytes > before.bytes {
            return Err(StateError::TooManyBytes {
                bytes: self.bytes,
                max: quota.bytes,
            });
        }
        Ok(())
    }
}

/// What every plugin keeps of every tenant in the store in `directory`, which no host may have open.
pub fn state_usages(directory: &Path) -> Result<BTreeMap<StateOwner, StateUsage>, OpenError> {
    let offline = Offline::open_to_read(directory)?;
    let mut usages: BTreeMap<StateOwner, StateUsage> = BTreeMap::new();
    for entry in offline.records.scan(keys::STATE) {
        let (name, value) = entry.map_err(|error| offline.unreadable(error.into()))?;
        if let Some((owner, key)) = keys::read_state(&name) {
            let usage = usages.entry(owner).or_default();
            *usage = usage.after(&key, None, value.get(1..));
        }
    }
    Ok(usages)
}

/// Removes the state of `plugin`, of one tenant or of all; returns how many keys there were. No
/// host may have the store open.
pub fn forget_state(
    directory: &Path,
    plugin: &str,
    tenant: Option<&TenantId>,
) -> Result<u64, OpenError> {
    let offline = Offline::open(directory)?;
    let unreadable = |error: sled::Error| offline.unreadable(error.into());
    let mut doomed = Writes::new();
    for entry in offline.records.scan(keys::STATE) {
        let (name, _) = entry.map_err(unreadable)?;
        let is_meant = keys::read_state(&name).is_some_and(|(owner, _)| {
            owner.plugin == plugin && tenant.is_none_or(|tenant| owner.tenant == *tenant)
        });
        if is_meant {
            doomed.insert(name.to_vec(), None);
        }
    }
    let count = doomed.len() as u64;
    if count > 0 {
        offline.records.commit(doomed).map_err(unreadable)?;
    }
    Ok(count)
}

/// Whether a record's value is one this version writes.
pub(super) fn is_value(value: &[u8]) -> bool {
    matches!(value.split_first(), Some((&PLAIN, value)) if value.len() <= STATE_VALUE_MAX_BYTES)
}

/// The value of a record that holds `bytes`.
pub(super) fn record(bytes: &[u8]) -> Vec<u8> {
    [&[PLAIN], bytes].concat()
}

/// A record's value without its tag.
pub(super) fn plain(mut value: Vec<u8>) -> Vec<u8> {
    value.drain(..value.len().min(1));
    value
}

fn count(records: &Records, owner: &StateOwner) -> Result<StateUsage, StoreError> {
    let mut usage = StateUsage::default();
    for entry in records.scan(&keys::state(owner, "")) {
        let (name, value) = entry?;
        if let Some((_, key)) = keys::read_state(&name) {
            usage = usage.after(&key, None, value.get(1..));
        }
    }
    Ok(usage)
}

fn weight(key: &str, value: &[u8]) -> u64 {
    (key.len() + value.len()) as u64
}

/// Names in a range as readers may see them: without what a commit under way adds, with what it
/// removes.
pub(super) fn visible_names(
    committed: impl Iterator<Item = Result<Vec<u8>, StoreError>>,
    in_flight: &BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    prefix: &[u8],
    from: &[u8],
    max: usize,
) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut names = BTreeSet::new();
    for name in committed {
        let name = name?;
        if !name.starts_with(prefix) || names.len() >= max {
            break;
        }
        if !in_flight.contains_key(&name) {
            names.insert(name);
        }
    }
    let removed = in_flight
        .range(from.to_vec()..)
        .take_while(|(name, _)| name.starts_with(prefix))
        .filter(|(_, before)| before.is_some());
    names.extend(removed.map(|(name, _)| name.clone()));
    Ok(names.into_iter().take(max).collect())
}
