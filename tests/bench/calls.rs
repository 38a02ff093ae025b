//! (c) A call that is answered inline by a warm component, against `tools/list`.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::host::Place;
use crate::table::{Samples, Table, Target};
use crate::{Effort, message};

/// Calls of each kind in a round, one after the other in turns.
const TURNS: usize = 400;

pub async fn measure(effort: Effort, table: &mut Table) -> anyhow::Result<()> {
    let place = Place::new()?;
    let host = place.start().await?;
    let mut connection = host.connect().await?;
    let requests = [message::list(), message::call("script_inline", json!([]))];
    let size = connection.exchange(&requests[0]).await?.len();
    let mut p50 = [Samples::default(), Samples::default()];
    let mut p99 = [Samples::default(), Samples::default()];
    for round in 0..=effort.rounds {
        let mut times: [Vec<Duration>; 2] = Default::default();
        for _ in 0..TURNS {
            for (request, times) in requests.iter().zip(&mut times) {
                let asked = Instant::now();
                connection.exchange(request).await?;
                times.push(asked.elapsed());
            }
        }
        // The first round warms up.
        if round == 0 {
            continue;
        }
        for (index, times) in times.into_iter().enumerate() {
            let times = Samples::micros(times);
            p50[index].0.push(times.median());
            p99[index].0.push(times.quantile(0.99));
        }
    }
    let [list, call] = &p50;
    table.row('c', &format!("p50 of tools/list, {size} bytes"), "µs", list);
    table.row('c', "p50 of an inline call, warm component", "µs", call);
    table.ratio(
        'c',
        "inline call / tools/list",
        &call.over(list),
        Target::AtMost(2.0),
    );
    table.row('c', "p99 of tools/list", "µs", &p99[0]);
    table.row('c', "p99 of an inline call", "µs", &p99[1]);
    Ok(())
}
