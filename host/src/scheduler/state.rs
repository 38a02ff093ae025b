//! What a run reads and writes of its plugin's key-value state: always that of its own tenant and
//! its own plugin (I4). A task that fails or is cancelled takes none of it back.

use std::error::Error;

use tracing::error;

use super::run::{Abandoned, Run};
use crate::store::{StateChange, StateError, StateOwner, StateQuota, StoreError};

impl Run {
    /// The present value of a key.
    pub fn state(&self, key: &str) -> Result<Option<Vec<u8>>, Abandoned> {
        let read = self.0.scheduler.0.store.state(&self.state_owner(), key);
        read.map_err(given_up)
    }

    /// Some keys that begin with `prefix` and come after `after`, in order.
    pub fn state_keys(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, Abandoned> {
        let store = &self.0.scheduler.0.store;
        let listed = store.state_keys(&self.state_owner(), prefix, after);
        listed.map_err(given_up)
    }

    /// Changes a value, durably. False: the present value is not the expected one. The inner error
    /// says, for the tool's author, why there is no room.
    pub async fn change_state(
        &self,
        change: StateChange,
        quota: StateQuota,
    ) -> Result<Result<bool, String>, Abandoned> {
        let store = &self.0.scheduler.0.store;
        match store.change_state(self.state_owner(), change, quota).await {
            Ok(was_expected) => Ok(Ok(was_expected)),
            Err(error @ (StateError::TooManyKeys { .. } | StateError::TooManyBytes { .. })) => {
                Ok(Err(error.to_string()))
            }
            Err(StateError::Store(error)) => Err(given_up(error)),
        }
    }

    fn state_owner(&self) -> StateOwner {
        StateOwner {
            tenant: self.0.submission.tenant.clone(),
            plugin: self.0.submission.tool.plugin.clone(),
        }
    }
}

fn given_up(error: StoreError) -> Abandoned {
    error!(
        error = &error as &dyn Error,
        "a plugin's state can't be read or written"
    );
    Abandoned
}
