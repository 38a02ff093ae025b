//! Deletes what has expired, in bounded slices, by the store's time-ordered indexes.

use std::error::Error;

use futures_util::{StreamExt, TryStreamExt, stream};
use tracing::{debug, error};

use super::Scheduler;
use crate::store::StoreError;
use crate::task::TaskKey;

/// Tasks swept between two looks at whether the host stops.
const SLICE: usize = 256;

impl Scheduler {
    pub(super) async fn sweep_until_drained(self) {
        let mut draining = self.0.draining.subscribe();
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.0.limits.sweep_interval) => {}
                _ = draining.wait_for(|draining| *draining) => return,
            }
            if let Err(error) = self.sweep().await {
                error!(
                    error = &error as &dyn Error,
                    "expired tasks could not be swept"
                );
            }
            if let Err(error) = self.sweep_rounds().await {
                error!(
                    error = &error as &dyn Error,
                    "rounds that are over could not be swept"
                );
            }
        }
    }

    /// Deletes every expired task; a running one is cancelled first and goes with a later sweep.
    /// Returns how many were deleted.
    pub async fn sweep(&self) -> Result<usize, StoreError> {
        let mut deleted = 0;
        loop {
            let expired = self.0.store.expired(self.0.clock.now(), SLICE)?;
            let found = expired.len();
            if deleted == 0 && found > 0 {
                debug!("sweeping expired tasks");
            }
            // Side by side, so that one commit takes many.
            let swept = stream::iter(expired)
                .map(|key| async move { self.sweep_one(&key).await })
                .buffer_unordered(SLICE)
                .try_fold(
                    0,
                    |count, gone| async move { Ok(count + usize::from(gone)) },
                )
                .await?;
            deleted += swept;
            if found < SLICE || swept == 0 || *self.0.draining.borrow() {
                debug!(deleted, "swept");
                return Ok(deleted);
            }
        }
    }

    /// Deletes what is kept of rounds that are over. Returns how many there were.
    pub async fn sweep_rounds(&self) -> Result<usize, StoreError> {
        let mut deleted = 0;
        loop {
            let over = self.0.store.expired_rounds(self.0.clock.now(), SLICE)?;
            let found = over.len();
            stream::iter(over)
                .map(|round| async move { self.0.store.remove_round(&round).await })
                .buffer_unordered(SLICE)
                .try_collect::<()>()
                .await?;
            deleted += found;
            if found < SLICE || *self.0.draining.borrow() {
                return Ok(deleted);
            }
        }
    }

    async fn sweep_one(&self, key: &TaskKey) -> Result<bool, StoreError> {
        if let Some(run) = self.live(key) {
            run.cancel("the task's time to live is over");
            return Ok(false);
        }
        self.0.store.remove(key).await?;
        Ok(true)
    }
}
