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

/// The database grows by whole segments of 8 MiB, so this takes many tasks.
const RIDE: Duration = Duration::from_secs(10);

pub async fn measure(table: &mut Table) -> anyhow::Result<()> {
    let place = Place::new()?;
    let host = place.start().await?;
    let mut connection = host.connect().await?;
    let checkpoint = json!({"do": "checkpoint", "state": "a line of state"});
    let script = Value::from(vec![checkpoint; CHANGES - 2]);
    let call = message::call("script_resume", script);
    let mut fleet = Fleet::open(host.address, 16, call).await?;
    fleet.ride(RIDE / 10).await?;
    settle(&mut connection).await?;
    let store = place.data().join("store");
    let before = allocated_bytes(&store)?;
    let count = fleet.ride(RIDE).await?.count;
    // The first was idle for too long to be kept open.
    let mut connection = host.connect().await?;
    settle(&mut connection).await?;
    let grown = allocated_bytes(&store)?.saturating_sub(before);
    let each = Samples(vec![grown as f64 / 1024.0 / count as f64]);
    let what = format!("disk of a task with {CHANGES} durable changes, {count} tasks");
    table.row('h', &what, "KiB", &each);
    Ok(())
}
