//! The caller's trace: from `_meta` through the task to the services a tool calls, and to the logs.

use longshore_guests::SCRIPT;
use serde_json::{Value, json};

use crate::harness::{LegacyClient, Seen, Server, Setup};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

async fn server() -> Server {
    Server::start(|_| async { (200, String::new()) }).await
}

fn setup(server: &Server) -> Setup {
    let authority = server.authority();
    Setup::new(&[("script", &SCRIPT.directory())]).configure(&format!(
        "[limits]\npark_after_ms = 0\n[plugin.script.grants]\nhttp = [\"{authority}\"]"
    ))
}

fn traced(tool: &str, script: Value) -> Value {
    json!({
        "name": tool,
        "arguments": {"script": script},
        "_meta": {"traceparent": PARENT, "tracestate": "vendor=7", "baggage": "user=ada"},
    })
}

fn fetch(server: &Server, path: &str) -> Value {
    json!({"do": "fetch", "urls": [server.url(path)], "concurrency": 1, "timeout_ms": 60_000})
}

/// The span a request of the trace named as its own.
fn span(seen: &Seen) -> &str {
    let parent = seen.header("traceparent").expect("a parent");
    let rest = parent
        .strip_prefix("00-")
        .and_then(|rest| rest.strip_prefix(TRACE));
    let span = rest.and_then(|rest| rest.strip_prefix('-')?.strip_suffix("-01"));
    let span = span.unwrap_or_else(|| panic!("{parent}"));
    assert_ne!(span, "b7ad6b7169203331", "a span of its own");
    assert_eq!(seen.header("tracestate"), Some("vendor=7"));
    assert_eq!(seen.header("baggage"), Some("user=ada"));
    span
}

#[tokio::test]
async fn a_trace_goes_with_every_request_of_a_task_also_after_a_crash() {
    let server = server().await;
    let setup = setup(&server);
    let host = setup.start().await;
    let script = json!([
        fetch(&server, "/before"),
        {"do": "confirm", "key": "go", "message": "Go?"},
        fetch(&server, "/after"),
    ]);
    let client = host.client();
    let created = client.request("tools/call", traced("script_resume", script));
    let created = created.await.result();
    let id = created["taskId"].as_str().unwrap().to_owned();
    client.until_asked(&id).await;
    host.kill().await;

    let host = setup.start().await;
    let client = host.client();
    client.until_asked(&id).await;
    let yes = json!({"go": {"action": "accept", "content": {"confirm": true}}});
    client.answer(&id, yes).await.result();
    client.until_status(&id, "completed").await;
    let seen = server.seen();
    let mut spans: Vec<&str> = seen.iter().map(span).collect();
    spans.sort_unstable();
    let count = spans.len();
    spans.dedup();
    assert_eq!(spans.len(), count, "each request is its own span");
    assert_eq!(seen.last().unwrap().path, "/after");
    let log = client.request("longshore/tasks/log", json!({"taskId": id}));
    let log = log.await.result().to_string();
    assert!(log.contains(&format!("[host] trace {TRACE}")), "{log}");
}

#[tokio::test]
async fn a_call_of_either_era_carries_its_trace_to_requests_and_log_lines() {
    let server = server().await;
    let setup = setup(&server);
    let host = setup.start().await;
    let script = json!([fetch(&server, "/"), {"do": "trap"}]);
    let params = traced("script_inline", script);
    let reply = host.client().request("tools/call", params.clone()).await;
    assert_ne!(reply.code(), 0, "{:#}", reply.body);
    let legacy = LegacyClient::open(host.url(), "2025-11-25").await;
    let reply = legacy.request("tools/call", params).await;
    assert!(reply.get("error").is_some(), "{reply:#}");
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    assert_ne!(span(&seen[0]), span(&seen[1]));
    let output = host.output();
    let lines = output.lines().filter(|line| line.contains("a tool failed"));
    let traced = lines.filter(|line| line.contains(TRACE)).count();
    assert_eq!(traced, 2, "{output}");
}

#[tokio::test]
async fn a_trace_that_is_not_valid_is_dropped_and_the_call_is_served() {
    let server = server().await;
    let setup = setup(&server);
    let host = setup.start().await;
    let mut params = traced("script_inline", json!([fetch(&server, "/")]));
    for (parent, baggage) in [
        (json!("00-xyz"), json!("a=b\r\nx-evil: 1")),
        (json!(7), json!({})),
        (Value::Null, json!("x".repeat(10_000))),
    ] {
        params["_meta"]["traceparent"] = parent;
        params["_meta"]["baggage"] = baggage;
        host.client()
            .request("tools/call", params.clone())
            .await
            .result();
    }
    for seen in server.seen() {
        let headers = ["traceparent", "tracestate", "baggage", "x-evil"];
        let sent: Vec<_> = headers
            .iter()
            .filter_map(|name| seen.header(name))
            .collect();
        assert_eq!(sent, [""; 0]);
    }
}
