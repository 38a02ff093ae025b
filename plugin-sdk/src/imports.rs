//! The hooks as the component imports them (`control` in `wit/`).

use crate::bindings::longshore::plugin::{control, types};
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
