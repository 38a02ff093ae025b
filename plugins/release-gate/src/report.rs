//! What a run leaves, for programs and for people; and the words of its questions.

use longshore_plugin::{IntoOutput, Output, Result, Structured};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::journal::{Journal, Record, State};
use crate::plan::{Plan, Step};
use crate::request::Request;
use crate::text::one_line;

/// Of a body shown in a question, bytes.
const BODY_SHOWN_BYTES: usize = 500;

/// What was done and what was not.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    pub outcome: Outcome,
    /// Where a person can look up what was done.
    pub reference: String,
    /// In the order of the arguments.
    pub steps: Vec<StepReport>,
}

/// How the list ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every step was done.
    Completed,
    /// A person said no to a step; the steps before it stay done.
    Declined,
    /// A step failed, or nobody knows what became of it.
    Failed,
    /// The task was cancelled.
    Cancelled,
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StepReport {
    pub name: String,
    pub method: String,
    pub url: String,
    pub state: StepState,
    /// The status of the newest answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The beginning of the answer, or why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What the request carried as `Idempotency-Key`, also when it is not known to have arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// How often the request went out: more than once only after a crash.
    pub attempts: u32,
    /// The request that took the step back, when it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<UndoReport>,
}

/// What became of an undo.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct UndoReport {
    pub method: String,
    pub url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub idempotency_key: String,
    pub attempts: u32,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    Done,
    /// A person said no; nothing was sent.
    Declined,
    /// Nothing was sent.
    NotRun,
    /// It was done and taken back.
    Undone,
    /// It was done, and taking it back failed.
    UndoFailed,
    /// It was answered with another status than expected, or could not be sent.
    Failed,
    /// It was sent, and nobody knows what came of it.
    Unknown,
}

impl StepState {
    fn words(self) -> &'static str {
        match self {
            StepState::Done => "done",
            StepState::Declined => "declined, not sent",
            StepState::NotRun => "not run",
            StepState::Undone => "done and undone",
            StepState::UndoFailed => "done, and its undo FAILED",
            StepState::Failed => "failed",
            StepState::Unknown => "sent, outcome UNKNOWN",
        }
    }

    fn of(state: State) -> StepState {
        match state {
            State::NotRun => StepState::NotRun,
            State::Sending | State::Unknown => StepState::Unknown,
            State::Done => StepState::Done,
            State::Failed => StepState::Failed,
            State::Declined => StepState::Declined,
            // A run never ends while an undo is under way; if one did, it is not known to be done.
            State::Undoing | State::UndoFailed => StepState::UndoFailed,
            State::Undone => StepState::Undone,
        }
    }
}

impl Report {
    pub fn new(plan: &Plan, journal: &Journal, cancelling: bool) -> Report {
        let pairs = plan.steps.iter().zip(&journal.records);
        let steps: Vec<StepReport> = pairs.map(|(step, it)| StepReport::new(step, it)).collect();
        let outcome = if cancelling {
            Outcome::Cancelled
        } else if steps.iter().all(|step| step.state == StepState::Done) {
            Outcome::Completed
        } else if steps.iter().any(|step| step.state == StepState::Declined) {
            Outcome::Declined
        } else {
            Outcome::Failed
        };
        Report {
            outcome,
            reference: plan.reference.clone(),
            steps,
        }
    }

    pub fn text(&self) -> String {
        let count = |state| self.steps.iter().filter(|step| step.state == state).count();
        let total = self.steps.len();
        let done = count(StepState::Done);
        let mut text = match self.outcome {
            Outcome::Completed => format!("all {total} steps are done"),
            Outcome::Declined => format!("stopped by a no: {done} of {total} steps are done"),
            Outcome::Failed => format!("FAILED: {done} of {total} steps are done"),
            Outcome::Cancelled => self.cancelled(),
        };
        text.push_str(&format!("\nreference: {}", self.reference));
        for (index, step) in self.steps.iter().enumerate() {
            let line = match self.outcome {
                // A cancelled task has no result, only a message, and hosts keep that short.
                Outcome::Cancelled => step.short_line(),
                _ => step.line(),
            };
            text.push_str(&format!("\n{}. {line}", index + 1));
        }
        text
    }

    /// Only effects count here: what was read needs no undoing.
    fn cancelled(&self) -> String {
        let sent = self
            .steps
            .iter()
            .filter(|step| step.idempotency_key.is_some());
        let (undone, left): (Vec<&StepReport>, Vec<&StepReport>) =
            sent.partition(|step| step.state == StepState::Undone);
        let left = left
            .iter()
            .filter(|step| step.state != StepState::Failed)
            .count();
        format!("effects undone: {}, effects left: {left}", undone.len())
    }
}

impl StepReport {
    fn new(step: &Step, record: &Record) -> StepReport {
        let request = &step.request;
        let sent_undo = step.undo.as_ref().filter(|_| record.undo_sends > 0);
        StepReport {
            name: step.name.clone(),
            method: request.method.as_str().to_owned(),
            url: request.url.clone(),
            state: StepState::of(record.state),
            status: record.status,
            note: record.note.clone(),
            idempotency_key: (record.sends > 0 && step.has_effect())
                .then(|| request.idempotency_key.clone()),
            attempts: record.sends,
            undo: sent_undo.map(|undo| UndoReport {
                method: undo.method.as_str().to_owned(),
                url: undo.url.clone(),
                status: record.undo_status,
                note: record.undo_note.clone(),
                idempotency_key: undo.idempotency_key.clone(),
                attempts: record.undo_sends,
            }),
        }
    }

    fn short_line(&self) -> String {
        let mut line = format!("{}: {}", self.name, self.state.words());
        if let Some(status) = self.status {
            line.push_str(&format!(" ({status})"));
        }
        line
    }

    fn line(&self) -> String {
        let mut line = self.short_line();
        line.push_str(&format!(", {} {}", self.method, self.url));
        if let Some(key) = &self.idempotency_key {
            line.push_str(&format!(", key {key}"));
        }
        if self.attempts > 1 {
            line.push_str(&format!(", sent {} times", self.attempts));
        }
        let worth_telling = !matches!(self.state, StepState::Done | StepState::Undone);
        if let Some(note) = self.note.as_ref().filter(|_| worth_telling) {
            line.push_str(&format!("\n   {note}"));
        }
        if let Some(undo) = &self.undo {
            let status = undo
                .status
                .map_or_else(String::new, |status| format!(" ({status})"));
            line.push_str(&format!("\n   undo: {} {}{status}", undo.method, undo.url));
            let failed = self.state == StepState::UndoFailed;
            if let Some(note) = undo.note.as_ref().filter(|_| failed) {
                line.push_str(&format!(": {note}"));
            }
        }
        line
    }
}

impl IntoOutput for Report {
    fn output_schema() -> Option<Value> {
        Structured::<Report>::output_schema()
    }

    /// A failed step makes the result an error; a no does not: it is what was asked for.
    fn into_output(self) -> Result<Output> {
        let failed = self.outcome == Outcome::Failed;
        let text = self.text();
        let output = Structured::with_text(self, text).into_output()?;
        Ok(if failed { output.as_error() } else { output })
    }
}

/// What a person is asked before step `index`.
pub fn question(plan: &Plan, index: usize) -> String {
    let step = &plan.steps[index];
    let undo = match &step.undo {
        Some(undo) => format!("It can be undone by {} {}", undo.method.as_str(), undo.url),
        None => "It declares no undo.".to_owned(),
    };
    format!(
        "Step {} of {}, {}: {}\n{}\n{undo}\nSend it?",
        index + 1,
        plan.steps.len(),
        step.name,
        one_line(&step.description, 500),
        effect(&step.request)
    )
}

/// What a person is asked about taking step `index` back.
pub fn undo_question(plan: &Plan, journal: &Journal, index: usize) -> String {
    let step = &plan.steps[index];
    let known = match journal.records[index].state {
        State::Unknown => "may have been done",
        _ => "is done",
    };
    let request = step.undo.as_ref().map_or_else(String::new, effect);
    format!(
        "The run stopped at a failure. Step {}, {}, {known}. Take it back?\n{request}",
        index + 1,
        step.name
    )
}

/// Host, request line and body: everything others will see of it.
fn effect(request: &Request) -> String {
    let mut text = format!(
        "{} to {}\n{}",
        request.method.as_str(),
        request.host,
        request.url
    );
    if let Some(body) = &request.body {
        text.push_str(&format!(
            "\nBody ({} bytes): {}",
            body.len(),
            one_line(body, BODY_SHOWN_BYTES)
        ));
    }
    text
}
