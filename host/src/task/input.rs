//! Questions a tool asks in the middle, and what may be answered.

use super::InputKey;

/// One question under its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRequest {
    pub key: InputKey,
    pub ask: Ask,
}

/// What is asked. JSON is text that was parsed and checked where it entered the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A form for a person; `schema` is a flat JSON Schema (MCP, elicitation, form mode).
    Form { message: String, schema: String },
    /// A page for a person, for what a form must not ask (MCP, elicitation, URL mode).
    Url { message: String, url: String },
    /// `sampling/createMessage` parameters.
    Sampling(String),
    /// `roots/list`.
    Roots,
}

/// An answer. Decline and dismiss are answers, distinct from accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Accepted; a form's content as JSON text.
    Accept(Option<String>),
    Decline,
    /// Closed without choosing (MCP's `cancel` action).
    Dismiss,
    /// The result of a sampling or roots request, as JSON text.
    Value(String),
}

/// What the client that made the call can answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    pub form: bool,
    pub url: bool,
    pub sampling: bool,
    pub roots: bool,
}

impl Abilities {
    /// Whether the client can answer `ask`; otherwise the name of the capability it lacks.
    pub fn check(&self, ask: &Ask) -> Result<(), &'static str> {
        match ask {
            Ask::Form { .. } if !self.form => Err("elicitation"),
            Ask::Url { .. } if !self.url => Err("elicitation.url"),
            Ask::Sampling(_) if !self.sampling => Err("sampling"),
            Ask::Roots if !self.roots => Err("roots"),
            _ => Ok(()),
        }
    }
}
