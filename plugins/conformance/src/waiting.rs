//! Waiting that a cancel interrupts.

use std::time::{Duration, Instant};

use longshore_plugin::{Context, Result};

/// How soon a cancel is noticed.
const SLICE: Duration = Duration::from_millis(50);

pub fn wait(ctx: &Context, time: Duration) -> Result<()> {
    let end = Instant::now() + time;
    loop {
        ctx.stop_if_cancelled()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(SLICE));
    }
}
