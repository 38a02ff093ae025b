//! (e) Resident memory of the idle host, and what a task adds that runs or that is parked.

use serde_json::{Value, json};

use crate::host::{Host, Place, start_task, until};
use crate::machine::resident_kib;
use crate::table::{Samples, Table};

const RUNNING: usize = 50;
const PARKED: usize = 2_000;

pub async fn measure(table: &mut Table) -> anyhow::Result<()> {
    let place = Place::new()?.limits("tenant_tasks_running_max = 64\npark_after_ms = 0");
    let host = place.start().await?;
    let idle = resident_kib(host.pid())?;
    table.row('e', "idle host", "MiB", &Samples(vec![idle / 1024.0]));

    let waits = json!([
        {"do": "progress", "message": "begun"},
        {"do": "sleep", "ms": 3_600_000},
    ]);
    let of_running = grown(&host, RUNNING, &waits, "begun").await?;
    let what = format!("a running task, of {RUNNING} that sleep");
    table.row('e', &what, "KiB", &Samples(vec![of_running]));
    drop(host);

    let host = place.start().await?;
    let asks = json!([{"do": "confirm", "key": "go", "message": "Go on?"}]);
    // The first ones also fill the store's cache, once.
    let first = grown(&host, PARKED, &asks, "").await?;
    let second = grown(&host, PARKED, &asks, "").await?;
    let what = format!("a parked task, of the first and second {PARKED}");
    table.row('e', &what, "KiB", &Samples(vec![second, first]));
    Ok(())
}

/// Starts tasks, waits until each shows the message, or a question; the growth a task, KiB.
async fn grown(host: &Host, count: usize, script: &Value, message: &str) -> anyhow::Result<f64> {
    let before = resident_kib(host.pid())?;
    let mut connection = host.connect().await?;
    let mut tasks = Vec::new();
    for _ in 0..count {
        tasks.push(start_task(&mut connection, "script_resume", script.clone()).await?);
    }
    for task in &tasks {
        until(&mut connection, task, |task| match message {
            "" => task["status"] == "input_required",
            message => task["statusMessage"] == message,
        })
        .await?;
    }
    Ok((resident_kib(host.pid())? - before) / count as f64)
}
