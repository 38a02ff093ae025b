//! The names of things: tenants, tasks, input keys, component digests.

use std::fmt;

use thiserror::Error;

/// Why a text is not a valid id.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum IdError {
    #[error("a tenant name is 1 to 64 of a-z, 0-9, `-` and `_`")]
    Tenant,
    #[error("a task id is 1 to 128 letters, digits, `-` and `_`")]
    Task,
    #[error("an input key is 1 to 128 printable ASCII characters without spaces")]
    InputKey,
    #[error("a digest is 64 hexadecimal digits")]
    Digest,
}

/// The authenticated owner of tasks. It is also a folder's name, so its alphabet is small.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(String);

impl TenantId {
    /// The tenant of a host without configured tokens.
    pub fn local() -> TenantId {
        TenantId("local".to_owned())
    }

    /// Takes 1 to 64 of `a-z`, `0-9`, `-` and `_`.
    pub fn parse(text: &str) -> Result<TenantId, IdError> {
        let fits = (1..=64).contains(&text.len())
            && text
                .bytes()
                .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'));
        if fits {
            Ok(TenantId(text.to_owned()))
        } else {
            Err(IdError::Tenant)
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A task's name on the wire: unguessable, printable, at most 128 characters (Tasks extension,
/// "Task ID unguessability").
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(String);

impl TaskId {
    /// An id from 128 random bits.
    pub fn from_random(bytes: [u8; 16]) -> TaskId {
        TaskId(hex(&bytes))
    }

    /// Takes what a client sent; anything that cannot be an id of ours is refused here.
    pub fn parse(text: &str) -> Result<TaskId, IdError> {
        let fits = (1..=128).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
        if fits {
            Ok(TaskId(text.to_owned()))
        } else {
            Err(IdError::Task)
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A task's full name: no lookup is possible without the tenant (I4).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskKey {
    pub tenant: TenantId,
    pub id: TaskId,
}

/// The name under which a question is asked, once in a task's life (I7).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InputKey(String);

impl InputKey {
    /// Takes 1 to 128 printable ASCII characters without spaces.
    pub fn parse(text: &str) -> Result<InputKey, IdError> {
        let fits = (1..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        if fits {
            Ok(InputKey(text.to_owned()))
        } else {
            Err(IdError::InputKey)
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The SHA-256 of a component's bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Takes 64 hexadecimal digits.
    pub fn parse(text: &str) -> Result<Digest, IdError> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(IdError::Digest);
        }
        for (index, byte) in bytes.iter_mut().enumerate() {
            let digits = &text[index * 2..index * 2 + 2];
            *byte = u8::from_str_radix(digits, 16).map_err(|_| IdError::Digest)?;
        }
        Ok(Digest(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for InputKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}
