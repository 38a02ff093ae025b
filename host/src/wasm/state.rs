//! The key-value state a guest keeps (`state` in `wit/state.wit`): bounded and parsed here, then
//! handed on to its [`Run`], which knows whose state it is.
//!
//! [`Run`]: crate::scheduler::Run

use super::bindings::longshore::plugin::state::{Host, StateError};
use super::guest::Guest;
use crate::scheduler::{Run, STATE_KEY_MAX_BYTES, STATE_VALUE_MAX_BYTES, StateChange, StateQuota};

type Outcome<T> = wasmtime::Result<Result<T, StateError>>;

impl Host for Guest {
    async fn get(&mut self, key: String) -> Outcome<Option<Vec<u8>>> {
        let (run, _) = match self.granted_state(&key).await {
            Ok(granted) => granted,
            Err(error) => return Ok(Err(error)),
        };
        Ok(Ok(run.state(&key)?))
    }

    async fn set(&mut self, key: String, value: Vec<u8>) -> Outcome<()> {
        let changed = self.change(key, None, Some(value)).await?;
        Ok(changed.map(|_| ()))
    }

    async fn delete(&mut self, key: String) -> Outcome<()> {
        let changed = self.change(key, None, None).await?;
        Ok(changed.map(|_| ()))
    }

    async fn compare_and_set(
        &mut self,
        key: String,
        expected: Option<Vec<u8>>,
        value: Option<Vec<u8>>,
    ) -> Outcome<bool> {
        self.change(key, Some(expected), value).await
    }

    async fn keys(&mut self, prefix: String, after: Option<String>) -> Outcome<Vec<String>> {
        let run = match self.state_run().await {
            Ok((run, _)) => run,
            Err(error) => return Ok(Err(error)),
        };
        for text in [Some(&prefix), after.as_ref()].into_iter().flatten() {
            // An empty prefix means all.
            if !text.is_empty()
                && let Err(error) = check_key(text)
            {
                return Ok(Err(error));
            }
        }
        Ok(Ok(run.state_keys(&prefix, after.as_deref())?))
    }
}

impl Guest {
    async fn change(
        &mut self,
        key: String,
        expected: Option<Option<Vec<u8>>>,
        value: Option<Vec<u8>>,
    ) -> Outcome<bool> {
        let (run, quota) = match self.granted_state(&key).await {
            Ok(granted) => granted,
            Err(error) => return Ok(Err(error)),
        };
        let size = value.as_ref().map_or(0, Vec::len);
        if size > STATE_VALUE_MAX_BYTES {
            return Ok(Err(StateError::Invalid(format!(
                "a value of {size} bytes; {STATE_VALUE_MAX_BYTES} are allowed, so divide it among keys"
            ))));
        }
        let change = StateChange {
            key,
            expected,
            value,
        };
        let changed = run.change_state(change, quota).await?;
        Ok(changed.map_err(|why| {
            self.log.note(&why);
            StateError::Full(why)
        }))
    }

    async fn granted_state(&mut self, key: &str) -> Result<(Run, StateQuota), StateError> {
        let granted = self.state_run().await?;
        check_key(key)?;
        Ok(granted)
    }

    /// The run, if there is one and it is granted a state (I5).
    async fn state_run(&mut self) -> Result<(Run, StateQuota), StateError> {
        let run = self.run().await.map_err(|_| {
            StateError::Refused(
                "it was used while the component was asked what it has; state belongs to a call"
                    .to_owned(),
            )
        })?;
        let quota = self.state_quota.ok_or_else(|| {
            StateError::Refused(
                "no grant; the plugin must ask for `state` in its plugin.toml, and the operator give \
                 it in longshore.toml"
                    .to_owned(),
            )
        })?;
        Ok((run, quota))
    }
}

fn check_key(key: &str) -> Result<(), StateError> {
    let fits = (1..=STATE_KEY_MAX_BYTES).contains(&key.len()) && !key.contains(char::is_control);
    if fits {
        return Ok(());
    }
    Err(StateError::Invalid(format!(
        "a key is 1 to {STATE_KEY_MAX_BYTES} bytes of text without control characters"
    )))
}
