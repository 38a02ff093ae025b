//! (l) The scheduler with runs in the sandbox, against the same scheduler with the same function
//! native in the same process: what the sandbox alone costs a call.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use longshore::clock::Clock;
use longshore::notify::Notifier;
use longshore::scheduler::{
    Asks, Call, CallOutcome, Run, RunEnd, Runner, Saved, Scheduler, SchedulerLimits, Submission,
};
use longshore::task::{Abilities, CallResult, Digest, Policy, Recovery, TenantId, ToolRef};
use longshore::wasm::{Compiler, Component, Grants, Sandbox, SandboxLimits};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::Effort;
use crate::commits::open_store;
use crate::table::{Samples, Table};

/// Calls of each kind in a round, in turns.
const TURNS: usize = 400;
const CALLERS: usize = 32;
const RIDE: Duration = Duration::from_millis(400);

pub async fn measure(effort: Effort, table: &mut Table) -> anyhow::Result<()> {
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR"))?;
    let sandboxed = scheduler(&dir.path().join("sandboxed"), Arc::new(guest().await?))?;
    let native = scheduler(&dir.path().join("native"), Arc::new(Native))?;
    let mut p50 = [Samples::default(), Samples::default()];
    let mut rates = [Samples::default(), Samples::default()];
    for round in 0..=effort.rounds {
        let mut times: [Vec<Duration>; 2] = Default::default();
        for _ in 0..TURNS {
            for (scheduler, times) in [&sandboxed, &native].into_iter().zip(&mut times) {
                let started = Instant::now();
                call(scheduler).await?;
                times.push(started.elapsed());
            }
        }
        for (index, scheduler) in [&sandboxed, &native].into_iter().enumerate() {
            let rate = calls_per_second(scheduler).await?;
            // The first round warms up.
            if round > 0 {
                rates[index].0.push(rate);
            }
        }
        if round > 0 {
            for (p50, times) in p50.iter_mut().zip(times) {
                p50.0.push(Samples::micros(times).median());
            }
        }
    }
    let [ours, plain] = &p50;
    table.row('l', "p50 of a call in the sandbox, no HTTP", "µs", ours);
    table.row('l', "p50 of the same function, native", "µs", plain);
    let cost = Samples(ours.0.iter().zip(&plain.0).map(|(a, b)| a - b).collect());
    table.row('l', "what the sandbox adds to a call", "µs", &cost);
    let what = format!("instances made, called and dropped, {CALLERS} at once");
    table.row('l', &what, "/s", &rates[0]);
    table.row('l', "native calls, as many at once", "/s", &rates[1]);
    Ok(())
}

async fn calls_per_second(scheduler: &Scheduler) -> anyhow::Result<f64> {
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let scheduler = scheduler.clone();
        callers.spawn(async move {
            let mut count = 0;
            while started.elapsed() < RIDE {
                call(&scheduler).await?;
                count += 1;
            }
            anyhow::Ok(count)
        });
    }
    let mut sum = 0;
    while let Some(count) = callers.join_next().await {
        sum += count??;
    }
    Ok(f64::from(sum) / started.elapsed().as_secs_f64())
}

async fn call(scheduler: &Scheduler) -> anyhow::Result<()> {
    let asks = Asks::Refused("nobody is asked".to_owned());
    let saved = Saved::default();
    let mut started = scheduler
        .start_call(submission(), asks, saved, Default::default())
        .await?;
    match started.outcome().await {
        CallOutcome::Ended(RunEnd::Returned(result)) if !result.is_error => Ok(()),
        other => bail!("the call ended otherwise: {other:?}"),
    }
}

fn submission() -> Submission {
    Submission {
        tenant: TenantId::local(),
        tool: ToolRef {
            plugin: "script".into(),
            tool: "script_inline".into(),
            digest: Digest([0; 32]),
        },
        arguments: json!({"script": [{"do": "say", "text": "hello"}]}).to_string(),
        policy: Policy {
            recovery: Recovery::Resume,
            cleanup_on_cancel: false,
            cancel_grace: Duration::ZERO,
            poll_interval: Duration::from_secs(1),
        },
        abilities: Abilities::default(),
        ttl: Some(Duration::from_secs(3_600)),
        trace: None,
        operation: Default::default(),
        listener: None,
    }
}

fn scheduler(dir: &Path, runner: Arc<dyn Runner>) -> anyhow::Result<Scheduler> {
    let limits = SchedulerLimits {
        tasks_running_max: 8,
        tenant_tasks_running_max: 8,
        calls_running_max: CALLERS,
        tenant_calls_running_max: CALLERS,
        tenant_calls_waiting_max: 0,
        call_wait_max: Duration::from_secs(5),
        held_instances_max: 8,
        tenant_held_instances_max: 8,
        round_hold: Duration::from_secs(60),
        tenant_rounds_held_max: 8,
        held_memory_max_bytes: 1 << 30,
        park_after: Duration::ZERO,
        save_interval: Duration::from_secs(1),
        sweep_interval: Duration::from_secs(3_600),
    };
    let store = open_store(dir)?;
    Ok(Scheduler::new(
        store,
        Notifier::default(),
        runner,
        Clock::system(),
        limits,
    ))
}

struct Guest {
    sandbox: Sandbox,
    component: Component,
    grants: Arc<Grants>,
}

async fn guest() -> anyhow::Result<Guest> {
    let limits = SandboxLimits {
        instances_max: 2 * CALLERS as u32,
        memory_max_bytes: 64 << 20,
        component_max_bytes: 32 << 20,
        compile_timeout: Duration::from_secs(120),
        compile_memory_max_bytes: 4 << 30,
        result_max_bytes: 1 << 20,
        result_kept_max_bytes: 1 << 20,
        log_max_bytes: 256 << 10,
        state_max_bytes: 1 << 20,
        state_keys_max: 1_000,
        threads: 2,
    };
    let compiler = Compiler::Child(PathBuf::from(env!("CARGO_BIN_EXE_longshore")));
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-components");
    let sandbox = Sandbox::with_compiler(limits, &cache, compiler)?;
    let wasm = std::fs::read(longshore_guests::SCRIPT.component())?;
    Ok(Guest {
        component: sandbox.load(&wasm).await?,
        sandbox,
        grants: Arc::default(),
    })
}

impl Runner for Guest {
    fn run(&self, call: Call, run: Run) -> BoxFuture<'static, RunEnd> {
        let (component, grants) = (self.component.clone(), Arc::clone(&self.grants));
        self.sandbox.run(component, grants, call, run)
    }
}

/// Does what the scripted tool does with this script: reads it, and says the text.
struct Native;

impl Runner for Native {
    fn run(&self, call: Call, _: Run) -> BoxFuture<'static, RunEnd> {
        async move {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
            let text = &arguments["script"][0]["text"];
            let json = json!({"content": [{"type": "text", "text": text}]}).to_string();
            RunEnd::Returned(CallResult {
                json,
                is_error: text.is_null(),
            })
        }
        .boxed()
    }
}
