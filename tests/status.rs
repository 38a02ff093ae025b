//! `longshore status`: what a running host has open, for whoever runs it and for nobody else.

use serde_json::{Value, json};

use crate::harness::{LegacyClient, Setup, longshore, run};
use crate::tasks::{script, scripts, wait};

/// What the command says of the host that runs on the set-up's directory.
pub async fn status(setup: &Setup) -> Value {
    let data = setup.path("data");
    let ended = run(longshore(&[
        "status",
        "--json",
        "--data-dir",
        data.to_str().unwrap(),
    ]))
    .await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

#[tokio::test]
async fn status_counts_what_a_host_has_open_and_under_way() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let id = client.start("script_resume", script(json!([wait()]))).await;
    let watched = json!({"notifications": {"taskIds": [id]}});
    let mut stream = client.stream("subscriptions/listen", watched).await;
    stream.next().await.unwrap();
    let legacy = LegacyClient::open(host.url(), "2025-11-25").await;
    let mut call = legacy
        .call_stream(
            "script_inline",
            script(json!([{"do": "progress", "message": "waiting"}, wait()])),
            Some("t"),
        )
        .await;
    call.next().await.unwrap();
    assert_eq!(
        status(&setup).await,
        json!({
            "pid": host.pid(), "localClients": 1, "subscriptions": 1, "watchedTasks": 1,
            "watchedResources": 0,
            "legacySessions": 1, "legacyStreams": 1, "legacyCalls": 1,
            "calls": 1, "runs": 1, "places": 1, "queuedTasks": 0, "heldInstances": 0,
            "instances": 2, "unfinishedTasks": 1,
        })
    );
}

#[tokio::test]
async fn status_without_a_host_says_how_to_start_one() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    let ended = run(longshore(&["status", "--data-dir", data])).await;
    assert_eq!(ended.code, 3);
    let message = ended.message(directory.path());
    assert!(message.contains("no host answers for DIR"), "{message}");
    assert!(message.contains("longshore serve"), "{message}");
}

#[tokio::test]
async fn the_counts_are_not_served_over_http() {
    let setup = scripts();
    let host = setup.start().await;
    let reply = host.client().request("longshore/status", json!({})).await;
    assert_eq!(
        (reply.status, reply.code()),
        (404, -32601),
        "{:#}",
        reply.body
    );
}
