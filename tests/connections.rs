//! Connections are a shared thing of the host's: who holds them without using them must not keep
//! others out.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use longshore_guests::SCRIPT;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Host, Setup};

fn scripts(limits: &str) -> Setup {
    Setup::new(&[("script", &SCRIPT.directory())]).configure(&format!("[limits]\n{limits}"))
}

/// Far more than any answer takes; a host that does not answer would keep the test for ever.
const ANSWER_MAX: Duration = Duration::from_secs(60);

async fn connect(host: &Host) -> TcpStream {
    let address = host.url().strip_prefix("http://").unwrap();
    let address = address.strip_suffix("/mcp").unwrap();
    TcpStream::connect(address).await.unwrap()
}

/// A request as its bytes are sent.
fn request(host: &Host, method: &str, params: Value) -> String {
    let name = match params["name"].as_str() {
        Some(name) => format!("Mcp-Name: {name}\r\n"),
        None => String::new(),
    };
    let body = host.client().body(method, params).to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: {method}\r\n{name}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn connections_that_say_nothing_make_room_for_those_that_do() {
    let setup = scripts("connections_max = 3");
    let host = setup.start().await;
    let mut silent = Vec::new();
    for _ in 0..3 {
        silent.push(connect(&host).await);
    }
    let listed = host.client().request("tools/list", json!({})).await;
    assert_eq!(listed.status, 200);
    // The host has ended the one that waited longest, and no other: not all by their time-out.
    let mut byte = [0];
    assert_eq!(silent[0].read(&mut byte).await.unwrap_or(0), 0);
    for stream in &silent[1..] {
        let error = stream.try_read(&mut byte).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }
}

#[tokio::test]
async fn a_connection_with_a_stream_is_never_ended_for_another() {
    let setup = scripts("connections_max = 2");
    let host = setup.start().await;
    let listening = json!({"notifications": {"toolsListChanged": true}});
    let mut stream = host
        .client()
        .stream("subscriptions/listen", listening)
        .await;
    stream.next().await.expect("the acknowledgement");
    // Each of these opens a connection of its own, in the place of the one before.
    for _ in 0..5 {
        let listed = host.client().request("tools/list", json!({})).await;
        assert_eq!(listed.status, 200);
    }
    host.begin_to_stop();
    let last = stream.next().await.expect("the answer at the end");
    assert!(last["result"].is_object(), "{last:#}");
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_left() {
    let setup = scripts("connections_max = 1\nwrite_timeout_ms = 300");
    let host = setup.start().await;
    let mut stalled = connect(&host).await;
    let request = request(&host, "tools/list", json!({}));
    // Until the host, which waits to be read, takes no more requests and closes the connection.
    while stalled.write_all(request.as_bytes()).await.is_ok() {}
    // It had the only connection there may be.
    let listed = host.client().request("tools/list", json!({})).await;
    assert_eq!(listed.status, 200);
}

#[tokio::test]
async fn an_answer_that_is_being_read_is_not_cut_off_for_another_client() {
    const BYTES: usize = 15 << 20;
    let setup = scripts(&format!(
        "connections_max = 1\nresult_max_bytes = {}",
        16 << 20
    ));
    let host = setup.start().await;
    let script = json!([{"do": "repeat", "text": "x", "times": BYTES}]);
    let params = json!({"name": "script_inline", "arguments": {"script": script}});
    let mut reader = connect(&host).await;
    let call = request(&host, "tools/call", params);
    reader.write_all(call.as_bytes()).await.unwrap();
    let mut answer = vec![0; 1 << 10];
    reader.read_exact(&mut answer).await.unwrap();

    let client = host.client();
    let listing = tokio::spawn(async move { client.request("tools/list", json!({})).await });
    // More than the kernel holds: the rest is still the host's when the other one comes.
    while answer.len() < BYTES {
        assert_ne!(reader.read_buf(&mut answer).await.unwrap(), 0, "cut off");
    }
    // Now the reader waits for nothing, and makes room.
    assert_eq!(listing.await.unwrap().status, 200);
}

/// A connection with a request of the tenant whose body never comes.
async fn slow(host: &Host, tenant: &str) -> TcpStream {
    let mut stream = connect(host).await;
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Authorization: Bearer {tenant}\r\nContent-Length: 100\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn a_tenant_full_of_slow_bodies_keeps_no_other_waiting() {
    const CONNECTIONS: usize = 8;
    const SHARE: usize = 3;
    let setup = Setup::new(&[("script", &SCRIPT.directory())])
        .tenants(&["mallory", "alice"])
        .configure(&format!(
            "[limits]\nconnections_max = {CONNECTIONS}\ntenant_connections_max = {SHARE}\n\
             request_body_timeout_ms = 600000"
        ));
    let host = setup.start().await;
    let mut slow_ones = Vec::new();
    for _ in 0..3 * CONNECTIONS {
        slow_ones.push(slow(&host, "mallory").await);
    }
    for _ in 0..2 * CONNECTIONS {
        let alice = host.client().with_token("alice");
        let answer = alice.request("tools/list", json!({}));
        let answer = tokio::time::timeout(ANSWER_MAX, answer).await;
        assert_eq!(answer.expect("alice is answered").status, 200);
    }

    // All that are more than the share were told so: the newest at once, or the slowest instead.
    let more = slow_ones.len() - SHARE;
    let endings: FuturesUnordered<_> = slow_ones
        .into_iter()
        .map(|mut stream| async move {
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            String::from_utf8_lossy(&answer).into_owned()
        })
        .collect();
    for answer in endings.take(more).collect::<Vec<_>>().await {
        let newest = answer.contains("HTTP/1.1 429")
            && answer.contains("the 3 connections that this tenant may have");
        let slowest = answer.contains("HTTP/1.1 408") && answer.contains("send it in one go");
        assert!(newest || slowest, "{answer}");
    }
}
