//! What the tenants have with the host that is counted in bytes, against a limit for each. Counted in
//! memory, from the records at the start; it never reads or writes them itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::task::TenantId;

/// Bytes by tenant. Cheap to clone.
#[derive(Clone)]
pub(super) struct TenantBytes(Arc<Counted>);

struct Counted {
    max: u64,
    by_tenant: Mutex<HashMap<TenantId, u64>>,
}

/// A tenant would have more than the limit, which is this.
pub(super) struct Exceeded(pub u64);

/// A tenant's bytes. Given back when dropped, so that whoever takes some and goes away leaves no
/// count behind; kept by the commit that writes what they are for.
#[must_use]
pub(super) struct Taken {
    counted: TenantBytes,
    tenant: TenantId,
    bytes: u64,
}

/// What a commit changes of the counts.
#[derive(Default)]
pub(super) struct QuotaDraft {
    taken: Vec<Taken>,
    freed: Vec<Taken>,
}

impl TenantBytes {
    pub(super) fn new(max: u64) -> TenantBytes {
        TenantBytes(Arc::new(Counted {
            max,
            by_tenant: Mutex::default(),
        }))
    }

    /// Adds what is there already, also beyond the limit.
    pub(super) fn add(&self, tenant: &TenantId, bytes: u64) {
        let mut by_tenant = self.lock();
        let taken = by_tenant.entry(tenant.clone()).or_default();
        *taken = taken.saturating_add(bytes);
    }

    pub(super) fn take(&self, tenant: &TenantId, bytes: u64) -> Result<Taken, Exceeded> {
        let mut by_tenant = self.lock();
        let before = by_tenant.get(tenant).copied().unwrap_or_default();
        let after = before.saturating_add(bytes);
        if after > self.0.max {
            return Err(Exceeded(self.0.max));
        }
        by_tenant.insert(tenant.clone(), after);
        drop(by_tenant);
        Ok(self.taken_before(tenant, bytes))
    }

    /// What was taken once and is given back with this.
    fn taken_before(&self, tenant: &TenantId, bytes: u64) -> Taken {
        Taken {
            counted: self.clone(),
            tenant: tenant.clone(),
            bytes,
        }
    }

    fn give_back(&self, tenant: &TenantId, bytes: u64) {
        let mut by_tenant = self.lock();
        if let Some(taken) = by_tenant.get_mut(tenant) {
            *taken = taken.saturating_sub(bytes);
            if *taken == 0 {
                by_tenant.remove(tenant);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn of(&self, tenant: &TenantId) -> u64 {
        self.lock().get(tenant).copied().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, u64>> {
        self.0
            .by_tenant
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.counted.give_back(&self.tenant, self.bytes);
    }
}

impl QuotaDraft {
    pub(super) fn take(&mut self, taken: Taken) {
        self.taken.push(taken);
    }

    pub(super) fn free(&mut self, counted: &TenantBytes, tenant: &TenantId, bytes: u64) {
        self.freed.push(counted.taken_before(tenant, bytes));
    }

    /// After the commit.
    pub(super) fn apply(self) {
        self.taken.into_iter().for_each(Taken::keep);
        drop(self.freed);
    }

    /// Nothing was written; what was to go is still there.
    pub(super) fn undo(self) {
        self.freed.into_iter().for_each(Taken::keep);
        drop(self.taken);
    }
}

/// How a count is written.
pub(super) fn write_count(bytes: u64) -> Vec<u8> {
    bytes.to_be_bytes().to_vec()
}

/// The bytes that a record says are counted; none if it is not one.
pub(super) fn read_count(value: &[u8]) -> u64 {
    value.try_into().map_or(0, u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_and_not_kept_is_given_back() {
        let counted = TenantBytes::new(10);
        let tenant = TenantId::local();
        let taken = counted.take(&tenant, 10).ok().unwrap();
        assert!(matches!(counted.take(&tenant, 1), Err(Exceeded(10))));
        drop(taken);
        let mut draft = QuotaDraft::default();
        draft.take(counted.take(&tenant, 10).ok().unwrap());
        draft.apply();
        assert!(counted.take(&tenant, 1).is_err());
        let mut draft = QuotaDraft::default();
        draft.free(&counted, &tenant, 10);
        draft.undo();
        assert!(counted.take(&tenant, 1).is_err());
        let mut draft = QuotaDraft::default();
        draft.free(&counted, &tenant, 10);
        draft.apply();
        assert!(counted.take(&tenant, 10).is_ok());
    }
}
