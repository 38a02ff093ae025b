//! SIGTERM: what can be put aside is, what cannot gets its time, and the next process goes on.

use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::{Host, Setup};

/// Far longer than any of these tests takes.
const LONG_MS: u64 = 600_000;

fn setup(drain_timeout_ms: u64) -> Setup {
    let guest = longshore_guests::SCRIPT;
    Setup::new(&[(guest.name, &guest.directory())]).configure(&format!(
        "[limits]\npark_after_ms = 0\ndrain_timeout_ms = {drain_timeout_ms}"
    ))
}

async fn start(host: &Host, tool: &str, script: Value) -> String {
    host.client().start(tool, json!({"script": script})).await
}

/// Waits until the tool has told that it works.
async fn until_it_works(host: &Host, id: &str) {
    let works = |task: &Value| task["statusMessage"] == "at work";
    host.client().until(id, works).await;
}

async fn text(host: &Host, id: &str) -> String {
    let task = host.client().until_status(id, "completed").await;
    let text = &task["result"]["content"][0]["text"];
    text.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_resume_task_goes_on_from_its_checkpoint_in_the_next_process() {
    let setup = setup(LONG_MS);
    let host = setup.start().await;
    let script = json!([
        {"do": "saved"},
        {"do": "checkpoint", "state": "half"},
        {"do": "progress", "message": "at work"},
        {"do": "wait_once", "ms": LONG_MS},
        {"do": "attempt"},
    ]);
    let id = start(&host, "script_resume", script).await;
    until_it_works(&host, &id).await;
    assert!(host.terminate().await.success());

    let host = setup.start().await;
    let expected = format!("saved Some(\"half\")\nattempt 2, task Some({id:?})");
    assert_eq!(text(&host, &id).await, expected);
}

#[tokio::test]
async fn a_parked_task_keeps_waiting_in_the_next_process() {
    let setup = setup(LONG_MS);
    let host = setup.start().await;
    let script = json!([{"do": "confirm", "key": "go", "message": "Go on?"}]);
    let id = start(&host, "script_resume", script).await;
    let asked = host.client().until_asked(&id).await;
    assert!(host.terminate().await.success());

    let host = setup.start().await;
    assert_eq!(host.client().until_asked(&id).await, asked);
    let yes = json!({"go": {"action": "accept", "content": {"confirm": true}}});
    host.client().answer(&id, yes).await;
    assert_eq!(text(&host, &id).await, "go: true");
}

#[tokio::test]
async fn tools_that_cannot_be_put_aside_get_until_the_limit_and_then_end_as_they_declare() {
    let limit_ms = 300;
    let setup = setup(limit_ms);
    let host = setup.start().await;
    let work = |wait: &str| {
        json!([
            {"do": "progress", "message": "at work"},
            {"do": wait, "ms": LONG_MS},
            {"do": "attempt"},
        ])
    };
    let fails = start(&host, "script_fail", work("wait")).await;
    let restarts = start(&host, "script_restart", work("wait_once")).await;
    for id in [&fails, &restarts] {
        until_it_works(&host, id).await;
    }
    let began = Instant::now();
    assert!(host.terminate().await.success());
    assert!(began.elapsed().as_millis() >= u128::from(limit_ms));

    let host = setup.start().await;
    let task = host.client().until_status(&fails, "failed").await;
    let message = task["error"]["message"].as_str().unwrap();
    for part in [
        "the host was stopped during run 1",
        "declares recovery `fail`",
    ] {
        assert!(message.contains(part), "{message}");
    }
    let expected = format!("attempt 2, task Some({restarts:?})");
    assert_eq!(text(&host, &restarts).await, expected);
}

#[tokio::test]
async fn a_tool_that_ends_in_time_is_waited_for() {
    let setup = setup(LONG_MS);
    let host = setup.start().await;
    let script = json!([
        {"do": "progress", "message": "at work"},
        {"do": "wait", "ms": 300},
        {"do": "say", "text": "done"},
    ]);
    let id = start(&host, "script_fail", script).await;
    until_it_works(&host, &id).await;
    assert!(host.terminate().await.success());
    let host = setup.start().await;
    assert_eq!(text(&host, &id).await, "done");
}

#[tokio::test]
async fn a_second_signal_ends_the_process_at_once() {
    let setup = setup(LONG_MS);
    let host = setup.start().await;
    let script = json!([{"do": "progress", "message": "at work"}, {"do": "wait", "ms": LONG_MS}]);
    let id = start(&host, "script_fail", script).await;
    until_it_works(&host, &id).await;
    host.begin_to_stop();
    host.until_said("stopping").await;
    host.begin_to_stop();
    assert_eq!(host.exited().await.code(), Some(130));

    let host = setup.start().await;
    let task = host.client().until_status(&id, "failed").await;
    let message = task["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("the host stopped unexpectedly"),
        "{message}"
    );
}
