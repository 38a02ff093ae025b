//! (f) What the guests of one tenant do to the inline calls of another: more than there are threads,
//! each filling memory without an end.

use std::time::{Duration, Instant};

use longshore::http::token_hash;
use longshore_guests::PROBE;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::host::Place;
use crate::table::{Samples, Table, Target};
use crate::wire::Connection;
use crate::{Effort, message};

const HOSTILE: usize = 32;

/// Calls in a round, and the pause after each.
const CALLS: usize = 300;
const PAUSE: Duration = Duration::from_millis(1);

pub async fn measure(effort: Effort, table: &mut Table) -> anyhow::Result<()> {
    let tenants = ["mallory", "alice"].map(|name| {
        let hash = token_hash(name);
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("[[tenant]]\nname = \"{name}\"\ntoken_sha256 = \"{hash}\"\n")
    });
    let place = Place::new()?
        .limits("cancel_grace_default_ms = 0")
        .limits(&tenants.concat());
    std::fs::copy(PROBE.component(), place.plugins().join("probe.wasm"))?;
    let host = place.start().await?;
    let mut quiet: [Samples; 2] = Default::default();
    let mut noisy: [Samples; 2] = Default::default();
    for _ in 0..effort.rounds.min(9) {
        // Connections of its own for each: those of before may have been idle for too long.
        take(&mut quiet, &mut host.connect().await?).await?;
        let guests = start_guests(&mut host.connect().await?).await?;
        take(&mut noisy, &mut host.connect().await?).await?;
        stop(&mut host.connect().await?, guests).await?;
    }
    let kinds = [("p50", 3.0), ("p99", 10.0)];
    for ((name, most), (quiet, noisy)) in kinds.into_iter().zip(quiet.iter().zip(&noisy)) {
        let of = format!("{name} of an inline call");
        table.row('f', &format!("{of}, idle host"), "µs", quiet);
        let beside = format!("{of}, {HOSTILE} guests of another tenant fill memory");
        table.row('f', &beside, "µs", noisy);
        let what = format!("{of}: beside / idle");
        table.ratio('f', &what, &noisy.over(quiet), Target::AtMost(most));
    }
    Ok(())
}

async fn start_guests(mallory: &mut Connection) -> anyhow::Result<Vec<String>> {
    let params = json!({"name": "fill", "arguments": {}});
    let fill = message::of_tenant("mallory", &message::request("tools/call", params));
    let mut tasks = Vec::new();
    for _ in 0..HOSTILE {
        let task = mallory.result(&fill).await?;
        tasks.push(task["taskId"].as_str().unwrap_or_default().to_owned());
    }
    Ok(tasks)
}

async fn stop(mallory: &mut Connection, tasks: Vec<String>) -> anyhow::Result<()> {
    for task in &tasks {
        let cancel = message::of_tenant("mallory", &message::cancel(task));
        mallory.result(&cancel).await?;
    }
    for task in &tasks {
        let get = message::of_tenant("mallory", &message::get(task));
        loop {
            let task: Value = mallory.result(&get).await?;
            if task["status"] == "cancelled" {
                break;
            }
            sleep(PAUSE).await;
        }
    }
    Ok(())
}

/// The median and the 99th percentile of a few calls.
async fn take(samples: &mut [Samples; 2], alice: &mut Connection) -> anyhow::Result<()> {
    let script = json!([{"do": "say", "text": "hello"}]);
    let call = message::of_tenant("alice", &message::call("script_inline", script));
    let mut times = Vec::new();
    for _ in 0..CALLS {
        let asked = Instant::now();
        alice.exchange(&call).await?;
        times.push(asked.elapsed());
        sleep(PAUSE).await;
    }
    let times = Samples::micros(times);
    samples[0].0.push(times.median());
    samples[1].0.push(times.quantile(0.99));
    Ok(())
}
