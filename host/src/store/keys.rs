//! Every key the store writes: the one place that knows how a record is named. It must not know
//! what the records hold.
//!
//! | key | value |
//! |---|---|
//! | `m/schema` | the version of the store's format, one byte |
//! | `m/commits` | how many commits there were, 8 bytes, big-endian |
//! | `t/<task>` | the task's record |
//! | `a/<task>\0` | the call's arguments |
//! | `c/<task>\0` | the newest checkpoint |
//! | `r/<task>\0` | the result |
//! | `o/<task>\0<number>` | a part of a result too large for one message; of number 0, the bytes of all |
//! | `s/<task>\0<step>` | a recorded step; a long name is replaced by its SHA-256 |
//! | `i/<task>\0<input key>\0q` | a question |
//! | `i/<task>\0<input key>\0a` | its answer |
//! | `q/<ready_ms><task>` | waits for a run: the queue, in time order |
//! | `l/<task>` | a run holds the lease |
//! | `p/<task>` | parked |
//! | `x/<expires_ms><task>` | when it may be deleted, in time order |
//! | `k/<round>\0` | what a call without a task left for its next round |
//! | `u/<round>` | that a round was begun which may be begun once only |
//! | `y/<expires_ms><round>` | when both may be deleted, in time order; the bytes they are counted with |
//! | `v/<tenant>\0<plugin>\0<key>` | a value of a plugin's state |
//!
//! `<task>` is `<tenant>\0<id>`; times are 8 bytes, big-endian. Neither part of a task's name can
//! hold a zero byte, so no name is a prefix of another and a task's keys are a range in each family.
//! A task that has not ended is in exactly one of `q/`, `l/` and `p/`. A `<round>` is named as a task
//! is, and is none.

mod slot;

use sha2::{Digest as _, Sha256};

use super::state::StateOwner;
use crate::clock::Timestamp;
use crate::task::{InputKey, Phase, Task, TaskId, TaskKey, TenantId};

pub(super) use slot::{Side, Slot, SlotName};

pub(super) const SCHEMA: &[u8] = b"m/schema";
pub(super) const COMMITS: &[u8] = b"m/commits";
pub(super) const QUEUE: &[u8] = b"q/";
pub(super) const RUNNING: &[u8] = b"l/";
pub(super) const PARKED: &[u8] = b"p/";
pub(super) const EXPIRY: &[u8] = b"x/";

pub(super) const STATE: &[u8] = b"v/";
/// Behind the last key of the family.
pub(super) const STATE_END: &[u8] = b"v0";

pub(super) const TASK: &[u8] = b"t/";
const ARGUMENTS: &[u8] = b"a/";
const CHECKPOINT: &[u8] = b"c/";
const RESULT: &[u8] = b"r/";
const STEPS: &[u8] = b"s/";
pub(super) const PARTS: &[u8] = b"o/";
const INPUTS: &[u8] = b"i/";

const ROUND: &[u8] = b"k/";
const USED: &[u8] = b"u/";
pub(super) const ROUND_EXPIRY: &[u8] = b"y/";

/// The families that hold the bodies of a task, and of a round.
pub(super) const BODIES: [&[u8]; 7] = [ARGUMENTS, CHECKPOINT, RESULT, STEPS, INPUTS, PARTS, ROUND];

/// The families that say where a task stands, and how each is read.
pub(super) const INDEXES: [(&[u8], ReadKey); 4] = [
    (QUEUE, read_timed),
    (RUNNING, read_named),
    (PARKED, read_named),
    (EXPIRY, read_timed),
];

type ReadKey = fn(&[u8]) -> Option<TaskKey>;

/// A longer step name is hashed: keys are copied up the tree, and one the guest made long would
/// push a node over what the engine keeps in its own file.
const STEP_NAME_BYTES_MAX: usize = 200;

/// What a key is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Store,
    Task,
    Body,
    Index,
    Round,
    State,
}

impl Family {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Family::Store => "a record of the store itself",
            Family::Task => "a record",
            Family::Body => "a body",
            Family::Index => "an index entry",
            Family::Round => "a round",
            Family::State => "a value of a plugin's state",
        }
    }
}

/// Reads what a key is of, and which task's.
pub(super) fn read(name: &[u8]) -> Option<(Family, Option<TaskKey>)> {
    if name == SCHEMA || name == COMMITS {
        return Some((Family::Store, None));
    }
    match name.get(..2)? {
        STATE => read_state(name).map(|_| (Family::State, None)),
        TASK => Some((Family::Task, Some(read_named(name)?))),
        RUNNING | PARKED => Some((Family::Index, Some(read_named(name)?))),
        QUEUE | EXPIRY => Some((Family::Index, Some(read_timed(name)?))),
        USED => Some((Family::Round, Some(read_named(name)?))),
        ROUND => Some((Family::Round, Some(read_named(name.strip_suffix(b"\0")?)?))),
        ROUND_EXPIRY => Some((Family::Round, Some(read_timed(name)?))),
        family if BODIES.contains(&family) => {
            let mut zeros = name.iter().enumerate().filter(|(_, byte)| **byte == 0);
            let end = zeros.nth(1)?.0;
            Some((Family::Body, Some(read_named(&name[..end])?)))
        }
        _ => None,
    }
}

/// The key of a task's record.
pub(super) fn task(key: &TaskKey) -> Vec<u8> {
    named(TASK, key)
}

/// The range of the records of a tenant's tasks, of those after `after` if there is one.
pub(super) fn tasks(tenant: &TenantId, after: Option<&TaskId>) -> (Vec<u8>, Vec<u8>) {
    let mut from = TASK.to_vec();
    from.extend_from_slice(tenant.as_str().as_bytes());
    let mut to = from.clone();
    from.push(0);
    to.push(1);
    if let Some(after) = after {
        from.extend_from_slice(after.as_str().as_bytes());
        from.push(0);
    }
    (from, to)
}

/// The key of one of a task's bodies.
pub(super) fn body(key: &TaskKey, slot: &Slot) -> Vec<u8> {
    let family = match slot {
        Slot::Arguments => ARGUMENTS,
        Slot::Checkpoint => CHECKPOINT,
        Slot::Result => RESULT,
        Slot::Step(_) => STEPS,
        Slot::Question(_) | Slot::Answer(_) => INPUTS,
        Slot::Part(_) => PARTS,
    };
    let mut bytes = named(family, key);
    bytes.push(0);
    match slot {
        Slot::Arguments | Slot::Checkpoint | Slot::Result => {}
        Slot::Step(name) if name.len() <= STEP_NAME_BYTES_MAX => {
            bytes.push(b'n');
            bytes.extend_from_slice(name.as_bytes());
        }
        Slot::Step(name) => {
            bytes.push(b'h');
            bytes.extend_from_slice(&Sha256::digest(name));
        }
        Slot::Question(input) => push_input(&mut bytes, input, b'q'),
        Slot::Answer(input) => push_input(&mut bytes, input, b'a'),
        Slot::Part(number) => bytes.extend_from_slice(&number.to_be_bytes()),
    }
    bytes
}

/// What all keys of the task's questions and answers begin with.
pub(super) fn inputs(key: &TaskKey) -> Vec<u8> {
    let mut bytes = named(INPUTS, key);
    bytes.push(0);
    bytes
}

/// What the keys of all of a task's bodies begin with, one prefix a family.
pub(super) fn bodies(key: &TaskKey) -> impl Iterator<Item = Vec<u8>> {
    BODIES.iter().map(|family| {
        let mut bytes = named(family, key);
        bytes.push(0);
        bytes
    })
}

/// What all keys of the parts of a task's result begin with.
pub(super) fn parts(key: &TaskKey) -> Vec<u8> {
    let mut bytes = named(PARTS, key);
    bytes.push(0);
    bytes
}

/// Reads the input key and the side from a key of the family `i/`.
pub(super) fn read_input(bytes: &[u8]) -> Option<(InputKey, Side)> {
    let mut parts = bytes.rsplitn(3, |byte| *byte == 0);
    let side = match parts.next()? {
        b"q" => Side::Question,
        b"a" => Side::Answer,
        _ => return None,
    };
    let key = std::str::from_utf8(parts.next()?).ok()?;
    Some((InputKey::parse(key).ok()?, side))
}

/// The index keys of a task as it is. What an event changes in the indexes is the difference of
/// this before and after.
pub(super) fn index(task: &Task) -> Vec<Vec<u8>> {
    let place = match &task.phase {
        Phase::Queued { ready_at } => Some(timed(QUEUE, *ready_at, &task.key)),
        Phase::Running => Some(named(RUNNING, &task.key)),
        Phase::Parked => Some(named(PARKED, &task.key)),
        Phase::Ended(_) => None,
    };
    let expiry = task.expires_at.map(|at| timed(EXPIRY, at, &task.key));
    place.into_iter().chain(expiry).collect()
}

/// The task, if a key of the family `o/` is of what all its parts take.
pub(super) fn read_part_head(bytes: &[u8]) -> Option<TaskKey> {
    read_named(bytes.strip_suffix(&[0; 5])?)
}

/// The keys of what a round left, of its mark, and of its place in time order.
pub(super) fn round(key: &TaskKey) -> Vec<u8> {
    let mut bytes = named(ROUND, key);
    bytes.push(0);
    bytes
}

pub(super) fn used(key: &TaskKey) -> Vec<u8> {
    named(USED, key)
}

pub(super) fn round_expiry(key: &TaskKey, at: Timestamp) -> Vec<u8> {
    timed(ROUND_EXPIRY, at, key)
}

/// Where the range of a family in time order ends that is over by `now`, exclusive.
pub(super) fn expired_end(family: &[u8], now: Timestamp) -> Vec<u8> {
    let mut bytes = family.to_vec();
    bytes.extend_from_slice(&now.0.saturating_add(1).to_be_bytes());
    bytes
}

/// Reads the task from an index key without a time.
pub(super) fn read_named(bytes: &[u8]) -> Option<TaskKey> {
    let (tenant, id) = std::str::from_utf8(bytes.get(2..)?)
        .ok()?
        .split_once('\0')?;
    Some(TaskKey {
        tenant: TenantId::parse(tenant).ok()?,
        id: TaskId::parse(id).ok()?,
    })
}

/// Reads the task from an index key with a time.
pub(super) fn read_timed(bytes: &[u8]) -> Option<TaskKey> {
    read_named(bytes.get(8..)?)
}

/// The key of a value of a plugin's state; with an empty key, what all of them begin with.
pub(super) fn state(owner: &StateOwner, key: &str) -> Vec<u8> {
    let mut bytes = STATE.to_vec();
    push_task(&mut bytes, owner.tenant.as_str(), &owner.plugin);
    bytes.push(0);
    bytes.extend_from_slice(key.as_bytes());
    bytes
}

/// Reads whose state a key is of, and its key there.
pub(super) fn read_state(name: &[u8]) -> Option<(StateOwner, String)> {
    let text = std::str::from_utf8(name.strip_prefix(STATE)?).ok()?;
    let mut parts = text.splitn(3, '\0');
    let (tenant, plugin, key) = (parts.next()?, parts.next()?, parts.next()?);
    let owner = StateOwner {
        tenant: TenantId::parse(tenant).ok()?,
        plugin: plugin.to_owned(),
    };
    (!plugin.is_empty() && !key.is_empty()).then(|| (owner, key.to_owned()))
}

fn named(family: &[u8], key: &TaskKey) -> Vec<u8> {
    let (tenant, id) = (key.tenant.as_str(), key.id.as_str());
    let mut bytes = Vec::with_capacity(family.len() + tenant.len() + id.len() + 2);
    bytes.extend_from_slice(family);
    push_task(&mut bytes, tenant, id);
    bytes
}

fn timed(family: &[u8], at: Timestamp, key: &TaskKey) -> Vec<u8> {
    let (tenant, id) = (key.tenant.as_str(), key.id.as_str());
    let mut bytes = Vec::with_capacity(family.len() + 8 + tenant.len() + id.len() + 1);
    bytes.extend_from_slice(family);
    bytes.extend_from_slice(&at.0.to_be_bytes());
    push_task(&mut bytes, tenant, id);
    bytes
}

fn push_task(bytes: &mut Vec<u8>, tenant: &str, id: &str) {
    bytes.extend_from_slice(tenant.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(id.as_bytes());
}

fn push_input(bytes: &mut Vec<u8>, input: &InputKey, side: u8) {
    bytes.extend_from_slice(input.as_str().as_bytes());
    bytes.extend_from_slice(&[0, side]);
}

#[cfg(test)]
mod tests;
