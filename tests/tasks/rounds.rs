//! Questions without a task: rounds of the same call, whose state the client carries (MCP,
//! multi-round-trip requests).

use serde_json::{Map, Value, json};

use super::{accept, script, scripts, text};
use crate::harness::{Client, Reply, Server, Setup, run};

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

/// A set-up whose scripts may reach `server`.
fn reaching(server: &Server, limits: &str) -> Setup {
    let authority = server.authority();
    scripts().configure(&format!(
        "[limits]\n{limits}\n[plugin.script.grants]\nhttp = [\"{authority}\"]"
    ))
}

async fn server() -> Server {
    Server::start(|_| async { (200, String::new()) }).await
}

fn answered(state: &str, key: &str) -> Value {
    json!({"requestState": state, "inputResponses": {key: confirmed()}})
}

fn message(reply: &Reply) -> &str {
    let message = reply.body["error"]["message"].as_str();
    message.unwrap_or_else(|| panic!("no error: {:#}", reply.body))
}

/// An effect, and two questions after it.
fn effect_then_questions(server: &Server) -> Value {
    json!([
        {"do": "step_post", "name": "effect", "url": server.url("/effect")},
        {"do": "confirm", "key": "one", "message": "One?"},
        {"do": "confirm", "key": "two", "message": "Two?"},
    ])
}

#[tokio::test]
async fn a_tool_that_is_never_run_again_waits_for_its_answers_and_goes_on() {
    let server = server().await;
    let setup = reaching(&server, "");
    let host = setup.start().await;
    let client = host.client().without_tasks();
    let operations = effect_then_questions(&server);
    let reply = call(&client, "script_once", &operations, json!({})).await;
    let (keys, first) = round(&reply.result());
    assert_eq!(keys, ["one"]);
    // An answer that does not fit is asked for again.
    let wrong = json!({"requestState": first, "inputResponses": {"one": accept(json!({}))}});
    let reply = call(&client, "script_once", &operations, wrong).await;
    let (keys, again) = round(&reply.result());
    assert_eq!(keys, ["one"]);
    let reply = call(&client, "script_once", &operations, answered(&again, "one")).await;
    let (keys, second) = round(&reply.result());
    assert_eq!(keys, ["two"]);

    let used = call(&client, "script_once", &operations, answered(&first, "one")).await;
    assert_eq!((used.status, used.code()), (200, -32602));
    insta::assert_snapshot!(message(&used), @"this requestState was used before, or the tool that waited for the answers has ended; it is never run again by itself; to begin again, make the call without requestState and inputResponses");

    let reply = call(
        &client,
        "script_once",
        &operations,
        answered(&second, "two"),
    )
    .await;
    let result = reply.result();
    assert_eq!(
        text(&result),
        "step effect of attempt 1\none: true\ntwo: true"
    );
    assert_eq!(result["_meta"]["longshore/synchronous"], true);
    assert_eq!(server.lines(), ["POST /effect"], "it ran once");
}

#[tokio::test]
async fn answers_that_come_too_late_for_a_tool_that_waits_are_refused_and_its_place_is_free() {
    let setup = scripts().configure("[limits]\nround_hold_ms = 100\ntenant_rounds_held_max = 1");
    let host = setup.start().await;
    let client = host.client().without_tasks();
    let operations = json!([{"do": "confirm", "key": "go", "message": "Go?"}]);
    let reply = call(&client, "script_once", &operations, json!({})).await;
    let (_, state) = round(&reply.result());
    loop {
        let other = call(&client, "script_once", &operations, json!({})).await;
        let result = other.result();
        if result["resultType"] == "input_required" {
            break;
        }
        let refused = text(&result);
        assert!(refused.contains("1 calls of this tenant wait"), "{refused}");
    }
    let late = call(&client, "script_once", &operations, answered(&state, "go")).await;
    assert_eq!((late.status, late.code()), (200, -32602));
    insta::assert_snapshot!(message(&late), @"the answers came too late: the tool waited for them in memory, 100ms at most; to begin again, make the call without requestState and inputResponses");
}

#[tokio::test]
async fn answers_for_a_tool_that_waited_in_another_process_are_refused_with_the_reason() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client().without_tasks();
    let operations = json!([{"do": "confirm", "key": "go", "message": "Go?"}]);
    let reply = call(&client, "script_once", &operations, json!({})).await;
    let (_, state) = round(&reply.result());
    host.kill().await;
    let host = setup.start().await;
    let client = host.client().without_tasks();
    let reply = call(&client, "script_once", &operations, answered(&state, "go")).await;
    assert_eq!((reply.status, reply.code()), (200, -32602));
    insta::assert_snapshot!(message(&reply), @"the tool waited for the answers in memory, and the host was started again since then; to begin again, make the call without requestState and inputResponses");
}

#[tokio::test]
async fn a_host_that_stops_does_not_wait_for_answers() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client().without_tasks();
    let operations = json!([{"do": "confirm", "key": "go", "message": "Go?"}]);
    round(
        &call(&client, "script_once", &operations, json!({}))
            .await
            .result(),
    );
    let began = std::time::Instant::now();
    assert!(host.terminate().await.success());
    // The default of `drain_timeout_ms`, which nothing here should use up.
    assert!(began.elapsed() < std::time::Duration::from_secs(10));
}

#[tokio::test]
async fn a_state_behind_a_recorded_step_is_used_once_also_across_a_crash() {
    let server = server().await;
    let setup = reaching(&server, "");
    let host = setup.start().await;
    let client = host.client().without_tasks();
    let operations = effect_then_questions(&server);
    let reply = call(&client, "script_auto", &operations, json!({})).await;
    let (_, first) = round(&reply.result());
    let reply = call(&client, "script_auto", &operations, answered(&first, "one")).await;
    let (_, second) = round(&reply.result());

    let used = call(&client, "script_auto", &operations, answered(&first, "one")).await;
    assert_eq!((used.status, used.code()), (200, -32602));
    insta::assert_snapshot!(message(&used), @"this requestState was used before, and the tool has recorded a step by then that must not be repeated; the answer to its first use is the one that counts; to begin again, make the call without requestState and inputResponses");
    host.kill().await;

    let host = setup.start().await;
    let client = host.client().without_tasks();
    let used = call(&client, "script_auto", &operations, answered(&first, "one")).await;
    assert_eq!(used.code(), -32602, "{:#}", used.body);
    let reply = call(
        &client,
        "script_auto",
        &operations,
        answered(&second, "two"),
    )
    .await;
    let expected = "step effect of attempt 1\none: true\ntwo: true";
    assert_eq!(text(&reply.result()), expected);
    assert_eq!(server.lines(), ["POST /effect"], "it was done once");
}

#[tokio::test]
async fn a_state_too_large_to_travel_stays_with_the_host_also_across_a_crash() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client().without_tasks();
    let large = "x".repeat(100_000);
    let operations = json!([
        {"do": "checkpoint", "state": large},
        {"do": "confirm", "key": "go", "message": "Go?"},
        {"do": "saved"},
    ]);
    let reply = call(&client, "script_auto", &operations, json!({})).await;
    let (_, state) = round(&reply.result());
    assert!(state.len() < 500, "{} bytes", state.len());
    host.kill().await;

    let host = setup.start().await;
    let client = host.client().without_tasks();
    let other = json!([{"do": "confirm", "key": "go", "message": "Go?"}]);
    let reply = call(&client, "script_auto", &other, answered(&state, "go")).await;
    assert!(message(&reply).contains("does not belong to this call"));
    let reply = call(&client, "script_auto", &operations, answered(&state, "go")).await;
    let result = reply.result();
    let told = text(&result);
    assert!(
        told.starts_with("go: true\nsaved Some(\"xxx"),
        "{told:.100}"
    );
    assert!(told.len() > large.len());
}

#[tokio::test]
async fn what_calls_leave_with_the_host_has_a_limit_that_says_what_to_do() {
    let setup = scripts().configure("[limits]\ntenant_rounds_max_bytes = 65536");
    let host = setup.start().await;
    let client = host.client().without_tasks();
    let operations = json!([
        {"do": "checkpoint", "state": "x".repeat(100_000)},
        {"do": "confirm", "key": "go", "message": "Go?"},
    ]);
    let reply = call(&client, "script_auto", &operations, json!({})).await;
    assert_eq!((reply.status, reply.code()), (200, -31000));
    insta::assert_snapshot!(message(&reply), @"calls of this tenant that wait for answers left 65536 bytes with the host, which is the limit; answer some, or try again in a few minutes");
}

#[tokio::test]
async fn a_damaged_key_file_is_refused_with_what_to_do() {
    let setup = scripts();
    setup.start().await.kill().await;
    std::fs::write(setup.path("data/request-state.key"), "{").unwrap();
    let ended = run(setup.serve_command()).await;
    assert_ne!(ended.code, 0);
    assert!(
        ended.stderr.contains("delete it to have a new one made"),
        "{}",
        ended.stderr
    );
}
