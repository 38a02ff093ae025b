//! A call under way, and what it comes to. Who waits for it decides how long it lives.

use std::time::Duration;

use tokio::sync::watch;
use tracing::warn;

use super::detached::Detachable;
use super::{CallError, Left, Standing, world};
use crate::scheduler::{CallOutcome, RunEnd, StartedCall};
use crate::task::{CallResult, InputRequest, Progress, Task};

/// A call under way. Dropping it stops the tool, unless the call has become a task.
pub struct PendingCall {
    /// The newest progress, for a client that asked for it.
    pub progress: watch::Receiver<Option<Progress>>,
    /// Whether the call is answered synchronously only because the client takes no tasks (I8).
    pub is_fallback: bool,
    /// What becomes of such a call when its client leaves.
    pub standing: watch::Receiver<Standing>,
    pub(super) state: Pending,
}

pub(super) enum Pending {
    /// Stored already.
    Task(Option<Box<Task>>),
    /// Runs; after the grace, if there is one, it becomes a task.
    Running {
        call: StartedCall,
        grace: Option<Duration>,
    },
    /// As the second, for a client that takes no tasks: it is answered in any case.
    Detachable(Detachable),
    /// No tool: a resource, a prompt or suggestions.
    Asked(world::Asked),
    Answered(Option<CallResult>),
}

/// What a call came to.
pub enum Reply {
    Result(CallResult),
    /// Stored before it is told (I1).
    Task(Box<Task>),
    /// The same call has to come again with answers.
    InputRequired {
        requests: Vec<InputRequest>,
        left: Left,
    },
}

impl PendingCall {
    pub(super) fn stored(task: Task) -> PendingCall {
        PendingCall {
            progress: watch::Sender::new(None).subscribe(),
            is_fallback: false,
            standing: Standing::with_client(),
            state: Pending::Task(Some(Box::new(task))),
        }
    }

    pub(super) fn running(
        call: StartedCall,
        grace: Option<Duration>,
        is_fallback: bool,
    ) -> PendingCall {
        PendingCall {
            progress: call.run.watch_progress(),
            is_fallback,
            standing: Standing::with_client(),
            state: Pending::Running { call, grace },
        }
    }

    /// Waits for the reply. Dropping this future stops the tool, as dropping the call does.
    pub async fn reply(&mut self) -> Result<Reply, CallError> {
        let (call, grace) = match &mut self.state {
            Pending::Task(task) => return task.take().map(Reply::Task).ok_or_else(told_already),
            Pending::Detachable(call) => return call.reply().await,
            Pending::Running { call, grace } => (call, grace.take()),
            Pending::Asked(asked) => return asked.reply().await,
            Pending::Answered(result) => {
                return result.take().map(Reply::Result).ok_or_else(told_already);
            }
        };
        let outcome = match grace {
            None => call.outcome().await,
            Some(grace) => tokio::select! {
                outcome = call.outcome() => outcome,
                () = tokio::time::sleep(grace) => {
                    if let Err(error) = call.become_task().await {
                        // The work goes on; only the client has to wait for it.
                        warn!(error = &error as &dyn std::error::Error, "a slow call could not become a task");
                    }
                    call.outcome().await
                }
            },
        };
        read_outcome(outcome)
    }
}

pub(super) fn read_outcome(outcome: CallOutcome) -> Result<Reply, CallError> {
    match outcome {
        CallOutcome::Task(task) => Ok(Reply::Task(task)),
        CallOutcome::Asks(requests, left) => Ok(Reply::InputRequired { requests, left }),
        CallOutcome::Refused(error) => Err(error.into()),
        CallOutcome::Ended(RunEnd::Returned(result)) => Ok(Reply::Result(result)),
        // Kept by the scheduler, which tells of it as of any other.
        CallOutcome::Ended(RunEnd::ReturnedLarge(_)) => Err(CallError::Unavailable(
            "the tool's result is too large, and was not kept".to_owned(),
        )),
        // Of no tool; a resource's URI is told by who asked for it.
        CallOutcome::Ended(RunEnd::NotFound) => Err(CallError::Unavailable(
            "the tool answered as if it were a resource".to_owned(),
        )),
        CallOutcome::Ended(RunEnd::Failed(error)) => Err(CallError::Tool(error)),
        CallOutcome::Ended(RunEnd::Cancelled(words)) => {
            Err(CallError::Unavailable(words.unwrap_or_else(|| {
                "the tool stopped without a result".to_owned()
            })))
        }
        CallOutcome::Ended(RunEnd::Abandoned) => Err(CallError::Unavailable(
            "the call was stopped before it had a result".to_owned(),
        )),
    }
}

pub(super) fn told_already() -> CallError {
    CallError::Unavailable("the call was answered already".to_owned())
}
