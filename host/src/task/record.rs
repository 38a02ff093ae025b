//! The task itself.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Abilities, Digest, InputKey, TaskKey, Trace};
use crate::clock::Timestamp;

/// One durable `tools/call`. Bodies (arguments, checkpoint, steps, questions, result) are not
/// part of it; the store keeps them beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub key: TaskKey,
    pub tool: ToolRef,
    pub policy: Policy,
    /// What the client that made the call can answer.
    pub abilities: Abilities,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// When the task and all it has may be deleted.
    pub expires_at: Option<Timestamp>,
    pub phase: Phase,
    /// The number of the newest run, 0 before the first. It is also the lease's fencing token:
    /// a run that is not the newest may change nothing (I2).
    pub attempt: Attempt,
    /// How often in a row a run took the host down without getting further.
    pub crashes: u32,
    /// How often the host died during its runs, all of them together.
    pub crashes_in_all: u32,
    /// How the newest run that was cut short was.
    pub interrupted: Option<Interrupted>,
    /// Steps recorded, all runs together.
    pub steps: u32,
    /// The newest words for whoever watches.
    pub message: Option<String>,
    /// How much is done, in the tool's own units, and of how much.
    pub done: Option<f64>,
    pub total: Option<f64>,
    pub cancel: Option<CancelRequest>,
    /// Every question ever asked, so that none is asked twice (I7).
    pub inputs: BTreeMap<InputKey, Input>,
    pub external_reference: Option<ExternalReference>,
    /// Whether the result says that the tool failed, for those who list tasks without results.
    pub result_is_error: bool,
    /// The trace of the call that made it.
    pub trace: Option<Trace>,
}

impl Task {
    /// The status the wire shows.
    pub fn status(&self) -> Status {
        match &self.phase {
            Phase::Ended(Ending::Completed) => Status::Completed,
            Phase::Ended(Ending::Failed(_)) => Status::Failed,
            Phase::Ended(Ending::Cancelled) => Status::Cancelled,
            Phase::Queued { .. } | Phase::Running | Phase::Parked => {
                if self.open_inputs().next().is_some() && self.cancel.is_none() {
                    Status::InputRequired
                } else {
                    Status::Working
                }
            }
        }
    }

    /// The questions still waiting for an answer, in key order.
    pub fn open_inputs(&self) -> impl Iterator<Item = &InputKey> {
        self.inputs
            .iter()
            .filter(|(_, input)| !input.answered)
            .map(|(key, _)| key)
    }

    pub fn is_terminal(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }
}

/// MCP's task status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    /// The wire's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Working => "working",
            Status::InputRequired => "input_required",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }
}

/// Where a task stands with the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waits for a run from `ready_at` on.
    Queued { ready_at: Timestamp },
    /// A run holds the lease.
    Running,
    /// Unloaded; an answer, a cancel or the expiry brings it on.
    Parked,
    /// Final (I3).
    Ended(Ending),
}

/// How a task ended. A tool's own failure is `Completed` (Tasks extension, "Task Status").
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Completed,
    Failed(RpcError),
    Cancelled,
}

/// A JSON-RPC error; `data` is JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    pub code: i32,
    pub message: String,
    pub data: Option<String>,
}

impl RpcError {
    /// JSON-RPC's "internal error".
    pub const INTERNAL: i32 = -32603;

    /// An error that is neither the client's nor one of the tool's own.
    pub fn internal(message: impl Into<String>) -> RpcError {
        RpcError {
            code: RpcError::INTERNAL,
            message: message.into(),
            data: None,
        }
    }
}

/// What a running tool tells whoever watches.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    pub message: String,
    pub done: Option<f64>,
    pub total: Option<f64>,
}

/// What a tool returned: the members of MCP's `CallToolResult` (`content`, `structuredContent`,
/// `isError`) as the text of one JSON object, made once and stored as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallResult {
    pub json: String,
    pub is_error: bool,
}

/// The number of a run, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(pub u32);

/// The tool a task began with, down to the component's digest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToolRef {
    pub plugin: String,
    /// The tool's name inside its plugin.
    pub tool: String,
    pub digest: Digest,
}

/// What the tool's author declared that the lifecycle needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub recovery: Recovery,
    /// Run once more after a cancel, even when no instance is live, so that the tool can clean up.
    pub cleanup_on_cancel: bool,
    /// How long after a cancel a run may go on before it is stopped by force.
    pub cancel_grace: Duration,
    pub poll_interval: Duration,
}

/// What happens to a run that a crash, a deployment or parking interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The task ends failed and says so.
    Fail,
    /// Again from the beginning.
    Restart,
    /// Again, from the last checkpoint, with recorded steps and answers.
    Resume,
}

/// A run that was cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted {
    pub attempt: Attempt,
    pub cause: Interruption,
    /// When it was noticed, which after a crash is the next start.
    pub at: Timestamp,
}

/// Why a run was cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// The host died.
    Crash,
    /// The host was told to stop.
    Shutdown,
}

/// A cancel that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelRequest {
    pub at: Timestamp,
    pub reason: String,
}

/// What the task remembers of a question; its text and answer are the store's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The run that asked.
    pub asked_by: Attempt,
    pub answered: bool,
}

/// Where a person can look up what was written outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalReference {
    pub reference: String,
    pub url: Option<String>,
}
