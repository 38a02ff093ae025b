//! Questions without a task: rounds of the same call, whose state the client carries (MCP,
//! multi-round-trip requests).

use serde_json::{Map, Value, json};

use super::{accept, script, scripts, text};
use crate::harness::{Client, Reply};

fn confirmed() -> Value {
    accept(json!({"confirm": true}))
}

/// A call of a script, with what further rounds add.
async fn call(client: &Client, tool: &str, operations: &Value, more: Value) -> Reply {
    let mut params = json!({"name": tool, "arguments": script(operations.clone())});
    let more: Map<String, Value> = serde_json::from_value(more).unwrap();
    params.as_object_mut().unwrap().extend(more);
    client.request("tools/call", params).await
}

/// The questions' keys and the state of a round.
fn round(result: &Value) -> (Vec<String>, String) {
    assert_eq!(result["resultType"], "input_required", "{result:#}");
    assert_eq!(result.get("taskId"), None);
    let keys = result["inputRequests"].as_object().unwrap().keys();
    let state = result["requestState"].as_str().unwrap();
    (keys.cloned().collect(), state.to_owned())
}

fn two_questions() -> Value {
    json!([
        {"do": "step", "name": "once"},
        {"do": "confirm", "key": "one", "message": "One?"},
        {"do": "confirm", "key": "two", "message": "Two?"},
    ])
}

#[tokio::test]
async fn a_call_without_tasks_asks_in_rounds() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client().without_tasks();
    let operations = two_questions();
    let first = call(&client, "script_auto", &operations, json!({})).await;
    let (keys, first_state) = round(&first.result());
    assert_eq!(keys, ["one"]);

    let more = json!({"requestState": first_state, "inputResponses": {"one": confirmed()}});
    let second = call(&client, "script_auto", &operations, more).await;
    let (keys, second_state) = round(&second.result());
    assert_eq!(keys, ["two"]);
    assert_ne!(first_state, second_state);

    let more = json!({"requestState": second_state, "inputResponses": {
        "two": {"action": "decline"},
    }});
    let last = call(&client, "script_auto", &operations, more).await;
    let result = last.result();
    assert_eq!(result["resultType"], "complete");
    assert_eq!(
        text(&result),
        "step once of attempt 1\none: true\ntwo: false"
    );
    assert_eq!(result["_meta"]["longshore/synchronous"], true);
}

#[tokio::test]
async fn an_inline_tool_asks_in_rounds_whatever_the_client_declares() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let operations = json!([{"do": "ask_all", "keys": ["a", "b"]}]);
    let reply = call(&client, "script_inline", &operations, json!({})).await;
    let (keys, state) = round(&reply.result());
    assert_eq!(keys, ["a", "b"]);
    // What was answered is not asked again, and what does not fit is.
    let more = json!({"requestState": state, "inputResponses": {
        "a": accept(json!({"name": "Ada"})),
        "b": accept(json!({"name": 7})),
        "c": accept(json!({})),
    }});
    let reply = call(&client, "script_inline", &operations, more).await;
    let (keys, state) = round(&reply.result());
    assert_eq!(keys, ["b"]);
    let more = json!({"requestState": state, "inputResponses": {"b": {"action": "cancel"}}});
    let reply = call(&client, "script_inline", &operations, more).await;
    assert_eq!(text(&reply.result()), "a: Ada\nb: dismissed");
}

#[tokio::test]
async fn a_state_is_taken_only_as_it_was_given_and_for_the_call_it_was_given_to() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client().without_tasks();
    let operations = two_questions();
    let reply = call(&client, "script_auto", &operations, json!({})).await;
    let (_, state) = round(&reply.result());

    let elsewhere = scripts();
    let other_host = elsewhere.start().await;
    let other = other_host.client().without_tasks();
    let reply = call(&other, "script_auto", &operations, json!({})).await;
    let (_, foreign) = round(&reply.result());

    let flipped = match state.strip_suffix('A') {
        Some(start) => format!("{start}B"),
        None => format!("{}A", &state[..state.len() - 1]),
    };
    let shortened = state[..state.len() / 2].to_owned();
    let other_operations = json!([{"do": "confirm", "key": "one", "message": "One?"}]);
    let cases = [
        ("tampered", "script_auto", &operations, flipped),
        ("shortened", "script_auto", &operations, shortened),
        ("garbage", "script_auto", &operations, "state".to_owned()),
        ("empty", "script_auto", &operations, String::new()),
        ("endless", "script_auto", &operations, "A".repeat(100_000)),
        ("another host's", "script_auto", &operations, foreign),
        (
            "of another tool",
            "script_inline",
            &operations,
            state.clone(),
        ),
        (
            "of other arguments",
            "script_auto",
            &other_operations,
            state.clone(),
        ),
    ];
    for (name, tool, operations, state) in cases {
        let more = json!({"requestState": state, "inputResponses": {"one": confirmed()}});
        let reply = call(&client, tool, operations, more).await;
        assert_eq!((reply.status, reply.code()), (200, -32602), "{name}");
        let message = reply.body["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("does not belong to this call"),
            "{name}: {message}"
        );
    }

    // None of them spoiled it.
    let more = json!({"requestState": state, "inputResponses": {"one": confirmed()}});
    let reply = call(&client, "script_auto", &operations, more).await;
    assert_eq!(round(&reply.result()).0, ["two"]);
}

#[tokio::test]
async fn a_question_before_the_task_is_a_round_and_one_after_it_is_the_tasks() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let operations = json!([
        {"do": "step", "name": "once"},
        {"do": "ask_all", "keys": ["first"]},
        {"do": "confirm", "key": "go", "message": "Go?"},
    ]);
    let reply = call(&client, "script_ask_first", &operations, json!({})).await;
    let (keys, state) = round(&reply.result());
    assert_eq!(keys, ["first"]);
    let more = json!({"requestState": state, "inputResponses": {
        "first": accept(json!({"name": "Ada"})),
    }});
    let result = call(&client, "script_ask_first", &operations, more).await;
    let result = result.result();
    assert_eq!(result["resultType"], "task", "{result:#}");
    let id = result["taskId"].as_str().unwrap();
    let asked: Vec<String> = client.until_asked(id).await.keys().cloned().collect();
    assert_eq!(asked, ["go"]);
    client.answer(id, json!({"go": confirmed()})).await.result();
    let task = client.until_status(id, "completed").await;
    let expected = "step once of attempt 1\nfirst: Ada\ngo: true";
    assert_eq!(text(&task["result"]), expected);
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_is_told_what_it_lacks() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client().declaring(json!({}));
    let operations = json!([{"do": "confirm", "key": "go", "message": "Go?"}]);
    let reply = call(&client, "script_inline", &operations, json!({})).await;
    assert_eq!((reply.status, reply.code()), (400, -32021));
    let required = &reply.body["error"]["data"]["requiredCapabilities"];
    assert_eq!(*required, json!({"elicitation": {}}));
}

#[tokio::test]
async fn a_tool_that_is_never_run_again_cannot_ask_without_tasks_and_says_why() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client().without_tasks();
    let operations = json!([{"do": "confirm", "key": "go", "message": "Go?"}]);
    let reply = call(&client, "script_once", &operations, json!({})).await;
    let result = reply.result();
    assert_eq!(result["isError"], true);
    insta::assert_snapshot!(text(&result), @"a question cannot be asked: the tool declares recovery `fail`, so it can't be run again to take an answer; call it with the Tasks extension, or have its author declare `restart` or `resume`");
}
