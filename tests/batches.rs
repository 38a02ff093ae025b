//! Batches, which one revision has, and keys that stand twice in a message of a session: both are seen
//! to before a message comes to its session, over HTTP and over lines alike.

use longshore_guests as guests;
use serde_json::{Value, json};

use crate::harness::{LegacyClient, LegacyStream, Setup, StdioHost};

/// The one with batches.
const REVISION: &str = "2025-03-26";

fn script_setup() -> Setup {
    Setup::new(&[("script", &guests::SCRIPT.directory())])
}

fn call(id: u64, tool: &str, script: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": tool, "arguments": {"script": script}, "_meta": {"progressToken": id},
    }})
}

fn ping(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

/// The answer to one of a batch's requests.
fn of(answers: &[Value], id: u64) -> &Value {
    let answer = answers.iter().find(|answer| answer["id"] == id);
    answer.unwrap_or_else(|| panic!("{id} is not answered: {answers:#?}"))
}

/// All messages of a stream.
async fn all(mut stream: LegacyStream) -> Vec<Value> {
    let mut messages = Vec::new();
    while let Some(message) = stream.next().await {
        messages.push(message);
    }
    messages
}

fn ids(answers: &[Value]) -> Vec<Value> {
    let mut ids: Vec<Value> = answers.iter().map(|answer| answer["id"].clone()).collect();
    ids.sort_by_key(ToString::to_string);
    ids
}

/// A script that tells how far it is, asks, and tells the answer.
fn asking() -> Value {
    json!([
        {"do": "progress", "message": "asking"},
        {"do": "confirm", "key": "go", "message": "Go?"},
    ])
}

/// What can't be read as messages, and how it is refused.
const NO_MESSAGES: [(&str, i64); 6] = [
    ("[]", -32600),
    ("[1", -32700),
    (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},]"#, -32700),
    (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
    (r#"{"jsonrpc":"2.0"}"#, -32600),
    ("7", -32600),
];

#[tokio::test]
async fn every_request_of_a_batch_is_answered_on_one_stream_told_and_asked_as_any_other() {
    let setup = script_setup();
    let host = setup.start().await;
    let client = LegacyClient::open(host.url(), REVISION).await;
    let listing = json!({"jsonrpc": "2.0", "id": 13, "method": "tools/list"});
    let batch = json!([
        call(11, "script_auto", asking()),
        ping(12),
        initialized(),
        listing,
        ping(14),
        7,
    ]);
    let mut stream = client.batch(&batch).await;
    let (mut answers, mut told) = (Vec::new(), Vec::new());
    while let Some(message) = stream.next().await {
        match message["method"].as_str() {
            None => answers.push(message),
            Some("elicitation/create") => {
                let yes = json!({"action": "accept", "content": {"confirm": true}});
                // The answer to a question comes in a batch as well.
                let answer = json!([{"jsonrpc": "2.0", "id": message["id"], "result": yes}]);
                assert_eq!(client.post_text(&answer.to_string()).await.0, 202);
            }
            Some(_) => told.push(message["params"].clone()),
        }
    }
    assert_eq!(
        ids(&answers),
        [json!(11), json!(12), json!(13), json!(14), Value::Null]
    );
    let is_ours = |told: &Value| told["message"] == "asking" && told["progressToken"] == 11;
    assert!(told.iter().any(is_ours), "{told:?}");
    let called = of(&answers, 11);
    assert_eq!(
        called["result"]["content"][0]["text"], "go: true",
        "{called:#}"
    );
    for id in [12, 14] {
        assert_eq!(of(&answers, id)["result"], json!({}));
    }
    let listed = &of(&answers, 13)["result"]["tools"];
    assert!(listed.as_array().is_some_and(|tools| !tools.is_empty()));
    let refused = answers.iter().find(|answer| answer.get("id").is_none());
    assert_eq!(refused.unwrap()["error"]["code"], -32600);
}

#[tokio::test]
async fn a_batch_that_asks_for_nothing_is_accepted_without_a_body() {
    let setup = script_setup();
    let host = setup.start().await;
    let client = LegacyClient::open(host.url(), REVISION).await;
    let batch = json!([initialized(), initialized()]).to_string();
    assert_eq!(client.post_text(&batch).await, (202, Value::Null));
}

#[tokio::test]
async fn a_session_is_not_opened_within_a_batch() {
    let setup = script_setup();
    let host = setup.start().await;
    let client = LegacyClient::open(host.url(), REVISION).await;
    let opening = json!({"jsonrpc": "2.0", "id": 21, "method": "initialize", "params": {
        "protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"},
    }});
    let answers = all(client.batch(&json!([opening, ping(22)])).await).await;
    assert_eq!(ids(&answers), [21, 22]);
    let refused = of(&answers, 21);
    assert_eq!(refused["error"]["code"], -32600, "{refused:#}");
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(words.contains("can't be part of a batch"), "{words}");
    assert_eq!(of(&answers, 22)["result"], json!({}));
    // Nor does one outside a session open it.
    let reply = host.client().raw(json!([opening]).to_string(), &[]).await;
    assert_eq!((reply.status, reply.code()), (400, -32600));
    assert_eq!(reply.headers.get("mcp-session-id"), None);
}

#[tokio::test]
async fn other_revisions_have_no_batches() {
    let setup = script_setup();
    let host = setup.start().await;
    for version in ["2025-11-25", "2025-06-18", "2024-11-05"] {
        let client = LegacyClient::open(host.url(), version).await;
        assert_eq!(client.initialized["protocolVersion"], version);
        let (status, refused) = client.post_text(&json!([ping(1)]).to_string()).await;
        assert_eq!((status, &refused["error"]["code"]), (400, &json!(-32600)));
        assert_eq!(refused.get("id"), None, "{refused:#}");
        let words = refused["error"]["message"].as_str().unwrap();
        assert!(words.contains("send each message on its own"), "{words}");
        // The session is as it was.
        assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
    }
}

#[tokio::test]
async fn the_calls_of_a_batch_are_stopped_when_its_client_goes_away() {
    let setup = script_setup().configure(
        "[limits]\ntenant_calls_running_max = 2\ncall_wait_max_ms = 0\nlegacy_reconnect_ms = 50",
    );
    let host = setup.start().await;
    let client = LegacyClient::open(host.url(), REVISION).await;
    let waits = json!([{"do": "progress", "message": "waiting"}, {"do": "wait", "ms": 600_000}]);
    let batch = json!([
        call(1_031, "script_inline", waits.clone()),
        call(1_032, "script_inline", waits.clone()),
    ]);
    let mut stream = client.batch(&batch).await;
    for _ in 0..2 {
        assert_eq!(stream.next().await.unwrap()["params"]["message"], "waiting");
    }
    let says = json!({"script": [{"do": "say", "text": "there is room"}]});
    let refused = client.call("script_inline", says.clone()).await;
    assert_eq!(refused["error"]["code"], -31000, "both are under way");
    drop(stream);
    loop {
        let reply = client.call("script_inline", says.clone()).await;
        match reply["error"]["code"].as_i64() {
            None => break,
            Some(-31000) => {}
            Some(_) => panic!("{reply:#}"),
        }
    }
}

#[tokio::test]
async fn over_lines_a_batch_is_answered_with_one_line_when_all_of_it_is() {
    let setup = script_setup();
    let mut host = StdioHost::start(&setup);
    let agreed = host.initialize_as(REVISION).await;
    assert_eq!(agreed["protocolVersion"], REVISION);
    let batch = json!([
        call(11, "script_auto", asking()),
        ping(12),
        initialized(),
        7
    ]);
    host.send(&batch).await;
    let mut told = Vec::new();
    loop {
        let message = host.next().await.unwrap();
        if message["method"] == "elicitation/create" {
            let yes = json!({"action": "accept", "content": {"confirm": true}});
            host.send(&json!([{"jsonrpc": "2.0", "id": message["id"], "result": yes}]))
                .await;
            break;
        }
        assert_eq!(message["method"], "notifications/progress", "{message:#}");
        told.push(message["params"]["message"].clone());
    }
    assert!(told.contains(&json!("asking")), "{told:?}");
    let answers = host.next_batch().await;
    assert_eq!(ids(&answers), [json!(11), json!(12), Value::Null]);
    let called = of(&answers, 11);
    assert_eq!(
        called["result"]["content"][0]["text"], "go: true",
        "{called:#}"
    );
    assert_eq!(of(&answers, 12)["result"], json!({}));
    let refused = answers.iter().find(|answer| answer.get("id").is_none());
    assert_eq!(refused.unwrap()["error"]["code"], -32600);
    assert!(host.end().await.success());
}

#[tokio::test]
async fn over_lines_a_batch_does_not_wait_for_a_call_that_was_cancelled() {
    let setup = script_setup();
    let mut host = StdioHost::start(&setup);
    host.initialize_as(REVISION).await;
    let waits = json!([{"do": "progress", "message": "waiting"}, {"do": "wait", "ms": 600_000}]);
    host.send(&json!([call(11, "script_inline", waits), ping(12)]))
        .await;
    let waiting = host.next().await.unwrap();
    assert_eq!(waiting["params"]["message"], "waiting", "{waiting:#}");
    let params = json!({"requestId": 11});
    host.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
        .await;
    let answers = host.next_batch().await;
    assert_eq!(ids(&answers), [12]);
    assert_eq!(of(&answers, 12)["result"], json!({}));
    // Nor is it answered later.
    host.send(&ping(13)).await;
    assert_eq!(host.next().await.unwrap()["id"], 13);
    assert!(host.end().await.success());
}

fn error(answers: &[Value], id: u64) -> &Value {
    let answer = answers.iter().find(|answer| answer["id"] == id);
    &answer.expect("it is answered")["error"]
}

#[tokio::test]
async fn over_lines_a_batch_is_answered_also_when_its_input_ends_before_all_of_it_has() {
    let setup = script_setup().configure("[limits]\ndrain_timeout_ms = 1000");
    let mut host = StdioHost::start(&setup);
    host.initialize_as(REVISION).await;
    let waits = json!([{"do": "progress", "message": "waiting"}, {"do": "wait", "ms": 600_000}]);
    host.send(&json!([call(11, "script_inline", waits), ping(12)]))
        .await;
    assert_eq!(host.next().await.unwrap()["params"]["message"], "waiting");
    host.end_input();
    let answers = host.next_batch().await;
    assert_eq!(ids(&answers), [11, 12]);
    let stopped = error(&answers, 11);
    assert_eq!(stopped["code"], -32603, "{stopped:#}");
    assert!(host.ended().await.success());
}

#[tokio::test]
async fn over_lines_what_is_no_message_is_refused_as_over_http() {
    let setup = script_setup();
    let serving = setup.start().await;
    let client = LegacyClient::open(serving.url(), REVISION).await;
    // A bridge to the same host.
    let mut lines = StdioHost::start(&setup);
    lines.initialize_as(REVISION).await;
    for (body, code) in NO_MESSAGES {
        let (status, over_http) = client.post_text(body).await;
        assert_eq!(status, 400, "{body}");
        lines.send_line(body).await;
        let over_lines = lines.next().await.unwrap();
        for refused in [over_http, over_lines] {
            assert_eq!(refused["error"]["code"], code, "{body}: {refused:#}");
        }
    }
    assert!(lines.end().await.success());

    let mut other = StdioHost::start(&setup);
    other.initialize_as("2025-06-18").await;
    other.send(&json!([ping(1)])).await;
    let refused = other.next().await.unwrap();
    assert_eq!(refused["error"]["code"], -32600, "{refused:#}");
    other.send(&ping(2)).await;
    assert_eq!(other.next().await.unwrap()["result"], json!({}));
    assert!(other.end().await.success());
}

/// A gateway in front may have judged the one that the host would drop.
#[tokio::test]
async fn a_key_that_stands_twice_in_a_session_is_refused_and_its_tool_not_called() {
    let setup = script_setup();
    let host = setup.start().await;
    let text = |id: u64, arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"script_inline","arguments":{arguments}}}}}"#
        )
    };
    let twice = [
        r#"{"script":[],"script":[{"do":"say","text":"called"}]}"#,
        r#"{"script":[{"do":"say","text":"judged","text":"called"}]}"#,
    ];
    for version in ["2025-11-25", "2025-06-18", REVISION, "2024-11-05"] {
        let client = LegacyClient::open(host.url(), version).await;
        let mut lines = StdioHost::start(&setup);
        lines.initialize_as(version).await;
        for (id, arguments) in (50..).zip(twice) {
            let body = text(id, arguments);
            let (status, refused) = client.post_text(&body).await;
            assert_eq!((status, &refused["id"]), (200, &json!(id)), "{refused:#}");
            lines.send_line(&body).await;
            for refused in [refused, lines.next().await.unwrap()] {
                assert_eq!(refused["id"], id);
                assert_eq!(refused["error"]["code"], -32602, "{refused:#}");
                let words = refused["error"]["message"].as_str().unwrap();
                assert!(words.contains("stands there twice"), "{words}");
            }
        }
        assert!(lines.end().await.success());
    }
    let client = LegacyClient::open(host.url(), REVISION).await;
    // A batch has a stream for what is wrong with its messages; the others are answered.
    let batch = format!("[{},{}]", text(60, twice[1]), ping(61));
    let answers = all(client.batch_text(&batch).await).await;
    assert_eq!(ids(&answers), [60, 61]);
    assert_eq!(of(&answers, 60)["error"]["code"], -32602);
    assert_eq!(of(&answers, 61)["result"], json!({}));
}
