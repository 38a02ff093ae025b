//! (f) Calls a second in fresh instances, and what eight endless loops do to other requests.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use crate::fleet::Fleet;
use crate::host::{Place, start_task, until};
use crate::table::{Samples, Table, Target};
use crate::wire::Connection;
use crate::{Effort, message};

const HOSTILE: usize = 8;
const CONNECTIONS: usize = 32;
const RIDE: Duration = Duration::from_millis(400);

/// Requests of a kind in a round, and the pause after each: clients that poll, no flood.
const REQUESTS: usize = 300;
const PAUSE: Duration = Duration::from_millis(1);

pub async fn measure(effort: Effort, table: &mut Table) -> anyhow::Result<()> {
    let place = Place::new()?.limits("cancel_grace_default_ms = 0");
    let host = place.start().await?;
    let mut connection = host.connect().await?;
    let call = message::call("script_inline", json!([]));
    let mut fleet = Fleet::open(host.address, CONNECTIONS, call).await?;
    fleet.ride(RIDE).await?;
    let mut rates = Samples::default();
    for _ in 0..effort.rounds {
        rates.0.push(fleet.ride(RIDE).await?.per_second);
    }
    table.row(
        'f',
        "inline calls, each a fresh instance, 32 clients",
        "/s",
        &rates,
    );

    let ended = start_task(&mut connection, "script_resume", json!([])).await?;
    until(&mut connection, &ended, |task| {
        task["status"] == "completed"
    })
    .await?;
    let kinds = [
        ("tools/list", message::list()),
        ("tasks/get", message::get(&ended)),
    ];
    let mut quiet: [Samples; 2] = Default::default();
    let mut noisy: [Samples; 2] = Default::default();
    for _ in 0..effort.rounds.min(9) {
        for (kind, samples) in kinds.iter().zip(&mut quiet) {
            samples.0.push(p99(&mut connection, &kind.1).await?);
        }
        let loops = start_loops(&mut connection).await?;
        for (kind, samples) in kinds.iter().zip(&mut noisy) {
            samples.0.push(p99(&mut connection, &kind.1).await?);
        }
        for task in loops {
            connection.result(&message::cancel(&task)).await?;
            until(&mut connection, &task, |task| task["status"] == "cancelled").await?;
        }
    }
    for (index, (name, _)) in kinds.iter().enumerate() {
        let (quiet, noisy) = (&quiet[index], &noisy[index]);
        table.row('f', &format!("p99 of {name}, idle host"), "µs", quiet);
        table.row(
            'f',
            &format!("p99 of {name}, {HOSTILE} endless loops"),
            "µs",
            noisy,
        );
        let what = format!("p99 of {name}: loops / idle");
        table.ratio('f', &what, &noisy.over(quiet), Target::AtMost(3.0));
    }
    Ok(())
}

async fn start_loops(connection: &mut Connection) -> anyhow::Result<Vec<String>> {
    let spins = json!([{"do": "progress", "message": "begun"}, {"do": "spin"}]);
    let mut tasks = Vec::new();
    for _ in 0..HOSTILE {
        tasks.push(start_task(connection, "script_resume", spins.clone()).await?);
    }
    for task in &tasks {
        until(connection, task, |task| task["statusMessage"] == "begun").await?;
    }
    Ok(tasks)
}

async fn p99(connection: &mut Connection, request: &[u8]) -> anyhow::Result<f64> {
    let mut times = Vec::new();
    for _ in 0..REQUESTS {
        let asked = Instant::now();
        connection.exchange(request).await?;
        times.push(asked.elapsed());
        sleep(PAUSE).await;
    }
    Ok(Samples::micros(times).quantile(0.99))
}
