//! Whatever one tenant's guests do, another tenant is answered meanwhile (I6), over real HTTP. What
//! is waited for are states: a host that stands still fails by never getting there.

use std::collections::BTreeMap;
use std::time::Duration;

use longshore_guests::{PROBE, SCRIPT};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

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
pub async fn words(client: &Client, tool: &str, arguments: Value) -> String {
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
        // A gibibyte that is not there, which no memory of a guest could hold.
        (
            "progress-claim",
            json!({"n": 1 << 30}),
            "what is no value of the contract",
        ),
        (
            "return-many",
            json!({"n": 300_000}),
            "more data to its host at once",
        ),
        // One megabyte, claimed ten thousand times.
        (
            "return-same",
            json!({"n": 10_000}),
            "more data to its host at once",
        ),
        (
            "ask-same",
            json!({"n": 10_000}),
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

/// What a server does with the request it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manners {
    Silent,
    /// Sends a byte of its answer now and then.
    Drips,
    /// Sends headers now and then, and never their end.
    NeverComesToThePoint,
    /// Sends headers as fast as they are taken.
    FloodsHeaders,
}

/// A server that keeps whoever asks it waiting.
struct Tarpit {
    url: String,
    /// Connections so far.
    taken: watch::Receiver<usize>,
}

impl Tarpit {
    async fn start(manners: Manners) -> Tarpit {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (count, taken) = watch::channel(0);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.send_modify(|taken| *taken += 1);
                // It ends when the other side leaves.
                tokio::spawn(keep_waiting(stream, manners));
            }
        });
        Tarpit { url, taken }
    }
}

async fn keep_waiting(mut stream: TcpStream, manners: Manners) -> std::io::Result<()> {
    let mut request = [0; 4_096];
    while stream.read(&mut request).await? > 0 {
        let (first, next, pause_ms) = match manners {
            Manners::Silent => continue,
            Manners::Drips => ("content-length: 1000000\r\n\r\n", "x", 100),
            Manners::NeverComesToThePoint => ("", "x-more: to come\r\n", 100),
            Manners::FloodsHeaders => ("", "x-more: to come\r\n", 0),
        };
        stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
        stream.write_all(first.as_bytes()).await?;
        let mut pause = tokio::time::interval(Duration::from_millis(pause_ms.max(1)));
        loop {
            if pause_ms > 0 {
                pause.tick().await;
            }
            stream.write_all(next.as_bytes()).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn guests_blocked_in_outgoing_requests_keep_nobody_waiting() {
    const TASKS: usize = 8;
    const REQUESTS: usize = 16;
    let all = [
        Manners::Silent,
        Manners::Drips,
        Manners::NeverComesToThePoint,
        Manners::FloodsHeaders,
    ];
    let mut tarpits = Vec::new();
    for manners in all {
        tarpits.push((manners, Tarpit::start(manners).await));
    }
    let urls: Vec<&str> = tarpits.iter().map(|(_, tarpit)| &*tarpit.url).collect();
    let setup = setup().configure(&format!(
        "cancel_grace_default_ms = 100\n[plugin.script.grants]\nhttp = {urls:?}"
    ));
    let setup = setup.environment("RUST_BACKTRACE", "1");
    let host = setup.start().await;
    let neighbour = Neighbour::of(&host).await;
    let mallory = host.client().with_token("mallory");
    let fetch = |url: &str, timeout_ms: u64| {
        let urls = vec![url; REQUESTS];
        json!({"script": [
            {"do": "fetch", "urls": urls, "concurrency": REQUESTS, "timeout_ms": timeout_ms},
        ]})
    };

    // What each waits for comes to an end when the guest says so, or by itself.
    for (manners, tarpit) in &tarpits {
        // A byte that is late on a busy machine ends the exchange before the whole is too late.
        let (timeout_ms, expected) = match manners {
            Manners::FloodsHeaders => (60_000, &["broke off"][..]),
            _ => (300, &["timed out", "read timeout"][..]),
        };
        let words = words(&mallory, "script_auto", fetch(&tarpit.url, timeout_ms)).await;
        let found = expected.iter().map(|text| words.matches(text).count());
        assert!(found.sum::<usize>() >= REQUESTS, "{manners:?}: {words}");
        // Nothing of the host's own.
        assert!(!words.contains("backtrace"), "{manners:?}: {words}");
        neighbour.is_answered().await;
    }

    // All at once, for as long as they like.
    let mut tasks = Vec::new();
    for (manners, tarpit) in &mut tarpits {
        let before = *tarpit.taken.borrow();
        for _ in 0..TASKS {
            let id = mallory
                .start("script_fail", fetch(&tarpit.url, 600_000))
                .await;
            tasks.push((*manners, id));
        }
        let is_full = |taken: &usize| *taken == before + TASKS * REQUESTS;
        tarpit.taken.wait_for(is_full).await.unwrap();
    }
    for _ in 0..3 {
        neighbour.is_answered().await;
    }
    tasks.retain(|(manners, _)| *manners != Manners::FloodsHeaders);
    for (manners, id) in &tasks {
        assert_eq!(mallory.task(id).await["status"], "working", "{manners:?}");
        assert_eq!(mallory.cancel(id).await.code(), 0);
    }
    neighbour.is_answered().await;
    for (manners, id) in &tasks {
        let task = mallory.until_status(id, "cancelled").await;
        let message = task["statusMessage"].as_str().unwrap();
        assert!(
            message.contains("stopped by force"),
            "{manners:?}: {message}"
        );
    }
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
