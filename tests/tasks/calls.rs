//! What a call is answered with, and what its task shows while it runs and when it has ended.

use serde_json::{Value, json};

use super::{accept, script, scripts, text, wait};
use crate::harness::{Client, Messages};

const SYNCHRONOUS: &str = "longshore/synchronous";

#[tokio::test]
async fn a_quick_call_is_answered_inline() {
    let setup = scripts().configure("[limits]\ncall_grace_ms = 60000");
    let host = setup.start().await;
    let operations = json!([{"do": "say", "text": "hi"}, {"do": "attempt"}]);
    let result = host.client().call("script_auto", script(operations)).await;
    assert_eq!(result["resultType"], "complete");
    assert_eq!(text(&result), "hi\nattempt 1, task None");
    assert_eq!(result["_meta"][SYNCHRONOUS], Value::Null);
}

#[tokio::test]
async fn a_slow_call_becomes_a_task_with_what_it_has_done() {
    let setup = scripts().configure("[limits]\ncall_grace_ms = 10");
    let host = setup.start().await;
    let client = host.client();
    let operations = json!([
        {"do": "step", "name": "first"},
        {"do": "wait", "ms": 500},
        {"do": "attempt"},
        {"do": "confirm", "key": "go", "message": "Go?"},
        {"do": "step", "name": "first"},
    ]);
    let created = client.call("script_auto", script(operations)).await;
    let mut names: Vec<&str> = created
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    names.sort_unstable();
    // Flat, and nothing of what only `tasks/get` carries.
    let expected = [
        "_meta",
        "createdAt",
        "lastUpdatedAt",
        "pollIntervalMs",
        "resultType",
        "status",
        "taskId",
        "ttlMs",
    ];
    assert_eq!(names, expected, "{created:#}");
    assert_eq!(created["resultType"], "task");
    assert_eq!(created["status"], "working");
    assert!(created["ttlMs"].as_u64().unwrap() > 0);
    assert!(created["pollIntervalMs"].as_u64().unwrap() > 0);
    let id = created["taskId"].as_str().unwrap();
    assert!(id.len() <= 128 && id.bytes().all(|b| b.is_ascii_graphic()));

    client.until_asked(id).await;
    client
        .answer(id, json!({"go": accept(json!({"confirm": true}))}))
        .await
        .result();
    let ended = client.until_status(id, "completed").await;
    let told = text(&ended["result"]);
    let first = "step first of attempt 1\n";
    assert!(told.starts_with(first) && told.ends_with("step first of attempt 1"));
    assert!(told.contains(&format!("attempt 1, task Some(\"{id}\")")));
}

#[tokio::test]
async fn a_tool_that_is_always_a_task_is_refused_without_the_extension() {
    let setup = scripts();
    let host = setup.start().await;
    let params = json!({"name": "script_resume", "arguments": script(json!([]))});
    let client = host.client().without_tasks();
    let reply = client.request("tools/call", params).await;
    assert_eq!((reply.status, reply.code()), (400, -32021));
    let error = &reply.body["error"];
    let required = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    assert_eq!(error["data"]["requiredCapabilities"], required);
    insta::assert_snapshot!(error["message"].as_str().unwrap(), @r#"`script_resume` always runs as a task, and the client did not declare the Tasks extension; if the client can, it declares what data.requiredCapabilities names in params._meta["io.modelcontextprotocol/clientCapabilities"] of this request"#);
}

/// Calls a tool with a progress token and reads everything that comes.
async fn call_with_progress(client: &Client, tool: &str, operations: Value) -> Vec<Value> {
    let params = json!({
        "name": tool,
        "arguments": script(operations),
        "_meta": {"progressToken": "p"},
    });
    let messages = client.stream("tools/call", params).await;
    assert_eq!(messages.headers["content-type"], "text/event-stream");
    assert_eq!(messages.headers["x-accel-buffering"], "no");
    all(messages).await
}

async fn all(mut messages: Messages) -> Vec<Value> {
    let mut read = Vec::new();
    while let Some(message) = messages.next().await {
        read.push(message);
    }
    read
}

/// Every message but the last is progress under the token, and always further.
fn check_progress(progress: &[Value]) {
    let mut last = f64::NEG_INFINITY;
    for message in progress {
        assert_eq!(message["method"], "notifications/progress", "{message:#}");
        assert_eq!(message["params"]["progressToken"], "p");
        let value = message["params"]["progress"].as_f64().unwrap();
        assert!(value > last, "{progress:#?}");
        last = value;
    }
}

#[tokio::test]
async fn a_call_that_is_synchronous_for_want_of_tasks_says_so() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client().without_tasks();
    let operations = json!([
        {"do": "progress", "message": "half", "done": 1, "total": 2},
        {"do": "say", "text": "done"},
    ]);
    // I8: first in its progress, and in the result.
    let messages = call_with_progress(&client, "script_auto", operations.clone()).await;
    let (last, progress) = messages.split_last().unwrap();
    check_progress(progress);
    let first = progress[0]["params"]["message"].as_str().unwrap();
    assert!(first.contains("did not declare"), "{first}");
    assert_eq!(last["result"]["_meta"][SYNCHRONOUS], true);

    let result = client.call("script_auto", script(operations.clone())).await;
    assert_eq!(text(&result), "done");
    assert_eq!(result["_meta"][SYNCHRONOUS], true);
    let reason = result["_meta"]["longshore/synchronousReason"].as_str();
    assert!(reason.unwrap().contains("io.modelcontextprotocol/tasks"));

    // A tool that is never a task does not fall back.
    let result = client.call("script_inline", script(operations)).await;
    assert_eq!(result["_meta"][SYNCHRONOUS], Value::Null);
}

#[tokio::test]
async fn progress_of_an_inline_call_comes_on_its_own_stream() {
    let setup = scripts();
    let host = setup.start().await;
    let operations = json!([
        {"do": "progress", "message": "one", "done": 1, "total": 3},
        {"do": "wait", "ms": 50},
        {"do": "progress", "message": "two", "done": 2, "total": 3},
        {"do": "say", "text": "done"},
    ]);
    let messages = call_with_progress(&host.client(), "script_inline", operations).await;
    let (last, progress) = messages.split_last().unwrap();
    check_progress(progress);
    let newest = &progress.last().expect("there is progress")["params"];
    assert_eq!(
        (&newest["message"], &newest["total"]),
        (&json!("two"), &json!(3))
    );
    assert_eq!(text(&last["result"]), "done");
}

#[tokio::test]
async fn progress_is_shown_live_before_it_is_saved() {
    let setup = scripts().configure("[limits]\nsave_interval_ms = 600000");
    let host = setup.start().await;
    let client = host.client();
    let operations = json!([
        {"do": "progress", "message": "37/120, 2 failing", "done": 37, "total": 120},
        wait(),
    ]);
    let id = client.start("script_resume", script(operations)).await;
    client
        .until(&id, |task| task["statusMessage"] == "37/120, 2 failing")
        .await;
    let task = client.task(&id).await;
    assert_eq!(task["status"], "working");
    assert_eq!(task["statusMessage"], "37/120, 2 failing");
    let progress = &task["_meta"]["longshore/progress"];
    assert_eq!(*progress, json!({"done": 37, "total": 120}));
}

#[tokio::test]
async fn progress_that_is_saved_is_told_to_subscribers() {
    let setup = scripts().configure("[limits]\nsave_interval_ms = 10");
    let host = setup.start().await;
    let client = host.client();
    let operations = json!([{"do": "progress", "message": "at it"}, wait()]);
    let id = client.start("script_resume", script(operations)).await;
    client
        .until(&id, |task| task["statusMessage"] == "at it")
        .await;
}

#[tokio::test]
async fn an_external_reference_is_part_of_the_task() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let operations = json!([
        {"do": "reference", "reference": "order 7", "url": "https://shop.example/7"},
        {"do": "confirm", "key": "go", "message": "Go?"},
    ]);
    let id = client.start("script_resume", script(operations)).await;
    client.until_asked(&id).await;
    let expected = json!({"reference": "order 7", "url": "https://shop.example/7"});
    let task = client.task(&id).await;
    assert_eq!(task["_meta"]["longshore/externalReference"], expected);
    // It is still there once the task has ended.
    client.cancel(&id).await.result();
    client.until_status(&id, "cancelled").await;
    let task = client.task(&id).await;
    assert_eq!(task["_meta"]["longshore/externalReference"], expected);
}

#[tokio::test]
async fn a_tools_own_failure_completes_its_task() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let operations = script(json!([{"do": "fail", "text": "no rows"}]));
    let id = client.start("script_fail", operations).await;
    let task = client.until_status(&id, "completed").await;
    assert_eq!(task["result"]["isError"], true);
    assert_eq!(text(&task["result"]), "no rows");
    assert_eq!(task.get("error"), None);
}

#[tokio::test]
async fn arguments_that_a_tool_refuses_are_answered_alike_inline_and_as_a_task() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let operations = script(json!([{"do": "refuse", "text": "there is no file a.csv"}]));
    let inline = client.call("script_inline", operations.clone()).await;
    let id = client.start("script_fail", operations).await;
    let task = client.until_status(&id, "completed").await;
    for result in [&inline, &task["result"]] {
        assert_eq!(result["isError"], true);
        assert_eq!(text(result), "there is no file a.csv");
    }
}

#[tokio::test]
async fn a_protocol_error_and_a_trap_fail_their_tasks_with_a_reason() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let operations = script(json!([{"do": "rpc", "code": 7, "message": "no such account"}]));
    let id = client.start("script_fail", operations).await;
    let task = client.until_status(&id, "failed").await;
    assert_eq!(
        task["error"],
        json!({"code": 7, "message": "no such account"})
    );
    assert_eq!(task.get("result"), None);

    let id = client
        .start("script_fail", script(json!([{"do": "trap"}])))
        .await;
    let task = client.until_status(&id, "failed").await;
    assert_eq!(task["error"]["code"], -32603);
    let message = task["error"]["message"].as_str().unwrap();
    assert!(message.contains("as the script says"), "{message}");
}

#[tokio::test]
async fn a_task_is_there_for_every_later_connection() {
    let setup = scripts();
    let host = setup.start().await;
    let operations = json!([{"do": "confirm", "key": "go", "message": "Go?"}]);
    let id = host
        .client()
        .start("script_resume", script(operations))
        .await;
    let later = Client::new(host.url());
    assert!(later.until_asked(&id).await.contains_key("go"));
    let answers = json!({"go": accept(json!({"confirm": true}))});
    Client::new(host.url()).answer(&id, answers).await.result();
    let task = Client::new(host.url()).until_status(&id, "completed").await;
    assert_eq!(text(&task["result"]), "go: true");
}

#[tokio::test]
async fn what_a_tool_prints_is_in_its_tasks_log_and_nowhere_else() {
    const LOG: &str = "longshore/tasks/log";
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let operations = json!([{"do": "print", "text": "a line"}, {"do": "say", "text": "done"}]);
    let id = client.start("script_resume", script(operations)).await;
    let task = client.until_status(&id, "completed").await;
    assert!(!task.to_string().contains("a line"));
    let params = json!({"taskId": id});
    let log = client.request(LOG, params.clone()).await.result();
    assert_eq!(log["text"], "a line\n");

    let unknown = client.request(LOG, json!({"taskId": "abc"})).await;
    assert_eq!((unknown.status, unknown.code()), (200, -32602));
    let refused = client.without_tasks().request(LOG, params.clone()).await;
    assert_eq!((refused.status, refused.code()), (400, -32021));
    let misled = client.with_header("mcp-name", "abc");
    assert_eq!(misled.request(LOG, params).await.code(), -32020);
}
