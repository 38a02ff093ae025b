//! (g) From the start of a process after SIGKILL until a guest goes on, and restarts with many
//! tasks in the store.

use std::time::Instant;

use futures_util::{StreamExt, TryStreamExt, stream};
use longshore::task::{Ending, Phase};
use serde_json::{Value, json};

use crate::Effort;
use crate::commits::{new_task, open_store};
use crate::host::{Place, start_task, until};
use crate::table::{Samples, Table, Target};

/// Stored tasks of the smaller store with many.
const STORED_TASKS: usize = 10_000;

/// Restarts of a store with many tasks.
const RESTARTS: usize = 3;

/// Of so many stored tasks one waits for an answer, the others have ended.
const WAITING_ONE_IN: usize = 5;

pub async fn measure(effort: Effort, table: &mut Table) -> anyhow::Result<()> {
    let alone = lives(0, 2 * effort.rounds + 2).await?;
    let (listening, goes_on) = ("start to listening", "start to the guest's progress");
    table.row('g', &format!("SIGKILL: {listening}"), "ms", &alone.starts);
    table.row(
        'g',
        &format!("SIGKILL: {goes_on}, p50"),
        "ms",
        &alone.resumes,
    );
    let p99 = Samples(vec![alone.resumes.quantile(0.99)]);
    let what = format!("SIGKILL: the same, p99 of {}", alone.resumes.0.len());
    table.row('g', &what, "ms", &p99);

    let few = lives(STORED_TASKS, RESTARTS).await?;
    few.show(STORED_TASKS, table);
    if effort.stored_tasks_max > STORED_TASKS {
        let many = lives(effort.stored_tasks_max, RESTARTS).await?;
        many.show(effort.stored_tasks_max, table);
        let times = (effort.stored_tasks_max / STORED_TASKS) as f64;
        let what = format!("the guest's progress, {times} times the tasks");
        let ratio = many.resumes.over(&few.resumes);
        table.ratio('g', &what, &ratio, Target::AtMost(times));
    }
    Ok(())
}

/// Lives of a host, each from the start of its process.
struct Lives {
    /// Until it listened.
    starts: Samples,
    /// Until a guest had gone on and reported progress.
    resumes: Samples,
}

impl Lives {
    fn show(&self, stored: usize, table: &mut Table) {
        let what = format!("start to listening with {stored} stored tasks");
        table.row('g', &what, "ms", &self.starts);
        let what = format!("start to the guest's progress with {stored}");
        table.row('g', &what, "ms", &self.resumes);
    }
}

/// Kills a host so many times, with so many tasks beside the one that goes on.
async fn lives(stored: usize, kills: usize) -> anyhow::Result<Lives> {
    let place = Place::new()?;
    let mut host = place.start().await?;
    let mut connection = host.connect().await?;
    let script = json!([
        {"do": "checkpoint", "state": "here"},
        {"do": "progress", "message": "goes on"},
        {"do": "sleep", "ms": 3_600_000},
    ]);
    let task = start_task(&mut connection, "script_resume", script).await?;
    // A record says that the host stopped until the new run reports.
    let goes_on = |task: &Value| task["statusMessage"] == "goes on";
    until(&mut connection, &task, goes_on).await?;
    host.kill().await?;
    if stored > 0 {
        fill(&place, stored).await?;
    }
    let (mut starts, mut resumes) = (Vec::new(), Vec::new());
    for _ in 0..kills {
        let started = Instant::now();
        host = place.start().await?;
        starts.push(host.start_time);
        connection = host.connect().await?;
        until(&mut connection, &task, goes_on).await?;
        resumes.push(started.elapsed());
        host.kill().await?;
    }
    Ok(Lives {
        starts: Samples::millis(starts),
        resumes: Samples::millis(resumes),
    })
}

/// Puts so many tasks into the store of a host that does not run.
async fn fill(place: &Place, count: usize) -> anyhow::Result<()> {
    const INSERTS_AT_ONCE: usize = 1_000;
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
    Ok(())
}
