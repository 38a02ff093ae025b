//! What is inside a sealed state: who it is for is said by the seal, this is what it holds. Read only
//! after it was authenticated, so what does not fit is another version's.

use crate::clock::Timestamp;
use crate::service::{HeldRound, Left, Saved};
use crate::task::{Answer, ExternalReference, InputKey, TaskId};

const STATE: u8 = b's';
const KEPT: u8 = b'k';
const HELD: u8 = b'h';
const TASK: u8 = b't';

/// What the seal is around.
#[derive(Debug, PartialEq)]
pub struct Content {
    pub expires_at: Timestamp,
    /// Names the round.
    pub id: [u8; 16],
    /// None when the host keeps what the round left.
    pub left: Option<Left>,
}

impl Content {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.expires_at.0.to_be_bytes());
        out.extend_from_slice(&self.id);
        match &self.left {
            None => out.push(KEPT),
            Some(Left::State(saved)) => {
                out.push(STATE);
                put_saved(&mut out, saved);
            }
            Some(Left::Held(held)) => {
                out.push(HELD);
                for number in [held.process, held.number, held.until.0] {
                    out.extend_from_slice(&number.to_be_bytes());
                }
            }
            Some(Left::Task(id)) => {
                out.push(TASK);
                put(&mut out, id.as_str().as_bytes());
            }
        }
        out
    }

    pub fn decode(plain: &[u8]) -> Option<Content> {
        let mut rest = plain;
        let expires_at = Timestamp(take_number(&mut rest)?);
        let (id, after) = rest.split_first_chunk::<16>()?;
        let (kind, after) = after.split_first()?;
        rest = after;
        let left = match *kind {
            KEPT => None,
            STATE => Some(Left::State(take_saved(&mut rest)?)),
            HELD => Some(Left::Held(HeldRound {
                process: take_number(&mut rest)?,
                number: take_number(&mut rest)?,
                until: Timestamp(take_number(&mut rest)?),
            })),
            TASK => Some(Left::Task(TaskId::parse(&take_text(&mut rest)?).ok()?)),
            _ => return None,
        };
        rest.is_empty().then_some(Content {
            expires_at,
            id: *id,
            left,
        })
    }
}

/// A state as the host keeps it.
pub fn encode_saved(saved: &Saved) -> Vec<u8> {
    let mut out = Vec::new();
    put_saved(&mut out, saved);
    out
}

pub fn decode_saved(bytes: &[u8]) -> Option<Saved> {
    let mut rest = bytes;
    let saved = take_saved(&mut rest)?;
    rest.is_empty().then_some(saved)
}

fn put_saved(out: &mut Vec<u8>, saved: &Saved) {
    // Named one by one, so that a new member can't be forgotten here.
    let Saved {
        checkpoint,
        steps,
        answers,
        external_reference,
    } = saved;
    put_optional(out, checkpoint.as_deref());
    put_length(out, steps.len());
    for (name, value) in steps {
        put(out, name.as_bytes());
        put(out, value);
    }
    put_length(out, answers.len());
    for (key, answer) in answers {
        put(out, key.as_str().as_bytes());
        let (tag, text) = match answer {
            Answer::Accept(content) => (b'a', content.as_deref()),
            Answer::Decline => (b'd', None),
            Answer::Dismiss => (b'c', None),
            Answer::Value(value) => (b'v', Some(value.as_str())),
        };
        out.push(tag);
        put_optional(out, text.map(str::as_bytes));
    }
    let reference = external_reference.as_ref();
    put_optional(out, reference.map(|external| external.reference.as_bytes()));
    let url = reference.and_then(|external| external.url.as_deref());
    put_optional(out, url.map(str::as_bytes));
}

fn take_saved(rest: &mut &[u8]) -> Option<Saved> {
    let mut saved = Saved {
        checkpoint: take_optional(rest)?.map(<[u8]>::to_vec),
        ..Saved::default()
    };
    for _ in 0..take_length(rest)? {
        let name = take_text(rest)?;
        saved.steps.insert(name, take(rest)?.to_vec());
    }
    for _ in 0..take_length(rest)? {
        let key = InputKey::parse(&take_text(rest)?).ok()?;
        let (tag, after) = rest.split_first()?;
        *rest = after;
        let text = take_optional_text(rest)?;
        let answer = match (tag, text) {
            (b'a', content) => Answer::Accept(content),
            (b'd', None) => Answer::Decline,
            (b'c', None) => Answer::Dismiss,
            (b'v', Some(value)) => Answer::Value(value),
            _ => return None,
        };
        saved.answers.insert(key, answer);
    }
    let reference = take_optional_text(rest)?;
    let url = take_optional_text(rest)?;
    saved.external_reference = reference.map(|reference| ExternalReference { reference, url });
    Some(saved)
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let (number, after) = rest.split_first_chunk::<8>()?;
    *rest = after;
    Some(u64::from_be_bytes(*number))
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    // Longer than 32 bits is longer than any state that passes the limit.
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_optional(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    out.push(bytes.is_some().into());
    if let Some(bytes) = bytes {
        put(out, bytes);
    }
}

fn take_length(rest: &mut &[u8]) -> Option<usize> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    usize::try_from(u32::from_be_bytes(*length)).ok()
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take_length(rest)?;
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(bytes)
}

fn take_text(rest: &mut &[u8]) -> Option<String> {
    String::from_utf8(take(rest)?.to_vec()).ok()
}

fn take_optional_text(rest: &mut &[u8]) -> Option<Option<String>> {
    match take_optional(rest)? {
        Some(bytes) => Some(Some(String::from_utf8(bytes.to_vec()).ok()?)),
        None => Some(None),
    }
}

fn take_optional<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (is_some, after) = rest.split_first()?;
    *rest = after;
    match is_some {
        0 => Some(None),
        1 => take(rest).map(Some),
        _ => None,
    }
}
