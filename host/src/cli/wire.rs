//! What travels between the client and a host, read into types.

use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

use super::sse::SseError;

/// Where the host tells how much of a task is done, which MCP's task has no member for.
const PROGRESS_META: &str = "longshore/progress";
/// Which tool a task of the list runs.
const TOOL_META: &str = "longshore/tool";
/// Whether a completed task of the list has a result that says the tool failed.
const IS_ERROR_META: &str = "longshore/isError";
/// What happened to a task's runs.
const RUNS_META: &str = "longshore/runs";
/// Where a person can look up what a task did outside.
const REFERENCE_META: &str = "longshore/externalReference";

/// What went wrong between the client and the host, for the person at the terminal.
#[derive(Debug, Error)]
pub enum ClientError {
    #[error("`{0}` is not an address of a host; write one like http://127.0.0.1:7331/mcp")]
    BadUrl(String),
    #[error("can't reach the host at {url}: {reason}. Is `longshore serve` running there?")]
    Unreachable { url: String, reason: String },
    #[error("the host wants a tenant's token; give one with --token or LONGSHORE_TOKEN")]
    NoToken,
    #[error(
        "the host does not know this token; give a tenant's token with --token or LONGSHORE_TOKEN"
    )]
    UnknownToken,
    #[error("nothing serves MCP at {0}; a host's address ends with /mcp")]
    NoEndpoint(String),
    #[error("the host answered with status {status}: {text}")]
    Status { status: u16, text: String },
    #[error("{}", .0.message)]
    Rpc(RpcFailure),
    #[error("what the host sends takes more than {mebibytes} MiB of memory; given up")]
    NoRoom { mebibytes: usize },
    #[error("the host's answer is not MCP: {0}")]
    Malformed(String),
    #[error(transparent)]
    Stream(#[from] SseError),
}

/// JSON-RPC's code for what a host does not know.
pub const METHOD_NOT_FOUND: i64 = -32601;

/// A JSON-RPC error.
#[derive(Clone, Debug, Deserialize)]
pub struct RpcFailure {
    pub code: i64,
    pub message: String,
}

/// A tool of `tools/list`, as far as a call needs it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolInfo {
    pub name: String,
    pub input_schema: Value,
}

/// What a request came to.
#[derive(Debug)]
pub enum Reply {
    /// What the plugin returned.
    Result(Value),
    Task(Box<TaskState>),
    InputRequired(Round),
}

/// Questions before there is an answer or a task: the request comes again with what was answered.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Round {
    #[serde(default)]
    pub input_requests: Map<String, Value>,
    pub request_state: Option<String>,
    /// The answers, once there are some.
    #[serde(skip)]
    pub responses: Map<String, Value>,
}

/// A task at one moment (`DetailedTask` of the Tasks extension).
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskState {
    pub task_id: String,
    pub status: TaskStatus,
    pub status_message: Option<String>,
    pub created_at: String,
    pub last_updated_at: String,
    pub ttl_ms: Option<u64>,
    pub poll_interval_ms: Option<u64>,
    #[serde(default)]
    pub input_requests: Map<String, Value>,
    pub result: Option<Value>,
    pub error: Option<RpcFailure>,
    #[serde(default, rename = "_meta")]
    meta: Map<String, Value>,
    /// The task as it came.
    #[serde(skip)]
    pub raw: Value,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

impl TaskStatus {
    /// The wire's word.
    pub fn as_str(self) -> &'static str {
        match self {
            TaskStatus::Working => "working",
            TaskStatus::InputRequired => "input_required",
            TaskStatus::Completed => "completed",
            TaskStatus::Failed => "failed",
            TaskStatus::Cancelled => "cancelled",
        }
    }
}

/// Where a person can look up what a task did outside.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Reference {
    pub reference: String,
    pub url: Option<String>,
}

/// What happened to a task's runs.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Runs {
    pub count: u32,
    #[serde(default)]
    pub host_deaths: u32,
    pub last_interruption: Option<LastInterruption>,
}

/// The newest run that was cut short.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct LastInterruption {
    pub run: u32,
    pub cause: String,
    pub at: String,
}

/// How far something is.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Progress {
    pub message: Option<String>,
    pub done: Option<f64>,
    pub total: Option<f64>,
}

impl TaskState {
    pub fn parse(raw: Value) -> Result<TaskState, ClientError> {
        let mut state: TaskState = serde_json::from_value(raw.clone())
            .map_err(|error| ClientError::Malformed(format!("a task: {error}")))?;
        state.raw = raw;
        Ok(state)
    }

    pub fn is_terminal(&self) -> bool {
        !matches!(self.status, TaskStatus::Working | TaskStatus::InputRequired)
    }

    pub fn reference(&self) -> Option<Reference> {
        let told = self.meta.get(REFERENCE_META).cloned()?;
        serde_json::from_value(told).ok()
    }

    /// The tool's name inside its plugin, where the host told it.
    pub fn tool(&self) -> Option<&str> {
        self.meta.get(TOOL_META)?.get("name")?.as_str()
    }

    /// None while there is no more to tell than that it runs.
    pub fn runs(&self) -> Option<Runs> {
        let told = self.meta.get(RUNS_META).cloned()?;
        serde_json::from_value(told).ok()
    }

    /// Whether the tool itself says that it failed, as far as the host told.
    pub fn is_error(&self) -> bool {
        let of_list = self.meta.get(IS_ERROR_META);
        let of_result = self
            .result
            .as_ref()
            .and_then(|result| result.get("isError"));
        [of_list, of_result].contains(&Some(&Value::Bool(true)))
    }

    pub fn progress(&self) -> Progress {
        let told = self.meta.get(PROGRESS_META).cloned();
        let counts: Progress = told
            .and_then(|value| serde_json::from_value(value).ok())
            .unwrap_or_default();
        Progress {
            message: self.status_message.clone(),
            ..counts
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_task_is_read_with_its_progress() {
        let state = TaskState::parse(json!({
            "taskId": "a", "status": "working", "statusMessage": "37/120, 2 failing",
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
            "ttlMs": null, "pollIntervalMs": 500,
            "_meta": { "longshore/progress": { "done": 37.0, "total": 120.0 } },
        }))
        .unwrap();
        assert!(!state.is_terminal());
        assert_eq!(
            state.progress(),
            Progress {
                message: Some("37/120, 2 failing".to_owned()),
                done: Some(37.0),
                total: Some(120.0),
            }
        );
    }
}
