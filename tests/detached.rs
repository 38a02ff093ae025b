//! Calls that go on when their client leaves: of clients without Tasks, in both eras, and across a
//! crash of the host.

use longshore_guests::SCRIPT;
use serde_json::{Value, json};

use crate::harness::{Client, LegacyClient, Setup, longshore, run};

fn setup() -> Setup {
    let limits = "[limits]\npark_after_ms = 0\ncall_grace_ms = 0";
    Setup::new(&[("script", &SCRIPT.directory())]).configure(limits)
}

/// A script that has something to tell once it is left, and then waits for the test.
fn waiting() -> Value {
    json!({"script": [
        {"do": "progress", "message": "at work"},
        {"do": "wait_once", "ms": 600_000},
        {"do": "attempt"},
    ]})
}

/// The task that a call's first progress message names.
fn named(message: &Value) -> String {
    let told = message["params"]["message"]
        .as_str()
        .unwrap_or_else(|| panic!("{message:#}"));
    let (_, rest) = told.split_once("it goes on as task ").expect(told);
    rest.split(':').next().unwrap().to_owned()
}

fn with_token(tool: &str, arguments: Value) -> Value {
    json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": "t"}})
}

async fn works(client: &Client, id: &str) {
    client
        .until(id, |task| task["statusMessage"] == "at work")
        .await;
}

#[tokio::test]
async fn a_modern_call_that_is_left_goes_on_as_the_task_it_named_also_after_a_crash() {
    let setup = setup();
    let host = setup.start().await;
    let leaver = host.client().without_tasks();
    let params = with_token("script_detach", waiting());
    let mut messages = leaver.stream("tools/call", params).await;
    let first = messages.next().await.expect("a first message");
    let id = named(&first);
    // Durable before it was told (I1).
    host.kill().await;
    drop(messages);

    let host = setup.start().await;
    let task = host.client().until_status(&id, "completed").await;
    let expected = format!("attempt 2, task Some({id:?})");
    assert_eq!(task["result"]["content"][0]["text"], expected);
    let shown = run(longshore(&["task", "get", &id, "--url", host.url()])).await;
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert!(shown.stdout.contains("attempt 2"), "{}", shown.stdout);
}

#[tokio::test]
async fn a_legacy_call_that_its_client_gives_up_goes_on_as_the_task_it_named() {
    let setup = setup();
    let host = setup.start().await;
    let client = LegacyClient::open(host.url(), "2025-11-25").await;
    let mut stream = client
        .call_stream("script_detach", waiting(), Some("t"))
        .await;
    let first = stream.next().await.expect("a first message");
    let id = named(&first);
    // What a client's time-out sends.
    let cancelled = json!({"requestId": stream.id, "reason": "timed out"});
    client.notify("notifications/cancelled", cancelled).await;
    drop(stream);
    assert_eq!(client.delete().await, 204);
    let modern = host.client();
    works(&modern, &id).await;
    let stopped = run(longshore(&[
        "task",
        "cancel",
        &id,
        "--wait",
        "--url",
        host.url(),
    ]))
    .await;
    assert!(stopped.stdout.contains("cancelled") || stopped.stderr.contains("cancelled"));
    modern.until_status(&id, "cancelled").await;
}

#[tokio::test]
async fn a_client_that_stays_gets_the_result_and_is_told_which_task_it_was() {
    let setup = setup();
    let host = setup.start().await;
    let script = json!({"script": [
        {"do": "progress", "message": "at work"},
        {"do": "wait", "ms": 600},
        {"do": "attempt"},
    ]});
    let modern = host.client().without_tasks();
    let params = with_token("script_detach", script.clone());
    let mut messages = modern.stream("tools/call", params).await;
    let id = named(&messages.next().await.unwrap());
    let second = messages.next().await.unwrap();
    assert_eq!(second["params"]["message"], "at work", "{second:#}");
    let mut last = Value::Null;
    while let Some(message) = messages.next().await {
        last = message;
    }
    let result = &last["result"];
    let expected = format!("attempt 1, task Some({id:?})");
    assert_eq!(result["content"][0]["text"], expected, "{last:#}");
    assert_eq!(result["_meta"]["longshore/synchronous"], true);
    assert_eq!(result["_meta"]["longshore/task"], id);

    let legacy = LegacyClient::open(host.url(), "2025-11-25").await;
    let reply = legacy.call("script_detach", script).await;
    let result = &reply["result"];
    let id = result["_meta"]["longshore/task"].as_str().unwrap();
    let expected = format!("attempt 1, task Some({id:?})");
    assert_eq!(result["content"][0]["text"], expected, "{reply:#}");
}

#[tokio::test]
async fn a_quick_call_leaves_no_task_behind() {
    let setup =
        Setup::new(&[("script", &SCRIPT.directory())]).configure("[limits]\ncall_grace_ms = 60000");
    let host = setup.start().await;
    let script = json!({"script": [{"do": "attempt"}]});
    let result = host
        .client()
        .without_tasks()
        .call("script_detach", script)
        .await;
    assert_eq!(result["content"][0]["text"], "attempt 1, task None");
    assert_eq!(result["_meta"]["longshore/synchronous"], true);
    assert_eq!(result["_meta"].get("longshore/task"), None);
}

#[tokio::test]
async fn questions_of_a_detached_call_come_in_rounds_and_outlive_the_host() {
    let setup = setup();
    let host = setup.start().await;
    let script = json!({"script": [
        {"do": "step", "name": "once"},
        {"do": "confirm", "key": "one", "message": "One?"},
        {"do": "confirm", "key": "two", "message": "Two?"},
        {"do": "attempt"},
    ]});
    let call = |more: Value| {
        let mut params = json!({"name": "script_detach", "arguments": script});
        params
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        params
    };
    let client = host.client().without_tasks();
    let first = client.request("tools/call", call(json!({}))).await.result();
    assert_eq!(
        first["inputRequests"].as_object().unwrap().len(),
        1,
        "{first:#}"
    );
    host.kill().await;

    let host = setup.start().await;
    let client = host.client().without_tasks();
    let mut state = first["requestState"].clone();
    // One that does not fit is asked for again, in the same task.
    for (content, key) in [(json!({}), "one"), (json!({"confirm": true}), "two")] {
        let response = json!({"one": {"action": "accept", "content": content}});
        let more = json!({"requestState": state, "inputResponses": response});
        let round = client.request("tools/call", call(more)).await.result();
        assert!(round["inputRequests"].get(key).is_some(), "{round:#}");
        state = round["requestState"].clone();
    }
    let more = json!({"requestState": state, "inputResponses": {"two": {"action": "decline"}}});
    let last = client.request("tools/call", call(more)).await.result();
    let id = last["_meta"]["longshore/task"].as_str().unwrap();
    let told = last["content"][0]["text"].as_str().unwrap();
    assert!(
        told.starts_with("step once of attempt 1\none: true\ntwo: false\n"),
        "{told}"
    );
    assert!(told.ends_with(&format!("task Some({id:?})")), "{told}");
}

#[tokio::test]
async fn a_legacy_client_is_asked_what_a_detached_call_asks_once_each() {
    let setup = setup();
    let host = setup.start().await;
    let client = LegacyClient::open(host.url(), "2025-11-25").await;
    let script = json!({"script": [
        {"do": "confirm", "key": "one", "message": "One?"},
        {"do": "confirm", "key": "two", "message": "Two?"},
    ]});
    let mut stream = client.call_stream("script_detach", script, None).await;
    let mut asked = Vec::new();
    let result = loop {
        let message = stream.next().await.expect("the call is answered");
        if message.get("method").is_none() {
            break message["result"].clone();
        }
        assert_eq!(message["method"], "elicitation/create", "{message:#}");
        asked.push(message["params"]["message"].as_str().unwrap().to_owned());
        let yes = json!({"result": {"action": "accept", "content": {"confirm": true}}});
        client.respond(&message["id"], yes).await;
    };
    assert_eq!(asked, ["One?", "Two?"]);
    assert_eq!(
        result["content"][0]["text"], "one: true\ntwo: true",
        "{result:#}"
    );
}

#[tokio::test]
async fn a_legacy_call_whose_stream_breaks_goes_on_too() {
    let limits = "[limits]\ncall_grace_ms = 0\nlegacy_reconnect_ms = 0";
    let setup = Setup::new(&[("script", &SCRIPT.directory())]).configure(limits);
    let host = setup.start().await;
    let client = LegacyClient::open(host.url(), "2025-06-18").await;
    let mut stream = client
        .call_stream("script_detach", waiting(), Some("t"))
        .await;
    let id = named(&stream.next().await.expect("a first message"));
    drop(stream);
    // Nothing of the call is left with the session when it can be closed.
    assert_eq!(client.delete().await, 204);
    works(&host.client(), &id).await;
    host.client().cancel(&id).await;
    host.client().until_status(&id, "cancelled").await;
}
