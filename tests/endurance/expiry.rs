//! The end of a task's time: whatever it was doing, it is gone with everything it had.

use serde_json::{Value, json};

use super::{checked, script_host, swept};
use crate::harness::Client;

/// Large enough to be a file.
const LARGE: usize = 40_000;

fn large() -> String {
    "x".repeat(LARGE)
}

/// Tasks with files of every kind, in every state.
fn scripts() -> Vec<(&'static str, Value)> {
    let saved = json!({"do": "checkpoint", "state": large()});
    let asks = json!({"do": "confirm", "key": "go", "message": "Go on?"});
    let prints = json!({"do": "print", "text": "a line of its log"});
    vec![
        (
            "script_resume",
            json!([{"do": "say", "text": large()}, prints]),
        ),
        ("script_restart", json!([{"do": "fail", "text": "as told"}])),
        ("script_fail", json!([{"do": "trap"}])),
        (
            "script_resume",
            json!([saved, {"do": "step", "name": "sent"}, asks]),
        ),
        ("script_restart", json!([saved, asks])),
        (
            "script_clean_up",
            json!([saved, prints, {"do": "wait", "ms": 3_600_000}]),
        ),
        // Deaf to a cancel: stopped by force.
        (
            "script_fail",
            json!([saved, {"do": "sleep", "ms": 3_600_000}]),
        ),
        ("script_restart", json!([{"do": "spin"}])),
    ]
}

async fn is_gone(client: &Client, id: &str) -> bool {
    let reply = client.request("tasks/get", json!({"taskId": id})).await;
    reply.code() == -32602
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_task_is_gone_with_all_it_had() {
    let setup = script_host().configure(
        "[limits]\ntask_ttl_default_ms = 2000\nsweep_interval_ms = 100\npark_after_ms = 0\n\
         cancel_grace_default_ms = 200\nsave_interval_ms = 50",
    );
    let setup = setup.logging("longshore::scheduler=debug,longshore=info");
    let host = setup.start().await;
    let client = host.client();
    let mut ids = Vec::new();
    for (tool, script) in scripts() {
        ids.push(client.start(tool, json!({"script": script})).await);
    }
    for id in &ids {
        while !is_gone(&client, id).await {}
    }
    // Gone for its tenant at once, and from the disk with a sweep.
    while swept(&host) < ids.len() {
        client.request("tools/list", json!({})).await;
    }
    assert!(host.terminate().await.success());
    let report = checked(&setup);
    for nothing in ["tasks", "files", "leftoverFiles"] {
        assert_eq!(report[nothing], 0, "{report:#}");
    }
}
