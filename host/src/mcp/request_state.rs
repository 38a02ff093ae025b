//! The sealed `requestState`: what a call without a task carries through the client from one round
//! to the next (basic/patterns/mrtr). The client is not trusted with it: it is encrypted, bound to
//! the tenant (I4), the method, the tool and the arguments, and short-lived. What is too large to
//! travel stays with the host, and the client carries its name.

mod form;
mod keyring;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use form::Content;
pub use keyring::{Keyring, KeyringError};

use super::error::Refusal;
use crate::clock::Clock;
use crate::service::{Earlier, Left, RoundError, RoundName, Service};
use crate::task::{TaskId, TaskKey, TenantId};

/// The longest state that is handed out, bytes of text. Clients send it back in a request body.
const STATE_MAX_BYTES: usize = 16 * 1024;

/// How long a person has to answer before the call has to begin again.
pub const LIFETIME: Duration = Duration::from_secs(10 * 60);

/// Changes whenever the sealed form does, so that an old state is refused and not misread.
const FORM: &[u8] = b"longshore requestState 3";

const NONCE_BYTES: usize = 24;

const TAG_BYTES: usize = 16;

/// What is sealed within that: base64 makes four characters of three bytes.
const CONTENT_MAX_BYTES: usize = STATE_MAX_BYTES / 4 * 3 - NONCE_BYTES - TAG_BYTES;

/// Seals and opens states.
pub struct Sealer {
    keys: Arc<Keyring>,
    clock: Clock,
}

/// The call a state belongs to.
pub struct Binding<'a> {
    pub tenant: &'a TenantId,
    pub method: &'static str,
    pub tool: &'a str,
    pub arguments: &'a ArgumentsDigest,
}

/// Arguments as a call is bound to them: equal for equal ones, in whatever order their keys stand.
pub struct ArgumentsDigest([u8; 32]);

impl ArgumentsDigest {
    pub fn of(arguments: &Map<String, Value>) -> ArgumentsDigest {
        let mut hash = Sha256::new();
        hash_object(&mut hash, arguments);
        ArgumentsDigest(hash.finalize().into())
    }
}

impl Sealer {
    pub fn new(keys: Keyring, clock: Clock) -> Sealer {
        Sealer {
            keys: Arc::new(keys),
            clock,
        }
    }

    /// Seals what a round leaves for the next. What is too large to travel is kept by the host
    /// before its name is told.
    pub async fn seal(
        &self,
        service: &Service,
        binding: &Binding<'_>,
        left: Left,
    ) -> Result<String, Refusal> {
        self.keys.rotate_if_due().await;
        let mut id = [0; 16];
        getrandom::fill(&mut id).expect("the system's source of randomness works");
        let mut content = Content {
            expires_at: self.clock.now().plus(LIFETIME),
            id,
            left: Some(left),
        };
        let encoded = content.encode();
        if encoded.len() <= CONTENT_MAX_BYTES {
            return Ok(self.close(binding, &encoded));
        }
        if let Some(Left::State(saved)) = content.left.take() {
            let round = round_name(binding, &content);
            let kept = service.keep_round(&round, form::encode_saved(&saved));
            kept.await?;
        }
        Ok(self.close(binding, &content.encode()))
    }

    /// Opens what a client sent back.
    pub async fn open(
        &self,
        service: &Service,
        binding: &Binding<'_>,
        state: &str,
    ) -> Result<Earlier, Refusal> {
        let content = self.read(binding, state)?;
        let round = round_name(binding, &content);
        let left = match content.left {
            Some(left) => left,
            None => {
                let kept = service.kept_round(&round).await?;
                let saved = kept.and_then(|bytes| form::decode_saved(&bytes));
                Left::State(saved.ok_or(RoundError::Lost)?)
            }
        };
        Ok(Earlier { round, left })
    }

    fn read(&self, binding: &Binding, state: &str) -> Result<Content, Refusal> {
        const AGAIN: &str = "make the call again without requestState and inputResponses";
        let content = self.decrypt(binding, state).ok_or_else(|| {
            Refusal::InvalidParams(format!(
                "params.requestState does not belong to this call: it has to come back unchanged, \
                 with the same tool and arguments, from the client it was given to; {AGAIN}"
            ))
        })?;
        // Of an instance that waits, those who hold it say whether it still does.
        let is_held = matches!(content.left, Some(Left::Held(_)));
        if !is_held && self.clock.now() >= content.expires_at {
            return Err(Refusal::InvalidParams(format!(
                "params.requestState has expired, {} minutes after it was given out; {AGAIN}",
                LIFETIME.as_secs() / 60
            )));
        }
        Ok(content)
    }

    fn close(&self, binding: &Binding, encoded: &[u8]) -> String {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).expect("the system's source of randomness works");
        let cipher = XChaCha20Poly1305::new(&self.keys.newest().into());
        let sealed = cipher
            .encrypt(
                &XNonce::from(nonce),
                Payload {
                    msg: encoded,
                    aad: &binding.digest(),
                },
            )
            .expect("a state is far smaller than the cipher's limit");
        URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat())
    }

    fn decrypt(&self, binding: &Binding, state: &str) -> Option<Content> {
        if state.len() > STATE_MAX_BYTES {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(state).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_BYTES>()?;
        let (nonce, aad) = (XNonce::from(*nonce), binding.digest());
        let plain = self.keys.usable().into_iter().find_map(|key| {
            let payload = Payload {
                msg: sealed,
                aad: &aad,
            };
            let cipher = XChaCha20Poly1305::new(&key.into());
            cipher.decrypt(&nonce, payload).ok()
        })?;
        Content::decode(&plain)
    }
}

fn round_name(binding: &Binding, content: &Content) -> RoundName {
    RoundName {
        key: TaskKey {
            tenant: binding.tenant.clone(),
            id: TaskId::from_random(content.id),
        },
        expires_at: content.expires_at,
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
        hash_part(&mut hash, &self.arguments.0);
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

#[cfg(test)]
#[path = "request_state_tests.rs"]
mod tests;
