//! Messages of many values, which take many times their bytes when they are read: however many come at
//! once, few are read at once (I4, I6).

use futures_util::future::join_all;
use longshore_guests::SCRIPT;
use serde_json::{Value, json};

use crate::harness::{LegacyClient, Setup};

/// How many come at once.
const MESSAGES: usize = 12;

/// Several times what one message takes when it is read, and a small part of what all would take.
const MEMORY_MAX_BYTES: u64 = 700 << 20;

fn scripts() -> Setup {
    Setup::new(&[("script", &SCRIPT.directory())])
}

/// Nearly a megabyte of the smallest objects.
fn arguments() -> Value {
    json!({"script": [], "more": vec![json!({"": 0}); 140_000]})
}

/// The arguments were read, and found to be too many.
fn check_refused(result: &Value) {
    assert_eq!(result["isError"], true, "{result:#}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("too many parts"), "{text}");
}

#[tokio::test]
async fn calls_with_many_values_are_read_a_few_at_a_time() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let arguments = arguments();
    let calls = (0..MESSAGES).map(|_| client.call("script_inline", arguments.clone()));
    for result in join_all(calls).await {
        check_refused(&result);
    }
    let peak = host.memory_peak_bytes();
    assert!(peak < MEMORY_MAX_BYTES, "{} MiB", peak >> 20);
}

#[tokio::test]
async fn a_sessions_calls_with_many_values_are_read_a_few_at_a_time() {
    let setup = scripts();
    let host = setup.start().await;
    let client = LegacyClient::open(host.url(), "2025-06-18").await;
    let arguments = arguments();
    let calls = (0..MESSAGES).map(|_| client.call("script_inline", arguments.clone()));
    for reply in join_all(calls).await {
        check_refused(&reply["result"]);
    }
    let peak = host.memory_peak_bytes();
    assert!(peak < MEMORY_MAX_BYTES, "{} MiB", peak >> 20);
}
