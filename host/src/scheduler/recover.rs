//! What a host does before anything else: it takes up what an earlier process left.

use std::error::Error;

use futures_util::{StreamExt, stream};
use tracing::{error, info};

use super::Scheduler;
use crate::store::{StoreError, UpdateError};
use crate::task::{Event, Interruption};

impl Scheduler {
    /// Recovers what an earlier process left, then begins to run and sweep.
    pub async fn start(&self) -> Result<(), StoreError> {
        self.recover().await?;
        self.0.tracker.spawn(self.clone().sweep_until_drained());
        Ok(())
    }

    /// The runs a dead process had are interrupted by a crash: the store's directory is locked, so
    /// nobody else can hold their leases.
    async fn recover(&self) -> Result<(), StoreError> {
        const UPDATES_AT_ONCE: usize = 256;
        let interrupted = self.0.store.running()?;
        let count = interrupted.len();
        stream::iter(interrupted)
            .map(|key| async move {
                let task = match self.0.store.get(&key) {
                    Ok(Some(task)) => task,
                    Ok(None) => return Ok(()),
                    // It can't be brought to an end, and must not keep the others from going on.
                    Err(error @ StoreError::Record(_)) => {
                        error!(
                            task = %key.id,
                            error = &error as &dyn Error,
                            "a task can't go on; stop the host and run `longshore store check`"
                        );
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                };
                let event = Event::Interrupted {
                    attempt: task.attempt,
                    cause: Interruption::Crash,
                };
                match self.0.store.update(&key, event).await {
                    Ok(_) | Err(UpdateError::Unknown | UpdateError::Rejected(_)) => Ok(()),
                    Err(UpdateError::Store(error)) => Err(error),
                }
            })
            .buffer_unordered(UPDATES_AT_ONCE)
            .fold(Ok(()), |all, one| async { all.and(one) })
            .await?;
        let queued = self.0.store.queued()?;
        if count + queued.len() > 0 {
            info!(
                interrupted = count,
                queued = queued.len(),
                "recovered tasks"
            );
        }
        let mut state = self.lock();
        for key in queued {
            state.queue.push(key);
        }
        drop(state);
        self.dispatch();
        Ok(())
    }
}
