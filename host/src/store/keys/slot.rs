//! The bodies a task has: what each is called in words and in exports, and which key is whose. Where
//! keys are made is its parent's.

use std::fmt;
use std::str::FromStr;

use super::{ARGUMENTS, CHECKPOINT, INPUTS, PARTS, RESULT, STEPS, body, named, read_input};
use crate::task::{Digest, InputKey, TaskKey};

/// One of the bodies a task has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) enum Slot {
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
pub(in crate::store) enum Side {
    Question,
    Answer,
}

impl Slot {
    /// What kind of body it is, without what guests chose.
    pub(in crate::store) fn kind(&self) -> &'static str {
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

    pub(in crate::store) fn words(&self) -> String {
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

/// What distinguishes a body's key among its task's, as text for exports: a step whose name was
/// hashed has only the hash left.
pub(in crate::store) enum SlotName {
    Slot(Slot),
    HashedStep([u8; 32]),
}

impl SlotName {
    /// Reads it from a key of `task`.
    pub(in crate::store) fn read(name: &[u8], task: &TaskKey) -> Option<SlotName> {
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
    pub(in crate::store) fn key(&self, task: &TaskKey) -> Vec<u8> {
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
    pub(in crate::store) fn kind(&self) -> &'static str {
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
