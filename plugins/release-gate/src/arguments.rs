//! The arguments as a client writes them. Their doc comments are the schema's descriptions.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// What to carry out.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// The steps, in the order in which they are carried out.
    #[schemars(length(min = 1, max = 30))]
    pub steps: Vec<StepArguments>,
    /// Where a person can look up what was done, for example a change number. Default:
    /// `release-gate:` and the task's id.
    #[schemars(length(min = 1, max = 200))]
    pub reference: Option<String>,
    /// A page about the reference.
    #[schemars(length(min = 1, max = 2000))]
    pub reference_url: Option<String>,
}

/// One request, and how to take it back.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepArguments {
    /// Names the step, once in the list. It becomes part of the idempotency key.
    #[schemars(
        length(min = 1, max = 48),
        regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    )]
    pub name: String,
    /// What the step does, for the person who is asked.
    #[schemars(length(min = 1, max = 500))]
    pub description: String,
    /// GET and HEAD need no confirmation; all others do.
    pub method: Method,
    /// An absolute `http` or `https` URL of a host that the plugin is granted.
    #[schemars(length(min = 1, max = 2000))]
    pub url: String,
    /// Sent as they are. Not for secrets: arguments are stored with the task.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A string is sent as it is, any other value as JSON.
    pub body: Option<Value>,
    /// The statuses that mean it was done. Default: 200 to 299.
    #[schemars(length(min = 1, max = 20))]
    pub expect_status: Option<Vec<u16>>,
    /// The request that takes the step back. It must be harmless when the step had no effect.
    pub undo: Option<UndoArguments>,
    /// What a later run does when an earlier one died between sending the step and recording its
    /// outcome. Choose `stop` for a server that does not honour `Idempotency-Key`.
    #[serde(default)]
    pub after_crash: AfterCrash,
}

/// The request that takes a step back.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UndoArguments {
    pub method: Method,
    /// An absolute `http` or `https` URL of a host that the plugin is granted.
    #[schemars(length(min = 1, max = 2000))]
    pub url: String,
    /// Default: the step's own headers.
    pub headers: Option<BTreeMap<String, String>>,
    /// A string is sent as it is, any other value as JSON.
    pub body: Option<Value>,
}

/// An HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
        }
    }

    /// Changes nothing on the other side (RFC 9110, 9.2.1).
    pub fn is_safe(self) -> bool {
        matches!(self, Method::Get | Method::Head)
    }
}

/// What becomes of a step whose outcome is not known after a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AfterCrash {
    /// It is sent again under the same idempotency key.
    #[default]
    Resend,
    /// It is left as it is and the run stops there.
    Stop,
}
