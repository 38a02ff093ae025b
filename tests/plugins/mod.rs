//! The plugins of this repository, end to end: each behaves over the real host as its page says.

pub mod conformance;
pub mod regression_run;
pub mod release_gate;
pub mod report_export;

use serde_json::{Value, json};

use crate::harness::Client;

/// A yes to a question with a field `confirm`.
fn yes() -> Value {
    json!({"action": "accept", "content": {"confirm": true}})
}

/// The only open question of the task, once there is one: its key and its text.
async fn question(client: &Client, id: &str) -> (String, String) {
    let asked = client.until_asked(id).await;
    assert_eq!(asked.len(), 1, "{asked:#?}");
    let (key, request) = asked.into_iter().next().unwrap();
    let message = request["params"]["message"].as_str().unwrap().to_owned();
    (key, message)
}

/// Answers one question.
async fn answer(client: &Client, id: &str, key: &str, response: Value) {
    let reply = client.answer(id, json!({key: response})).await;
    assert_eq!(reply.code(), 0, "{:#}", reply.body);
}

/// The structured content of a completed task.
async fn structured(client: &Client, id: &str) -> Value {
    let task = client.until_status(id, "completed").await;
    task["result"]["structuredContent"].clone()
}

/// The task that a call's first progress message names, for a client that takes none.
fn task_named(message: &str) -> String {
    let (_, told) = message.split_once("it goes on as task ").expect(message);
    told.split(':').next().unwrap().to_owned()
}
