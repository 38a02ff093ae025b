//! The places of calls that are answered within their request. A tenant waits for its own share
//! first, and tenants take turns (I4); the wait is bounded in time and in number.

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::queue::FairQueue;
use super::{Scheduler, StartError};
use crate::task::TenantId;

/// The places, and who waits for one.
pub(super) type CallQueue = FairQueue<oneshot::Sender<CallPlace>>;

/// One of the places; left when dropped, which must not be under the scheduler's lock.
pub(super) struct CallPlace {
    scheduler: Scheduler,
    tenant: TenantId,
}

impl Drop for CallPlace {
    fn drop(&mut self) {
        let mut state = self.scheduler.lock();
        state.calls.leave_place(&self.tenant);
        let is_wanted = state.calls.is_anybody_waiting();
        drop(state);
        if is_wanted {
            self.scheduler.hand_out_call_places();
        }
    }
}

impl Scheduler {
    pub(super) async fn take_call_place(&self, tenant: &TenantId) -> Result<CallPlace, StartError> {
        if *self.0.draining.borrow() {
            return Err(StartError::Draining);
        }
        if self.lock().calls.try_take_place(tenant) {
            return Ok(self.call_place(tenant.clone()));
        }
        let turn = self.wait_in_line(tenant)?;
        // It may have been left between the two.
        self.hand_out_call_places();
        match timeout(self.0.limits.call_wait_max, turn).await {
            // The host may have begun to stop while it waited.
            Ok(Ok(_)) if *self.0.draining.borrow() => Err(StartError::Draining),
            Ok(Ok(place)) => Ok(place),
            _ => Err(StartError::TooManyCalls),
        }
    }

    fn wait_in_line(&self, tenant: &TenantId) -> Result<oneshot::Receiver<CallPlace>, StartError> {
        let mut state = self.lock();
        let calls = &mut state.calls;
        let waiting = calls.retain_waiting(tenant, |place| !place.is_closed());
        if waiting >= self.0.limits.tenant_calls_waiting_max {
            return Err(StartError::TooManyCalls);
        }
        let (place, turn) = oneshot::channel();
        calls.push(tenant, place);
        Ok(turn)
    }

    fn hand_out_call_places(&self) {
        loop {
            let next = self.lock().calls.pop();
            let Some((tenant, turn)) = next else { return };
            if turn.is_closed() {
                self.lock().calls.leave_place(&tenant);
                continue;
            }
            // Who went away just now leaves the place as it is dropped here.
            let _ = turn.send(self.call_place(tenant));
        }
    }

    fn call_place(&self, tenant: TenantId) -> CallPlace {
        CallPlace {
            scheduler: self.clone(),
            tenant,
        }
    }
}
