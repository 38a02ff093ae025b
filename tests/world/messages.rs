//! What a plugin says to the client of a call.

use serde_json::{Value, json};

use super::world;
use crate::harness::{Client, Messages};

async fn speak(client: &Client, tool: &str, said: Value, level: Option<&str>) -> Messages {
    let mut params = json!({"name": tool, "arguments": {"messages": said}});
    if let Some(level) = level {
        params["_meta"] = json!({"io.modelcontextprotocol/logLevel": level});
    }
    client.stream("tools/call", params).await
}

/// All messages before the answer, and the answer.
async fn heard(mut messages: Messages) -> (Vec<Value>, Value) {
    let mut heard = Vec::new();
    loop {
        let message = messages.next().await.expect("the call is answered");
        if message.get("id").is_some() {
            return (heard, message);
        }
        assert_eq!(message["method"], "notifications/message");
        heard.push(message["params"].clone());
    }
}

fn three() -> Value {
    json!([
        {"level": "debug", "data": "small"},
        {"level": "info", "logger": "db", "data": {"rows": [1, 2.50]}},
        {"level": "error", "raw": "{ \"big\":\n 18446744073709551616 }"},
    ])
}

#[tokio::test]
async fn a_call_that_names_a_level_hears_what_matters_that_much() {
    let setup = world();
    let host = setup.start().await;
    let client = host.client();
    for client in [client.clone(), client.without_tasks()] {
        let (told, answer) = heard(speak(&client, "speak", three(), Some("info")).await).await;
        assert_eq!(
            told,
            [
                json!({"level": "info", "logger": "db", "data": {"rows": [1, 2.5]}}),
                json!({"level": "error", "data": {"big": 18_446_744_073_709_551_616u128 as f64}}),
            ]
        );
        assert_eq!(answer["result"]["content"][0]["text"], "done");
        let (told, _) = heard(speak(&client, "speak", three(), Some("debug")).await).await;
        assert_eq!(told.len(), 3);
        let (told, _) = heard(speak(&client, "speak", three(), Some("alert")).await).await;
        assert!(told.is_empty());
    }
}

#[tokio::test]
async fn a_call_that_names_no_level_hears_nothing() {
    let setup = world();
    let host = setup.start().await;
    let client = host.client();
    let (told, _) = heard(speak(&client, "speak", three(), None).await).await;
    assert!(told.is_empty());
    let reply = client
        .request(
            "tools/call",
            json!({"name": "speak", "arguments": {}, "_meta": {"io.modelcontextprotocol/logLevel": "loud"}}),
        )
        .await;
    assert_eq!((reply.status, reply.code()), (400, -32602));
}

#[tokio::test]
async fn a_task_keeps_what_it_says_in_its_log_and_off_the_wire() {
    let setup = world();
    let host = setup.start().await;
    let client = host.client();
    let (told, answer) = heard(speak(&client, "speak_task", three(), Some("debug")).await).await;
    assert!(told.is_empty());
    let id = answer["result"]["taskId"].as_str().unwrap().to_owned();
    client.until_status(&id, "completed").await;
    let log = client
        .request("longshore/tasks/log", json!({"taskId": id}))
        .await
        .result();
    let log = log["text"].as_str().unwrap();
    assert_eq!(
        log.lines().collect::<Vec<_>>(),
        [
            "[debug] \"small\"",
            "[info db] {\"rows\":[1,2.5]}",
            "[error] {\"big\":18446744073709551616}",
        ]
    );
}

#[tokio::test]
async fn a_resource_that_is_read_speaks_on_the_same_stream() {
    let setup = world();
    let host = setup.start().await;
    let params = json!({
        "uri": "world://speak",
        "_meta": {"io.modelcontextprotocol/logLevel": "info"},
    });
    let messages = host.client().stream("resources/read", params).await;
    let (told, answer) = heard(messages).await;
    assert_eq!(told[0]["data"], json!({"reading": "it"}));
    assert_eq!(answer["result"]["contents"][0]["text"], "spoken");
}

#[tokio::test]
async fn messages_that_come_too_fast_are_dropped_and_the_call_goes_on() {
    let setup = world();
    let host = setup.start().await;
    let client = host.client();
    let flood = json!([{"level": "info", "data": 1, "times": 5_000}]);
    let (told, answer) = heard(speak(&client, "speak", flood.clone(), Some("info")).await).await;
    assert!((100..300).contains(&told.len()), "{}", told.len());
    assert_eq!(answer["result"]["content"][0]["text"], "done");

    let (_, answer) = heard(speak(&client, "speak_task", flood, None).await).await;
    let id = answer["result"]["taskId"].as_str().unwrap().to_owned();
    client.until_status(&id, "completed").await;
    let params = json!({"taskId": id});
    let log = client.request("longshore/tasks/log", params).await.result();
    let log = log["text"].as_str().unwrap();
    assert_eq!(log.matches("messages come too fast").count(), 1, "{log}");
    assert!(log.matches("[info] 1\n").count() >= 100, "{log}");
}

#[tokio::test]
async fn a_message_that_is_too_large_is_dropped_and_one_that_is_no_json_fails_the_call() {
    let setup = world();
    let host = setup.start().await;
    let client = host.client();
    let large = json!([
        {"level": "info", "data": "x".repeat(20_000)},
        {"level": "info", "data": "heard"},
    ]);
    let (told, answer) = heard(speak(&client, "speak", large, Some("info")).await).await;
    assert_eq!(told, [json!({"level": "info", "data": "heard"})]);
    assert!(answer.get("result").is_some());
    for raw in ["", "{", "nonsense", "1 2"] {
        let broken = json!([{"level": "info", "raw": raw}]);
        let (told, answer) = heard(speak(&client, "speak", broken, Some("info")).await).await;
        assert!(told.is_empty());
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("a message's data"), "{message}");
    }
}
