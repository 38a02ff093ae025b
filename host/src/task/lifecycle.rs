//! The state machine: [`apply`] is the only place where a task changes.
//!
//! ```text
//!            Claimed           Parked
//!   Queued ──────────▶ Running ───────▶ Parked
//!     ▲                  │  ▲             │
//!     └── Interrupted ───┘  └─ (Claimed) ─┴─ last answer, or a cancel with clean-up ─▶ Queued
//!
//!   Running ─ Returned, Failed, Cancelled ─▶ Ended       Queued, Parked ─ CancelRequested ─▶ Ended
//! ```

use thiserror::Error;

use super::{
    Answer, Attempt, CallResult, CancelRequest, Ending, ExternalReference, Input, InputKey,
    InputRequest, Interrupted, Interruption, Phase, Progress, Recovery, RpcError, Task,
};
use crate::clock::Timestamp;

/// Interrupted runs in a row, none of which got further, after which a task is given up.
const CRASHES_MAX: u32 = 3;

/// Deaths of the host during a task's runs after which it is given up, however far they got: one that
/// saves its state and then kills its host must not do so for ever. More than a task of days meets
/// that is not to blame.
pub(super) const CRASHES_IN_ALL_MAX: u32 = 10;

/// Questions a task may ask in its life.
const INPUTS_MAX: usize = 64;

/// Steps a task may record in its life.
pub const STEPS_MAX: u32 = 10_000;

/// An input of the state machine. Events of a run carry its attempt, the fencing token (I2).
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A run takes the lease.
    Claimed,
    Progressed {
        attempt: Attempt,
        progress: Progress,
    },
    Checkpointed {
        attempt: Attempt,
        state: Option<Vec<u8>>,
    },
    StepRecorded {
        attempt: Attempt,
        name: String,
        value: Vec<u8>,
    },
    Referenced {
        attempt: Attempt,
        reference: ExternalReference,
    },
    Asked {
        attempt: Attempt,
        requests: Vec<InputRequest>,
    },
    /// The waiting guest was unloaded.
    Parked {
        attempt: Attempt,
    },
    /// Somebody answered. Keys that are not open are ignored (Tasks extension, "Task Update").
    Answered {
        answers: Vec<(InputKey, Answer)>,
    },
    CancelRequested {
        reason: String,
    },
    Returned {
        attempt: Attempt,
        result: CallResult,
    },
    Failed {
        attempt: Attempt,
        error: RpcError,
    },
    /// The run stopped because of a cancel; the message says how.
    Cancelled {
        attempt: Attempt,
        message: String,
    },
    /// The run ended without an end of its own.
    Interrupted {
        attempt: Attempt,
        cause: Interruption,
    },
}

/// Why an event changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Rejected {
    #[error("the task has ended")]
    Terminal,
    #[error("the run no longer holds the task's lease")]
    StaleRun,
    #[error("the task is not waiting for a run")]
    NotQueued,
    #[error("the task is being cancelled")]
    Cancelling,
    #[error("no question of the task is open")]
    NothingToWaitFor,
    #[error("a task may ask at most {INPUTS_MAX} questions")]
    TooManyInputs,
    #[error("a task may record at most {STEPS_MAX} steps, all its runs together")]
    TooManySteps,
}

/// The task as it is after `event`, or why nothing changes.
pub fn apply(task: &Task, event: &Event, now: Timestamp) -> Result<Task, Rejected> {
    if task.is_terminal() {
        return Err(Rejected::Terminal); // I3
    }
    let mut next = task.clone();
    next.updated_at = now.max(task.updated_at);
    match event {
        Event::Claimed => claim(&mut next, now)?,
        Event::Progressed { attempt, progress } => {
            check_lease(task, *attempt)?;
            next.message = Some(progress.message.clone());
            (next.done, next.total) = (progress.done, progress.total);
        }
        Event::Checkpointed { attempt, .. } => {
            check_lease(task, *attempt)?;
            next.crashes = 0;
        }
        Event::StepRecorded { attempt, .. } => {
            check_lease(task, *attempt)?;
            if task.steps >= STEPS_MAX {
                return Err(Rejected::TooManySteps);
            }
            next.steps += 1;
            next.crashes = 0;
        }
        Event::Referenced { attempt, reference } => {
            check_lease(task, *attempt)?;
            next.external_reference = Some(reference.clone());
        }
        Event::Asked { attempt, requests } => ask(&mut next, *attempt, requests)?,
        Event::Parked { attempt } => park(&mut next, *attempt)?,
        Event::Answered { answers } => answer(&mut next, answers, now),
        Event::CancelRequested { reason } => request_cancel(&mut next, reason, now),
        Event::Returned { attempt, result } => {
            check_lease(task, *attempt)?;
            next.result_is_error = result.is_error;
            next.phase = Phase::Ended(Ending::Completed);
        }
        Event::Failed { attempt, error } => {
            check_lease(task, *attempt)?;
            fail(&mut next, error.clone());
        }
        Event::Cancelled { attempt, message } => {
            check_lease(task, *attempt)?;
            next.phase = Phase::Ended(Ending::Cancelled);
            next.message = Some(message.clone());
        }
        Event::Interrupted { attempt, cause } => {
            check_lease(task, *attempt)?;
            interrupt(&mut next, *cause, now);
        }
    }
    Ok(next)
}

/// I2: only the newest run of a running task may change it.
fn check_lease(task: &Task, attempt: Attempt) -> Result<(), Rejected> {
    if task.phase == Phase::Running && task.attempt == attempt {
        Ok(())
    } else {
        Err(Rejected::StaleRun)
    }
}

fn claim(task: &mut Task, now: Timestamp) -> Result<(), Rejected> {
    match task.phase {
        Phase::Queued { ready_at } if ready_at <= now => {
            task.phase = Phase::Running;
            task.attempt = Attempt(task.attempt.0 + 1);
            Ok(())
        }
        _ => Err(Rejected::NotQueued),
    }
}

fn ask(task: &mut Task, attempt: Attempt, requests: &[InputRequest]) -> Result<(), Rejected> {
    check_lease(task, attempt)?;
    if task.cancel.is_some() {
        return Err(Rejected::Cancelling);
    }
    for request in requests {
        task.inputs.entry(request.key.clone()).or_insert(Input {
            asked_by: attempt,
            answered: false,
        });
    }
    if task.inputs.len() > INPUTS_MAX {
        return Err(Rejected::TooManyInputs);
    }
    Ok(())
}

fn park(task: &mut Task, attempt: Attempt) -> Result<(), Rejected> {
    check_lease(task, attempt)?;
    // An answer or a cancel that came first wins: the run goes on instead of being unloaded.
    if task.cancel.is_some() {
        return Err(Rejected::Cancelling);
    }
    if task.open_inputs().next().is_none() {
        return Err(Rejected::NothingToWaitFor);
    }
    task.phase = Phase::Parked;
    Ok(())
}

fn answer(task: &mut Task, answers: &[(InputKey, Answer)], now: Timestamp) {
    for (key, _) in answers {
        if let Some(input) = task.inputs.get_mut(key) {
            input.answered = true;
        }
    }
    if task.phase == Phase::Parked && task.open_inputs().next().is_none() {
        task.phase = Phase::Queued { ready_at: now };
        task.crashes = 0;
    }
}

fn request_cancel(task: &mut Task, reason: &str, now: Timestamp) {
    if task.cancel.is_some() {
        return;
    }
    task.cancel = Some(CancelRequest {
        at: now,
        reason: reason.to_owned(),
    });
    let began = task.attempt.0 > 0;
    match task.phase {
        Phase::Running | Phase::Ended(_) => {}
        Phase::Queued { .. } if began && task.policy.cleanup_on_cancel => {}
        Phase::Parked if task.policy.cleanup_on_cancel => {
            task.phase = Phase::Queued { ready_at: now };
        }
        Phase::Queued { .. } | Phase::Parked => {
            task.phase = Phase::Ended(Ending::Cancelled);
            let when = if began {
                "while it waited"
            } else {
                "before it began"
            };
            task.message = Some(format!("cancelled {when}: {reason}"));
        }
    }
}

fn interrupt(task: &mut Task, cause: Interruption, now: Timestamp) {
    let what = match cause {
        Interruption::Crash => "the host stopped unexpectedly",
        Interruption::Shutdown => "the host was stopped",
    };
    if cause == Interruption::Crash {
        task.crashes += 1;
        task.crashes_in_all += 1;
    }
    task.interrupted = Some(Interrupted {
        attempt: task.attempt,
        cause,
        at: now,
    });
    let attempt = task.attempt.0;
    let recovers = task.policy.recovery != Recovery::Fail;
    if let Some(why) = given_up(task) {
        let message = format!(
            "{what} during run {attempt}, {why}; the task is given up: find out why the host stopped \
             before you call the tool again"
        );
        fail(task, RpcError::internal(message));
    } else if task.cancel.is_some() && !(recovers && task.policy.cleanup_on_cancel) {
        task.phase = Phase::Ended(Ending::Cancelled);
        task.message = Some(format!(
            "cancelled: {what} before the tool had stopped by itself"
        ));
    } else if !recovers {
        let message = format!(
            "{what} during run {attempt}, and tool `{}` declares recovery `fail`, so its work may be \
             half done; its author can declare `restart` or `resume`",
            task.tool.tool
        );
        fail(task, RpcError::internal(message));
    } else {
        // With a question still open there is nothing to run yet; its answer queues the task.
        let waits = task.cancel.is_none() && task.open_inputs().next().is_some();
        task.phase = if waits {
            Phase::Parked
        } else {
            Phase::Queued { ready_at: now }
        };
        task.message = Some(format!("{what} during run {attempt}; the task goes on"));
    }
}

/// Why a task must not take the host down once more.
fn given_up(task: &Task) -> Option<String> {
    let before = CRASHES_MAX - 1;
    if task.crashes >= CRASHES_MAX {
        Some(format!(
            "as in the {before} runs before it, and none of them got further"
        ))
    } else if task.crashes_in_all >= CRASHES_IN_ALL_MAX {
        Some(format!("and in {CRASHES_IN_ALL_MAX} runs of it in all"))
    } else {
        None
    }
}

fn fail(task: &mut Task, error: RpcError) {
    task.message = Some(error.message.clone());
    task.phase = Phase::Ended(Ending::Failed(error));
}
