//! Whatever one tenant's guests do, another tenant is answered meanwhile (I6), over real HTTP. What
//! is waited for are states: a host that stands still fails by never getting there.

use std::collections::BTreeMap;
use std::time::Duration;

use longshore_guests::{PROBE, SCRIPT};
use serde_json::{Value, json};

use super::loading::bomb;
use crate::harness::{Client, Host, Setup};

/// Far more than any answer takes; a host that does not answer would keep the test for ever.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Two tenants, and a host with an attacker's plugin and a harmless one.
pub fn setup() -> Setup {
    let plugins = [("probe", PROBE.directory()), ("script", SCRIPT.directory())];
    let plugins: Vec<_> = plugins
        .iter()
        .map(|(name, dir)| (*name, dir.as_path()))
        .collect();
    let limits = "[limits]\ncompile_timeout_ms = 20000\ncompile_memory_max_bytes = 536870912\n\
        result_kept_max_bytes = 1048576\n";
    // The limits last, so that a test may add to them.
    let tenants = ["mallory", "alice"];
    Setup::new(&plugins).tenants(&tenants).configure(limits)
}

/// The tenant who wants nothing but answers.
pub struct Neighbour {
    client: Client,
    task: String,
}

impl Neighbour {
    pub async fn of(host: &Host) -> Neighbour {
        let client = host.client().with_token("alice");
        let operations = json!([{"do": "confirm", "key": "go", "message": "Go on?"}]);
        let task = client
            .start("script_resume", json!({"script": operations}))
            .await;
        client.until_asked(&task).await;
        Neighbour { client, task }
    }

    /// Is answered in every way there is.
    pub async fn is_answered(&self) {
        let answers = async {
            let listed = self.client.request("tools/list", json!({})).await.result();
            assert!(
                listed["tools"]
                    .as_array()
                    .is_some_and(|tools| !tools.is_empty())
            );
            let task = self.client.task(&self.task).await;
            assert_eq!(task["status"], "input_required");
            let operations = json!([{"do": "say", "text": "hello"}]);
            let said = self
                .client
                .call("script_inline", json!({"script": operations}))
                .await;
            assert_eq!(said["content"][0]["text"], "hello", "{said:#}");
        };
        tokio::time::timeout(ANSWER_MAX, answers)
            .await
            .expect("the neighbour is answered");
    }
}

/// The end of a call, as a task or at once: its words.
async fn words(client: &Client, tool: &str, arguments: Value) -> String {
    let params = json!({"name": tool, "arguments": arguments});
    let reply = client.request("tools/call", params).await.body;
    let ended = match reply["result"]["taskId"].as_str() {
        Some(id) => {
            let is_over = |task: &Value| {
                ["completed", "failed", "cancelled"]
                    .map(Value::from)
                    .contains(&task["status"])
            };
            client.until(id, is_over).await
        }
        None => reply,
    };
    ended.to_string()
}

#[tokio::test]
async fn eight_infinite_loops_keep_nobody_waiting() {
    let setup = setup();
    let host = setup.start().await;
    let neighbour = Neighbour::of(&host).await;
    let mallory = host.client().with_token("mallory");
    let mut loops = Vec::new();
    for _ in 0..8 {
        loops.push(mallory.start("spin", json!({})).await);
    }
    for _ in 0..3 {
        neighbour.is_answered().await;
    }
    for id in &loops {
        assert_eq!(mallory.task(id).await["status"], "working");
        assert_eq!(mallory.cancel(id).await.code(), 0);
    }
    for id in &loops {
        let task = mallory.until_status(id, "cancelled").await;
        let message = task["statusMessage"].as_str().unwrap();
        assert!(message.contains("stopped by force"), "{message}");
    }
}

#[tokio::test]
async fn each_attack_ends_with_its_words_while_a_neighbour_is_answered() {
    let setup = setup();
    let host = setup.start().await;
    let neighbour = Neighbour::of(&host).await;
    let mallory = host.client().with_token("mallory");
    let attacks = [
        ("allocate", json!({}), "MiB of memory it may have"),
        ("recurse", json!({}), "recursed too deeply"),
        ("handles", json!({}), "too many handles"),
        ("exit", json!({}), "exited instead of returning"),
        (
            "return-huge",
            json!({"n": 2_000_000}),
            "a result may have 1048576",
        ),
        (
            "return-huge",
            json!({"n": 30_000_000}),
            "more data to its host at once",
        ),
        (
            "progress-huge",
            json!({"n": 30_000_000}),
            "more data to its host at once",
        ),
        (
            "checkpoint-huge",
            json!({"n": 4_194_305}),
            "4194304 are allowed",
        ),
        ("ask-many", json!({"n": 100}), "100 requests in one call"),
        ("print", json!({"n": 200_000}), "printed"),
        ("progress", json!({"n": 1_000_000}), "counted"),
    ];
    for (tool, arguments, expected) in attacks {
        let attacker = mallory.clone();
        let attack = tokio::spawn(async move { words(&attacker, tool, arguments).await });
        neighbour.is_answered().await;
        let words = attack.await.unwrap();
        assert!(words.contains(expected), "{tool}: {words}");
        neighbour.is_answered().await;
    }
}

#[tokio::test]
async fn a_flood_of_steps_ends_with_its_words_while_a_neighbour_is_answered() {
    let setup = setup();
    let host = setup.start().await;
    let neighbour = Neighbour::of(&host).await;
    // As a task every step would wait for the disk; within the call they are kept in memory.
    let mallory = host.client().with_token("mallory").without_tasks();
    for (tool, count, expected) in [
        ("steps", 10_001, "at most 10000 steps"),
        ("steps-huge", 17, "steps of 16777216 bytes"),
    ] {
        let attacker = mallory.clone();
        let attack = tokio::spawn(async move { words(&attacker, tool, json!({"n": count})).await });
        neighbour.is_answered().await;
        let words = attack.await.unwrap();
        assert!(words.contains(expected), "{tool}: {words}");
        neighbour.is_answered().await;
    }
}

/// Everything at once that a tenant may run, each doing the same for as long as it is let.
#[tokio::test]
async fn a_tenant_full_of_floods_and_blocked_calls_keeps_nobody_waiting() {
    const ATTACKERS: usize = 8;
    // All of them tasks, before any has done what it may.
    let setup = setup().configure("call_grace_ms = 0");
    let host = setup.start().await;
    let neighbour = Neighbour::of(&host).await;
    let mallory = host.client().with_token("mallory");
    for (tool, ends) in [
        ("print", "stopped by force"),
        ("progress", "stopped by force"),
        ("steps", "asked for it"),
        ("sleep", "stopped by force"),
        ("fill", "stopped by force"),
    ] {
        let mut tasks = Vec::new();
        for _ in 0..ATTACKERS {
            tasks.push(mallory.start(tool, json!({"n": 4_000_000_000_u32})).await);
        }
        for _ in 0..2 {
            neighbour.is_answered().await;
        }
        for id in &tasks {
            assert_eq!(mallory.cancel(id).await.code(), 0, "{tool}");
        }
        neighbour.is_answered().await;
        for id in &tasks {
            let is_over = |task: &Value| task["status"] != "working";
            let task = mallory.until(id, is_over).await;
            let message = task["statusMessage"].as_str().unwrap();
            // Steps come to an end of their own, on a machine that is quick enough.
            let is_spent = tool == "steps" && message.contains("at most 10000 steps");
            assert!(message.contains(ends) || is_spent, "{tool}: {message}");
        }
    }
}

/// Two tenants whose calls never end have all the places there are, but what they must leave.
#[tokio::test]
async fn calls_that_never_end_keep_no_other_tenant_from_calling() {
    const CALLS_MAX: usize = 6;
    let setup = Setup::new(&[("script", &SCRIPT.directory())])
        .tenants(&["mallory", "mallet", "alice"])
        .configure(&format!(
            "[limits]\ncalls_running_max = {CALLS_MAX}\ntenant_calls_running_max = {}\n\
             call_wait_max_ms = 600000",
            CALLS_MAX / 2
        ));
    let host = setup.start().await;
    let neighbour = Neighbour::of(&host).await;
    let params = json!({"name": "script_inline", "arguments": {"script": [{"do": "spin"}]}});
    let mut calls = tokio::task::JoinSet::new();
    for name in ["mallory", "mallet"] {
        for _ in 0..CALLS_MAX {
            let client = host.client().with_token(name);
            let params = params.clone();
            calls.spawn(async move { client.request("tools/call", params).await });
        }
    }
    while setup.counts().await["calls"].as_u64() < Some(CALLS_MAX as u64 / 2 + 1) {
        neighbour.is_answered().await;
    }
    for _ in 0..3 {
        neighbour.is_answered().await;
    }
    calls.shutdown().await;
}

#[tokio::test]
async fn a_compile_bomb_costs_its_own_process_only() {
    let setup = setup();
    let host = setup.start().await;
    let neighbour = Neighbour::of(&host).await;
    let folder = setup.path("plugins/bomb");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("bomb.wasm"), bomb(20_000)).unwrap();
    let manifest = "name = \"bomb\"\nversion = \"1\"\ncomponent = \"bomb.wasm\"\n";
    std::fs::write(folder.join("plugin.toml"), manifest).unwrap();
    let reason = loop {
        neighbour.is_answered().await;
        if let Some(reason) = failure(&setup, "bomb") {
            break reason;
        }
    };
    assert!(
        reason.contains("make its largest functions smaller"),
        "{reason}"
    );
    neighbour.is_answered().await;
}

#[tokio::test]
async fn a_hostile_schema_is_refused_and_serves_nobody() {
    let setup = setup();
    let host = setup.start().await;
    let neighbour = Neighbour::of(&host).await;
    let mut wasm = std::fs::read(PROBE.component()).unwrap();
    let plain = br#"{"type":"object","properties":{"n":{"type":"integer"}}}"#;
    let mut hostile = br#"{"$ref":"https://evil.example/schema"}"#.to_vec();
    hostile.resize(plain.len(), b' ');
    let places: Vec<usize> = wasm
        .windows(plain.len())
        .enumerate()
        .filter(|(_, window)| window == plain)
        .map(|(index, _)| index)
        .collect();
    assert!(!places.is_empty());
    for place in places {
        wasm[place..place + hostile.len()].copy_from_slice(&hostile);
    }
    std::fs::write(setup.path("plugins/evil.wasm"), wasm).unwrap();
    let reason = loop {
        neighbour.is_answered().await;
        if let Some(reason) = failure(&setup, "evil") {
            break reason;
        }
    };
    assert!(reason.contains("schema"), "{reason}");
}

/// Why the host says it does not serve a plugin.
fn failure(setup: &Setup, plugin: &str) -> Option<String> {
    failures(setup).remove(plugin)
}

/// All plugins that the host says it does not serve, and why.
pub fn failures(setup: &Setup) -> BTreeMap<String, String> {
    let text = std::fs::read(setup.path("data/serving.json")).unwrap_or_default();
    let serving: Value = serde_json::from_slice(&text).unwrap_or_default();
    serde_json::from_value(serving["failures"].clone()).unwrap_or_default()
}
