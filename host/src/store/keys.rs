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

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use super::state::StateOwner;
use crate::clock::Timestamp;
use crate::task::{Digest, InputKey, Phase, Task, TaskId, TaskKey, TenantId};

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

/// One of the bodies a task has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Arguments,
    Checkpoint,
    Result,
    Step(String),
    Question(InputKey),
    Answer(InputKey),
    /// Of a large result.
    Part(u32),
}

/// Which side of an input a key of the family `i/` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Question,
    Answer,
}

impl Slot {
    /// What kind of body it is, without what guests chose.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Slot::Arguments => "arguments",
            Slot::Checkpoint => "checkpoint",
            Slot::Result => "result",
            Slot::Step(_) => "recorded step",
            Slot::Question(_) => "question",
            Slot::Answer(_) => "answer",
            Slot::Part(_) => "part of a result",
        }
    }

    pub(super) fn words(&self) -> String {
        match self {
            Slot::Arguments => "arguments".to_owned(),
            Slot::Checkpoint => "checkpoint".to_owned(),
            Slot::Result => "result".to_owned(),
            Slot::Step(name) => format!("step `{name}`"),
            Slot::Question(key) => format!("question `{key}`"),
            Slot::Answer(key) => format!("answer to `{key}`"),
            Slot::Part(number) => format!("part {number} of its result"),
        }
    }
}

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

/// What distinguishes a body's key among its task's, as text for exports: a step whose name was
/// hashed has only the hash left.
pub(super) enum SlotName {
    Slot(Slot),
    HashedStep([u8; 32]),
}

impl SlotName {
    /// Reads it from a key of `task`.
    pub(super) fn read(name: &[u8], task: &TaskKey) -> Option<SlotName> {
        let family = name.get(..2)?;
        let mut prefix = named(family, task);
        prefix.push(0);
        let rest = name.strip_prefix(&prefix[..])?;
        let slot = match family {
            ARGUMENTS if rest.is_empty() => Slot::Arguments,
            CHECKPOINT if rest.is_empty() => Slot::Checkpoint,
            RESULT if rest.is_empty() => Slot::Result,
            STEPS => match rest.split_first()? {
                (b'n', step) => Slot::Step(std::str::from_utf8(step).ok()?.to_owned()),
                (b'h', hash) => return Some(SlotName::HashedStep(hash.try_into().ok()?)),
                _ => return None,
            },
            PARTS => Slot::Part(u32::from_be_bytes(rest.try_into().ok()?)),
            INPUTS => match read_input(name)? {
                (key, Side::Question) => Slot::Question(key),
                (key, Side::Answer) => Slot::Answer(key),
            },
            _ => return None,
        };
        Some(SlotName::Slot(slot))
    }

    /// The key of such a body of `task`.
    pub(super) fn key(&self, task: &TaskKey) -> Vec<u8> {
        match self {
            SlotName::Slot(slot) => body(task, slot),
            SlotName::HashedStep(hash) => {
                let mut bytes = named(STEPS, task);
                bytes.extend_from_slice(&[0, b'h']);
                bytes.extend_from_slice(hash);
                bytes
            }
        }
    }
}

impl SlotName {
    /// See [`Slot::kind`].
    pub(super) fn kind(&self) -> &'static str {
        match self {
            SlotName::Slot(slot) => slot.kind(),
            SlotName::HashedStep(_) => "recorded step",
        }
    }
}

impl fmt::Display for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlotName::Slot(Slot::Arguments) => f.write_str("arguments"),
            SlotName::Slot(Slot::Checkpoint) => f.write_str("checkpoint"),
            SlotName::Slot(Slot::Result) => f.write_str("result"),
            SlotName::Slot(Slot::Step(name)) => write!(f, "step:{name}"),
            SlotName::Slot(Slot::Question(key)) => write!(f, "question:{key}"),
            SlotName::Slot(Slot::Answer(key)) => write!(f, "answer:{key}"),
            SlotName::Slot(Slot::Part(number)) => write!(f, "part:{number}"),
            SlotName::HashedStep(hash) => write!(f, "step-sha256:{}", Digest(*hash)),
        }
    }
}

impl FromStr for SlotName {
    type Err = String;

    fn from_str(text: &str) -> Result<SlotName, String> {
        let input = |key: &str| InputKey::parse(key).map_err(|error| error.to_string());
        let slot = match text.split_once(':') {
            None if text == "arguments" => Slot::Arguments,
            None if text == "checkpoint" => Slot::Checkpoint,
            None if text == "result" => Slot::Result,
            Some(("step", name)) => Slot::Step(name.to_owned()),
            Some(("part", number)) => Slot::Part(
                number
                    .parse()
                    .map_err(|_| format!("`{number}` is no part"))?,
            ),
            Some(("question", key)) => Slot::Question(input(key)?),
            Some(("answer", key)) => Slot::Answer(input(key)?),
            Some(("step-sha256", hash)) => {
                let hash = Digest::parse(hash).map_err(|error| error.to_string())?;
                return Ok(SlotName::HashedStep(hash.0));
            }
            _ => return Err(format!("there is no slot `{text}`")),
        };
        Ok(SlotName::Slot(slot))
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
mod tests {
    use super::*;

    fn key(tenant: &str, id: &str) -> TaskKey {
        TaskKey {
            tenant: TenantId::parse(tenant).unwrap(),
            id: TaskId::parse(id).unwrap(),
        }
    }

    #[test]
    fn index_keys_are_read_back() {
        let key = key("acme", "a-1");
        assert_eq!(read_named(&named(RUNNING, &key)), Some(key.clone()));
        assert_eq!(
            read_timed(&timed(EXPIRY, Timestamp(u64::MAX), &key)),
            Some(key)
        );
    }

    #[test]
    fn no_task_is_in_the_range_of_another() {
        let short = key("acme", "a");
        let long = key("acme", "ab");
        for prefix in bodies(&short) {
            for slot in [Slot::Arguments, Slot::Step("x".into())] {
                assert!(!body(&long, &slot).starts_with(&prefix));
            }
        }
    }

    #[test]
    fn a_tenants_range_holds_its_tasks_and_no_others() {
        let holds = |key: &TaskKey, after: Option<&TaskId>| {
            let (from, to) = tasks(&TenantId::parse("acme").unwrap(), after);
            (from..to).contains(&task(key))
        };
        let own = key("acme", "b");
        assert!(holds(&own, None) && holds(&own, Some(&key("acme", "a").id)));
        assert!(!holds(&own, Some(&own.id)));
        for other in ["acm", "acme-2", "acmf"] {
            assert!(!holds(&key(other, "b"), None), "{other}");
        }
    }

    #[test]
    fn both_sides_of_an_input_are_read_back() {
        let input = InputKey::parse("deploy?").unwrap();
        let key = key("acme", "a");
        let question = body(&key, &Slot::Question(input.clone()));
        let answer = body(&key, &Slot::Answer(input.clone()));
        assert_eq!(read_input(&question), Some((input.clone(), Side::Question)));
        assert_eq!(read_input(&answer), Some((input, Side::Answer)));
    }

    #[test]
    fn a_long_step_name_makes_a_short_key() {
        let key = key("acme", "a");
        let long = body(&key, &Slot::Step("x".repeat(1 << 20)));
        let other = body(&key, &Slot::Step("y".repeat(1 << 20)));
        assert!(long.len() < 100);
        assert_ne!(long, other);
    }

    #[test]
    fn times_sort_as_numbers() {
        let key = key("acme", "a");
        let early = timed(EXPIRY, Timestamp(255), &key);
        let late = timed(EXPIRY, Timestamp(256), &key);
        assert!(early < expired_end(EXPIRY, Timestamp(255)));
        assert!(late >= expired_end(EXPIRY, Timestamp(255)));
    }
}
