//! An id is one request's until that is answered. A second one with it is refused, wherever it comes:
//! alone or in a batch, over HTTP or over lines.

use longshore_guests as guests;
use serde_json::{Value, json};

use crate::harness::{LegacyClient, Setup, StdioHost};

/// The one with batches.
const REVISION: &str = "2025-03-26";

fn setup() -> Setup {
    Setup::new(&[("script", &guests::SCRIPT.directory())])
}

fn waits(id: u64) -> Value {
    let script = json!([{"do": "progress", "message": "waiting"}, {"do": "wait", "ms": 600_000}]);
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": "script_inline", "arguments": {"script": script}, "_meta": {"progressToken": id},
    }})
}

fn ping(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

fn cancel(id: u64) -> Value {
    let params = json!({"requestId": id});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
}

fn is_refused(message: &Value) {
    // An answer under its id would be taken for the other one's.
    assert!(message.get("id").is_none(), "{message:#}");
    assert_eq!(message["error"]["code"], -32600, "{message:#}");
    let words = message["error"]["message"].as_str().unwrap();
    assert!(words.contains("is not answered yet"), "{words}");
}

async fn is_pinged(client: &LegacyClient, id: u64) {
    let mut stream = client.stream_under(id, "ping", json!({})).await;
    let answer = stream.next().await.unwrap();
    assert_eq!(answer["id"], id);
    assert!(answer.get("result").is_some(), "{answer:#}");
}

/// One of a batch, beside a ping that is answered.
fn is_refused_in_a_batch(answers: &[Value], ping: u64) {
    let (answered, refused): (Vec<_>, Vec<_>) = answers
        .iter()
        .partition(|answer| answer.get("id").is_some());
    assert_eq!(answered.len(), 1, "{answers:#?}");
    assert_eq!(answered[0]["id"], ping);
    assert_eq!(refused.len(), 1);
    is_refused(refused[0]);
}

#[tokio::test]
async fn over_http_a_second_request_of_a_session_is_refused_until_the_first_is_over() {
    let setup = setup();
    let host = setup.start().await;
    for version in ["2025-11-25", REVISION] {
        let client = LegacyClient::open(host.url(), version).await;
        let script = waits(0)["params"]["arguments"].clone();
        let mut stream = client.call_stream("script_inline", script, Some("t")).await;
        assert_eq!(stream.next().await.unwrap()["params"]["message"], "waiting");
        let id = stream.id.as_u64().unwrap();
        let (status, refused) = client.post_text(&ping(id).to_string()).await;
        assert_eq!(status, 400);
        is_refused(&refused);
        // Another client's ids are its own.
        let other = LegacyClient::open(host.url(), version).await;
        is_pinged(&other, id).await;
        let call = json!({"requestId": id});
        client.notify("notifications/cancelled", call).await;
        while stream.next().await.is_some() {}
        // Many clients count from the beginning again.
        for _ in 0..3 {
            is_pinged(&client, id).await;
        }
    }
}

#[tokio::test]
async fn over_http_a_request_of_a_batch_is_refused_as_one_alone_is() {
    let setup = setup();
    let host = setup.start().await;
    let client = LegacyClient::open(host.url(), REVISION).await;
    let mut calling = client.batch(&json!([waits(1_011)])).await;
    assert_eq!(
        calling.next().await.unwrap()["params"]["message"],
        "waiting"
    );
    let (status, refused) = client.post_text(&ping(1_011).to_string()).await;
    assert_eq!(status, 400);
    is_refused(&refused);
    let mut stream = client.batch(&json!([ping(1_011), ping(1_012)])).await;
    let mut answers = Vec::new();
    while let Some(message) = stream.next().await {
        answers.push(message);
    }
    is_refused_in_a_batch(&answers, 1_012);
}

#[tokio::test]
async fn over_lines_a_second_request_of_a_session_is_refused_until_the_first_is_over() {
    let setup = setup();
    let mut host = StdioHost::start(&setup);
    host.initialize_as(REVISION).await;
    for first in [waits(1_011), json!([waits(1_011)])] {
        host.send(&first).await;
        let waiting = host.next().await.unwrap();
        assert_eq!(waiting["params"]["message"], "waiting", "{waiting:#}");
        host.send(&ping(1_011)).await;
        is_refused(&host.next().await.unwrap());
        host.send(&json!([ping(1_011), ping(1_012)])).await;
        is_refused_in_a_batch(&host.next_batch().await, 1_012);
        host.send(&cancel(1_011)).await;
        for _ in 0..3 {
            host.send(&ping(1_011)).await;
            let answered = host.next().await.unwrap();
            assert_eq!(answered["id"], 1_011, "{answered:#}");
            assert!(answered.get("result").is_some(), "{answered:#}");
        }
    }
    assert!(host.end().await.success());
}

#[tokio::test]
async fn over_lines_a_second_request_of_the_modern_era_is_refused_until_the_first_is_over() {
    let setup = setup();
    let mut host = StdioHost::start(&setup);
    let mut waits = waits(1_011);
    waits["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    waits["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let mut discover = waits.clone();
    discover["method"] = json!("server/discover");
    host.send(&waits).await;
    assert_eq!(host.next().await.unwrap()["params"]["message"], "waiting");
    host.send(&discover).await;
    is_refused(&host.next().await.unwrap());
    host.send(&cancel(1_011)).await;
    for _ in 0..3 {
        host.send(&discover).await;
        let answered = host.next().await.unwrap();
        assert!(answered.get("result").is_some(), "{answered:#}");
    }
    assert!(host.end().await.success());
}
