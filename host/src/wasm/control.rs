//! The hooks a guest calls (`control` in `wit/plugin.wit`), handed on to its [`Run`]. What a guest
//! passes is bounded and parsed here, at the edge.
//!
//! [`Run`]: crate::scheduler::Run

use std::time::Instant;

use thiserror::Error;

use super::bindings::longshore::plugin::control::{CallContext, Host, Stopped};
use super::bindings::longshore::plugin::types;
use super::guest::Guest;
use super::json::{compact, compact_object};
use super::pace::Turn;
use super::permission::is_reserved;
use crate::plain::drives_display;
use crate::scheduler::{self, Abandoned, LogLevel, Message, Run, StepError};
use crate::task::{Answer, Ask, ExternalReference, InputKey, InputRequest, Progress};

/// A progress message, characters; longer ones are cut.
const MESSAGE_MAX_CHARS: usize = 1_000;

/// A checkpoint, bytes.
pub(super) const CHECKPOINT_MAX_BYTES: usize = 4 << 20;

/// A step's name and value, bytes.
const STEP_NAME_MAX_BYTES: usize = 128;
const STEP_VALUE_MAX_BYTES: usize = 1 << 20;

/// Questions of one call of `request-input`.
const REQUESTS_MAX: usize = 16;

/// A question's text for people, its form's schema, and a sampling request, bytes.
const QUESTION_MAX_BYTES: usize = 8 << 10;
const FORM_MAX_BYTES: usize = 64 << 10;
const SAMPLING_MAX_BYTES: usize = 256 << 10;

/// An address of the web, and an external reference, bytes.
const URL_MAX_BYTES: usize = 2_048;
const REFERENCE_MAX_BYTES: usize = 1_000;

/// A message's data, bytes, and the name of who speaks, characters.
const DATA_MAX_BYTES: usize = 16 << 10;
const LOGGER_MAX_CHARS: usize = 128;

/// Hooks a guest may call before it must let others on (I6).
const HOOKS_PER_TURN: u32 = 1_000;

/// A rule of the contract that a guest broke where the contract has no error to say so.
#[derive(Debug, Error)]
#[error("{0}")]
pub(super) struct Broken(pub String);

impl Guest {
    /// The run, after giving others a turn now and then.
    pub(super) async fn run(&mut self) -> Result<Run, Broken> {
        self.hooks_called += 1;
        if self.hooks_called >= HOOKS_PER_TURN {
            self.hooks_called = 0;
            tokio::task::yield_now().await;
        }
        self.run.clone().ok_or_else(|| {
            Broken(
                "it called a hook while it was asked what it has; hooks belong to a call"
                    .to_owned(),
            )
        })
    }
}

impl types::Host for Guest {}

impl Host for Guest {
    async fn context(&mut self) -> wasmtime::Result<CallContext> {
        let context = self.run().await?.context().await;
        Ok(CallContext {
            task_id: context.task.map(|id| id.as_str().to_owned()),
            tenant: context.tenant.as_str().to_owned(),
            attempt: context.attempt,
            can_ask_form: context.abilities.form,
            can_ask_url: context.abilities.url,
            can_sample: context.abilities.sampling,
            can_list_roots: context.abilities.roots,
            expires_in_ms: context.expires_in_ms,
        })
    }

    async fn progress(
        &mut self,
        mut message: String,
        done: Option<f64>,
        total: Option<f64>,
    ) -> wasmtime::Result<()> {
        if let Some((end, _)) = message.char_indices().nth(MESSAGE_MAX_CHARS) {
            message.truncate(end);
        }
        // JSON has no other numbers.
        let finite = |number: Option<f64>| number.filter(|number| number.is_finite());
        self.run().await?.progress(Progress {
            message,
            done: finite(done),
            total: finite(total),
        });
        Ok(())
    }

    async fn checkpoint(
        &mut self,
        state: Option<Vec<u8>>,
    ) -> wasmtime::Result<Result<(), Stopped>> {
        let run = self.run().await?;
        let size = state.as_ref().map_or(0, Vec::len);
        at_most("a checkpoint", size, CHECKPOINT_MAX_BYTES)?;
        Ok(run.checkpoint(state).await?.map_err(stopped))
    }

    async fn saved_state(&mut self) -> wasmtime::Result<Option<Vec<u8>>> {
        Ok(self.run().await?.saved_state().await?)
    }

    async fn step_result(&mut self, name: String) -> wasmtime::Result<Option<Vec<u8>>> {
        let run = self.run().await?;
        check_step_name(&name)?;
        Ok(run.step_result(&name).await?)
    }

    async fn record_step(
        &mut self,
        name: String,
        value: Vec<u8>,
    ) -> wasmtime::Result<Result<(), Stopped>> {
        let run = self.run().await?;
        check_step_name(&name)?;
        at_most("a step's value", value.len(), STEP_VALUE_MAX_BYTES)?;
        match run.record_step(name, value).await {
            Ok(recorded) => Ok(recorded.map_err(stopped)),
            Err(StepError::TooMany(what)) => Err(Broken(what).into()),
            Err(StepError::Abandoned(abandoned)) => Err(abandoned.into()),
        }
    }

    async fn request_input(
        &mut self,
        requests: Vec<types::InputRequest>,
    ) -> wasmtime::Result<Result<Vec<types::Answer>, types::InputError>> {
        let run = self.run().await?;
        let requests = match read_requests(requests) {
            Ok(requests) => requests,
            Err(what) => return Ok(Err(types::InputError::Invalid(what))),
        };
        run.note_memory(self.allowance.memory_bytes());
        let answers = run.request_input(requests).await?;
        Ok(answers
            .map(|answers| answers.into_iter().map(answer).collect())
            .map_err(input_error))
    }

    async fn external_reference(
        &mut self,
        reference: String,
        url: Option<String>,
    ) -> wasmtime::Result<()> {
        let run = self.run().await?;
        at_most(
            "an external reference",
            reference.len(),
            REFERENCE_MAX_BYTES,
        )?;
        if let Some(url) = &url {
            check_url(url).map_err(|what| Broken(format!("an external reference's URL {what}")))?;
        }
        run.set_external_reference(ExternalReference { reference, url })
            .await?;
        Ok(())
    }

    async fn log(
        &mut self,
        level: types::LogLevel,
        logger: Option<String>,
        data: String,
    ) -> wasmtime::Result<()> {
        let run = self.run().await?;
        match self.pace.next(Instant::now()) {
            Turn::Speak => {}
            Turn::DropAndSay => {
                self.log.note("messages come too fast; some are dropped");
                return Ok(());
            }
            Turn::Drop => return Ok(()),
        }
        if data.len() > DATA_MAX_BYTES {
            let size = data.len();
            self.log.note(&format!(
                "a message of {size} bytes is dropped; {DATA_MAX_BYTES} are allowed"
            ));
            return Ok(());
        }
        let data = compact(&data).map_err(|error| Broken(format!("a message's data: {error}")))?;
        let message = Message {
            level: log_level(level),
            logger: logger.as_deref().map(logger_name),
            data: data.get().to_owned(),
        };
        self.log.message(&message);
        run.tell(message);
        Ok(())
    }

    async fn resource_updated(&mut self, uri: String) -> wasmtime::Result<()> {
        let run = self.run().await?;
        at_most("a resource's URI", uri.len(), URL_MAX_BYTES)?;
        if !run.resource_updated(uri) {
            self.log
                .note("too many resources changed at once; some are not told of");
        }
        Ok(())
    }
}

fn log_level(level: types::LogLevel) -> LogLevel {
    match level {
        types::LogLevel::Debug => LogLevel::Debug,
        types::LogLevel::Info => LogLevel::Info,
        types::LogLevel::Notice => LogLevel::Notice,
        types::LogLevel::Warning => LogLevel::Warning,
        types::LogLevel::Error => LogLevel::Error,
        types::LogLevel::Critical => LogLevel::Critical,
        types::LogLevel::Alert => LogLevel::Alert,
        types::LogLevel::Emergency => LogLevel::Emergency,
    }
}

/// It stands in a line of the task's log.
fn logger_name(logger: &str) -> String {
    let printable = logger.chars().filter(|c| !drives_display(*c));
    printable.take(LOGGER_MAX_CHARS).collect()
}

fn stopped(stopped: scheduler::Stopped) -> Stopped {
    Stopped {
        reason: stopped.reason,
    }
}

fn answer(answer: Answer) -> types::Answer {
    match answer {
        Answer::Accept(content) => types::Answer::Accept(content),
        Answer::Decline => types::Answer::Decline,
        Answer::Dismiss => types::Answer::Dismiss,
        Answer::Value(value) => types::Answer::Value(value),
    }
}

fn input_error(error: scheduler::InputError) -> types::InputError {
    match error {
        scheduler::InputError::Stopped => types::InputError::Stopped,
        scheduler::InputError::MissingCapability(name) => {
            types::InputError::MissingCapability(name.to_owned())
        }
        scheduler::InputError::Unsupported(what) => types::InputError::Unsupported(what),
        scheduler::InputError::Invalid(what) => types::InputError::Invalid(what),
    }
}

fn read_requests(requests: Vec<types::InputRequest>) -> Result<Vec<InputRequest>, String> {
    if requests.is_empty() || requests.len() > REQUESTS_MAX {
        return Err(format!(
            "{} requests in one call; 1 to {REQUESTS_MAX} are allowed",
            requests.len()
        ));
    }
    let mut read: Vec<InputRequest> = Vec::with_capacity(requests.len());
    for request in requests {
        let request = read_request(request)?;
        if read.iter().any(|earlier| earlier.key == request.key) {
            return Err(format!("key `{}` is there twice", request.key));
        }
        read.push(request);
    }
    Ok(read)
}

fn read_request(request: types::InputRequest) -> Result<InputRequest, String> {
    let key = InputKey::parse(&request.key).map_err(|error| error.to_string())?;
    // Who could ask under such a key could ask for grants in the host's words.
    if is_reserved(key.as_str()) {
        return Err(reserved("key", key.as_str()));
    }
    let ask = read_ask(request.ask).map_err(|what| format!("request `{key}`: {what}"))?;
    Ok(InputRequest { key, ask })
}

fn read_ask(ask: types::Ask) -> Result<Ask, String> {
    let bounded = |what: &str, text: &str, max_bytes: usize| {
        at_most(what, text.len(), max_bytes).map_err(|broken| broken.0)
    };
    match ask {
        types::Ask::Form(form) => {
            bounded("a message", &form.message, QUESTION_MAX_BYTES)?;
            bounded("a form's schema", &form.schema, FORM_MAX_BYTES)?;
            Ok(Ask::Form {
                message: form.message,
                schema: form.schema,
            })
        }
        types::Ask::Url(visit) => {
            bounded("a message", &visit.message, QUESTION_MAX_BYTES)?;
            check_url(&visit.url).map_err(|what| format!("the URL {what}"))?;
            Ok(Ask::Url {
                message: visit.message,
                url: visit.url,
            })
        }
        types::Ask::Sampling(parameters) => {
            bounded("a sampling request", &parameters, SAMPLING_MAX_BYTES)?;
            let parameters = compact_object(&parameters)
                .map_err(|error| format!("the sampling parameters: {error}"))?;
            Ok(Ask::Sampling(parameters.get().to_owned()))
        }
        types::Ask::Roots => Ok(Ask::Roots),
    }
}

fn check_step_name(name: &str) -> Result<(), Broken> {
    if name.is_empty() {
        return Err(Broken("a step's name may not be empty".to_owned()));
    }
    if is_reserved(name) {
        return Err(Broken(reserved("step's name", name)));
    }
    at_most("a step's name", name.len(), STEP_NAME_MAX_BYTES)
}

fn reserved(what: &str, name: &str) -> String {
    let shown: String = name.escape_debug().take(80).collect();
    format!(
        "the {what} `{shown}`: names that begin with `longshore.` are the host's own; choose another"
    )
}

fn check_url(text: &str) -> Result<(), String> {
    if text.len() > URL_MAX_BYTES {
        return Err(format!("has more than {URL_MAX_BYTES} bytes"));
    }
    let is_web = text.parse::<http::Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some()
    });
    if is_web {
        Ok(())
    } else {
        Err("must be an absolute http or https URL".to_owned())
    }
}

fn at_most(what: &str, size: usize, max_bytes: usize) -> Result<(), Broken> {
    if size <= max_bytes {
        return Ok(());
    }
    Err(Broken(format!(
        "{what} of {size} bytes; {max_bytes} are allowed"
    )))
}

/// Whether an error is the word that the run is over.
pub(super) fn is_abandoned(error: &wasmtime::Error) -> bool {
    error.downcast_ref::<Abandoned>().is_some()
}
