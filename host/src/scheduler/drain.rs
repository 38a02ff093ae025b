//! What a host does last: it takes the runs to where nothing is lost, as far as it has time for.

use std::time::Duration;

use super::Scheduler;
use super::run::Run;

impl Scheduler {
    /// Stops what can be stopped without loss, waits up to `limit` for the rest, then interrupts it.
    pub async fn drain(&self, limit: Duration) {
        self.0.draining.send_replace(true);
        for run in self.all_runs() {
            run.drain();
        }
        let in_time = tokio::time::timeout(limit, self.until_no_run_is_live())
            .await
            .is_ok();
        if !in_time {
            self.0.store.end_waiting();
            for run in self.all_runs() {
                run.kill();
            }
            self.until_no_run_is_live().await;
        }
        self.0.tracker.close();
        // Calls that are answered inline belong to the server, which waits for them by itself.
        let _ = tokio::time::timeout(limit, self.0.tracker.wait()).await;
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
