//! (h) What a task takes on the disk over its life.

use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::host::{Place, settle};
use crate::machine::allocated_bytes;
use crate::message;
use crate::table::{Samples, Table};

use std::time::Duration;

/// Durable changes of one task: its birth, checkpoints, its end.
const CHANGES: usize = 10;

const ROUNDS: usize = 3;
const RIDE: Duration = Duration::from_millis(1_500);

pub async fn measure(table: &mut Table) -> anyhow::Result<()> {
    let place = Place::new()?;
    let host = place.start().await?;
    let mut connection = host.connect().await?;
    let checkpoint = json!({"do": "checkpoint", "state": "a line of state"});
    let script = Value::from(vec![checkpoint; CHANGES - 2]);
    let call = message::call("script_resume", script);
    let mut fleet = Fleet::open(host.address, 16, call).await?;
    fleet.ride(RIDE).await?;
    settle(&mut connection).await?;
    let store = place.data().join("store");
    let mut sizes = Samples::default();
    for _ in 0..ROUNDS {
        let before = allocated_bytes(&store)?;
        let count = fleet.ride(RIDE).await?.count;
        settle(&mut connection).await?;
        let grown = allocated_bytes(&store)?.saturating_sub(before);
        sizes.0.push(grown as f64 / 1024.0 / count as f64);
    }
    let what = format!("disk of a task with {CHANGES} durable changes");
    table.row('h', &what, "KiB", &sizes);
    Ok(())
}
