//! (d) From a cancel until a client sees `cancelled`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::host::{Place, start_task, until};
use crate::table::{Samples, Table};
use crate::{Effort, message};

pub async fn measure(effort: Effort, table: &mut Table) -> anyhow::Result<()> {
    let cancels = 2 * effort.rounds;
    // The tool looks for a cancel every 10 ms, which is part of the time.
    let waits = json!([{"do": "wait", "ms": 3_600_000}]);
    let times = times(Place::new()?, waits, cancels).await?;
    table.row(
        'd',
        "cancel of a tool that checkpoints each 10 ms",
        "ms",
        &times,
    );
    let spins = json!([{"do": "spin"}]);
    let place = Place::new()?.limits("cancel_grace_default_ms = 0");
    let times = self::times(place, spins, cancels).await?;
    table.row('d', "cancel of a busy loop, no grace", "ms", &times);
    Ok(())
}

async fn times(place: Place, script: Value, count: usize) -> anyhow::Result<Samples> {
    let host = place.start().await?;
    let mut connection = host.connect().await?;
    let mut steps = vec![json!({"do": "progress", "message": "begun"})];
    steps.extend(script.as_array().into_iter().flatten().cloned());
    let mut times = Vec::new();
    for _ in 0..count {
        let script = Value::from(steps.clone());
        let task = start_task(&mut connection, "script_resume", script).await?;
        until(&mut connection, &task, |task| {
            task["statusMessage"] == "begun"
        })
        .await?;
        tokio::time::sleep(Duration::from_millis(5)).await;
        let asked = Instant::now();
        connection.result(&message::cancel(&task)).await?;
        until(&mut connection, &task, |task| task["status"] == "cancelled").await?;
        times.push(asked.elapsed());
    }
    Ok(Samples::millis(times))
}
