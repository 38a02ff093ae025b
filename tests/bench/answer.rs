//! (i) From an answer until the tool that asked goes on, unloaded or not.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::host::{Place, start_task, until};
use crate::table::{Samples, Table};
use crate::{Effort, message};

/// Until a question that a client sees has its tool parked, or not, as it is going to be.
const SETTLED: Duration = Duration::from_millis(20);

pub async fn measure(effort: Effort, table: &mut Table) -> anyhow::Result<()> {
    let place = Place::new()?.limits("park_after_ms = 0");
    let host = place.start().await?;
    let mut connection = host.connect().await?;
    for (tool, what) in [
        ("script_resume", "answer to the tool's progress, parked"),
        ("script_restart", "answer to the tool's progress, in memory"),
    ] {
        let mut times = Vec::new();
        for _ in 0..4 * effort.rounds {
            let script = json!([
                {"do": "confirm", "key": "go", "message": "Go on?"},
                {"do": "progress", "message": "goes on"},
            ]);
            let task = start_task(&mut connection, tool, script).await?;
            until(&mut connection, &task, |task| {
                task["status"] == "input_required"
            })
            .await?;
            tokio::time::sleep(SETTLED).await;
            let asked = Instant::now();
            connection.result(&message::confirm(&task, "go")).await?;
            let goes_on =
                |task: &Value| task["statusMessage"] == "goes on" || task["status"] == "completed";
            until(&mut connection, &task, goes_on).await?;
            times.push(asked.elapsed());
        }
        table.row('i', what, "ms", &Samples::millis(times));
    }
    Ok(())
}
