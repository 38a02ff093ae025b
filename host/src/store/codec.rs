//! How a task and its questions and answers are written down. The structs here are the format on
//! disk; the types of `task` may change without it. A record is one version byte and JSON.

mod task;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use self::task::TaskRecord;
use crate::task::{
    Answer, Ask, CallResult, InputKey, InputRequest, PartBody, ResultPart, Task, TaskKey,
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
