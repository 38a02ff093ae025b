//! (g) From the start of a process after SIGKILL until a guest goes on, and restarts with many
//! tasks in the store.

use std::time::Instant;

use futures_util::{StreamExt, TryStreamExt, stream};
use longshore::task::{Ending, Phase};
use serde_json::json;

use crate::Effort;
use crate::commits::{new_task, open_store};
use crate::host::{Place, start_task, until};
use crate::table::{Samples, Table};

/// Restarts of a store with many tasks.
const RESTARTS: usize = 3;

/// Of so many stored tasks one waits for an answer, the others have ended.
const WAITING_ONE_IN: usize = 5;

pub async fn measure(effort: Effort, table: &mut Table) -> anyhow::Result<()> {
    resume(2 * effort.rounds + 2, table).await?;
    let mut counts = vec![10_000];
    if effort.stored_tasks_max > 10_000 {
        counts.push(effort.stored_tasks_max);
    }
    for count in counts {
        restart(count, table).await?;
    }
    Ok(())
}

async fn resume(kills: usize, table: &mut Table) -> anyhow::Result<()> {
    let place = Place::new()?;
    let mut host = place.start().await?;
    let mut connection = host.connect().await?;
    let script = json!([
        {"do": "checkpoint", "state": "here"},
        {"do": "progress", "message": "goes on"},
        {"do": "sleep", "ms": 3_600_000},
    ]);
    let task = start_task(&mut connection, "script_resume", script).await?;
    let mut times = Vec::new();
    let mut starts = Vec::new();
    for _ in 0..kills {
        until(&mut connection, &task, |task| {
            task["statusMessage"] == "goes on"
        })
        .await?;
        host.kill().await?;
        let started = Instant::now();
        host = place.start().await?;
        starts.push(host.start_time);
        connection = host.connect().await?;
        // Its record says that the host stopped until the new run reports.
        until(&mut connection, &task, |task| {
            task["statusMessage"] == "goes on"
        })
        .await?;
        times.push(started.elapsed());
    }
    let times = Samples::millis(times);
    table.row(
        'g',
        "SIGKILL: start to listening",
        "ms",
        &Samples::millis(starts),
    );
    table.row(
        'g',
        "SIGKILL: start to the guest's progress, p50",
        "ms",
        &times,
    );
    let p99 = Samples(vec![times.quantile(0.99)]);
    let what = format!("SIGKILL: the same, p99 of {kills}");
    table.row('g', &what, "ms", &p99);
    Ok(())
}

async fn restart(count: usize, table: &mut Table) -> anyhow::Result<()> {
    const INSERTS_AT_ONCE: usize = 1_000;
    let place = Place::new()?;
    let store = open_store(&place.data().join("store"))?;
    stream::iter(0..count)
        .map(|index| {
            let store = store.clone();
            let phase = match index % WAITING_ONE_IN {
                0 => Phase::Parked,
                _ => Phase::Ended(Ending::Completed),
            };
            async move { store.insert(new_task(phase)).await }
        })
        .buffer_unordered(INSERTS_AT_ONCE)
        .try_collect::<()>()
        .await?;
    store.close().await;
    drop(store);
    let mut starts = Vec::new();
    for _ in 0..RESTARTS {
        let host = place.start().await?;
        starts.push(host.start_time);
        host.kill().await?;
    }
    let what = format!("start to listening with {count} stored tasks");
    table.row('g', &what, "ms", &Samples::millis(starts));
    Ok(())
}
