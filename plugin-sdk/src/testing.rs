//! A double of the host, so that tools are tested natively and without a sandbox.
//!
//! Give it what the host would know, call the tool, and look at what it did. A second run of the
//! same task is the same double again: it keeps the checkpoint, the steps and the answers.
//!
//! ```
//! use longshore_plugin::prelude::*;
//! use longshore_plugin::testing::Host;
//!
//! fn count(ctx: &Context) -> Result<u32> {
//!     let mut done: u32 = ctx.saved_state()?.unwrap_or(0);
//!     while done < 5 {
//!         done += 1;
//!         ctx.checkpoint(&done)?;
//!     }
//!     Ok(done)
//! }
//!
//! let host = Host::new().cancelling_at(2);
//! assert!(count(&host.context()).unwrap_err().is_stopped());
//! assert_eq!(host.checkpoint(), Some(2));
//!
//! let host = host.next_run();
//! assert_eq!(count(&host.context()).unwrap(), 5);
//! assert_eq!(host.checkpoints::<u32>(), [1, 2, 3, 4, 5]);
//! ```

mod server;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Tool;
use crate::bindings::longshore::plugin::state::StateError;
use crate::bindings::longshore::plugin::{control, types};
use crate::context::Context;
use crate::error::{Result, Stopped};
use crate::output::Output;

#[cfg(feature = "http")]
pub use crate::http::{HttpAnswers, answer_http};
pub use server::Logged;

/// A double of the host. Methods that script it come first; ask it afterwards what happened.
pub struct Host {
    state: Rc<RefCell<State>>,
}

struct State {
    context: control::CallContext,
    answers: BTreeMap<String, types::Answer>,
    /// Counts down at each place where the tool can stop; None never stops.
    stops_left: Option<u32>,
    saved: Option<Vec<u8>>,
    checkpoints: Vec<Vec<u8>>,
    steps: Vec<(String, Vec<u8>)>,
    progress: Vec<Progress>,
    asked: Vec<types::InputRequest>,
    reference: Option<(String, Option<String>)>,
    configuration: BTreeMap<String, String>,
    /// None without the grant.
    values: Option<BTreeMap<String, Vec<u8>>>,
    logged: Vec<Logged>,
    updated: Vec<String>,
}

/// One report of progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    pub message: String,
    pub done: Option<f64>,
    pub total: Option<f64>,
}

impl Default for Host {
    fn default() -> Host {
        Host::new()
    }
}

/// What the host knows.
impl Host {
    /// A host that runs the first attempt of a task for a client that can answer everything.
    pub fn new() -> Host {
        Host {
            state: Rc::new(RefCell::new(State {
                context: control::CallContext {
                    task_id: Some("task".into()),
                    tenant: "tenant".into(),
                    attempt: 1,
                    can_ask_form: true,
                    can_ask_url: true,
                    can_sample: true,
                    can_list_roots: true,
                    expires_in_ms: None,
                },
                answers: BTreeMap::new(),
                stops_left: None,
                saved: None,
                checkpoints: Vec::new(),
                steps: Vec::new(),
                progress: Vec::new(),
                asked: Vec::new(),
                reference: None,
                configuration: BTreeMap::new(),
                values: Some(BTreeMap::new()),
                logged: Vec::new(),
                updated: Vec::new(),
            })),
        }
    }

    /// Somebody accepts the question `key`, with this content.
    pub fn answering(self, key: &str, content: impl Serialize) -> Host {
        let content = json_of(content);
        self.with_answer(key, types::Answer::Accept(Some(content)))
    }

    /// Somebody declines the question `key`.
    pub fn declining(self, key: &str) -> Host {
        self.with_answer(key, types::Answer::Decline)
    }

    /// Somebody closes the question `key` without choosing.
    pub fn dismissing(self, key: &str) -> Host {
        self.with_answer(key, types::Answer::Dismiss)
    }

    /// The client answers the sampling or roots request `key` with this result.
    pub fn returning(self, key: &str, result: impl Serialize) -> Host {
        let result = json_of(result);
        self.with_answer(key, types::Answer::Value(result))
    }

    /// The client can answer nothing.
    pub fn without_answers(self) -> Host {
        self.with(|state| {
            state.context.can_ask_form = false;
            state.context.can_ask_url = false;
            state.context.can_sample = false;
            state.context.can_list_roots = false;
        })
    }

    /// The call is answered inline: there is no task.
    pub fn inline(self) -> Host {
        self.with(|state| state.context.task_id = None)
    }

    pub fn expiring_in(self, time: Duration) -> Host {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.with(|state| state.context.expires_in_ms = Some(ms))
    }

    /// The task is cancelled; the tool learns of it at the `nth` place where it can stop, counted
    /// from 1, and at every one after it. What it saves there is still saved.
    pub fn cancelling_at(self, nth: u32) -> Host {
        self.with(|state| state.stops_left = Some(nth.saturating_sub(1)))
    }

    /// An earlier run saved this.
    pub fn with_saved_state(self, saved: &impl Serialize) -> Host {
        let saved = json_of(saved).into_bytes();
        self.with(|state| state.saved = Some(saved))
    }

    /// An earlier run recorded this step.
    pub fn with_step(self, name: &str, value: impl Serialize) -> Host {
        let value = json_of(value).into_bytes();
        self.with(|state| state.steps.push((name.into(), value)))
    }

    /// The plugin's state has this value.
    pub fn with_state(self, key: &str, value: impl Serialize) -> Host {
        let value = json_of(value).into_bytes();
        self.with(|state| {
            let values = state.values.get_or_insert_default();
            values.insert(key.into(), value);
        })
    }

    /// The operator gave the plugin no state.
    pub fn without_state(self) -> Host {
        self.with(|state| state.values = None)
    }

    /// The operator gave this configuration value.
    pub fn configured(self, name: &str, value: &str) -> Host {
        self.with(|state| {
            state.configuration.insert(name.into(), value.into());
        })
    }

    /// The next run of the same task: one attempt later, and no longer cancelled.
    pub fn next_run(self) -> Host {
        self.with(|state| {
            state.context.attempt += 1;
            state.stops_left = None;
        })
    }

    fn with_answer(self, key: &str, answer: types::Answer) -> Host {
        self.with(|state| {
            state.answers.insert(key.into(), answer);
        })
    }

    fn with(self, change: impl FnOnce(&mut State)) -> Host {
        change(&mut self.state.borrow_mut());
        self
    }
}

/// Runs.
impl Host {
    /// What to call a tool's function with.
    pub fn context(&self) -> Context {
        Context::new(Hooks {
            state: Rc::clone(&self.state),
        })
    }

    /// Calls one of a plugin's tools by its name, the way the host does.
    ///
    /// # Panics
    /// When there is no such tool, or it asks what nothing answers.
    pub fn call(&self, tools: &[Tool], name: &str, arguments: impl Serialize) -> Result<Output> {
        let tool = tools
            .iter()
            .find(|tool| tool.name() == name)
            .unwrap_or_else(|| panic!("no tool is called `{name}`"));
        tool.call(&self.context(), &json_of(arguments))
    }
}

/// What happened.
impl Host {
    pub fn progress(&self) -> Vec<Progress> {
        self.state.borrow().progress.clone()
    }

    /// The newest saved state.
    pub fn checkpoint<S: DeserializeOwned>(&self) -> Option<S> {
        let state = self.state.borrow();
        let saved = state.saved.as_deref()?;
        Some(serde_json::from_slice(saved).expect("the saved state is of another type"))
    }

    /// Every state saved, oldest first.
    pub fn checkpoints<S: DeserializeOwned>(&self) -> Vec<S> {
        let state = self.state.borrow();
        state
            .checkpoints
            .iter()
            .map(|saved| serde_json::from_slice(saved).expect("a saved state is of another type"))
            .collect()
    }

    /// The newest saved state as it is.
    pub fn saved_bytes(&self) -> Option<Vec<u8>> {
        self.state.borrow().saved.clone()
    }

    /// The names of the recorded steps, oldest first.
    pub fn steps(&self) -> Vec<String> {
        let state = self.state.borrow();
        state.steps.iter().map(|(name, _)| name.clone()).collect()
    }

    /// The keys of the questions asked, in order.
    pub fn asked(&self) -> Vec<String> {
        let state = self.state.borrow();
        state.asked.iter().map(|asked| asked.key.clone()).collect()
    }

    /// The words of the question asked under `key`, when a person was asked.
    pub fn message(&self, key: &str) -> Option<String> {
        let state = self.state.borrow();
        let asked = state.asked.iter().find(|asked| asked.key == key)?;
        match &asked.ask {
            types::Ask::Form(form) => Some(form.message.clone()),
            types::Ask::Url(visit) => Some(visit.message.clone()),
            types::Ask::Sampling(_) | types::Ask::Roots => None,
        }
    }

    /// The schema of the form asked under `key`.
    pub fn form(&self, key: &str) -> Option<Value> {
        let state = self.state.borrow();
        let asked = state.asked.iter().find(|asked| asked.key == key)?;
        match &asked.ask {
            types::Ask::Form(form) => serde_json::from_str(&form.schema).ok(),
            _ => None,
        }
    }

    /// A value of the plugin's state.
    pub fn state<S: DeserializeOwned>(&self, key: &str) -> Option<S> {
        let state = self.state.borrow();
        let value = state.values.as_ref()?.get(key)?;
        Some(serde_json::from_slice(value).expect("the value is of another type"))
    }

    /// The external reference: what it is called, and its URL.
    pub fn reference(&self) -> Option<(String, Option<String>)> {
        self.state.borrow().reference.clone()
    }
}

fn json_of(value: impl Serialize) -> String {
    serde_json::to_string(&value).expect("the value is not JSON")
}

/// The tool's side of the double.
pub(crate) struct Hooks {
    state: Rc<RefCell<State>>,
}

impl Hooks {
    pub fn context(&self) -> control::CallContext {
        self.state.borrow().context.clone()
    }

    pub fn progress(&self, message: &str, done: Option<f64>, total: Option<f64>) {
        self.state.borrow_mut().progress.push(Progress {
            message: message.into(),
            done,
            total,
        });
    }

    pub fn checkpoint(&self, saved: Option<&[u8]>) -> Result<(), Stopped> {
        let mut state = self.state.borrow_mut();
        if let Some(saved) = saved {
            state.saved = Some(saved.into());
            state.checkpoints.push(saved.into());
        }
        state.stop()
    }

    pub fn saved_state(&self) -> Option<Vec<u8>> {
        self.state.borrow().saved.clone()
    }

    pub fn step_result(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state.borrow();
        let (_, value) = state.steps.iter().find(|(step, _)| step == name)?;
        Some(value.clone())
    }

    pub fn record_step(&self, name: &str, value: &[u8]) -> Result<(), Stopped> {
        let mut state = self.state.borrow_mut();
        state.steps.push((name.into(), value.into()));
        state.stop()
    }

    pub fn request_input(
        &self,
        requests: &[types::InputRequest],
    ) -> Result<Vec<types::Answer>, types::InputError> {
        let mut state = self.state.borrow_mut();
        if let Some(lacking) = requests.iter().find_map(|it| state.lacks(&it.ask)) {
            return Err(types::InputError::MissingCapability(lacking.into()));
        }
        state.asked.extend_from_slice(requests);
        if state.stop().is_err() {
            return Err(types::InputError::Stopped);
        }
        let answers = requests.iter().map(|request| {
            let answer = state.answers.get(&request.key);
            answer.cloned().unwrap_or_else(|| {
                panic!(
                    "the tool asks `{}` and the test has no answer for it",
                    request.key
                )
            })
        });
        Ok(answers.collect())
    }

    pub fn external_reference(&self, reference: &str, url: Option<&str>) {
        self.state.borrow_mut().reference = Some((reference.into(), url.map(String::from)));
    }

    pub fn configuration(&self, name: &str) -> Option<String> {
        self.state.borrow().configuration.get(name).cloned()
    }

    pub fn state_get(&self, key: &str) -> Result<Option<Vec<u8>>, StateError> {
        let mut state = self.state.borrow_mut();
        Ok(state.values()?.get(key).cloned())
    }

    pub fn state_set(&self, key: &str, value: &[u8]) -> Result<(), StateError> {
        let mut state = self.state.borrow_mut();
        state.values()?.insert(key.into(), value.into());
        Ok(())
    }

    pub fn state_delete(&self, key: &str) -> Result<(), StateError> {
        let mut state = self.state.borrow_mut();
        state.values()?.remove(key);
        Ok(())
    }

    pub fn state_compare_and_set(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, StateError> {
        let mut state = self.state.borrow_mut();
        let values = state.values()?;
        if values.get(key).map(Vec::as_slice) != expected {
            return Ok(false);
        }
        match value {
            Some(value) => values.insert(key.into(), value.into()),
            None => values.remove(key),
        };
        Ok(true)
    }

    pub fn state_keys(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, StateError> {
        let mut state = self.state.borrow_mut();
        let keys = state.values()?.keys();
        let wanted = keys.filter(|key| {
            key.starts_with(prefix) && after.is_none_or(|after| key.as_str() > after)
        });
        Ok(wanted.cloned().collect())
    }

    pub fn log(&self, level: types::LogLevel, logger: Option<&str>, data: &str) {
        self.state.borrow_mut().logged.push(Logged {
            level,
            logger: logger.map(String::from),
            data: serde_json::from_str(data).expect("a message is JSON"),
        });
    }

    pub fn resource_updated(&self, uri: &str) {
        self.state.borrow_mut().updated.push(uri.into());
    }
}

impl State {
    fn values(&mut self) -> Result<&mut BTreeMap<String, Vec<u8>>, StateError> {
        let refused = || StateError::Refused("no grant".into());
        self.values.as_mut().ok_or_else(refused)
    }

    fn stop(&mut self) -> Result<(), Stopped> {
        match &mut self.stops_left {
            None => Ok(()),
            Some(0) => Err(Stopped {
                reason: "cancelled by the test".into(),
            }),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }

    fn lacks(&self, ask: &types::Ask) -> Option<&'static str> {
        let (can, capability) = match ask {
            types::Ask::Form(_) => (self.context.can_ask_form, "elicitation"),
            types::Ask::Url(_) => (self.context.can_ask_url, "elicitation.url"),
            types::Ask::Sampling(_) => (self.context.can_sample, "sampling"),
            types::Ask::Roots => (self.context.can_list_roots, "roots"),
        };
        (!can).then_some(capability)
    }
}
