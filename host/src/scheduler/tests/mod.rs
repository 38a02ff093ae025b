//! The scheduler with a scripted runner, a manual clock and a real store.

mod calls;
mod cancel;
mod large;
mod progress;
mod questions;
mod restart;
mod rounds;
mod tasks;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use serde_json::{Map, json};
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::*;
use crate::clock::Timestamp;
use crate::notify::Notifier;
use crate::store::{RoundName, StoreOptions};
use crate::task::{
    Abilities, Ask, Digest, Ending, InputRequest, Policy, Recovery, Status, TenantId, ToolRef,
};

const TASKS_UNFINISHED_MAX: usize = 100;

type Script = Arc<dyn Fn(Call, Run) -> BoxFuture<'static, RunEnd> + Send + Sync>;

struct Scripted(Script);

impl Runner for Scripted {
    fn run(&self, call: Call, run: Run) -> BoxFuture<'static, RunEnd> {
        let work = (self.0)(call, run.clone());
        async move {
            tokio::select! {
                end = work => end,
                () = run.killed() => RunEnd::Abandoned,
            }
        }
        .boxed()
    }
}

/// A scheduler over a store in a temporary directory.
struct Fixture {
    scheduler: Scheduler,
    store: Store,
    notifier: Notifier,
    clock: Clock,
    _dir: TempDir,
}

impl Fixture {
    fn new<F>(script: impl Fn(Call, Run) -> F + Send + Sync + 'static) -> Fixture
    where
        F: Future<Output = RunEnd> + Send + 'static,
    {
        Fixture::with(|_| {}, script)
    }

    fn with<F>(
        adjust: impl FnOnce(&mut SchedulerLimits),
        script: impl Fn(Call, Run) -> F + Send + Sync + 'static,
    ) -> Fixture
    where
        F: Future<Output = RunEnd> + Send + 'static,
    {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::manual(Timestamp(1_000_000));
        let notifier = Notifier::default();
        let options = StoreOptions {
            queue_max: 64,
            cache_bytes: 8 << 20,
            free_disk_min_bytes: 0,
            tenant_rounds_max_bytes: 1 << 20,
            tenant_results_kept_max_bytes: 1 << 20,
            tasks_unfinished_max: TASKS_UNFINISHED_MAX,
        };
        let store = Store::open(dir.path(), options, clock.clone(), notifier.clone()).unwrap();
        let mut limits = SchedulerLimits {
            tasks_running_max: 8,
            tenant_tasks_running_max: 8,
            calls_running_max: 8,
            tenant_calls_running_max: 8,
            tenant_calls_waiting_max: 8,
            call_wait_max: Duration::from_secs(5),
            held_instances_max: 8,
            tenant_held_instances_max: 8,
            round_hold: Duration::from_secs(600),
            tenant_rounds_held_max: 8,
            held_memory_max_bytes: 1 << 20,
            park_after: Duration::ZERO,
            save_interval: Duration::from_millis(5),
            sweep_interval: Duration::from_secs(3_600),
        };
        adjust(&mut limits);
        let script: Script = Arc::new(move |call, run| script(call, run).boxed());
        let runner = Arc::new(Scripted(script));
        let scheduler = Scheduler::new(
            store.clone(),
            notifier.clone(),
            runner,
            clock.clone(),
            limits,
        );
        Fixture {
            scheduler,
            store,
            notifier,
            clock,
            _dir: dir,
        }
    }

    async fn submit(&self, submission: Submission) -> TaskKey {
        self.scheduler.submit(submission).await.unwrap().key
    }

    /// Waits until the task is as `holds` says.
    async fn until(&self, key: &TaskKey, holds: impl Fn(&Task) -> bool) -> Task {
        let mut changes = self.notifier.subscribe(vec![key.clone()]);
        loop {
            let task = self.store.get(key).unwrap().expect("the task is there");
            if holds(&task) {
                return task;
            }
            changes.changed().await;
        }
    }

    async fn until_status(&self, key: &TaskKey, status: Status) -> Task {
        self.until(key, |task| task.status() == status).await
    }

    fn result(&self, key: &TaskKey) -> String {
        self.store
            .result(key)
            .unwrap()
            .expect("a result is stored")
            .json
    }
}

fn submission(tool: &str, recovery: Recovery) -> Submission {
    Submission {
        tenant: TenantId::local(),
        tool: ToolRef {
            plugin: "p".into(),
            tool: tool.into(),
            digest: Digest([1; 32]),
        },
        arguments: "{}".into(),
        policy: Policy {
            recovery,
            cleanup_on_cancel: false,
            cancel_grace: Duration::from_secs(60),
            poll_interval: Duration::from_secs(1),
        },
        abilities: Abilities {
            form: true,
            ..Abilities::default()
        },
        ttl: Some(Duration::from_secs(3_600)),
        trace: None,
        operation: Default::default(),
        listener: None,
    }
}

fn returned(text: impl Into<String>) -> RunEnd {
    RunEnd::Returned(CallResult {
        json: text.into(),
        is_error: false,
    })
}

fn question(key: &str) -> InputRequest {
    let schema =
        json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]});
    let ask = Ask::Form {
        message: "Go on?".into(),
        schema: schema.to_string(),
    };
    InputRequest {
        key: InputKey::parse(key).unwrap(),
        ask,
    }
}

fn accept() -> Answer {
    Answer::Accept(Some(r#"{"ok":true}"#.into()))
}

async fn run_number(run: &Run) -> RunEnd {
    let attempt = run.context().await.attempt;
    returned(format!("run {attempt}"))
}

async fn ask(run: &Run, key: &str) -> Result<Vec<Answer>, RunEnd> {
    match run.request_input(vec![question(key)]).await {
        Ok(Ok(answers)) => Ok(answers),
        Ok(Err(InputError::Stopped)) => Err(RunEnd::Cancelled(Some("cleaned up".into()))),
        Ok(Err(error)) => Err(returned(format!("{error:?}"))),
        Err(Abandoned) => Err(RunEnd::Abandoned),
    }
}

/// Runs until it is told to stop.
async fn work_until_stopped(run: Run) -> RunEnd {
    loop {
        match run.checkpoint(Some(b"state".to_vec())).await {
            Ok(Ok(())) => tokio::task::yield_now().await,
            Ok(Err(stopped)) => return RunEnd::Cancelled(Some(stopped.reason)),
            Err(Abandoned) => return RunEnd::Abandoned,
        }
    }
}
