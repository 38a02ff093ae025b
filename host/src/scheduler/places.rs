//! Places that tenants take turns for (I4), whatever is done in one. A tenant waits for its own share
//! first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::queue::FairQueue;
use crate::task::TenantId;

/// A number of places, and who waits for one. Cheap to clone.
#[derive(Clone)]
pub struct Places(Arc<Mutex<FairQueue<oneshot::Sender<Place>>>>);

/// One of them; left when dropped.
pub struct Place {
    places: Places,
    tenant: TenantId,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut queue = self.places.lock();
        queue.leave_place(&self.tenant);
        let is_wanted = queue.is_anybody_waiting();
        drop(queue);
        if is_wanted {
            self.places.hand_out();
        }
    }
}

impl Places {
    /// `max` places, of which one tenant has `tenant_max` at most.
    pub fn new(max: usize, tenant_max: usize) -> Places {
        Places(Arc::new(Mutex::new(FairQueue::new(max, tenant_max))))
    }

    pub fn taken(&self) -> usize {
        self.lock().taken()
    }

    /// The places of each tenant, added up.
    #[cfg(test)]
    pub fn taken_by_tenants(&self) -> usize {
        self.lock().taken_by_tenants()
    }

    /// Takes a place if one is free and nobody of the tenant waits for it.
    pub fn try_take(&self, tenant: &TenantId) -> Option<Place> {
        let is_taken = self.lock().try_take_place(tenant);
        is_taken.then(|| self.place(tenant.clone()))
    }

    /// Stands in line; None when `waiting_max` of the tenant's do already.
    pub fn wait_in_line(
        &self,
        tenant: &TenantId,
        waiting_max: usize,
    ) -> Option<oneshot::Receiver<Place>> {
        let mut queue = self.lock();
        let waiting = queue.retain_waiting(tenant, |turn| !turn.is_closed());
        if waiting >= waiting_max {
            return None;
        }
        let (turn, place) = oneshot::channel();
        queue.push(tenant, turn);
        drop(queue);
        // One may have been left since it was looked for.
        self.hand_out();
        Some(place)
    }

    /// Waits for a place as long as it takes. Safe to cancel.
    pub async fn take(&self, tenant: &TenantId) -> Place {
        loop {
            if let Some(place) = self.try_take(tenant) {
                return place;
            }
            if let Some(turn) = self.wait_in_line(tenant, usize::MAX)
                && let Ok(place) = turn.await
            {
                return place;
            }
        }
    }

    fn hand_out(&self) {
        loop {
            let next = self.lock().pop();
            let Some((tenant, turn)) = next else { return };
            if turn.is_closed() {
                self.lock().leave_place(&tenant);
                continue;
            }
            // Who went away just now leaves the place as it is dropped here.
            let _ = turn.send(self.place(tenant));
        }
    }

    fn place(&self, tenant: TenantId) -> Place {
        Place {
            places: self.clone(),
            tenant,
        }
    }

    fn lock(&self) -> MutexGuard<'_, FairQueue<oneshot::Sender<Place>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn whoever_waits_for_its_own_place_is_in_nobody_elses_way() {
        let [ours, theirs] = ["a", "b"].map(|name| TenantId::parse(name).unwrap());
        let places = Places::new(2, 1);
        let first = places.take(&ours).now_or_never().expect("a free place");
        assert!(places.take(&ours).now_or_never().is_none());
        let other = places.take(&theirs).now_or_never();
        assert!(other.is_some());
        let mut second = Box::pin(places.take(&ours));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        let second = second.now_or_never().expect("its turn");
        drop((second, other));
        assert_eq!(places.taken(), 0);
    }
}
