//! What a plugin is granted, from the outside: key-value state, configuration values, quotas, methods,
//! and what a person allows while a tool runs.

mod asked;
mod outgoing;
mod quota;
mod state;

use serde_json::Value;

use crate::harness::{Client, Setup};
use crate::tasks::{script, scripts, text};

/// A host's set-up whose `script` plugin is given this.
fn given(grants: &str) -> Setup {
    scripts().configure(&format!("[plugin.script.grants]\n{grants}"))
}

/// Runs a script within the call; its lines.
async fn run(client: &Client, operations: Value) -> String {
    let result = client.call("script_inline", script(operations)).await;
    text(&result).to_owned()
}
