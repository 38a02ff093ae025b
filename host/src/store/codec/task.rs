//! The record of a task. Its bodies are its parent's.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::RecordError;
use crate::clock::Timestamp;
use crate::task::{
    Abilities, Attempt, CancelRequest, Digest, Ending, ExternalReference, Input, InputKey,
    Interrupted, Interruption, Phase, Policy, Recovery, RpcError, Task, TaskKey, ToolRef, Trace,
};

#[derive(Serialize, Deserialize)]
pub(super) struct TaskRecord {
    tool: ToolRecord,
    policy: PolicyRecord,
    abilities: AbilitiesRecord,
    created_ms: u64,
    updated_ms: u64,
    expires_ms: Option<u64>,
    phase: PhaseRecord,
    attempt: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    crashes: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    crashes_in_all: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupted: Option<InterruptedRecord>,
    #[serde(default, skip_serializing_if = "is_zero")]
    steps: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel: Option<CancelRecord>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    inputs: BTreeMap<String, InputRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_reference: Option<ReferenceRecord>,
    #[serde(default, skip_serializing_if = "is_false")]
    result_is_error: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<TraceRecord>,
}

#[derive(Serialize, Deserialize)]
struct ToolRecord {
    plugin: String,
    tool: String,
    digest: String,
}

#[derive(Serialize, Deserialize)]
struct PolicyRecord {
    recovery: RecoveryRecord,
    cleanup_on_cancel: bool,
    cancel_grace_ms: u64,
    poll_interval_ms: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RecoveryRecord {
    Fail,
    Restart,
    Resume,
}

#[derive(Serialize, Deserialize)]
struct AbilitiesRecord {
    form: bool,
    url: bool,
    sampling: bool,
    roots: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PhaseRecord {
    Queued {
        ready_ms: u64,
    },
    Running,
    Parked,
    Completed,
    Failed {
        code: i32,
        message: String,
        data: Option<String>,
    },
    Cancelled,
}

#[derive(Serialize, Deserialize)]
struct CancelRecord {
    at_ms: u64,
    reason: String,
}

#[derive(Serialize, Deserialize)]
struct InterruptedRecord {
    attempt: u32,
    cause: CauseRecord,
    at_ms: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CauseRecord {
    Crash,
    Shutdown,
}

#[derive(Serialize, Deserialize)]
struct InputRecord {
    asked_by: u32,
    answered: bool,
}

#[derive(Serialize, Deserialize)]
struct ReferenceRecord {
    reference: String,
    url: Option<String>,
}

/// The header fields of the same names.
#[derive(Serialize, Deserialize)]
struct TraceRecord {
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    baggage: Option<String>,
}

/// A number as decimal text: JSON has no infinity, and its reader here rounds the last digit.
#[derive(Serialize, Deserialize)]
struct Number(String);

impl From<&Task> for TaskRecord {
    fn from(task: &Task) -> TaskRecord {
        TaskRecord {
            tool: ToolRecord {
                plugin: task.tool.plugin.clone(),
                tool: task.tool.tool.clone(),
                digest: task.tool.digest.to_string(),
            },
            policy: PolicyRecord::from(&task.policy),
            abilities: AbilitiesRecord {
                form: task.abilities.form,
                url: task.abilities.url,
                sampling: task.abilities.sampling,
                roots: task.abilities.roots,
            },
            created_ms: task.created_at.0,
            updated_ms: task.updated_at.0,
            expires_ms: task.expires_at.map(|at| at.0),
            phase: PhaseRecord::from(&task.phase),
            attempt: task.attempt.0,
            crashes: task.crashes,
            crashes_in_all: task.crashes_in_all,
            interrupted: task.interrupted.map(InterruptedRecord::from),
            steps: task.steps,
            message: task.message.clone(),
            done: task.done.map(Number::from),
            total: task.total.map(Number::from),
            cancel: task.cancel.as_ref().map(|cancel| CancelRecord {
                at_ms: cancel.at.0,
                reason: cancel.reason.clone(),
            }),
            inputs: task.inputs.iter().map(input_record).collect(),
            external_reference: task
                .external_reference
                .as_ref()
                .map(|external| ReferenceRecord {
                    reference: external.reference.clone(),
                    url: external.url.clone(),
                }),
            result_is_error: task.result_is_error,
            trace: task.trace.as_ref().map(TraceRecord::from),
        }
    }
}

impl TaskRecord {
    pub(super) fn into_task(self, key: TaskKey) -> Result<Task, RecordError> {
        let digest =
            Digest::parse(&self.tool.digest).map_err(|_| RecordError::Invalid("digest"))?;
        Ok(Task {
            key,
            tool: ToolRef {
                plugin: self.tool.plugin,
                tool: self.tool.tool,
                digest,
            },
            policy: self.policy.into(),
            abilities: Abilities {
                form: self.abilities.form,
                url: self.abilities.url,
                sampling: self.abilities.sampling,
                roots: self.abilities.roots,
            },
            created_at: Timestamp(self.created_ms),
            updated_at: Timestamp(self.updated_ms),
            expires_at: self.expires_ms.map(Timestamp),
            phase: self.phase.into(),
            attempt: Attempt(self.attempt),
            crashes: self.crashes,
            crashes_in_all: self.crashes_in_all,
            interrupted: self.interrupted.map(Interrupted::from),
            steps: self.steps,
            message: self.message,
            done: self.done.map(f64::try_from).transpose()?,
            total: self.total.map(f64::try_from).transpose()?,
            cancel: self.cancel.map(|cancel| CancelRequest {
                at: Timestamp(cancel.at_ms),
                reason: cancel.reason,
            }),
            inputs: self
                .inputs
                .into_iter()
                .map(read_input)
                .collect::<Result<_, _>>()?,
            external_reference: self.external_reference.map(|external| ExternalReference {
                reference: external.reference,
                url: external.url,
            }),
            result_is_error: self.result_is_error,
            trace: self.trace.and_then(|trace| {
                let TraceRecord {
                    parent,
                    state,
                    baggage,
                } = &trace;
                Trace::read(parent.as_deref(), state.as_deref(), baggage.as_deref())
            }),
        })
    }
}

impl From<Interrupted> for InterruptedRecord {
    fn from(interrupted: Interrupted) -> InterruptedRecord {
        InterruptedRecord {
            attempt: interrupted.attempt.0,
            cause: match interrupted.cause {
                Interruption::Crash => CauseRecord::Crash,
                Interruption::Shutdown => CauseRecord::Shutdown,
            },
            at_ms: interrupted.at.0,
        }
    }
}

impl From<InterruptedRecord> for Interrupted {
    fn from(record: InterruptedRecord) -> Interrupted {
        Interrupted {
            attempt: Attempt(record.attempt),
            cause: match record.cause {
                CauseRecord::Crash => Interruption::Crash,
                CauseRecord::Shutdown => Interruption::Shutdown,
            },
            at: Timestamp(record.at_ms),
        }
    }
}

impl From<&Trace> for TraceRecord {
    fn from(trace: &Trace) -> TraceRecord {
        let parent = trace.parent.as_ref();
        TraceRecord {
            parent: parent.map(ToString::to_string),
            state: parent.and_then(|parent| parent.state.clone()),
            baggage: trace.baggage.clone(),
        }
    }
}

impl From<&Policy> for PolicyRecord {
    fn from(policy: &Policy) -> PolicyRecord {
        PolicyRecord {
            recovery: match policy.recovery {
                Recovery::Fail => RecoveryRecord::Fail,
                Recovery::Restart => RecoveryRecord::Restart,
                Recovery::Resume => RecoveryRecord::Resume,
            },
            cleanup_on_cancel: policy.cleanup_on_cancel,
            cancel_grace_ms: whole_millis(policy.cancel_grace),
            poll_interval_ms: whole_millis(policy.poll_interval),
        }
    }
}

impl From<PolicyRecord> for Policy {
    fn from(record: PolicyRecord) -> Policy {
        Policy {
            recovery: match record.recovery {
                RecoveryRecord::Fail => Recovery::Fail,
                RecoveryRecord::Restart => Recovery::Restart,
                RecoveryRecord::Resume => Recovery::Resume,
            },
            cleanup_on_cancel: record.cleanup_on_cancel,
            cancel_grace: Duration::from_millis(record.cancel_grace_ms),
            poll_interval: Duration::from_millis(record.poll_interval_ms),
        }
    }
}

impl From<&Phase> for PhaseRecord {
    fn from(phase: &Phase) -> PhaseRecord {
        match phase {
            Phase::Queued { ready_at } => PhaseRecord::Queued {
                ready_ms: ready_at.0,
            },
            Phase::Running => PhaseRecord::Running,
            Phase::Parked => PhaseRecord::Parked,
            Phase::Ended(Ending::Completed) => PhaseRecord::Completed,
            Phase::Ended(Ending::Cancelled) => PhaseRecord::Cancelled,
            Phase::Ended(Ending::Failed(error)) => PhaseRecord::Failed {
                code: error.code,
                message: error.message.clone(),
                data: error.data.clone(),
            },
        }
    }
}

impl From<PhaseRecord> for Phase {
    fn from(record: PhaseRecord) -> Phase {
        match record {
            PhaseRecord::Queued { ready_ms } => Phase::Queued {
                ready_at: Timestamp(ready_ms),
            },
            PhaseRecord::Running => Phase::Running,
            PhaseRecord::Parked => Phase::Parked,
            PhaseRecord::Completed => Phase::Ended(Ending::Completed),
            PhaseRecord::Cancelled => Phase::Ended(Ending::Cancelled),
            PhaseRecord::Failed {
                code,
                message,
                data,
            } => Phase::Ended(Ending::Failed(RpcError {
                code,
                message,
                data,
            })),
        }
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Number {
        Number(value.to_string())
    }
}

impl TryFrom<Number> for f64 {
    type Error = RecordError;

    fn try_from(number: Number) -> Result<f64, RecordError> {
        number.0.parse().map_err(|_| RecordError::Invalid("number"))
    }
}

fn input_record((key, input): (&InputKey, &Input)) -> (String, InputRecord) {
    let record = InputRecord {
        asked_by: input.asked_by.0,
        answered: input.answered,
    };
    (key.as_str().to_owned(), record)
}

fn read_input((key, record): (String, InputRecord)) -> Result<(InputKey, Input), RecordError> {
    let key = InputKey::parse(&key).map_err(|_| RecordError::Invalid("input key"))?;
    let input = Input {
        asked_by: Attempt(record.asked_by),
        answered: record.answered,
    };
    Ok((key, input))
}

fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}
