//! Every way to refuse a request, and the one place that gives each its HTTP status, JSON-RPC
//! code, words and data. Nothing here logs or decides.

use http::StatusCode;
use thiserror::Error;

use super::VERSIONS;
use super::administration::METHODS as ADMINISTRATORS;
use super::wire::{Object, TASKS_EXTENSION, object};
use crate::service::{CallError, RoundError, TaskError};
use crate::task::RpcError;

/// JSON-RPC's own codes.
const PARSE_ERROR: i32 = -32700;
pub const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;
const INTERNAL_ERROR: i32 = RpcError::INTERNAL;
/// MCP's (basic/index, "Error Codes").
const HEADER_MISMATCH: i32 = -32020;
pub const MISSING_CAPABILITY: i32 = -32021;
const UNSUPPORTED_VERSION: i32 = -32022;
/// Ours, outside the range that JSON-RPC reserves: the host has no room just now.
const BUSY: i32 = -31000;

/// Why a request is not answered with a result.
#[derive(Clone, Debug, Error)]
pub enum Refusal {
    #[error("the body is not JSON: {0}")]
    NotJson(String),
    #[error("the body is not a JSON-RPC request: {0}")]
    NotARequest(String),
    #[error("no method `{}`{}", shortened(.0), hint(.0))]
    UnknownMethod(String),
    #[error(
        "`{}` is nothing for an administrator, whose methods are {}; other methods are a tenant's, on a \
         connection of its own",
        shortened(.0),
        ADMINISTRATORS.join(", ")
    )]
    NotAdministrators(String),
    /// `params._meta` lacks what every request carries.
    #[error("{0}")]
    InvalidMeta(String),
    #[error("{0}")]
    InvalidParams(String),
    #[error("header mismatch: {0}")]
    HeaderMismatch(String),
    #[error(
        "protocol version `{requested}` is not served; send one of `{served}` in the \
         MCP-Protocol-Version header and in params._meta[\"io.modelcontextprotocol/protocolVersion\"] \
         of every request, or open a session with `initialize` for an older one",
        served = VERSIONS.join("`, `")
    )]
    UnsupportedVersion { requested: String },
    /// The method belongs to the Tasks extension, which this request did not declare.
    #[error(
        "`{method}` needs the client's Tasks extension; declare it in this request's \
         params._meta: \"io.modelcontextprotocol/clientCapabilities\": \
         {{\"extensions\": {{\"io.modelcontextprotocol/tasks\": {{}}}}}}"
    )]
    NeedsTasks { method: &'static str },
    #[error(
        "{open} subscription streams are open, and a tenant may have {max}; close one and try again"
    )]
    TooManyStreams { open: usize, max: usize },
    #[error(
        "subscriptions/listen answers with a stream; send `Accept: application/json, text/event-stream`"
    )]
    NeedsStream,
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Task(#[from] TaskError),
}

/// What a refusal looks like from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Face {
    pub status: StatusCode,
    pub code: i32,
    pub message: String,
    /// JSON text.
    pub data: Option<String>,
}

impl Refusal {
    pub fn line_too_long() -> Refusal {
        Refusal::NotARequest("the line is longer than a message may be".to_owned())
    }

    pub fn many_in_batch() -> Refusal {
        let what = "it has too many values for a batch; send this message on its own";
        Refusal::InvalidParams(what.to_owned())
    }

    /// Sent without an id: an answer under its own would be taken for that of the other request.
    pub fn same_id() -> Refusal {
        let what = "a request with the same `id` is not answered yet";
        Refusal::NotARequest(what.to_owned())
    }

    /// What the client sees. Errors of the envelope have HTTP statuses of their own; once a request
    /// has been understood the answer is 200, because common clients read an error's body only then.
    pub fn face(&self) -> Face {
        let (status, code, data) = match self {
            Refusal::NotJson(_) => (StatusCode::BAD_REQUEST, PARSE_ERROR, None),
            Refusal::NotARequest(_) => (StatusCode::BAD_REQUEST, INVALID_REQUEST, None),
            Refusal::UnknownMethod(_) | Refusal::NotAdministrators(_) => {
                (StatusCode::NOT_FOUND, METHOD_NOT_FOUND, None)
            }
            Refusal::InvalidMeta(_) => (StatusCode::BAD_REQUEST, INVALID_PARAMS, None),
            Refusal::InvalidParams(_) => (StatusCode::OK, INVALID_PARAMS, None),
            Refusal::HeaderMismatch(_) => (StatusCode::BAD_REQUEST, HEADER_MISMATCH, None),
            Refusal::UnsupportedVersion { requested } => (
                StatusCode::BAD_REQUEST,
                UNSUPPORTED_VERSION,
                Some(versions(requested)),
            ),
            Refusal::NeedsTasks { .. } => missing(&["extensions", TASKS_EXTENSION]),
            Refusal::TooManyStreams { .. } => (StatusCode::OK, BUSY, None),
            Refusal::NeedsStream => (StatusCode::NOT_ACCEPTABLE, INVALID_REQUEST, None),
            Refusal::Call(error) => return call_face(error),
            Refusal::Task(error) => match error {
                // Unknown, expired and foreign: one text for all of them (I4).
                TaskError::Unknown => (StatusCode::OK, INVALID_PARAMS, None),
                TaskError::InvalidAnswer { .. } => (StatusCode::OK, INVALID_PARAMS, None),
                TaskError::Unavailable(_) => (StatusCode::OK, INTERNAL_ERROR, None),
            },
        };
        let mut message = self.to_string();
        if matches!(self, Refusal::Task(TaskError::Unknown)) {
            message.push_str(": the id is wrong, or the task has expired and was deleted");
        }
        Face {
            status,
            code,
            message,
            data,
        }
    }
}

impl From<RoundError> for Refusal {
    fn from(error: RoundError) -> Refusal {
        Refusal::Call(error.into())
    }
}

/// What a client does about a capability it did not declare.
const DECLARE: &str = "; if the client can, it declares what data.requiredCapabilities names in \
    params._meta[\"io.modelcontextprotocol/clientCapabilities\"] of this request";

fn call_face(error: &CallError) -> Face {
    let mut message = error.to_string();
    let (status, code, data) = match error {
        CallError::UnknownTool(_) => {
            message.push_str("; tools/list has the names");
            (StatusCode::OK, INVALID_PARAMS, None)
        }
        CallError::Round(_) => {
            message.push_str(
                "; to begin again, make the call without requestState and inputResponses",
            );
            (StatusCode::OK, INVALID_PARAMS, None)
        }
        CallError::UnknownResource(uri) => {
            let uri = shortened(uri);
            message = format!("no resource `{uri}`; resources/list has them");
            (StatusCode::OK, INVALID_PARAMS, Some(text_data("uri", uri)))
        }
        CallError::UnknownPrompt(_) => {
            message.push_str("; prompts/list has the names");
            (StatusCode::OK, INVALID_PARAMS, None)
        }
        CallError::UnknownTemplate(_) => {
            message.push_str("; resources/templates/list has them");
            (StatusCode::OK, INVALID_PARAMS, None)
        }
        CallError::InvalidArguments(_)
        | CallError::InvalidPromptArguments { .. }
        | CallError::UnknownArgument { .. } => (StatusCode::OK, INVALID_PARAMS, None),
        CallError::TooSlow { .. } => (StatusCode::OK, INTERNAL_ERROR, None),
        CallError::NeedsTasks(_) => {
            message.push_str(DECLARE);
            missing(&["extensions", TASKS_EXTENSION])
        }
        CallError::Busy(_) => (StatusCode::OK, BUSY, None),
        CallError::Unavailable(_) => (StatusCode::OK, INTERNAL_ERROR, None),
        CallError::Tool(error) => {
            let status = match error.code {
                MISSING_CAPABILITY => StatusCode::BAD_REQUEST,
                _ => StatusCode::OK,
            };
            (status, guest_code(error), error.data.clone())
        }
    };
    Face {
        status,
        code,
        message,
        data,
    }
}

/// Writes the members of a guest's JSON-RPC error.
pub fn write_guest_error(out: &mut Object, error: &RpcError) {
    out.integer("code", guest_code(error).into())
        .text("message", &error.message);
    if let Some(data) = &error.data {
        out.raw("data", data);
    }
}

/// A guest may choose its codes, except those whose meaning the protocol fixes: with them it could
/// make a client believe things of the host (basic/index, "Error Codes"). That the client lacks a
/// capability is for the guest to say: it alone knows what it can't do without.
fn guest_code(error: &RpcError) -> i32 {
    match error.code {
        INVALID_PARAMS | INTERNAL_ERROR | MISSING_CAPABILITY => error.code,
        -32768..=-32000 => INTERNAL_ERROR,
        other => other,
    }
}

fn missing(path: &[&str]) -> (StatusCode, i32, Option<String>) {
    let mut out = Vec::new();
    object(&mut out, |data| {
        data.object("requiredCapabilities", |capabilities| {
            nest(capabilities, path);
        });
    });
    (
        StatusCode::BAD_REQUEST,
        MISSING_CAPABILITY,
        Some(String::from_utf8_lossy(&out).into_owned()),
    )
}

fn nest(out: &mut Object, path: &[&str]) {
    if let [first, rest @ ..] = path {
        out.object(first, |inner| nest(inner, rest));
    }
}

fn versions(requested: &str) -> String {
    let mut out = Vec::new();
    object(&mut out, |data| {
        data.texts("supported", VERSIONS)
            .text("requested", requested);
    });
    String::from_utf8_lossy(&out).into_owned()
}

fn text_data(name: &str, text: &str) -> String {
    let mut out = Vec::new();
    object(&mut out, |data| {
        data.text(name, text);
    });
    String::from_utf8_lossy(&out).into_owned()
}

/// A client's text, short enough for a message.
pub fn shortened(text: &str) -> &str {
    const MAX_BYTES: usize = 200;
    &text[..text.floor_char_boundary(MAX_BYTES)]
}

/// What to do instead, for methods that other revisions have.
fn hint(method: &str) -> &'static str {
    match method {
        "initialize" | "notifications/initialized" => {
            "; protocol version 2026-07-28 has no handshake: send every request with its own _meta"
        }
        "ping" => "; any request shows that the host is alive, server/discover is the smallest",
        "logging/setLevel" => {
            "; a request asks for log messages with params._meta[\"io.modelcontextprotocol/logLevel\"]"
        }
        "resources/subscribe" | "resources/unsubscribe" => "; subscriptions/listen replaces it",
        "tasks/result" => "; tasks/get has the result once the task is completed",
        "tasks/list" => "; a client keeps the ids of its tasks",
        "" => "",
        _ => "; server/discover says what this host can do",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::{RequestId, wire};
    use crate::schema::Mismatch;

    fn shown(refusal: Refusal) -> String {
        let face = refusal.face();
        let body = wire::failure(Some(&RequestId::for_tests("7")), &face);
        format!(
            "{} {}",
            face.status.as_u16(),
            std::str::from_utf8(&body).unwrap()
        )
    }

    #[test]
    fn every_refusal_has_its_status_code_and_words() {
        let rpc = |code| RpcError {
            code,
            message: "quota of the service is used up".into(),
            data: Some(r#"{"left":0}"#.into()),
        };
        let all = [
            Refusal::NotJson("expected value at line 1 column 1".into()),
            Refusal::NotARequest("`id` is missing".into()),
            Refusal::UnknownMethod("tasks/list".into()),
            Refusal::NotAdministrators("tools/list".into()),
            Refusal::InvalidMeta("params._meta is missing".into()),
            Refusal::InvalidParams("params.taskId is missing".into()),
            Refusal::HeaderMismatch("Mcp-Name is missing".into()),
            Refusal::UnsupportedVersion {
                requested: "1900-01-01".into(),
            },
            Refusal::NeedsTasks {
                method: "tasks/get",
            },
            Refusal::TooManyStreams { open: 64, max: 64 },
            Refusal::NeedsStream,
            CallError::UnknownTool("nope".into()).into(),
            CallError::InvalidArguments(Mismatch(vec!["/a: is required".into()])).into(),
            CallError::UnknownResource("test://nothing".into()).into(),
            CallError::UnknownPrompt("nope".into()).into(),
            CallError::InvalidPromptArguments {
                prompt: "summarise".into(),
                problem: "`text` is missing".into(),
            }
            .into(),
            CallError::UnknownTemplate("test://{id}".into()).into(),
            CallError::UnknownArgument {
                subject: "summarise".into(),
                argument: "tone".into(),
            }
            .into(),
            CallError::TooSlow {
                what: "test://slow".into(),
                limit: std::time::Duration::from_secs(60),
            }
            .into(),
            CallError::NeedsTasks("export".into()).into(),
            RoundError::Lost.into(),
            CallError::Busy("100 tasks wait already; try again later".into()).into(),
            CallError::Unavailable("the host is shutting down".into()).into(),
            CallError::Tool(rpc(-32021)).into(),
            CallError::Tool(rpc(42)).into(),
            TaskError::Unknown.into(),
            TaskError::InvalidAnswer {
                key: "name".into(),
                mismatch: Mismatch(vec!["/name: is not a string".into()]),
            }
            .into(),
            TaskError::Unavailable("the store is closed".into()).into(),
        ];
        let text: Vec<_> = all.into_iter().map(shown).collect();
        insta::assert_snapshot!(text.join("\n"), @r###"
400 {"jsonrpc":"2.0","id":7,"error":{"code":-32700,"message":"the body is not JSON: expected value at line 1 column 1"}}
400 {"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"the body is not a JSON-RPC request: `id` is missing"}}
404 {"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no method `tasks/list`; a client keeps the ids of its tasks"}}
404 {"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"`tools/list` is nothing for an administrator, whose methods are longshore/plugins/list, longshore/plugins/inspect, longshore/plugins/add, longshore/plugins/replace, longshore/plugins/remove, longshore/status; other methods are a tenant's, on a connection of its own"}}
400 {"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"params._meta is missing"}}
200 {"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"params.taskId is missing"}}
400 {"jsonrpc":"2.0","id":7,"error":{"code":-32020,"message":"header mismatch: Mcp-Name is missing"}}
400 {"jsonrpc":"2.0","id":7,"error":{"code":-32022,"message":"protocol version `1900-01-01` is not served; send one of `2026-07-28` in the MCP-Protocol-Version header and in params._meta[\"io.modelcontextprotocol/protocolVersion\"] of every request, or open a session with `initialize` for an older one","data":{"supported":["2026-07-28"],"requested":"1900-01-01"}}}
400 {"jsonrpc":"2.0","id":7,"error":{"code":-32021,"message":"`tasks/get` needs the client's Tasks extension; declare it in this request's params._meta: \"io.modelcontextprotocol/clientCapabilities\": {\"extensions\": {\"io.modelcontextprotocol/tasks\": {}}}","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}
200 {"jsonrpc":"2.0","id":7,"error":{"code":-31000,"message":"64 subscription streams are open, and a tenant may have 64; close one and try again"}}
406 {"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"subscriptions/listen answers with a stream; send `Accept: application/json, text/event-stream`"}}
200 {"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no tool is called `nope`; tools/list has the names"}}
200 {"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"the arguments do not fit: /a: is required"}}
200 {"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no resource `test://nothing`; resources/list has them","data":{"uri":"test://nothing"}}}
200 {"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no prompt is called `nope`; prompts/list has the names"}}
200 {"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"the arguments of the prompt `summarise` do not fit: `text` is missing"}}
200 {"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no resource template `test://{id}`; resources/templates/list has them"}}
200 {"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"`summarise` has no argument `tone`"}}
200 {"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"`test://slow` did not answer within 1m"}}
400 {"jsonrpc":"2.0","id":7,"error":{"code":-32021,"message":"`export` always runs as a task, and the client did not declare the Tasks extension; if the client can, it declares what data.requiredCapabilities names in params._meta[\"io.modelcontextprotocol/clientCapabilities\"] of this request","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}
200 {"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"the host no longer has what the call left with it; to begin again, make the call without requestState and inputResponses"}}
200 {"jsonrpc":"2.0","id":7,"error":{"code":-31000,"message":"100 tasks wait already; try again later"}}
200 {"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"the host is shutting down"}}
400 {"jsonrpc":"2.0","id":7,"error":{"code":-32021,"message":"quota of the service is used up","data":{"left":0}}}
200 {"jsonrpc":"2.0","id":7,"error":{"code":42,"message":"quota of the service is used up","data":{"left":0}}}
200 {"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no such task: the id is wrong, or the task has expired and was deleted"}}
200 {"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"the answer to `name` does not fit: /name: is not a string"}}
200 {"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"the store is closed"}}
"###);
    }
}
