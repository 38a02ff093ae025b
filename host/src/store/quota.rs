//! What the tenants have with the host that is counted in bytes, against a limit for each. Counted in
//! memory, from the records at the start; it never reads or writes them itself.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::task::TenantId;

/// Bytes by tenant.
pub(super) struct TenantBytes {
    max: u64,
    by_tenant: Mutex<HashMap<TenantId, u64>>,
}

/// A tenant would have more than the limit, which is this.
pub(super) struct Exceeded(pub u64);

impl TenantBytes {
    pub(super) fn new(max: u64) -> TenantBytes {
        TenantBytes {
            max,
            by_tenant: Mutex::default(),
        }
    }

    /// Adds what is there already, also beyond the limit.
    pub(super) fn add(&self, tenant: &TenantId, bytes: u64) {
        let mut by_tenant = self.lock();
        let taken = by_tenant.entry(tenant.clone()).or_default();
        *taken = taken.saturating_add(bytes);
    }

    pub(super) fn take(&self, tenant: &TenantId, bytes: u64) -> Result<(), Exceeded> {
        let mut by_tenant = self.lock();
        let taken = by_tenant.entry(tenant.clone()).or_default();
        if taken.saturating_add(bytes) > self.max {
            return Err(Exceeded(self.max));
        }
        *taken += bytes;
        Ok(())
    }

    pub(super) fn give_back(&self, tenant: &TenantId, bytes: u64) {
        let mut by_tenant = self.lock();
        if let Some(taken) = by_tenant.get_mut(tenant) {
            *taken = taken.saturating_sub(bytes);
            if *taken == 0 {
                by_tenant.remove(tenant);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, u64>> {
        self.by_tenant
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
