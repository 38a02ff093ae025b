//! The sealed `requestState`: what a call without a task carries through the client from one round
//! to the next (basic/patterns/mrtr). The client is not trusted with it: it is encrypted, bound to
//! the tenant (I4), the method, the tool and the arguments, and short-lived.
//!
//! It does not make a round single-use; a tool's steps and idempotency keys do that.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::error::Refusal;
use crate::clock::{Clock, Timestamp};
use crate::service::Saved;
use crate::task::{Answer, ExternalReference, InputKey, TenantId};

/// The longest state that is handed out, bytes of text. Clients send it back in a request body.
const STATE_MAX_BYTES: usize = 16 * 1024;

/// How long a person has to answer before the call has to begin again.
const LIFETIME: Duration = Duration::from_secs(10 * 60);

/// Changes whenever the sealed form does, so that an old state is refused and not misread.
const FORM: &[u8] = b"longshore requestState 1";

const NONCE_BYTES: usize = 24;

/// Seals and opens states.
pub struct Sealer {
    cipher: XChaCha20Poly1305,
    clock: Clock,
}

/// The call a state belongs to.
pub struct Binding<'a> {
    pub tenant: &'a TenantId,
    pub method: &'static str,
    pub tool: &'a str,
    pub arguments: &'a Map<String, Value>,
}

impl Sealer {
    pub fn new(key: [u8; 32], clock: Clock) -> Sealer {
        Sealer {
            cipher: XChaCha20Poly1305::new(&key.into()),
            clock,
        }
    }

    /// Seals what a round leaves for the next.
    pub fn seal(&self, binding: &Binding, saved: &Saved) -> Result<String, Refusal> {
        let expires_at = self.clock.now().plus(LIFETIME);
        let plain = encode(expires_at, saved);
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).expect("the system's source of randomness works");
        let sealed = self
            .cipher
            .encrypt(
                &XNonce::from(nonce),
                Payload {
                    msg: &plain,
                    aad: &binding.digest(),
                },
            )
            .expect("a state is far smaller than the cipher's limit");
        let state = URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat());
        if state.len() > STATE_MAX_BYTES {
            return Err(Refusal::StateTooLarge {
                size_bytes: state.len(),
                max_bytes: STATE_MAX_BYTES,
            });
        }
        Ok(state)
    }

    /// Opens what a client sent back.
    pub fn open(&self, binding: &Binding, state: &str) -> Result<Saved, Refusal> {
        const AGAIN: &str = "make the call again without requestState and inputResponses";
        let (expires_at, saved) = self.decrypt(binding, state).ok_or_else(|| {
            Refusal::InvalidParams(format!(
                "params.requestState does not belong to this call: it has to come back unchanged, \
                 with the same tool and arguments, from the client it was given to; {AGAIN}"
            ))
        })?;
        if self.clock.now() >= expires_at {
            return Err(Refusal::InvalidParams(format!(
                "params.requestState has expired, {} minutes after it was given out; {AGAIN}",
                LIFETIME.as_secs() / 60
            )));
        }
        Ok(saved)
    }

    fn decrypt(&self, binding: &Binding, state: &str) -> Option<(Timestamp, Saved)> {
        if state.len() > STATE_MAX_BYTES {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(state).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_BYTES>()?;
        let plain = self
            .cipher
            .decrypt(
                &XNonce::from(*nonce),
                Payload {
                    msg: sealed,
                    aad: &binding.digest(),
                },
            )
            .ok()?;
        decode(&plain)
    }
}

impl Binding<'_> {
    fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for part in [
            FORM,
            self.tenant.as_str().as_bytes(),
            self.method.as_bytes(),
            self.tool.as_bytes(),
        ] {
            hash_part(&mut hash, part);
        }
        hash_object(&mut hash, self.arguments);
        hash.finalize().into()
    }
}

/// Hashes JSON so that equal values have equal digests, whatever the order of their keys.
fn hash_value(hash: &mut Sha256, value: &Value) {
    match value {
        Value::Null => hash.update(b"n"),
        Value::Bool(flag) => hash.update(if *flag { b"t" } else { b"f" }),
        Value::Number(number) => {
            hash.update(b"#");
            hash_part(hash, number.to_string().as_bytes());
        }
        Value::String(text) => {
            hash.update(b"s");
            hash_part(hash, text.as_bytes());
        }
        Value::Array(items) => {
            hash.update(b"[");
            hash.update((items.len() as u64).to_be_bytes());
            for item in items {
                hash_value(hash, item);
            }
        }
        Value::Object(members) => hash_object(hash, members),
    }
}

fn hash_object(hash: &mut Sha256, members: &Map<String, Value>) {
    let sorted: BTreeMap<_, _> = members.iter().collect();
    hash.update(b"{");
    hash.update((sorted.len() as u64).to_be_bytes());
    for (key, value) in sorted {
        hash_part(hash, key.as_bytes());
        hash_value(hash, value);
    }
}

fn hash_part(hash: &mut Sha256, part: &[u8]) {
    hash.update((part.len() as u64).to_be_bytes());
    hash.update(part);
}

fn encode(expires_at: Timestamp, saved: &Saved) -> Vec<u8> {
    // Named one by one, so that a new member can't be forgotten here.
    let Saved {
        checkpoint,
        steps,
        answers,
        external_reference,
    } = saved;
    let mut out = Vec::new();
    out.extend_from_slice(&expires_at.0.to_be_bytes());
    put_optional(&mut out, checkpoint.as_deref());
    put_length(&mut out, steps.len());
    for (name, value) in steps {
        put(&mut out, name.as_bytes());
        put(&mut out, value);
    }
    put_length(&mut out, answers.len());
    for (key, answer) in answers {
        put(&mut out, key.as_str().as_bytes());
        let (tag, text) = match answer {
            Answer::Accept(content) => (b'a', content.as_deref()),
            Answer::Decline => (b'd', None),
            Answer::Dismiss => (b'c', None),
            Answer::Value(value) => (b'v', Some(value.as_str())),
        };
        out.push(tag);
        put_optional(&mut out, text.map(str::as_bytes));
    }
    let reference = external_reference.as_ref();
    put_optional(
        &mut out,
        reference.map(|external| external.reference.as_bytes()),
    );
    let url = reference.and_then(|external| external.url.as_deref());
    put_optional(&mut out, url.map(str::as_bytes));
    out
}

/// Reads [`encode`]'s form. It was authenticated, so a misfit means another version of the host.
fn decode(plain: &[u8]) -> Option<(Timestamp, Saved)> {
    let mut rest = plain;
    let (expires_at, after) = rest.split_first_chunk::<8>()?;
    rest = after;
    let mut saved = Saved {
        checkpoint: take_optional(&mut rest)?.map(<[u8]>::to_vec),
        ..Saved::default()
    };
    for _ in 0..take_length(&mut rest)? {
        let name = take_text(&mut rest)?;
        saved.steps.insert(name, take(&mut rest)?.to_vec());
    }
    for _ in 0..take_length(&mut rest)? {
        let key = InputKey::parse(&take_text(&mut rest)?).ok()?;
        let (tag, after) = rest.split_first()?;
        rest = after;
        let text = take_optional_text(&mut rest)?;
        let answer = match (tag, text) {
            (b'a', content) => Answer::Accept(content),
            (b'd', None) => Answer::Decline,
            (b'c', None) => Answer::Dismiss,
            (b'v', Some(value)) => Answer::Value(value),
            _ => return None,
        };
        saved.answers.insert(key, answer);
    }
    let reference = take_optional_text(&mut rest)?;
    let url = take_optional_text(&mut rest)?;
    saved.external_reference = reference.map(|reference| ExternalReference { reference, url });
    rest.is_empty()
        .then_some((Timestamp(u64::from_be_bytes(*expires_at)), saved))
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

#[cfg(test)]
#[path = "request_state_tests.rs"]
mod tests;
