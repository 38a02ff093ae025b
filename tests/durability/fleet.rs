//! Clients that call, answer and cancel while their host comes and goes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::ledger::{Kind, Record, attempt_of_step, open_questions};
use crate::harness::{Client, Random, Server, Setup};
use crate::plugins::report_export::sales;

/// Clients beside the one that only exports.
const CLIENTS: u64 = 6;

/// How long the target takes to do what it is asked, so that deaths fall in between.
const TARGET_DELAY: Duration = Duration::from_millis(5);

/// The report that nothing disturbed. All names have one length.
const UNDISTURBED: &str = "report-0000";

type Known = Arc<tokio::sync::Mutex<Record>>;

pub struct Fleet {
    target: Server,
    /// None while there is no host.
    client: watch::Sender<Option<Client>>,
    /// Every task that a client received an id of.
    records: Mutex<Vec<Known>>,
    is_closing: AtomicBool,
    exports: AtomicU32,
}

impl Fleet {
    pub async fn new() -> Arc<Fleet> {
        let target = Server::start(|_| async {
            tokio::time::sleep(TARGET_DELAY).await;
            (200, String::new())
        });
        Arc::new(Fleet {
            target: target.await,
            client: watch::Sender::new(None),
            records: Mutex::default(),
            is_closing: AtomicBool::new(false),
            exports: AtomicU32::new(0),
        })
    }

    /// Where the effects of all tasks go.
    pub fn target(&self) -> &Server {
        &self.target
    }

    pub fn serve(&self, client: Client) {
        self.client.send_replace(Some(client));
    }

    /// The host is about to die; requests under way are left as they are.
    pub fn pause(&self) {
        self.client.send_replace(None);
    }

    /// Begin nothing new, finish what there is.
    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    pub fn begin(self: &Arc<Fleet>, random: &mut Random) -> JoinSet<()> {
        let mut workers = JoinSet::new();
        for worker in 0..=CLIENTS {
            let fleet = self.clone();
            let random = Random(random.next());
            workers.spawn(async move { fleet.work(worker == 0, random).await });
        }
        workers
    }

    async fn work(&self, exports: bool, mut random: Random) {
        while !self.is_closing.load(Ordering::Relaxed) {
            let kind = match random.below(6) {
                _ if exports => Kind::Export,
                0 => Kind::Fail,
                1 => Kind::Restart,
                2 | 3 => Kind::Resume,
                _ => Kind::Release,
            };
            let client = self.client().await;
            if let Some(record) = self.start(&client, kind, &mut random).await {
                self.follow(&record, &mut random).await;
            }
        }
    }

    /// Calls a tool; None when the host died before the answer.
    async fn start(&self, client: &Client, kind: Kind, random: &mut Random) -> Option<Known> {
        let (tool, arguments) = self.call(kind, random);
        let params = json!({"name": tool, "arguments": arguments});
        let reply = client.try_request("tools/call", params).await?;
        let result = reply.body.get("result")?;
        let id = result["taskId"].as_str();
        let id = id.unwrap_or_else(|| panic!("no task: {result:#}"));
        let record = Arc::new(tokio::sync::Mutex::new(Record::new(id.to_owned(), kind)));
        self.records.lock().unwrap().push(record.clone());
        Some(record)
    }

    fn call(&self, kind: Kind, random: &mut Random) -> (&'static str, Value) {
        let wait = json!({"do": "wait", "ms": random.below(100)});
        let url = self.target.url("/step");
        let post = |name: &str| json!({"do": "step_post", "name": name, "url": url});
        let confirm = json!({"do": "confirm", "key": "q", "message": "Go on?"});
        match kind {
            Kind::Resume => {
                let script = json!([
                    {"do": "saved"}, {"do": "attempt"},
                    post("a"), {"do": "checkpoint", "state": "one"},
                    {"do": "progress", "message": "half way", "done": 1, "total": 2},
                    wait, confirm, post("b"),
                    {"do": "ask_all", "keys": ["name-1", "name-2"]},
                    post("c"), post("a"),
                ]);
                ("script_resume", json!({"script": script}))
            }
            Kind::Restart => {
                let script = json!([{"do": "attempt"}, wait, confirm, wait]);
                ("script_restart", json!({"script": script}))
            }
            Kind::Fail => ("script_fail", json!({"script": [{"do": "attempt"}, wait]})),
            Kind::Release => {
                let step = |name: &str| {
                    let undo = json!({"method": "DELETE", "url": self.target.url("/release")});
                    json!({
                        "name": name, "description": name, "method": "POST",
                        "url": self.target.url("/release"), "undo": undo,
                    })
                };
                let steps = json!([step("one"), step("two"), step("three")]);
                ("release-gate", json!({"steps": steps}))
            }
            Kind::Export => {
                let number = self.exports.fetch_add(1, Ordering::Relaxed) + 1;
                (
                    "report-export",
                    export_arguments(&format!("report-{number:04}")),
                )
            }
        }
    }

    /// Follows a task to its end, over all hosts.
    async fn follow(&self, record: &Known, random: &mut Random) {
        let id = record.lock().await.id.clone();
        loop {
            let client = self.client().await;
            let params = json!({"notifications": {"taskIds": [id]}});
            let Some(mut changes) = client.try_stream("subscriptions/listen", params).await else {
                continue;
            };
            while changes.next().await.is_some() {
                if self.act(&client, record, random).await {
                    return;
                }
            }
        }
    }

    /// Looks at the task and perhaps answers or cancels; true once it has ended. The lock keeps
    /// what is observed in the order in which it was said.
    async fn act(&self, client: &Client, record: &Known, random: &mut Random) -> bool {
        let mut record = record.lock().await;
        let Some(task) = get(client, &record.id).await else {
            return false;
        };
        record.observe(&task);
        if record.ended().is_some() {
            return true;
        }
        if record.is_cancelled() || record.kind == Kind::Export {
            return false;
        }
        let mut open = open_questions(&task);
        if random.one_in(25) {
            record.cancelling();
            let params = json!({"taskId": record.id});
            if let Some(reply) = client.try_request("tasks/cancel", params).await {
                assert_eq!(reply.code(), 0, "{:#}", reply.body);
                record.cancel_acknowledged();
            }
        } else if !open.is_empty() {
            if random.one_in(2) {
                open.truncate(1);
            }
            let keys = open.into_iter().map(|(key, _)| key);
            let responses: serde_json::Map<String, Value> = keys
                .map(|key| (key.clone(), record.response_to(&key)))
                .collect();
            let params = json!({"taskId": record.id, "inputResponses": responses});
            if let Some(reply) = client.try_request("tasks/update", params).await {
                assert_eq!(reply.code(), 0, "{:#}", reply.body);
                for key in responses.into_iter().map(|(key, _)| key) {
                    record.answer_acknowledged(key);
                }
            }
        }
        false
    }

    async fn client(&self) -> Client {
        let mut client = self.client.subscribe();
        let found = client.wait_for(Option::is_some).await;
        found
            .expect("the fleet lives")
            .clone()
            .expect("it is there")
    }

    /// Every task that was acknowledged is there, and is what it was said to be (I1).
    pub async fn check_all(&self, client: &Client) {
        for record in self.records() {
            let mut record = record.lock().await;
            let task = client.task(&record.id).await;
            record.observe(&task);
        }
    }

    fn records(&self) -> Vec<Known> {
        self.records.lock().unwrap().clone()
    }

    pub async fn unfinished(&self) -> Vec<String> {
        let mut unfinished = Vec::new();
        for record in self.records() {
            // A record that is locked belongs to a client that waits for the host.
            match record.try_lock() {
                Ok(record) if record.ended().is_some() => {}
                Ok(record) => unfinished.push(format!("{record:?}")),
                Err(_) => unfinished.push("a task that is being asked about".to_owned()),
            }
        }
        unfinished
    }

    /// What the target saw fits what the tasks say: nothing was done twice under another key,
    /// nothing without a yes, nothing again after its record.
    pub async fn check_effects(&self, kills: u32) {
        let mut releases: BTreeMap<String, u32> = BTreeMap::new();
        let mut steps: BTreeMap<String, Vec<(String, u32)>> = BTreeMap::new();
        for seen in self.target.seen() {
            if let Some(key) = seen.header("idempotency-key") {
                *releases.entry(key.to_owned()).or_default() += 1;
            } else {
                let words: Vec<&str> = seen.body.split(' ').collect();
                let effect = (words[1].to_owned(), words[2].parse().unwrap());
                steps.entry(words[0].to_owned()).or_default().push(effect);
            }
        }
        for record in self.records() {
            let record = record.lock().await;
            match record.kind {
                Kind::Release => check_release(&record, &releases, kills),
                Kind::Resume => {
                    let effects = steps.get(&record.id).map_or(&[][..], Vec::as_slice);
                    check_steps(&record, effects);
                }
                Kind::Restart | Kind::Fail | Kind::Export => {}
            }
        }
    }

    /// Makes the report that all others are compared with.
    pub async fn export_undisturbed(&self, setup: &Setup, client: &Client) {
        let id = client
            .start("report-export", export_arguments(UNDISTURBED))
            .await;
        let task = client.until_status(&id, "completed").await;
        let rows = task["result"]["structuredContent"]["rows_read"].as_u64();
        let [csv, ..] = report(setup, UNDISTURBED);
        assert_eq!(csv, sales::amounts_by_region(rows.unwrap()));
    }

    pub async fn check_exports(&self, setup: &Setup) {
        let undisturbed = report(setup, UNDISTURBED);
        for record in self.records() {
            let record = record.lock().await;
            let ended = record.ended().expect("all tasks have ended");
            if record.kind != Kind::Export || ended["status"] != "completed" {
                continue;
            }
            let file = &ended["result"]["structuredContent"]["files"][0]["path"];
            let file = file.as_str().unwrap().trim_start_matches("/output/");
            let name = file.trim_end_matches(".csv");
            let renamed = report(setup, name).map(|text| text.replace(name, UNDISTURBED));
            assert_eq!(renamed, undisturbed, "{name}");
        }
    }

    /// How many tasks of which kind ended how. Few may have been given up: the host has to die
    /// three times in one spot for that.
    pub async fn summary(&self) -> String {
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        let (mut given_up, mut all) = (0, 0);
        for record in self.records() {
            let record = record.lock().await;
            let status = &record.ended().expect("all tasks have ended")["status"];
            let name = format!("{:?} {}", record.kind, status.as_str().unwrap());
            *counts.entry(name).or_default() += 1;
            given_up += u32::from(record.is_given_up());
            all += 1;
        }
        assert!(given_up * 10 <= all, "{given_up} of {all} were given up");
        format!("{all} tasks, {counts:?}")
    }
}

/// The task as the host says; None when the host died before the answer.
async fn get(client: &Client, id: &str) -> Option<Value> {
    let params = json!({"taskId": id});
    let reply = client.try_request("tasks/get", params).await?;
    let result = reply.body.get("result").cloned();
    Some(result.unwrap_or_else(|| panic!("I1: a task is gone: {:#}", reply.body)))
}

fn check_release(record: &Record, arrived: &BTreeMap<String, u32>, kills: u32) {
    let ended = record.ended().expect("all tasks have ended");
    let count = |key: &str| arrived.get(key).copied().unwrap_or(0);
    for (index, name) in ["one", "two", "three"].into_iter().enumerate() {
        let key = format!("{}-{name}", record.id);
        let sent = count(&key);
        let question = format!("step-{}-{name}", index + 1);
        assert!(
            sent == 0 || record.says_yes(&question),
            "{key} was sent without a yes"
        );
        assert!(sent <= 1 + kills, "{key} was sent {sent} times");
        match ended["status"].as_str().unwrap() {
            "completed" => {
                let step = &ended["result"]["structuredContent"]["steps"][index];
                let attempts = step["attempts"].as_u64().unwrap();
                assert!(u64::from(sent) <= attempts, "{key}: {sent} of {step:#}");
                assert_eq!(sent > 0, step["state"] == "done", "{key}: {step:#}");
            }
            "cancelled" => {
                let undone = count(&format!("{key}!undo")) > 0;
                assert!(sent == 0 || undone, "{key} was not taken back: {ended:#}");
            }
            _ => {}
        }
    }
}

/// `effects` are steps with the attempt that did them, in the order they arrived.
fn check_steps(record: &Record, effects: &[(String, u32)]) {
    let mut earlier: Vec<&(String, u32)> = Vec::new();
    for effect in effects {
        assert!(
            !earlier.contains(&effect),
            "{effect:?} of one run came twice"
        );
        // A step's record is durable before the next step's effect.
        let later = earlier.iter().any(|(name, _)| *name > effect.0);
        assert!(!later, "{effect:?} was done again after the next step");
        earlier.push(effect);
    }
    let ended = record.ended().expect("all tasks have ended");
    let Some(text) = ended["result"]["content"][0]["text"].as_str() else {
        return;
    };
    for name in ["a", "b", "c"] {
        let recorded = text
            .lines()
            .find(|line| line.starts_with(&format!("step {name} ")));
        let recorded = attempt_of_step(recorded.expect("every step is told"));
        let done = effects.iter().filter(|(step, _)| step == name);
        let last = done.map(|(_, attempt)| *attempt).max();
        assert_eq!(last, Some(recorded), "step {name} of {text}");
    }
}

fn export_arguments(output: &str) -> Value {
    json!({
        "file": "sales.csv",
        "group_by": ["region"],
        "measures": [{"column": "amount"}],
        "output": output,
    })
}

fn report(setup: &Setup, name: &str) -> [String; 3] {
    ["csv", "md", "svg"].map(|format| {
        let file = setup.path("output").join(format!("{name}.{format}"));
        std::fs::read_to_string(file).unwrap()
    })
}
