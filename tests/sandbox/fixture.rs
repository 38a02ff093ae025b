//! A scheduler that runs the probe guest in a sandbox of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use longshore::clock::Clock;
use longshore::notify::Notifier;
use longshore::scheduler::{
    Asks, Call, CallOutcome, Run, RunEnd, Runner, Saved, Scheduler, SchedulerLimits, StartedCall,
    Submission,
};
use longshore::store::{Store, StoreOptions};
use longshore::task::{Abilities, Digest, Policy, Recovery, Task, TaskKey, TenantId, ToolRef};
use longshore::wasm::{Compiler, Component, Grants, Sandbox, SandboxLimits};
use tempfile::TempDir;

pub const MIB: usize = 1 << 20;

/// The probe's component, built once.
pub fn probe() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let target = root.join("target/guests");
        let built = Command::new(env!("CARGO"))
            .args([
                "build",
                "--release",
                "--target",
                "wasm32-wasip2",
                "--manifest-path",
            ])
            .arg(root.join("tests/guests/probe/Cargo.toml"))
            .arg("--target-dir")
            .arg(&target)
            .output()
            .unwrap();
        assert!(
            built.status.success(),
            "{}",
            String::from_utf8_lossy(&built.stderr)
        );
        target.join("wasm32-wasip2/release/probe.wasm")
    })
}

pub fn limits() -> SandboxLimits {
    SandboxLimits {
        instances_max: 8,
        memory_max_bytes: 32 * MIB,
        component_max_bytes: 8 * MIB as u64,
        compile_timeout: Duration::from_secs(60),
        compile_memory_max_bytes: 2 << 30,
        result_max_bytes: MIB,
        result_kept_max_bytes: MIB,
        log_max_bytes: 64 << 10,
        state_max_bytes: MIB as u64,
        state_keys_max: 1_000,
        threads: 2,
    }
}

/// A sandbox in a temporary directory, whose compiler is the real binary.
pub fn sandbox(dir: &Path, limits: SandboxLimits) -> Sandbox {
    let compiler = Compiler::Child(PathBuf::from(env!("CARGO_BIN_EXE_longshore")));
    Sandbox::with_compiler(limits, dir, compiler).unwrap()
}

/// Runs every call in the probe.
struct Probe {
    sandbox: Sandbox,
    component: Component,
    grants: Arc<Grants>,
}

impl Runner for Probe {
    fn run(&self, call: Call, run: Run) -> BoxFuture<'static, RunEnd> {
        let (component, grants) = (self.component.clone(), Arc::clone(&self.grants));
        self.sandbox.run(component, grants, call, run)
    }
}

pub struct Fixture {
    pub scheduler: Scheduler,
    pub store: Store,
    pub notifier: Notifier,
    pub dir: TempDir,
}

impl Fixture {
    pub async fn new() -> Fixture {
        Fixture::with(limits(), |_| Grants::default()).await
    }

    /// With grants that may name places inside the fixture's directory.
    pub async fn with(limits: SandboxLimits, grants: impl FnOnce(&Path) -> Grants) -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        // Shared, so that the probe is compiled once.
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("components");
        let sandbox = sandbox(&cache, limits);
        let component = sandbox
            .load(&std::fs::read(probe()).unwrap())
            .await
            .unwrap();
        let runner = Arc::new(Probe {
            sandbox,
            component,
            grants: Arc::new(grants(dir.path())),
        });
        let notifier = Notifier::default();
        let options = StoreOptions {
            queue_max: 64,
            cache_bytes: 8 << 20,
            free_disk_min_bytes: 0,
            tenant_rounds_max_bytes: 1 << 20,
            tenant_results_kept_max_bytes: 1 << 20,
            tasks_unfinished_max: 100,
        };
        let clock = Clock::system();
        let store = Store::open(
            &dir.path().join("store"),
            options,
            clock.clone(),
            notifier.clone(),
        )
        .unwrap();
        let scheduler = Scheduler::new(
            store.clone(),
            notifier.clone(),
            runner,
            clock,
            scheduler_limits(),
        );
        Fixture {
            scheduler,
            store,
            notifier,
            dir,
        }
    }

    /// Calls a tool inline, to its end.
    pub async fn call(&self, tool: &str, argument: &str) -> RunEnd {
        match self.start(tool, argument).await.outcome().await {
            CallOutcome::Ended(end) => end,
            other => panic!("{other:?}"),
        }
    }

    /// Starts a call; dropping it kills the run.
    pub async fn start(&self, tool: &str, argument: &str) -> StartedCall {
        let asks = Asks::Refused("the client answers nothing".to_owned());
        self.scheduler
            .start_call(
                submission(tool, argument),
                asks,
                Saved::default(),
                Default::default(),
            )
            .await
            .unwrap()
    }

    /// The text of a call that returns.
    pub async fn text(&self, tool: &str, argument: &str) -> String {
        match self.call(tool, argument).await {
            RunEnd::Returned(result) => text_of(&result.json),
            other => panic!("{tool}: {other:?}"),
        }
    }

    /// The message of a call that fails.
    pub async fn failure(&self, tool: &str, argument: &str) -> String {
        match self.call(tool, argument).await {
            RunEnd::Failed(error) => {
                assert!(!error.message.contains("backtrace"), "{}", error.message);
                error.message
            }
            other => panic!("{tool}: {other:?}"),
        }
    }

    /// Runs a tool as a task until it is as `holds` says.
    pub async fn until(&self, key: &TaskKey, holds: impl Fn(&Task) -> bool) -> Task {
        let mut changes = self.notifier.subscribe(vec![key.clone()]);
        loop {
            let task = self.store.get(key).unwrap().expect("the task is there");
            if holds(&task) {
                return task;
            }
            changes.changed().await;
        }
    }
}

pub fn text_of(json: &str) -> String {
    let result: serde_json::Value = serde_json::from_str(json).unwrap();
    result["content"][0]["text"]
        .as_str()
        .expect("a text block")
        .to_owned()
}

pub fn submission(tool: &str, argument: &str) -> Submission {
    Submission {
        tenant: TenantId::local(),
        tool: ToolRef {
            plugin: "probe".into(),
            tool: tool.into(),
            digest: Digest([0; 32]),
        },
        arguments: argument.into(),
        policy: Policy {
            recovery: Recovery::Resume,
            cleanup_on_cancel: false,
            cancel_grace: Duration::ZERO,
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

fn scheduler_limits() -> SchedulerLimits {
    SchedulerLimits {
        tasks_running_max: 8,
        tenant_tasks_running_max: 8,
        calls_running_max: 16,
        tenant_calls_running_max: 16,
        tenant_calls_waiting_max: 0,
        call_wait_max: Duration::from_secs(5),
        held_instances_max: 8,
        tenant_held_instances_max: 8,
        round_hold: Duration::from_secs(60),
        tenant_rounds_held_max: 8,
        held_memory_max_bytes: 1 << 30,
        park_after: Duration::ZERO,
        save_interval: Duration::from_millis(5),
        sweep_interval: Duration::from_secs(3_600),
    }
}
