//! The places of calls that are answered within their request; the wait for one is bounded in time
//! and in number.

use tokio::time::timeout;

use super::places::Place;
use super::{Scheduler, StartError};
use crate::task::TenantId;

impl Scheduler {
    pub(super) async fn take_call_place(&self, tenant: &TenantId) -> Result<Place, StartError> {
        if *self.0.draining.borrow() {
            return Err(StartError::Draining);
        }
        let calls = &self.0.calls;
        if let Some(place) = calls.try_take(tenant) {
            return Ok(place);
        }
        let limits = &self.0.limits;
        let turn = calls.wait_in_line(tenant, limits.tenant_calls_waiting_max);
        let turn = turn.ok_or(StartError::TooManyCalls)?;
        match timeout(limits.call_wait_max, turn).await {
            // The host may have begun to stop while it waited.
            Ok(Ok(_)) if *self.0.draining.borrow() => Err(StartError::Draining),
            Ok(Ok(place)) => Ok(place),
            _ => Err(StartError::TooManyCalls),
        }
    }
}
