//! Plugins that other people's tools made, in other languages: each is added to a running host, and
//! its tools do all that one in Rust can. `tests/foreign/build` makes them, as far as it has not. The
//! guest `relay` is the same in Rust, and the smallest of Rust's.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

use longshore_guests::RELAY;
use serde_json::json;

use crate::harness::{Client, Setup, longshore, run};

/// Makes what `tests/foreign/build` calls `name`, if it is missing or older than its source. Returns
/// the directory of all that it makes.
pub async fn built(name: &'static str) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let make = move || {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
        // A build that failed leaves nothing that the next one would mind.
        let _turn = ONE_AT_A_TIME
            .lock()
            .unwrap_or_else(|held| held.into_inner());
        let made = Command::new(root.join("tests/foreign/build"))
            .arg(name)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{name} can't be made:\n{said}");
        root.join("target/foreign")
    };
    tokio::task::spawn_blocking(make).await.unwrap()
}

/// The directory of a plugin that is made so.
async fn plugin(name: &'static str) -> PathBuf {
    built(name).await.join("plugins").join(name)
}

async fn until_half_way(client: &Client, id: &str) {
    let is_there = |task: &serde_json::Value| {
        assert_eq!(task["status"], "working", "{task:#}");
        task["statusMessage"] == "half way"
    };
    client.until(id, is_there).await;
}

async fn does_all_that_a_plugin_does(directory: PathBuf) {
    let directory = directory.to_str().unwrap();
    let setup = Setup::new(&[]);
    let host = setup.start().await;
    let mut add = longshore(&["plugin", "add", directory]);
    add.arg("--config").arg(setup.path("longshore.toml"));
    add.arg("--data-dir").arg(setup.path("data"));
    add.arg("--plugins").arg(setup.path("plugins"));
    let added = run(add).await;
    assert_eq!(added.code, 0, "{}", added.stderr);

    let client = host.client();
    let greeting = client.call("greet", json!({"name": "ada"})).await;
    assert_eq!(greeting["content"][0]["text"], "Hello, ada!");
    let refused = client.call("greet", json!({"name": 7})).await;
    assert_eq!(refused["isError"], true, "{refused:#}");

    let stopped = client.start("relay", json!({"name": "bob"})).await;
    until_half_way(&client, &stopped).await;
    assert_eq!(client.cancel(&stopped).await.code(), 0);
    let stopped = client.until_status(&stopped, "cancelled").await;
    let words = stopped["statusMessage"].as_str().unwrap();
    assert!(words.contains("stopped: "), "{words}");

    // Killed after a checkpoint, it goes on from there, asks, waits unloaded, and ends.
    let id = client.start("relay", json!({"name": "ada"})).await;
    until_half_way(&client, &id).await;
    host.kill().await;
    let host = setup.start().await;
    let client = host.client();
    let asked = client.until_asked(&id).await;
    assert_eq!(asked["go"]["params"]["message"], "Hand ada on?");
    let accepted = json!({"go": {"action": "accept", "content": {"ok": true}}});
    assert_eq!(client.answer(&id, accepted).await.code(), 0);
    let ended = client.until_status(&id, "completed").await;
    let text = ended["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, "half of ada, answered {\"ok\":true}");
}

#[tokio::test]
async fn a_plugin_in_another_language_is_inspected_like_any_other() {
    let directory = plugin("c").await;
    let inspected = run(longshore(&[
        "plugin",
        "inspect",
        directory.to_str().unwrap(),
    ]))
    .await;
    assert_eq!(inspected.code, 0, "{}", inspected.stderr);
    let said = inspected.stdout;
    assert!(
        said.contains("always a task · resumes when interrupted"),
        "{said}"
    );
    let words: Vec<&str> = said.split_whitespace().collect();
    assert!(
        words
            .join(" ")
            .contains("may ask go whether it is handed on"),
        "{said}"
    );
}

#[tokio::test]
async fn a_plugin_in_javascript_does_all_that_one_in_rust_does() {
    does_all_that_a_plugin_does(plugin("javascript").await).await;
}

#[tokio::test]
async fn a_plugin_in_javascript_with_a_small_engine_does_too() {
    does_all_that_a_plugin_does(plugin("quickjs").await).await;
}

#[tokio::test]
async fn a_plugin_in_python_does_too() {
    does_all_that_a_plugin_does(plugin("python").await).await;
}

#[tokio::test]
async fn a_plugin_in_c_does_too() {
    does_all_that_a_plugin_does(plugin("c").await).await;
}

#[tokio::test]
async fn a_small_plugin_in_rust_without_the_sdk_does_too() {
    does_all_that_a_plugin_does(RELAY.directory()).await;
}
