//! (b) Calls that become durable tasks and run to their end, against the store's own inserts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use longshore::clock::{Clock, Timestamp};
use longshore::notify::Notifier;
use longshore::store::{NewTask, Store, StoreOptions};
use longshore::task::{
    Abilities, Attempt, Digest, Phase, Policy, Recovery, Task, TaskId, TaskKey, TenantId, ToolRef,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::fleet::Fleet;
use crate::host::{Place, settle};
use crate::table::{Samples, Table, Target};
use crate::{Effort, machine, message};

const CLIENTS: usize = 64;
const RIDE: Duration = Duration::from_millis(400);

pub async fn measure(effort: Effort, table: &mut Table) -> anyhow::Result<()> {
    let place = Place::new()?;
    let host = place.start().await?;
    let call = message::call("script_resume", json!([]));
    let mut many = Fleet::open(host.address, CLIENTS, call.clone()).await?;
    let mut one = Fleet::open(host.address, 1, call).await?;
    let mut connection = host.connect().await?;
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR"))?;
    let store = open_store(dir.path())?;

    let [mut calls, mut inserts] = [Samples::default(), Samples::default()];
    let [mut calls_p50, mut inserts_p50] = [Samples::default(), Samples::default()];
    let [mut alone_p50, mut syncs_p50] = [Samples::default(), Samples::default()];
    many.ride(RIDE).await?;
    for _ in 0..effort.rounds {
        settle(&mut connection).await?;
        let ridden = many.ride(RIDE).await?;
        calls.0.push(ridden.per_second);
        calls_p50.0.push(Samples::millis(ridden.latencies).median());
        settle(&mut connection).await?;
        let (rate, latencies) = insert_for(&store, RIDE).await?;
        inserts.0.push(rate);
        inserts_p50.0.push(Samples::millis(latencies).median());
        let alone = one.ride(RIDE / 4).await?;
        alone_p50.0.push(Samples::millis(alone.latencies).median());
        let syncs = tokio::task::spawn_blocking(|| machine::syncs(50)).await??;
        syncs_p50.0.push(Samples::millis(syncs).median());
    }
    store.close().await;
    table.row('b', "durable tools/call, 64 clients", "/s", &calls);
    table.row('b', "store inserts, 64 at once, no HTTP", "/s", &inserts);
    table.ratio(
        'b',
        "tasks a second: host / store alone",
        &calls.over(&inserts),
        Target::AtLeast(0.5),
    );
    table.row('b', "p50 of a durable call, 64 clients", "ms", &calls_p50);
    table.row('b', "p50 of a store insert, 64 at once", "ms", &inserts_p50);
    table.row('b', "p50 of a durable call, one client", "ms", &alone_p50);
    table.row('b', "p50 of 4 KiB and fdatasync", "ms", &syncs_p50);
    table.row(
        'b',
        "p50 of a durable call / one fdatasync",
        "×",
        &alone_p50.over(&syncs_p50),
    );
    Ok(())
}

pub fn open_store(directory: &std::path::Path) -> anyhow::Result<Store> {
    let options = StoreOptions {
        queue_max: 1_024,
        cache_bytes: 64 << 20,
        free_disk_min_bytes: 0,
        tenant_rounds_max_bytes: 1 << 20,
        tenant_results_kept_max_bytes: 1 << 20,
        tasks_unfinished_max: usize::MAX,
    };
    Ok(Store::open(
        directory,
        options,
        Clock::system(),
        Notifier::default(),
    )?)
}

async fn insert_for(store: &Store, time: Duration) -> anyhow::Result<(f64, Vec<Duration>)> {
    let started = Instant::now();
    let mut inserters = JoinSet::new();
    for _ in 0..CLIENTS {
        let store = store.clone();
        inserters.spawn(async move {
            let mut latencies = Vec::new();
            while started.elapsed() < time {
                let asked = Instant::now();
                store.insert(new_task(Phase::Running)).await?;
                latencies.push(asked.elapsed());
            }
            anyhow::Ok(latencies)
        });
    }
    let mut latencies = Vec::new();
    while let Some(inserter) = inserters.join_next().await {
        latencies.append(&mut inserter??);
    }
    let rate = latencies.len() as f64 / started.elapsed().as_secs_f64();
    Ok((rate, latencies))
}

/// A task as the host would store it.
pub fn new_task(phase: Phase) -> NewTask {
    let mut id = [0; 16];
    getrandom::fill(&mut id).expect("the system's random generator works");
    let now = Clock::system().now();
    let task = Task {
        key: TaskKey {
            tenant: TenantId::local(),
            id: TaskId::from_random(id),
        },
        tool: ToolRef {
            plugin: "script".into(),
            tool: "script_resume".into(),
            digest: Digest([7; 32]),
        },
        policy: Policy {
            recovery: Recovery::Resume,
            cleanup_on_cancel: false,
            cancel_grace: Duration::from_secs(30),
            poll_interval: Duration::from_secs(1),
        },
        abilities: Abilities {
            form: true,
            ..Abilities::default()
        },
        created_at: now,
        updated_at: now,
        expires_at: Some(Timestamp(now.0 + 86_400_000)),
        phase,
        attempt: Attempt(1),
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
    };
    NewTask {
        task,
        arguments: r#"{"script":[]}"#.to_owned(),
        checkpoint: None,
        steps: Vec::new(),
        inputs: Vec::new(),
    }
}
