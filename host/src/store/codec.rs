//! How a task and its questions and answers are written down. The structs here are the format on
//! disk; the types of `task` may change without it. A record is one version byte and JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::clock::Timestamp;
use crate::task::{
    Abilities, Answer, Ask, Attempt, CallResult, CancelRequest, Digest, Ending, ExternalReference,
    Input, InputKey, InputRequest, PartBody, Phase, Policy, Recovery, ResultPart, RpcError, Task,
    TaskKey, ToolRef, Trace,
};

/// The version of single records and of exports that this code writes.
pub(super) const VERSION: u8 = 1;

/// The version of the store as a whole. With 2 came the seals of files, whose names a program that
/// knows only 1 does not find: it would delete the files.
pub(super) const FORMAT: u8 = 2;

/// Why a record can't be read.
#[derive(Debug, Error)]
pub enum RecordError {
    #[error("it was written by a newer version (format {found}, this one reads up to {VERSION})")]
    Newer { found: u8 },
    #[error("it is empty")]
    Empty,
    #[error("it is damaged")]
    Damaged(#[source] serde_json::Error),
    #[error("its {0} is not a valid one")]
    Invalid(&'static str),
}

#[derive(Serialize, Deserialize)]
struct TaskRecord {
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

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AskRecord {
    Form { message: String, schema: String },
    Url { message: String, url: String },
    Sampling(String),
    Roots,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AnswerRecord {
    Accept(Option<String>),
    Decline,
    Dismiss,
    Value(String),
}

pub(super) fn encode_task(task: &Task) -> Vec<u8> {
    encode(&TaskRecord::from(task))
}

pub(super) fn decode_task(key: TaskKey, bytes: &[u8]) -> Result<Task, RecordError> {
    decode::<TaskRecord>(bytes)?.into_task(key)
}

pub(super) fn encode_ask(ask: &Ask) -> Vec<u8> {
    encode(&AskRecord::from(ask))
}

pub(super) fn decode_request(key: InputKey, bytes: &[u8]) -> Result<InputRequest, RecordError> {
    let ask = match decode(bytes)? {
        AskRecord::Form { message, schema } => Ask::Form { message, schema },
        AskRecord::Url { message, url } => Ask::Url { message, url },
        AskRecord::Sampling(parameters) => Ask::Sampling(parameters),
        AskRecord::Roots => Ask::Roots,
    };
    Ok(InputRequest { key, ask })
}

pub(super) fn encode_answer(answer: &Answer) -> Vec<u8> {
    encode(&match answer {
        Answer::Accept(content) => AnswerRecord::Accept(content.clone()),
        Answer::Decline => AnswerRecord::Decline,
        Answer::Dismiss => AnswerRecord::Dismiss,
        Answer::Value(result) => AnswerRecord::Value(result.clone()),
    })
}

pub(super) fn decode_answer(bytes: &[u8]) -> Result<Answer, RecordError> {
    Ok(match decode(bytes)? {
        AnswerRecord::Accept(content) => Answer::Accept(content),
        AnswerRecord::Decline => Answer::Decline,
        AnswerRecord::Dismiss => Answer::Dismiss,
        AnswerRecord::Value(result) => Answer::Value(result),
    })
}

/// A result is its own JSON after two bytes, so that a large one is never quoted into another.
pub(super) fn encode_result(result: &CallResult) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(result.json.len() + 2);
    bytes.extend_from_slice(&[VERSION, u8::from(result.is_error)]);
    bytes.extend_from_slice(result.json.as_bytes());
    bytes
}

pub(super) fn decode_result(bytes: Vec<u8>) -> Result<CallResult, RecordError> {
    let body = check_version(&bytes)?;
    let (is_error, json) = body.split_first().ok_or(RecordError::Empty)?;
    Ok(CallResult {
        is_error: *is_error != 0,
        json: decode_text(json.to_vec())?,
    })
}

/// A part is its own bytes behind two of their kind and what type they are.
pub(super) fn encode_part(part: ResultPart) -> Vec<u8> {
    let mime_type = part.mime_type.unwrap_or_default();
    let (kind, body) = match part.body {
        PartBody::Text(text) => (b't', text.into_bytes()),
        PartBody::Blob(bytes) => (b'b', bytes),
    };
    let mut bytes = Vec::with_capacity(body.len() + mime_type.len() + 6);
    bytes.extend_from_slice(&[VERSION, kind]);
    bytes.extend_from_slice(&u32::try_from(mime_type.len()).unwrap_or(0).to_be_bytes());
    bytes.extend_from_slice(mime_type.as_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

pub(super) fn decode_part(bytes: Vec<u8>) -> Result<ResultPart, RecordError> {
    let invalid = || RecordError::Invalid("part");
    let body = check_version(&bytes)?;
    let (kind, body) = body.split_first().ok_or(RecordError::Empty)?;
    let (length, body) = body.split_first_chunk::<4>().ok_or_else(invalid)?;
    let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| invalid())?;
    let (mime_type, body) = body.split_at_checked(length).ok_or_else(invalid)?;
    let mime_type = decode_text(mime_type.to_vec())?;
    Ok(ResultPart {
        mime_type: Some(mime_type).filter(|text| !text.is_empty()),
        body: match kind {
            b't' => PartBody::Text(decode_text(body.to_vec())?),
            b'b' => PartBody::Blob(body.to_vec()),
            _ => return Err(invalid()),
        },
    })
}

/// Text that was written as it is.
pub(super) fn decode_text(bytes: Vec<u8>) -> Result<String, RecordError> {
    String::from_utf8(bytes).map_err(|_| RecordError::Invalid("text"))
}

fn encode(record: &impl Serialize) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    serde_json::to_writer(&mut bytes, record)
        .expect("records are of strings, numbers and maps keyed by strings, written to memory");
    bytes
}

fn decode<R: DeserializeOwned>(bytes: &[u8]) -> Result<R, RecordError> {
    serde_json::from_slice(check_version(bytes)?).map_err(RecordError::Damaged)
}

fn check_version(bytes: &[u8]) -> Result<&[u8], RecordError> {
    match bytes.split_first() {
        None => Err(RecordError::Empty),
        Some((&VERSION, body)) => Ok(body),
        Some((&found, _)) if found > VERSION => Err(RecordError::Newer { found }),
        Some(_) => Err(RecordError::Invalid("version")),
    }
}

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
            trace: task.trace.as_ref().map(TraceRecord::from),
        }
    }
}

impl TaskRecord {
    fn into_task(self, key: TaskKey) -> Result<Task, RecordError> {
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

impl From<&Ask> for AskRecord {
    fn from(ask: &Ask) -> AskRecord {
        match ask {
            Ask::Form { message, schema } => AskRecord::Form {
                message: message.clone(),
                schema: schema.clone(),
            },
            Ask::Url { message, url } => AskRecord::Url {
                message: message.clone(),
                url: url.clone(),
            },
            Ask::Sampling(parameters) => AskRecord::Sampling(parameters.clone()),
            Ask::Roots => AskRecord::Roots,
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
