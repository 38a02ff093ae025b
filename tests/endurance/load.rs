//! Clients that use a host until it fails them, and remember what it acknowledged.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::sync::watch;

use super::{asking, status, yes};
use crate::harness::Client;

/// What a client was told and may rely on.
#[derive(Clone, Debug)]
pub enum Acknowledged {
    Created(String),
    Answered(String),
    Cancelled(String),
    /// Seen completed, with this result's text.
    Completed(String, String),
}

/// The clients' memory. Cheap to clone.
#[derive(Clone)]
pub struct Memory {
    facts: Arc<Mutex<Vec<Acknowledged>>>,
    count: watch::Sender<usize>,
    /// A host without a disk goes on telling what it knows, so it does not end the clients.
    is_over: Arc<AtomicBool>,
}

impl Memory {
    pub fn new() -> Memory {
        Memory {
            facts: Arc::default(),
            count: watch::Sender::new(0),
            is_over: Arc::default(),
        }
    }

    pub fn facts(&self) -> Vec<Acknowledged> {
        self.facts.lock().unwrap().clone()
    }

    /// Waits until so many acknowledgements came.
    pub async fn until(&self, count: usize) {
        let mut counted = self.count.subscribe();
        counted.wait_for(|now| *now >= count).await.unwrap();
    }

    /// Sends the clients home, or lets them begin.
    pub fn set_over(&self, is_over: bool) {
        self.is_over.store(is_over, Ordering::SeqCst);
    }

    fn keep(&self, fact: Acknowledged) {
        let mut facts = self.facts.lock().unwrap();
        facts.push(fact);
        self.count.send_replace(facts.len());
    }
}

/// Creates, answers and cancels tasks until the host answers with an error or it is over.
pub async fn use_until_it_fails(client: Client, memory: Memory) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        if use_once(&client, &memory, number).await.is_none() {
            return;
        }
    }
}

async fn use_once(client: &Client, memory: &Memory, number: usize) -> Option<()> {
    let params = json!({"name": "script_resume", "arguments": asking()});
    let reply = client.request("tools/call", params).await;
    let id = reply.body["result"]["taskId"].as_str()?.to_owned();
    memory.keep(Acknowledged::Created(id.clone()));
    if number.is_multiple_of(3) {
        return Some(());
    }
    until(client, memory, &id, "input_required").await?;
    if number % 3 == 1 {
        client.cancel(&id).await.body.get("result")?;
        memory.keep(Acknowledged::Cancelled(id));
        return Some(());
    }
    client.answer(&id, yes()).await.body.get("result")?;
    memory.keep(Acknowledged::Answered(id.clone()));
    until(client, memory, &id, "completed").await?;
    let reply = client.request("tasks/get", json!({"taskId": id})).await;
    let result = reply.body["result"].get("result")?.to_string();
    memory.keep(Acknowledged::Completed(id, result));
    Some(())
}

async fn until(client: &Client, memory: &Memory, id: &str, expected: &str) -> Option<()> {
    while status(client, id).await? != expected {
        if memory.is_over.load(Ordering::SeqCst) {
            return None;
        }
    }
    Some(())
}

/// Whether a host that came back still has all of it; what it answers is judged here.
pub async fn check(client: &Client, facts: &[Acknowledged]) {
    for fact in facts {
        match fact {
            Acknowledged::Created(id) => {
                assert!(status(client, id).await.is_some(), "{fact:?} is lost");
            }
            // It goes on with the answer and does not ask again.
            Acknowledged::Answered(id) => {
                client.until_status(id, "completed").await;
            }
            Acknowledged::Cancelled(id) => {
                let now = status(client, id).await;
                assert_eq!(now.as_deref(), Some("cancelled"), "{fact:?}");
            }
            Acknowledged::Completed(id, result) => {
                let task = client.task(id).await;
                assert_eq!(task["status"], "completed", "{fact:?}");
                assert_eq!(&task["result"].to_string(), result, "{fact:?}");
            }
        }
    }
}
