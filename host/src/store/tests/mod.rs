//! The store against a real database in a temporary directory.

mod codec;
mod commands;
mod damage;
mod directory;
mod files;
mod indexes;
mod offline;
mod parts;
mod rounds;
mod state;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::{NewTask, OpenError, Store, StoreOptions};
use crate::clock::{Clock, Timestamp};
use crate::notify::Notifier;
use crate::task::{
    Abilities, Ask, Attempt, CallResult, Digest, Event, InputKey, InputRequest, Phase, Policy,
    Recovery, Task, TaskId, TaskKey, TenantId, ToolRef,
};

const NOW: Timestamp = Timestamp(1_000);

const TASKS_UNFINISHED_MAX: usize = 100;

/// A store in a temporary directory, which can be closed and opened again.
struct Bench {
    directory: tempfile::TempDir,
    clock: Clock,
    notifier: Notifier,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            directory: tempfile::tempdir().unwrap(),
            clock: Clock::manual(NOW),
            notifier: Notifier::default(),
        }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn open(&self) -> Store {
        self.try_open(options()).unwrap()
    }

    fn try_open(&self, options: StoreOptions) -> Result<Store, OpenError> {
        let (clock, notifier) = (self.clock.clone(), self.notifier.clone());
        Store::open(self.path(), options, clock, notifier)
    }

    /// Every file below a folder of the data directory.
    fn files(&self, folder: &str) -> Vec<String> {
        let root = self.path().join(folder);
        let mut found = Vec::new();
        let mut open = vec![root.clone()];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => open.push(path),
                    false => {
                        let name = path.strip_prefix(&root).unwrap();
                        found.push(name.display().to_string());
                    }
                }
            }
        }
        found.sort();
        found
    }
}

fn options() -> StoreOptions {
    StoreOptions {
        queue_max: 64,
        cache_bytes: 16 * 1024 * 1024,
        free_disk_min_bytes: 0,
        tenant_rounds_max_bytes: 1 << 20,
        tenant_results_kept_max_bytes: 1 << 20,
        tasks_unfinished_max: TASKS_UNFINISHED_MAX,
    }
}

fn key(id: &str) -> TaskKey {
    TaskKey {
        tenant: TenantId::parse("acme").unwrap(),
        id: TaskId::parse(id).unwrap(),
    }
}

fn input_key(text: &str) -> InputKey {
    InputKey::parse(text).unwrap()
}

fn task(id: &str) -> Task {
    Task {
        key: key(id),
        tool: ToolRef {
            plugin: "reports".into(),
            tool: "export".into(),
            digest: Digest([7; 32]),
        },
        policy: Policy {
            recovery: Recovery::Resume,
            cleanup_on_cancel: false,
            cancel_grace: Duration::from_secs(30),
            poll_interval: Duration::from_secs(1),
        },
        abilities: Abilities::default(),
        created_at: NOW,
        updated_at: NOW,
        expires_at: Some(Timestamp(9_000)),
        phase: Phase::Queued { ready_at: NOW },
        attempt: Attempt(0),
        crashes: 0,
        crashes_in_all: 0,
        interrupted: None,
        steps: 0,
        message: None,
        done: None,
        total: None,
        cancel: None,
        inputs: BTreeMap::new(),
        external_reference: None,
        result_is_error: false,
        trace: None,
    }
}

fn new_task(id: &str) -> NewTask {
    NewTask {
        task: task(id),
        arguments: "{}".into(),
        checkpoint: None,
        steps: Vec::new(),
        inputs: Vec::new(),
    }
}

fn asked(keys: &[&str]) -> Event {
    let requests = keys.iter().map(|key| InputRequest {
        key: input_key(key),
        ask: Ask::Form {
            message: format!("{key}?"),
            schema: "{}".into(),
        },
    });
    Event::Asked {
        attempt: Attempt(1),
        requests: requests.collect(),
    }
}

fn checkpointed(state: &[u8]) -> Event {
    Event::Checkpointed {
        attempt: Attempt(1),
        state: Some(state.to_vec()),
    }
}

fn step(name: &str, value: &[u8]) -> Event {
    Event::StepRecorded {
        attempt: Attempt(1),
        name: name.into(),
        value: value.to_vec(),
    }
}

fn returned(json: &str) -> Event {
    Event::Returned {
        attempt: Attempt(1),
        result: CallResult {
            json: json.into(),
            is_error: false,
        },
    }
}

/// A store that holds one running task.
async fn running(bench: &Bench, id: &str) -> Store {
    let store = bench.open();
    store.insert(new_task(id)).await.unwrap();
    store.update(&key(id), Event::Claimed).await.unwrap();
    store
}

impl Store {
    /// Makes a task's record unreadable, behind the store's back.
    pub(crate) fn damage_record(&self, key: &TaskKey) {
        let damaged = (super::keys::task(key), Some(b"\x01{".to_vec()));
        let records = &self.core().records;
        records
            .commit(super::records::Writes::from([damaged]))
            .unwrap();
    }
}
