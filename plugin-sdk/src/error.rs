//! How a tool ends when it does not end well, and how that reaches the host.

use std::fmt;

use serde_json::{Value, json};

use crate::bindings::longshore::plugin::types;
use crate::output::Output;

/// The result of a tool and of every hook.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// JSON-RPC's code for a failure inside the tool that is nobody's answer.
const INTERNAL_ERROR: i32 = -32603;
/// JSON-RPC's code for parameters that cannot be used.
const INVALID_PARAMS: i32 = -32602;
/// MCP's code for a capability the client did not declare.
const MISSING_CAPABILITY: i32 = -32021;

/// Why a tool stops before its result.
///
/// Any [`std::error::Error`] becomes [`Error::Failed`] with `?`, its sources appended. For a text
/// of your own use [`Error::failed`] or the [`fail!`](crate::fail) macro.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The tool ran and failed: the caller gets a result marked as an error, with this text.
    Failed(String),
    /// The task is being cancelled. Let it pass with `?`, or clean up and return
    /// [`Error::cancelled`].
    Stopped(Stopped),
    /// The tool stopped because of a cancel; the text says what was done and what was not.
    Cancelled(String),
    /// The arguments fit the schema and are still wrong.
    InvalidArguments(String),
    /// The client cannot answer this kind of question; holds the capability it did not declare, in
    /// MCP's words. Unhandled, the call ends with MCP's error for a missing capability.
    MissingCapability(String),
    /// Nobody can be asked, whatever the client declares; says why. Unhandled, the tool failed.
    Unsupported(String),
    /// The call itself failed: the caller gets a JSON-RPC error, and a task ends failed.
    Rpc {
        code: i32,
        message: String,
        data: Option<Value>,
    },
}

/// A cancel, as a hook told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// What the one who cancelled said.
    pub reason: String,
}

impl Error {
    /// The tool's own failure, in words its caller can act on.
    pub fn failed(text: impl fmt::Display) -> Error {
        Error::Failed(text.to_string())
    }

    /// The end of a cancelled tool: says what was done and what was not.
    pub fn cancelled(text: impl fmt::Display) -> Error {
        Error::Cancelled(text.to_string())
    }

    /// Arguments that fit the schema and are still wrong: the call ends with a result that says so
    /// and is marked as an error, a task completed. A prompt is refused instead.
    pub fn invalid_arguments(text: impl fmt::Display) -> Error {
        Error::InvalidArguments(text.to_string())
    }

    /// A JSON-RPC error, for a call that could not be carried out at all.
    pub fn rpc(code: i32, message: impl fmt::Display) -> Error {
        Error::Rpc {
            code,
            message: message.to_string(),
            data: None,
        }
    }

    /// Whether this is a cancel, met at a hook.
    pub fn is_stopped(&self) -> bool {
        matches!(self, Error::Stopped(_))
    }

    /// Puts words before a failure's text, and leaves every other kind as it is.
    pub fn context(self, text: impl fmt::Display) -> Error {
        match self {
            Error::Failed(cause) => Error::Failed(format!("{text}: {cause}")),
            other => other,
        }
    }

    /// A defect of the plugin, which no caller can mend.
    pub(crate) fn defect(text: impl fmt::Display) -> Error {
        Error::rpc(INTERNAL_ERROR, text)
    }
}

/// Ends the tool with a failure of its own: `fail!("no rows in {path}")`.
#[macro_export]
macro_rules! fail {
    ($($text:tt)+) => {
        return ::core::result::Result::Err($crate::Error::failed(::std::format!($($text)+)))
    };
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Failed(text) | Error::Cancelled(text) | Error::InvalidArguments(text) => {
                f.write_str(text)
            }
            Error::Stopped(stopped) if stopped.reason.is_empty() => f.write_str("cancelled"),
            Error::Stopped(stopped) => write!(f, "cancelled: {}", stopped.reason),
            Error::MissingCapability(capability) => {
                write!(
                    f,
                    "the client does not offer `{capability}`, which this tool needs"
                )
            }
            Error::Unsupported(why) => write!(f, "a question cannot be asked: {why}"),
            Error::Rpc { message, .. } => f.write_str(message),
        }
    }
}

impl From<Stopped> for Error {
    fn from(stopped: Stopped) -> Error {
        Error::Stopped(stopped)
    }
}

// `Error` itself is no `std::error::Error`: that is what lets every other error type convert.
impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Error {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        Error::Failed(text)
    }
}

/// What the host is told of a call's end.
pub(crate) fn into_wire(
    result: Result<Output>,
) -> std::result::Result<types::Output, types::ToolError> {
    let error = match result {
        Ok(output) => return Ok(output.into_wire()),
        Err(error) => error,
    };
    match error {
        Error::Failed(text) => Ok(Output::text(text).as_error().into_wire()),
        Error::Stopped(_) => Err(types::ToolError::Cancelled(None)),
        Error::Cancelled(text) => Err(types::ToolError::Cancelled(Some(text))),
        Error::InvalidArguments(text) => Err(types::ToolError::InvalidArguments(text)),
        Error::Unsupported(_) => Ok(Output::text(error.to_string()).as_error().into_wire()),
        Error::MissingCapability(_) | Error::Rpc { .. } => {
            Err(types::ToolError::Failed(into_rpc(error)))
        }
    }
}

/// What the host is told where there is nothing but a JSON-RPC error: of a resource and a prompt.
pub(crate) fn into_rpc(error: Error) -> types::RpcError {
    let message = error.to_string();
    let (code, data) = match error {
        Error::Failed(_) | Error::Stopped(_) | Error::Cancelled(_) | Error::Unsupported(_) => {
            (INTERNAL_ERROR, None)
        }
        Error::InvalidArguments(_) => (INVALID_PARAMS, None),
        Error::MissingCapability(capability) => (
            MISSING_CAPABILITY,
            Some(json!({ "requiredCapabilities": nested(&capability) })),
        ),
        Error::Rpc { code, data, .. } => (code, data),
    };
    types::RpcError {
        code,
        message,
        data: data.map(|data| data.to_string()),
    }
}

/// `elicitation.url` as `{"elicitation":{"url":{}}}`.
fn nested(capability: &str) -> Value {
    capability
        .rsplit('.')
        .fold(json!({}), |inner, name| json!({ name: inner }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_error_becomes_a_result_marked_as_an_error() {
        fn parse() -> Result<Output> {
            let number: u8 = "300".parse()?;
            Ok(Output::text(number.to_string()))
        }
        let output = into_wire(parse()).expect("a tool's own failure is a result");
        assert!(output.is_error);
    }

    #[test]
    fn a_missing_capability_names_it_the_way_mcp_does() {
        let Err(types::ToolError::Failed(error)) =
            into_wire(Err(Error::MissingCapability("elicitation.url".into())))
        else {
            panic!("expected a JSON-RPC error");
        };
        assert_eq!(error.code, -32021);
        assert_eq!(
            error.data.as_deref(),
            Some(r#"{"requiredCapabilities":{"elicitation":{"url":{}}}}"#)
        );
    }

    #[test]
    fn a_question_that_nobody_can_be_asked_fails_the_tool_with_the_reason() {
        let why = "64 tools wait for answers in memory, which is the limit";
        let output = into_wire(Err(Error::Unsupported(why.into())));
        let output = output.expect("a tool's own failure is a result");
        assert!(output.is_error);
        assert!(format!("{output:?}").contains(why));
    }

    #[test]
    fn a_stop_becomes_a_cancelled_end() {
        let stopped = Stopped {
            reason: "no longer wanted".into(),
        };
        assert!(matches!(
            into_wire(Err(stopped.into())),
            Err(types::ToolError::Cancelled(None))
        ));
    }
}
