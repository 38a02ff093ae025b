//! (a) `tasks/get` against a bare handler that parses the same JSON and answers as much.

use std::time::Duration;

use serde_json::json;

use crate::Effort;
use crate::fleet::Fleet;
use crate::host::{self, Host, Place, start_task, until};
use crate::table::{Samples, Table, Target};
use crate::{bare, machine, message};

const CONNECTIONS: usize = 32;

/// Short turns, so that what else the machine does falls on both sides alike.
pub const RIDE: Duration = Duration::from_millis(120);

pub async fn measure(effort: Effort, table: &mut Table) -> anyhow::Result<()> {
    let place = Place::new()?;
    let host = place.start().await?;
    let mut connection = host.connect().await?;
    let said = json!([{"do": "say", "text": "what the tool found, in a line or two of text"}]);
    let ended = start_task(&mut connection, "script_resume", said).await?;
    until(&mut connection, &ended, |task| {
        task["status"] == "completed"
    })
    .await?;
    let working = json!([
        {"do": "progress", "message": "37/120, 2 failing", "done": 37, "total": 120},
        {"do": "sleep", "ms": 3_600_000},
    ]);
    let working = start_task(&mut connection, "script_resume", working).await?;
    until(&mut connection, &working, |task| {
        task["statusMessage"] == "37/120, 2 failing"
    })
    .await?;
    for (name, task) in [("working", working), ("completed", ended)] {
        compare(effort, table, &host, name, &task).await?;
    }
    Ok(())
}

async fn compare(
    effort: Effort,
    table: &mut Table,
    host: &host::Host,
    name: &str,
    task: &str,
) -> anyhow::Result<()> {
    let request = message::get(task);
    let size = host.connect().await?.exchange(&request).await?.len();
    let bare = bare::start(size).await?;
    let mut sides = [
        Side::new(host, &request).await?,
        Side::new(&bare, &request).await?,
    ];
    for side in &mut sides {
        side.fleet.ride(RIDE).await?;
    }
    for _ in 0..3 * effort.rounds {
        for (side, process) in sides.iter_mut().zip([host, &bare]) {
            side.round(process).await?;
        }
    }
    let [ours, theirs] = sides;
    let what = format!("tasks/get, {name}, {CONNECTIONS} connections");
    table.row('a', &what, "/s", &ours.rates);
    table.row(
        'a',
        &format!("bare handler, {size} bytes"),
        "/s",
        &theirs.rates,
    );
    table.ratio(
        'a',
        &format!("requests a second, {name}: host / bare"),
        &ours.rates.over(&theirs.rates),
        Target::AtLeast(0.6),
    );
    table.row('a', "processor time a request, host", "µs", &ours.costs);
    table.row('a', "processor time a request, bare", "µs", &theirs.costs);
    Ok(())
}

/// One of two servers that are asked in turns.
pub struct Side {
    pub fleet: Fleet,
    pub rates: Samples,
    /// Processor time of the server a request, µs.
    pub costs: Samples,
}

impl Side {
    pub async fn new(host: &Host, request: &[u8]) -> anyhow::Result<Side> {
        Ok(Side {
            fleet: Fleet::open(host.address, CONNECTIONS, request.to_vec()).await?,
            rates: Samples::default(),
            costs: Samples::default(),
        })
    }

    pub async fn round(&mut self, host: &Host) -> anyhow::Result<()> {
        let before = machine::processor_time(host.pid())?;
        let ridden = self.fleet.ride(RIDE).await?;
        let used = machine::processor_time(host.pid())? - before;
        self.rates.0.push(ridden.per_second);
        let cost = used.as_secs_f64() * 1e6 / ridden.count as f64;
        self.costs.0.push(cost);
        Ok(())
    }
}
