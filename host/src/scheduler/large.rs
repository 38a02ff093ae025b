//! A result that is too large for one message is kept with its task, before anyone hears of it (I1).
//! A call that is no task becomes one for it, which has ended when its caller has the answer.

use std::error::Error;

use tracing::warn;

use super::RunEnd;
use super::run::Run;
use crate::store::{StoreError, UpdateError};
use crate::task::{LargeResult, RpcError};

impl Run {
    /// Keeps the parts; the end says where they are, or why they could not be kept. A call whose
    /// caller is gone leaves nothing behind.
    pub(super) async fn keep_large(&self, large: LargeResult) -> RunEnd {
        if let Err(error) = self.store_returned().await {
            return not_kept(&error);
        }
        let Some(durable) = self.0.journal.lock().await.durable().cloned() else {
            return RunEnd::Abandoned;
        };
        let result = large.of_task(&durable.key.id);
        let store = &self.0.scheduler.0.store;
        let kept = store.keep_parts(&durable.key, durable.attempt, large.parts);
        match kept.await {
            Ok(()) => RunEnd::Returned(result),
            // The lease is lost, and with it the say in what follows (I2).
            Err(UpdateError::Rejected(_) | UpdateError::Unknown) => RunEnd::Abandoned,
            Err(UpdateError::Store(error)) => not_kept(&error),
        }
    }
}

fn not_kept(error: &StoreError) -> RunEnd {
    warn!(
        error = error as &dyn Error,
        "a large result could not be kept"
    );
    // The words of these name no path, and say what helps.
    let why = match error {
        StoreError::DiskFull { .. }
        | StoreError::TooManyTasks(_)
        | StoreError::TooManyResults { .. } => error.to_string(),
        _ => "the task store is not available; call again later".to_owned(),
    };
    RunEnd::Failed(RpcError::internal(format!(
        "the tool returned more than one message holds, and it was not kept: {why}"
    )))
}
