//! What a host does last: it takes the runs to where nothing is lost, as far as it has time for.

use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};
use tracing::warn;

use super::Scheduler;
use super::run::Run;

/// How long interrupted runs may take to write that they were. One that does not is found by the
/// next start, as after a crash.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(5);

impl Scheduler {
    /// Stops what can be stopped without loss, waits until `deadline` for the rest, then interrupts
    /// it.
    pub async fn drain(&self, deadline: Instant) {
        self.0.draining.send_replace(true);
        for run in self.all_runs() {
            run.drain();
        }
        let in_time = timeout_at(deadline, self.until_no_run_is_live()).await;
        if in_time.is_err() {
            self.0.store.end_waiting();
            for run in self.all_runs() {
                run.kill();
            }
            let ended = timeout(INTERRUPT_TIMEOUT, self.until_no_run_is_live()).await;
            if ended.is_err() {
                let runs = self.live_runs();
                warn!(
                    runs,
                    "runs did not end when they were interrupted; the next start goes on as after a crash"
                );
            }
        }
        self.0.tracker.close();
        // Calls that are answered inline belong to the server, which waits for them by itself.
        let _ = timeout_at(deadline, self.0.tracker.wait()).await;
    }

    pub(super) async fn until_no_run_is_live(&self) {
        loop {
            let ended = self.0.run_ended.notified();
            if self.live_runs() == 0 {
                return;
            }
            ended.await;
        }
    }

    pub(super) fn all_runs(&self) -> Vec<Run> {
        self.lock().runs.values().cloned().collect()
    }
}
