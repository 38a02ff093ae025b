//! Connections are a shared thing of the host's: who holds them without using them must not keep
//! others out.

use longshore_guests::SCRIPT;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Host, Setup};

fn scripts(limits: &str) -> Setup {
    Setup::new(&[("script", &SCRIPT.directory())]).configure(&format!("[limits]\n{limits}"))
}

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
