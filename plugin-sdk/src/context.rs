//! The hooks as a tool sees them.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bindings::longshore::plugin::types;
pub use crate::bindings::longshore::plugin::types::LogLevel;
use crate::error::{Error, Result, Stopped};
use crate::hooks::Hooks;
use crate::input::{Answers, Confirmation, InputRequest, Response, Root, Sampled, Sampling};
use crate::state::State;

/// A tool's way to its host. Every method may take as long as it needs: the host suspends the tool
/// meanwhile, which costs no thread.
pub struct Context {
    hooks: Hooks,
}

impl Context {
    pub(crate) fn new(hooks: Hooks) -> Context {
        Context { hooks }
    }

    /// The task's id; None while the call is answered inline. An inline call that takes long may
    /// become a task, so ask again rather than keep the answer.
    pub fn task_id(&self) -> Option<String> {
        self.hooks.context().task_id
    }

    /// The authenticated owner of the call.
    pub fn tenant(&self) -> String {
        self.hooks.context().tenant
    }

    /// 1 for the first run of a task, more after a crash, a deployment or parking.
    pub fn attempt(&self) -> u32 {
        self.hooks.context().attempt
    }

    /// Whether somebody can answer a form, so [`confirm`](Self::confirm) and [`ask`](Self::ask).
    pub fn can_ask(&self) -> bool {
        self.hooks.context().can_ask_form
    }

    pub fn can_show_url(&self) -> bool {
        self.hooks.context().can_ask_url
    }

    pub fn can_sample(&self) -> bool {
        self.hooks.context().can_sample
    }

    pub fn can_list_roots(&self) -> bool {
        self.hooks.context().can_list_roots
    }

    /// The time until the task expires; None if it does not.
    pub fn expires_in(&self) -> Option<Duration> {
        self.hooks
            .context()
            .expires_in_ms
            .map(Duration::from_millis)
    }

    /// Tells whoever watches. Call it as often as is natural: the host coalesces.
    pub fn progress(&self, message: impl AsRef<str>) {
        self.hooks.progress(message.as_ref(), None, None);
    }

    /// [`progress`](Self::progress) that can be drawn as a bar.
    pub fn progress_of(&self, done: u64, total: u64, message: impl AsRef<str>) {
        // Above 2^53 the bar is off by less than anyone can see.
        self.hooks
            .progress(message.as_ref(), Some(done as f64), Some(total as f64));
    }

    /// A message for the client that made the call, if it wants messages of this level: a text or
    /// anything that is JSON. Kept in the task's log as well. For people who look for a cause; the
    /// host drops what comes too fast.
    pub fn log(&self, level: LogLevel, data: impl Serialize) {
        self.hooks.log(level, None, &logged(data));
    }

    /// [`log`](Self::log) under the name of a part of the plugin.
    pub fn log_as(&self, logger: &str, level: LogLevel, data: impl Serialize) {
        self.hooks.log(level, Some(logger), &logged(data));
    }

    /// A resource of this plugin has changed: clients that subscribed to it are told.
    pub fn resource_updated(&self, uri: impl AsRef<str>) {
        self.hooks.resource_updated(uri.as_ref());
    }

    /// A place where the tool can stop: ends with [`Error::Stopped`] once the task is being
    /// cancelled.
    pub fn stop_if_cancelled(&self) -> Result<()> {
        Ok(self.hooks.checkpoint(None)?)
    }

    /// Saves `state` durably before it returns; also a place where the tool can stop. A later run
    /// finds the newest state in [`saved_state`](Self::saved_state).
    pub fn checkpoint<S: Serialize>(&self, state: &S) -> Result<()> {
        self.checkpoint_bytes(&serde_json::to_vec(state)?)
    }

    /// What the last checkpoint of an earlier run saved.
    pub fn saved_state<S: DeserializeOwned>(&self) -> Result<Option<S>> {
        self.saved_bytes()
            .map(|bytes| serde_json::from_slice(&bytes))
            .transpose()
            .map_err(|error| Error::from(error).context("the saved state cannot be read"))
    }

    /// [`checkpoint`](Self::checkpoint) for a state with an encoding of its own.
    pub fn checkpoint_bytes(&self, state: &[u8]) -> Result<()> {
        Ok(self.hooks.checkpoint(Some(state))?)
    }

    /// [`saved_state`](Self::saved_state) for a state with an encoding of its own.
    pub fn saved_bytes(&self) -> Option<Vec<u8>> {
        self.hooks.saved_state()
    }

    /// Carries out `effect` once in the task's life and records its result durably; a later run
    /// gets the recorded result instead. An effect that fails is not recorded. Also a place where
    /// the tool can stop, before the effect and after it is recorded.
    ///
    /// Between the effect and the record the host can still crash: give the effect a key by which
    /// the other side recognizes a repetition.
    pub fn step<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        effect: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if let Some(recorded) = self.recorded(name)? {
            return Ok(recorded);
        }
        self.stop_if_cancelled()?;
        let value = effect()?;
        self.hooks.record_step(name, &serde_json::to_vec(&value)?)?;
        Ok(value)
    }

    /// A [`step`](Self::step) that a cancel does not keep from happening, to undo others.
    pub fn cleanup_step<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        effect: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if let Some(recorded) = self.recorded(name)? {
            return Ok(recorded);
        }
        let value = effect()?;
        // The host has the record even when it answers with the cancel that is known already.
        let _ = self.hooks.record_step(name, &serde_json::to_vec(&value)?);
        Ok(value)
    }

    /// The result a [`step`](Self::step) of this name recorded, if it did.
    pub fn recorded<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        self.hooks
            .step_result(name)
            .map(|bytes| serde_json::from_slice(&bytes))
            .transpose()
            .map_err(|error| {
                Error::from(error).context(format!("the recorded step `{name}` cannot be read"))
            })
    }

    /// What this plugin keeps beyond the task, for this tenant.
    pub fn state(&self) -> State<'_> {
        State::new(&self.hooks)
    }

    /// A configuration value that the plugin asks for and the operator gives.
    pub fn configuration(&self, name: &str) -> Option<String> {
        self.hooks.configuration(name)
    }

    /// Where a person can look up what the tool does outside. Set it before the first effect.
    pub fn external_reference(&self, reference: impl AsRef<str>, url: Option<&str>) {
        self.hooks.external_reference(reference.as_ref(), url);
    }

    /// Asks for a yes. A no, a decline and a dismissal are all false.
    ///
    /// `key` names the question in the task's life: a later run that asks under the same key gets
    /// the recorded answer, and nobody is asked twice.
    pub fn confirm(&self, key: &str, message: impl Into<String>) -> Result<bool> {
        let answer = self.ask::<Confirmation>(key, message)?;
        Ok(matches!(
            answer,
            Response::Accept(Confirmation { confirm: true })
        ))
    }

    /// Asks a person to fill in a form: a flat struct of strings, numbers, booleans and enums.
    pub fn ask<F: DeserializeOwned + JsonSchema>(
        &self,
        key: &str,
        message: impl Into<String>,
    ) -> Result<Response<F>> {
        self.ask_all([InputRequest::form::<F>(key, message)])?
            .form(key)
    }

    /// Sends a person to a page, for what a form must not ask (anything secret). Accepting means
    /// the person agreed to go there.
    pub fn ask_url(
        &self,
        key: &str,
        message: impl Into<String>,
        url: impl Into<String>,
    ) -> Result<Response<()>> {
        self.ask_all([InputRequest::url(key, message, url)])?
            .url(key)
    }

    /// Has the client's model write something.
    pub fn sample(&self, key: &str, sampling: Sampling) -> Result<Sampled> {
        self.ask_all([InputRequest::sampling(key, sampling)])?
            .sampled(key)
    }

    /// The directories the client works in.
    pub fn roots(&self, key: &str) -> Result<Vec<Root>> {
        self.ask_all([InputRequest::roots(key)])?.roots(key)
    }

    /// Asks several things at once; they are shown together and answered in any order.
    pub fn ask_all(&self, requests: impl IntoIterator<Item = InputRequest>) -> Result<Answers> {
        let requests = requests
            .into_iter()
            .map(InputRequest::into_wire)
            .collect::<Result<Vec<_>>>()?;
        match self.hooks.request_input(&requests) {
            Ok(answers) => {
                let keys = requests.into_iter().map(|request| request.key);
                Ok(Answers::new(keys.zip(answers)))
            }
            Err(types::InputError::Stopped) => Err(Error::Stopped(Stopped {
                reason: String::new(),
            })),
            Err(types::InputError::MissingCapability(name)) => Err(Error::MissingCapability(name)),
            Err(types::InputError::Unsupported(why)) => Err(Error::Unsupported(why)),
            Err(types::InputError::Invalid(why)) => Err(Error::defect(format!(
                "the tool asks a malformed question: {why}"
            ))),
        }
    }
}

/// A message that is no JSON still says so: nobody handles a log's failure.
fn logged(data: impl Serialize) -> String {
    serde_json::to_string(&data).unwrap_or_else(|error| {
        Value::String(format!("a message that is no JSON: {error}")).to_string()
    })
}
