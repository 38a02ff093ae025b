//! The hooks as the component imports them (`control` and `state` in `wit/`, and `wasi:config`).

use crate::bindings::longshore::plugin::state::{self, StateError};
use crate::bindings::longshore::plugin::{control, types};
use crate::bindings::wasi::config::store;
use crate::error::Stopped;

/// The host of this instance.
pub(crate) struct Hooks;

impl Hooks {
    pub fn context(&self) -> control::CallContext {
        control::context()
    }

    pub fn progress(&self, message: &str, done: Option<f64>, total: Option<f64>) {
        control::progress(message, done, total);
    }

    pub fn checkpoint(&self, state: Option<&[u8]>) -> Result<(), Stopped> {
        control::checkpoint(state).map_err(stopped)
    }

    pub fn saved_state(&self) -> Option<Vec<u8>> {
        control::saved_state()
    }

    pub fn step_result(&self, name: &str) -> Option<Vec<u8>> {
        control::step_result(name)
    }

    pub fn record_step(&self, name: &str, value: &[u8]) -> Result<(), Stopped> {
        control::record_step(name, value).map_err(stopped)
    }

    pub fn request_input(
        &self,
        requests: &[types::InputRequest],
    ) -> Result<Vec<types::Answer>, types::InputError> {
        control::request_input(requests)
    }

    pub fn external_reference(&self, reference: &str, url: Option<&str>) {
        control::external_reference(reference, url);
    }

    pub fn configuration(&self, name: &str) -> Option<String> {
        // This host has no error here; another one's means that there is no value.
        store::get(name).unwrap_or_default()
    }

    pub fn state_get(&self, key: &str) -> Result<Option<Vec<u8>>, StateError> {
        state::get(key)
    }

    pub fn state_set(&self, key: &str, value: &[u8]) -> Result<(), StateError> {
        state::set(key, value)
    }

    pub fn state_delete(&self, key: &str) -> Result<(), StateError> {
        state::delete(key)
    }

    pub fn state_compare_and_set(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, StateError> {
        state::compare_and_set(key, expected, value)
    }

    pub fn state_keys(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, StateError> {
        state::keys(prefix, after)
    }

    pub fn log(&self, level: types::LogLevel, logger: Option<&str>, data: &str) {
        control::log(level, logger, data);
    }

    pub fn resource_updated(&self, uri: &str) {
        control::resource_updated(uri);
    }
}

fn stopped(stopped: control::Stopped) -> Stopped {
    Stopped {
        reason: stopped.reason,
    }
}
