//! Clients of every kind on one host, each going away at moments that a seed decides. Nothing of them
//! may be left: no session, stream, run, place, instance, task or file.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use longshore_guests as guests;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::harness::{Client, Host, LegacyClient, Random, Setup, StdioHost};
use crate::tasks::{accept, script, text, wait};

const CLIENTS: u64 = 50;

/// How often each comes and goes.
const TURNS: u64 = 4;

/// The latest moment at which an impatient client goes away.
const LEAVES_AFTER_MAX_MS: u64 = 400;

/// A patient client's; nothing takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at what is left.
const LOOK: Duration = Duration::from_millis(50);

/// Long enough for a patient client, short enough to be waited for: what nobody knows the id of goes
/// with its time.
const TASK_TTL_MS: u64 = 10_000;

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Modern with Tasks.
    Tasks,
    /// Modern without.
    Rounds,
    Legacy,
    /// Over `longshore stdio`, which is a bridge here.
    Bridge,
    LegacyBridge,
}

const KINDS: [Kind; 5] = [
    Kind::Tasks,
    Kind::Rounds,
    Kind::Legacy,
    Kind::Bridge,
    Kind::LegacyBridge,
];

/// What a client does in one turn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Call,
    Ask,
    Cancel,
    /// Never ends by itself.
    Wait,
    /// Follows the host's own messages; never ends by itself.
    Listen,
}

const ACTS: [Act; 5] = [Act::Call, Act::Ask, Act::Cancel, Act::Wait, Act::Listen];

/// One turn: who, what, and a word that no other turn knows.
struct Turn {
    url: String,
    setup: Arc<Setup>,
    act: Act,
    mark: String,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_clients_of_all_kinds_that_come_and_go_leave_nothing_behind() {
    let setup = Arc::new(setup());
    let host = setup.start().await;
    let (files, sockets) = (files(&setup), sockets(&host));
    let before = setup.counts().await;
    let mut random = Random::seeded();
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let kind = KINDS[usize::try_from(number).unwrap() % KINDS.len()];
        let turns: Vec<_> = (0..TURNS)
            .map(|turn| choose(&mut random, kind, &setup, &host, number * TURNS + turn))
            .collect();
        clients.spawn(async move {
            for (turn, patience) in turns {
                // Dropping the turn in its middle is how its client goes away.
                let _ = timeout(patience, turn.take(kind)).await;
            }
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.expect("a client was served wrongly");
    }
    until_same("counts", || setup.counts(), before).await;
    until_same("files", async || self::files(&setup), files).await;
    until_same("sockets", async || self::sockets(&host), sockets).await;
    every_kind_is_served(&setup, &host).await;
    assert!(host.terminate().await.success());
}

fn setup() -> Setup {
    Setup::new(&[("script", &guests::SCRIPT.directory())]).configure(&format!(
        "[limits]\ntask_ttl_default_ms = {TASK_TTL_MS}\nsweep_interval_ms = 100\n\
         legacy_session_idle_ms = 5000\nlegacy_reconnect_ms = 200"
    ))
}

fn choose(
    random: &mut Random,
    kind: Kind,
    setup: &Arc<Setup>,
    host: &Host,
    number: u64,
) -> (Turn, Duration) {
    let count = ACTS.len() as u64;
    let act = ACTS[usize::try_from(random.below(count)).unwrap()];
    let ends = !matches!(act, Act::Wait | Act::Listen);
    let patience = match ends && random.one_in(3) {
        true => PATIENCE,
        false => Duration::from_millis(random.below(LEAVES_AFTER_MAX_MS)),
    };
    let turn = Turn {
        url: host.url().to_owned(),
        setup: setup.clone(),
        act,
        mark: format!("{kind:?} {number}"),
    };
    (turn, patience)
}

/// Afterwards each kind finds the host as it was.
async fn every_kind_is_served(setup: &Arc<Setup>, host: &Host) {
    for kind in KINDS {
        for act in [Act::Call, Act::Ask, Act::Cancel] {
            let turn = Turn {
                url: host.url().to_owned(),
                setup: setup.clone(),
                act,
                mark: format!("{kind:?} afterwards"),
            };
            let served = timeout(PATIENCE, turn.take(kind)).await;
            assert!(served.is_ok(), "{kind:?} is not served: {act:?}");
        }
    }
}

impl Turn {
    async fn take(self, kind: Kind) {
        match kind {
            Kind::Tasks => self.with_tasks().await,
            Kind::Rounds => self.in_rounds().await,
            Kind::Legacy => self.in_a_session().await,
            Kind::Bridge => self.over_a_bridge().await,
            Kind::LegacyBridge => self.in_a_session_over_a_bridge().await,
        }
    }

    /// Tells its progress and its mark, which must come back to this client and to no other.
    fn says(&self) -> Value {
        script(json!([
            {"do": "progress", "message": self.mark},
            {"do": "wait", "ms": 50},
            {"do": "say", "text": self.mark},
        ]))
    }

    fn asks(&self) -> Value {
        script(json!([
            {"do": "confirm", "key": "go", "message": self.mark},
            {"do": "say", "text": self.mark},
        ]))
    }

    fn waits(&self) -> Value {
        script(json!([{"do": "progress", "message": self.mark}, wait()]))
    }

    fn check(&self, result: &Value) {
        let text = text(result);
        assert!(text.ends_with(&self.mark), "{}: {result:#}", self.mark);
    }

    fn params(&self, tool: &str, arguments: Value) -> Value {
        json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": self.mark}})
    }

    async fn with_tasks(self) {
        let client = Client::new(&self.url);
        match self.act {
            Act::Call => {
                let id = client.start("script_resume", self.says()).await;
                let task = client.until_status(&id, "completed").await;
                self.check(&task["result"]);
            }
            Act::Ask => {
                let id = client.start("script_resume", self.asks()).await;
                let asked = client.until_asked(&id).await;
                assert_eq!(asked["go"]["params"]["message"], self.mark);
                let yes = json!({"go": accept(json!({"confirm": true}))});
                client.answer(&id, yes).await.result();
                let task = client.until_status(&id, "completed").await;
                self.check(&task["result"]);
            }
            Act::Cancel => {
                let id = client.start("script_resume", self.waits()).await;
                client.cancel(&id).await.result();
                client.until_status(&id, "cancelled").await;
            }
            Act::Wait => {
                let id = client.start("script_restart", self.waits()).await;
                client.until_status(&id, "completed").await;
            }
            Act::Listen => listen(&client).await,
        }
    }

    async fn in_rounds(self) {
        let client = Client::new(&self.url).without_tasks();
        match self.act {
            Act::Call => {
                let mut stream = client
                    .stream("tools/call", self.params("script_inline", self.says()))
                    .await;
                while let Some(message) = stream.next().await {
                    match message.get("method") {
                        Some(_) => assert_eq!(message["params"]["progressToken"], self.mark),
                        None => self.check(&message["result"]),
                    }
                }
            }
            Act::Ask => {
                let mut params = self.params("script_auto", self.asks());
                let asked = client.request("tools/call", params.clone()).await.result();
                assert_eq!(asked["inputRequests"]["go"]["params"]["message"], self.mark);
                params["requestState"] = asked["requestState"].clone();
                params["inputResponses"] = json!({"go": accept(json!({"confirm": true}))});
                self.check(&client.request("tools/call", params).await.result());
            }
            // Closing the stream is this era's cancel.
            Act::Cancel => {
                let params = self.params("script_inline", self.waits());
                let mut stream = client.stream("tools/call", params).await;
                stream.next().await.expect("the call tells that it runs");
            }
            Act::Wait => {
                let params = self.params("script_inline", self.waits());
                client.request("tools/call", params).await;
            }
            Act::Listen => listen(&client).await,
        }
    }

    async fn in_a_session(self) {
        let client = LegacyClient::open(&self.url, "2025-11-25").await;
        let token = Some(self.mark.as_str());
        match self.act {
            Act::Call => {
                let answer = client.call("script_inline", self.says()).await;
                self.check(&answer["result"]);
                assert_eq!(client.delete().await, 202);
            }
            Act::Ask => {
                let mut stream = client.call_stream("script_auto", self.asks(), None).await;
                while let Some(message) = stream.next().await {
                    if message["method"] == "elicitation/create" {
                        assert_eq!(message["params"]["message"], self.mark);
                        let yes = json!({"result": accept(json!({"confirm": true}))});
                        client.respond(&message["id"], yes).await;
                    } else if message.get("method").is_none() {
                        self.check(&message["result"]);
                    }
                }
            }
            Act::Cancel => {
                let mut stream = client
                    .call_stream("script_inline", self.waits(), token)
                    .await;
                stream.next().await.expect("the call tells that it runs");
                let call = json!({"requestId": stream.id});
                client.notify("notifications/cancelled", call).await;
                while stream.next().await.is_some() {}
            }
            Act::Wait => {
                let _stream = client
                    .call_stream("script_inline", self.waits(), token)
                    .await;
                std::future::pending::<()>().await;
            }
            Act::Listen => while client.get(None).await.next().await.is_some() {},
        }
    }

    async fn over_a_bridge(self) {
        let mut host = StdioHost::start(&self.setup);
        match self.act {
            Act::Call => {
                let called = host
                    .request("tools/call", self.params("script_inline", self.says()))
                    .await;
                self.check(&called["result"]);
            }
            Act::Ask => {
                let params = json!({"name": "script_resume", "arguments": self.asks()});
                let task = host.request("tools/call", params).await;
                let id = task["result"]["taskId"].clone();
                let yes = json!({"go": accept(json!({"confirm": true}))});
                let answer = json!({"taskId": id, "inputResponses": yes});
                loop {
                    let task = host.request("tasks/get", json!({"taskId": id})).await;
                    match task["result"]["status"].as_str() {
                        Some("working") => {}
                        Some("input_required") => {
                            host.request("tasks/update", answer.clone()).await;
                        }
                        _ => break self.check(&task["result"]["result"]),
                    }
                }
            }
            Act::Cancel => {
                let call = host
                    .ask("tools/call", self.params("script_inline", self.waits()))
                    .await;
                host.next().await.expect("the call tells that it runs");
                host.send(&json!({
                    "jsonrpc": "2.0", "method": "notifications/cancelled",
                    "params": {"requestId": call},
                }))
                .await;
            }
            Act::Wait => {
                host.request("tools/call", self.params("script_inline", self.waits()))
                    .await;
            }
            Act::Listen => {
                let all = json!({"notifications": {"toolsListChanged": true}});
                host.ask("subscriptions/listen", all).await;
                while host.next().await.is_some() {}
            }
        }
        assert!(host.end().await.success());
    }

    async fn in_a_session_over_a_bridge(self) {
        let mut host = StdioHost::start(&self.setup);
        host.initialize().await;
        match self.act {
            Act::Call => {
                let params = self.params("script_inline", self.says());
                let call = host.ask_bare("tools/call", params).await;
                self.check(&host.answer(&call).await["result"]);
            }
            Act::Ask => {
                let params = json!({"name": "script_auto", "arguments": self.asks()});
                let call = host.ask_bare("tools/call", params).await;
                let question = host.next().await.expect("the tool asks");
                assert_eq!(question["params"]["message"], self.mark);
                host.send(&json!({
                    "jsonrpc": "2.0", "id": question["id"],
                    "result": accept(json!({"confirm": true})),
                }))
                .await;
                self.check(&host.answer(&call).await["result"]);
            }
            Act::Cancel => {
                let params = self.params("script_inline", self.waits());
                let call = host.ask_bare("tools/call", params).await;
                host.next().await.expect("the call tells that it runs");
                host.send(&json!({
                    "jsonrpc": "2.0", "method": "notifications/cancelled",
                    "params": {"requestId": call},
                }))
                .await;
            }
            Act::Wait => {
                let params = self.params("script_inline", self.waits());
                let call = host.ask_bare("tools/call", params).await;
                host.answer(&call).await;
            }
            Act::Listen => while host.next().await.is_some() {},
        }
        assert!(host.end().await.success());
    }
}

async fn listen(client: &Client) {
    let all = json!({"notifications": {"toolsListChanged": true}});
    let mut stream = client.stream("subscriptions/listen", all).await;
    while stream.next().await.is_some() {}
}

/// Waits until what is looked at is as it was before; if that never happens, tells what is left.
async fn until_same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    mut look: impl AsyncFnMut() -> T,
    before: T,
) {
    let mut last = None;
    let waited = timeout(PATIENCE, async {
        loop {
            let now = look().await;
            if now == before {
                break;
            }
            last = Some(now);
            sleep(LOOK).await;
        }
    });
    let is_same = waited.await.is_ok();
    assert!(is_same, "{what} are left: {last:#?}\nbefore: {before:#?}");
}

/// The files of the data directory, but for the database's own, the code that all tests share, and what
/// the host says of itself, in its own time.
fn files(setup: &Setup) -> BTreeSet<String> {
    fn add(directory: &Path, found: &mut BTreeSet<String>) {
        // What is being deleted may be gone by now.
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && entry.file_name() != "db" => add(&path, found),
                _ if path.ends_with("serving.json") => {}
                _ => {
                    found.insert(path.display().to_string());
                }
            }
        }
    }
    let mut found = BTreeSet::new();
    add(&setup.path("data"), &mut found);
    found
}

/// The host's open sockets.
fn sockets(host: &Host) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fd", host.pid())).unwrap();
    open.flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .filter(|target| target.to_string_lossy().starts_with("socket:"))
        .count()
}
