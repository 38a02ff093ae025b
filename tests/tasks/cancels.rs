//! Cancel in its layers: where the tool can stop, by force where it does not, and without effect on
//! what has ended.

use serde_json::{Value, json};

use super::{accept, script, scripts, text, wait};

#[tokio::test]
async fn a_cancel_reaches_the_tool_at_its_next_checkpoint() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let id = client.start("script_resume", script(json!([wait()]))).await;
    let acknowledged = client.cancel(&id).await.result();
    assert_eq!(acknowledged["resultType"], "complete");
    assert_eq!(acknowledged.get("status"), None, "it only acknowledges");
    let task = client.until_status(&id, "cancelled").await;
    let message = "cancelled: the tool stopped at a safe place";
    assert_eq!(task["statusMessage"], message);
}

#[tokio::test]
async fn a_tool_that_cleans_up_says_what_it_did() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let operations = json!([
        {"do": "checkpoint", "state": "half"},
        {"do": "progress", "message": "half done"},
        wait(),
    ]);
    let id = client.start("script_clean_up", script(operations)).await;
    client
        .until(&id, |task| task["statusMessage"] == "half done")
        .await;
    client.cancel(&id).await.result();
    let task = client.until_status(&id, "cancelled").await;
    let message = "cancelled: cleaned up after Some(\"half\")";
    assert_eq!(task["statusMessage"], message);
}

#[tokio::test]
async fn a_tool_that_does_not_stop_is_stopped_by_force() {
    let setup = scripts().configure("[limits]\ncancel_grace_default_ms = 50");
    let host = setup.start().await;
    let client = host.client();
    for deaf in [
        json!({"do": "spin"}),
        json!({"do": "sleep", "ms": 3_600_000}),
    ] {
        let operations = json!([{"do": "progress", "message": "deaf"}, deaf]);
        let id = client.start("script_resume", script(operations)).await;
        client
            .until(&id, |task| task["statusMessage"] == "deaf")
            .await;
        client.cancel(&id).await.result();
        let task = client.until_status(&id, "cancelled").await;
        let message =
            "cancelled: the tool did not stop by itself within 50ms and was stopped by force";
        assert_eq!(task["statusMessage"], message);
    }
}

#[tokio::test]
async fn a_tool_that_finishes_in_spite_of_a_cancel_completes() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let operations = json!([
        {"do": "progress", "message": "deaf"},
        {"do": "sleep", "ms": 1_000},
        {"do": "say", "text": "done all the same"},
    ]);
    let id = client.start("script_resume", script(operations)).await;
    client
        .until(&id, |task| task["statusMessage"] == "deaf")
        .await;
    client.cancel(&id).await.result();
    let task = client.until_status(&id, "completed").await;
    assert_eq!(text(&task["result"]), "done all the same");
}

#[tokio::test]
async fn a_cancel_of_an_ended_task_changes_nothing() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let operations = script(json!([{"do": "say", "text": "done"}]));
    let id = client.start("script_resume", operations).await;
    client.until_status(&id, "completed").await;
    let before = client.task(&id).await;
    // I3, and idempotent.
    for _ in 0..2 {
        let acknowledged = client.cancel(&id).await.result();
        assert_eq!(acknowledged["resultType"], "complete");
    }
    assert_eq!(client.task(&id).await, before);

    let id = client.start("script_resume", script(json!([wait()]))).await;
    client.cancel(&id).await.result();
    client.until_status(&id, "cancelled").await;
    let before = client.task(&id).await;
    client.cancel(&id).await.result();
    assert_eq!(client.task(&id).await, before);
}

#[tokio::test]
async fn a_cancel_takes_the_question_back() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let operations = json!([{"do": "confirm", "key": "go", "message": "Go?"}]);
    let id = client.start("script_resume", script(operations)).await;
    client.until_asked(&id).await;
    client.cancel(&id).await.result();
    let task = client.until_status(&id, "cancelled").await;
    assert_eq!(task.get("inputRequests"), None);
    // An answer that comes too late is acknowledged and changes nothing.
    let before = client.task(&id).await;
    let answers = json!({"go": accept(json!({"confirm": true}))});
    client.answer(&id, answers).await.result();
    assert_eq!(client.task(&id).await, before);
}

#[tokio::test]
async fn a_task_that_has_not_begun_is_cancelled_at_once() {
    let setup = scripts().configure("[limits]\ntasks_running_max = 1");
    let host = setup.start().await;
    let client = host.client();
    client.start("script_resume", script(json!([wait()]))).await;
    let id = client.start("script_resume", script(json!([wait()]))).await;
    client.cancel(&id).await.result();
    let task = client.task(&id).await;
    assert_eq!(task["status"], "cancelled");
    let message = "cancelled before it began: the client asked for it";
    assert_eq!(task["statusMessage"], message);
}

#[tokio::test]
async fn closing_an_inline_call_stops_its_tool() {
    let setup = scripts().configure(
        "[limits]\ncalls_running_max = 1\ncall_wait_max_ms = 600000\ncancel_grace_default_ms = 50",
    );
    let host = setup.start().await;
    let client = host.client();
    for deaf in [wait(), json!({"do": "spin"})] {
        let operations = json!([{"do": "progress", "message": "at it"}, deaf]);
        let params = json!({
            "name": "script_inline",
            "arguments": script(operations),
            "_meta": {"progressToken": 1},
        });
        let mut messages = client.stream("tools/call", params).await;
        let progress = messages.next().await.unwrap();
        assert_eq!(progress["params"]["message"], "at it");
        drop(messages);
        // The only place is free again once the tool has stopped.
        let operations = json!([{"do": "say", "text": "next"}]);
        let result: Value = client.call("script_inline", script(operations)).await;
        assert_eq!(text(&result), "next");
    }
}
