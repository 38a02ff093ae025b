//! Clients over lines that write and do not read: they are held back, lose nothing, and never wait for
//! the host while it waits for them.

use std::collections::HashSet;
use std::time::Duration;

use longshore_guests as guests;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::harness::{Setup, StdioHost};

/// More than pipes, sockets, the queue and open requests hold together.
const PINGS: u64 = 12_000;
const DISCOVERS: u64 = 3_000;

/// A client that has not got rid of its requests after this long is held back.
const HELD: Duration = Duration::from_secs(3);

/// The ids of requests that are counted begin here.
const FIRST: u64 = 1_000;

fn setup() -> Setup {
    Setup::new(&[("script", &guests::SCRIPT.directory())])
}

fn ping(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

fn discover(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "server/discover", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }}})
}

/// Writes all requests, and `last` behind them, as a client does that only reads afterwards.
fn write_all(
    mut input: ChildStdin,
    (request, count): (fn(u64) -> Value, u64),
    last: Option<Value>,
) -> JoinHandle<ChildStdin> {
    let messages = (FIRST..FIRST + count).map(request).chain(last);
    let lines: Vec<String> = messages.map(|message| format!("{message}\n")).collect();
    tokio::spawn(async move {
        for line in lines {
            input.write_all(line.as_bytes()).await.unwrap();
        }
        input
    })
}

/// Reads until every one of `count` requests has its answer, and `called` as well; the answer to that.
async fn read_all(host: &mut StdioHost, count: u64, called: Option<&Value>) -> Option<Value> {
    let mut left: HashSet<u64> = (FIRST..FIRST + count).collect();
    let mut answer = None;
    while !left.is_empty() || answer.is_some() != called.is_some() {
        let line = host.line().await.expect("every request is answered");
        let message: Value = serde_json::from_str(&line).unwrap();
        if called.is_some_and(|id| message["id"] == *id) {
            answer = Some(message);
            continue;
        }
        let id = message["id"].as_u64().unwrap();
        assert!(message.get("result").is_some(), "{message:#}");
        assert!(left.remove(&id), "{id} is answered twice");
    }
    answer
}

async fn is_held_back_and_loses_nothing(
    mut host: StdioHost,
    request: fn(u64) -> Value,
    count: u64,
) {
    let mut writing = write_all(host.take_input(), (request, count), None);
    let all = timeout(HELD, &mut writing).await;
    assert!(all.is_err(), "the host took all of it in");
    read_all(&mut host, count, None).await;
    drop(writing.await.unwrap());
    assert!(host.ended().await.success());
}

#[tokio::test]
async fn a_client_that_does_not_read_is_held_back_and_gets_every_answer_afterwards() {
    let setup = setup();
    let host = StdioHost::start(&setup);
    is_held_back_and_loses_nothing(host, discover, DISCOVERS).await;
}

#[tokio::test]
async fn so_is_one_of_the_handshake_revisions() {
    let setup = setup();
    let mut host = StdioHost::start(&setup);
    host.initialize().await;
    is_held_back_and_loses_nothing(host, ping, PINGS).await;
}

#[tokio::test]
async fn so_are_both_through_a_bridge() {
    let setup = setup();
    let _serving = setup.start().await;
    is_held_back_and_loses_nothing(StdioHost::start(&setup), discover, DISCOVERS).await;
    let mut host = StdioHost::start(&setup);
    host.initialize().await;
    is_held_back_and_loses_nothing(host, ping, PINGS).await;
}

/// More would be refused for want of a place to run or to wait, which is not what is tested.
const ROOM: &str = "[limits]\ncall_wait_max_ms = 600000\ntenant_calls_waiting_max = 1000\n\
    drain_timeout_ms = 100";

/// What one client may have open.
const OPEN_MAX: u64 = 256;

/// A call like `request`, of the same era.
fn waiting_call(mut request: Value) -> Value {
    request["method"] = json!("tools/call");
    request["params"]["name"] = json!("script_inline");
    request["params"]["arguments"] = json!({"script": [{"do": "wait", "ms": 600_000}]});
    request
}

#[tokio::test]
async fn with_as_many_requests_open_as_may_be_the_next_is_refused_and_a_cancel_is_read() {
    let setup = setup().configure(ROOM);
    for (is_legacy, request) in [(true, ping as fn(u64) -> Value), (false, discover)] {
        let mut host = StdioHost::start(&setup);
        if is_legacy {
            host.initialize().await;
        }
        for id in FIRST..FIRST + OPEN_MAX {
            host.send(&waiting_call(request(id))).await;
        }
        let mut next = FIRST + OPEN_MAX;
        host.send(&request(next)).await;
        let refused = host.next().await.unwrap();
        assert_eq!(refused["id"], next, "{refused:#}");
        assert_eq!(refused["error"]["code"], -31000, "{refused:#}");
        let cancelled = json!({"requestId": FIRST});
        let cancel = "notifications/cancelled";
        host.send(&json!({"jsonrpc": "2.0", "method": cancel, "params": cancelled}))
            .await;
        loop {
            next += 1;
            host.send(&request(next)).await;
            let answer = host.next().await.unwrap();
            assert_eq!(answer["id"], next);
            if answer.get("result").is_some() {
                break;
            }
        }
        assert!(host.terminate().await.success());
    }
}

#[tokio::test]
async fn an_answer_behind_requests_whose_own_were_not_read_arrives() {
    let setup = setup();
    let mut host = StdioHost::start(&setup);
    host.initialize().await;
    let script = json!([{"do": "confirm", "key": "go", "message": "Go?"}]);
    let call = json!({"name": "script_auto", "arguments": {"script": script}});
    let called = host.ask_bare("tools/call", call).await;
    let question = host.next().await.unwrap();
    assert_eq!(question["method"], "elicitation/create", "{question:#}");
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": yes});
    let mut writing = write_all(host.take_input(), (ping, PINGS), Some(answer));
    assert!(timeout(HELD, &mut writing).await.is_err());
    let answered = read_all(&mut host, PINGS, Some(&called)).await.unwrap();
    assert_eq!(answered["result"]["content"][0]["text"], "go: true");
    drop(writing.await.unwrap());
    assert!(host.ended().await.success());
}
