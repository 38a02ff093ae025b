//! Values that outlive a task, by key.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bindings::longshore::plugin::state::StateError;
use crate::error::{Error, Result};
use crate::hooks::Hooks;

/// Rounds of [`State::update`] that may lose against other runs.
const ROUNDS_MAX: usize = 100;

/// The key-value state of this plugin for this tenant: durable, shared by all its runs, kept when
/// the plugin is replaced. It needs the grant `state`. For what belongs to one task take
/// checkpoints and steps.
pub struct State<'a> {
    hooks: &'a Hooks,
}

impl<'a> State<'a> {
    pub(crate) fn new(hooks: &'a Hooks) -> State<'a> {
        State { hooks }
    }

    /// The value of `key`, if there is one.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let bytes = self.get_bytes(key)?;
        bytes.map(|bytes| read(key, &bytes)).transpose()
    }

    /// Keeps a value, durably before it returns.
    pub fn set<T: Serialize>(&self, key: &str, value: &T) -> Result<()> {
        self.set_bytes(key, &serde_json::to_vec(value)?)
    }

    /// Removes a value; fine when there is none.
    pub fn delete(&self, key: &str) -> Result<()> {
        self.hooks
            .state_delete(key)
            .map_err(|error| refused(key, error))
    }

    /// Changes a value together with other runs: `change` gets the present one and makes the next,
    /// and is called again when somebody else was quicker. Returns what is kept.
    pub fn update<T: Serialize + DeserializeOwned>(
        &self,
        key: &str,
        mut change: impl FnMut(Option<T>) -> Result<T>,
    ) -> Result<T> {
        for _ in 0..ROUNDS_MAX {
            let present = self.get_bytes(key)?;
            let value = present
                .as_deref()
                .map(|bytes| read(key, bytes))
                .transpose()?;
            let next = change(value)?;
            let bytes = serde_json::to_vec(&next)?;
            if self.compare_and_set_bytes(key, present.as_deref(), Some(&bytes))? {
                return Ok(next);
            }
        }
        Err(Error::failed(format!(
            "the state `{key}` was changed by others {ROUNDS_MAX} times in a row; try again later"
        )))
    }

    /// Sets a value if there is none yet; tells whether it did.
    pub fn insert<T: Serialize>(&self, key: &str, value: &T) -> Result<bool> {
        self.compare_and_set_bytes(key, None, Some(&serde_json::to_vec(value)?))
    }

    /// All keys that begin with `prefix`, in order.
    pub fn keys(&self, prefix: &str) -> Result<Vec<String>> {
        let mut keys: Vec<String> = Vec::new();
        loop {
            let after = keys.last().map(String::as_str);
            let page = self.hooks.state_keys(prefix, after);
            let page = page.map_err(|error| refused(prefix, error))?;
            if page.is_empty() {
                return Ok(keys);
            }
            keys.extend(page);
        }
    }

    /// [`get`](Self::get) for a value with an encoding of its own.
    pub fn get_bytes(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.hooks
            .state_get(key)
            .map_err(|error| refused(key, error))
    }

    /// [`set`](Self::set) for a value with an encoding of its own.
    pub fn set_bytes(&self, key: &str, value: &[u8]) -> Result<()> {
        self.hooks
            .state_set(key, value)
            .map_err(|error| refused(key, error))
    }

    /// Sets a value, or removes it, if the present one is `expected`; tells whether it was.
    pub fn compare_and_set_bytes(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool> {
        let changed = self.hooks.state_compare_and_set(key, expected, value);
        changed.map_err(|error| refused(key, error))
    }
}

fn read<T: DeserializeOwned>(key: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes)
        .map_err(|error| Error::from(error).context(format!("the state `{key}` cannot be read")))
}

fn refused(key: &str, error: StateError) -> Error {
    match error {
        StateError::Full(why) | StateError::Refused(why) => {
            Error::failed(format!("the state `{key}`: {why}"))
        }
        StateError::Invalid(why) => Error::defect(format!("the state `{key}`: {why}")),
    }
}
