//! Tasks from the outside: calls that become one, cancels, questions, and rounds without one. What a
//! tool does is a script in its arguments (`tests/guests/script`).

mod calls;
mod cancels;
mod questions;
mod rounds;

use longshore_guests::SCRIPT;
use serde_json::{Value, json};

use crate::harness::Setup;

/// A host's set-up with the `script` plugin.
pub fn scripts() -> Setup {
    Setup::new(&[("script", &SCRIPT.directory())])
}

/// The arguments of a script.
pub fn script(operations: Value) -> Value {
    json!({ "script": operations })
}

/// Longer than any test: ends only by a cancel.
pub fn wait() -> Value {
    json!({ "do": "wait", "ms": 3_600_000 })
}

/// The first text of a result.
pub fn text(result: &Value) -> &str {
    match result["content"][0]["text"].as_str() {
        Some(text) => text,
        None => panic!("no text: {result:#}"),
    }
}

/// A form accepted with this content.
pub fn accept(content: Value) -> Value {
    json!({ "action": "accept", "content": content })
}
