//! Who runs next: tenants take turns, each within its own limit. Pure; it holds names only.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::task::{TaskId, TaskKey, TenantId};

/// Waiting tasks and the places of running ones.
pub struct FairQueue {
    places: usize,
    places_of_tenant: usize,
    taken: usize,
    tenants: HashMap<TenantId, Line>,
    /// Tenants with somebody waiting, in the order of their turns.
    turns: VecDeque<TenantId>,
}

/// One tenant's line.
#[derive(Default)]
struct Line {
    taken: usize,
    waiting: VecDeque<TaskId>,
    /// The same ids, so that none waits twice.
    known: HashSet<TaskId>,
}

impl FairQueue {
    pub fn new(places: usize, places_of_tenant: usize) -> FairQueue {
        FairQueue {
            places,
            places_of_tenant,
            taken: 0,
            tenants: HashMap::new(),
            turns: VecDeque::new(),
        }
    }

    /// Puts a task at the end of its tenant's line, unless it already waits there.
    pub fn push(&mut self, key: TaskKey) {
        let line = self.tenants.entry(key.tenant.clone()).or_default();
        if !line.known.insert(key.id.clone()) {
            return;
        }
        line.waiting.push_back(key.id);
        if line.waiting.len() == 1 {
            self.turns.push_back(key.tenant);
        }
    }

    /// The next task, which takes a place with it.
    pub fn pop(&mut self) -> Option<TaskKey> {
        if self.is_full() {
            return None;
        }
        for _ in 0..self.turns.len() {
            let tenant = self.turns.pop_front()?;
            let line = self.tenants.entry(tenant.clone()).or_default();
            if line.taken >= self.places_of_tenant {
                self.turns.push_back(tenant);
                continue;
            }
            let Some(id) = line.waiting.pop_front() else {
                continue;
            };
            line.known.remove(&id);
            if !line.waiting.is_empty() {
                self.turns.push_back(tenant.clone());
            }
            self.take_place(&tenant);
            return Some(TaskKey { tenant, id });
        }
        None
    }

    /// Takes a place for a task that never waited, if one is free and nobody is in line before it.
    pub fn try_take_place(&mut self, tenant: &TenantId) -> bool {
        let line = self.tenants.get(tenant);
        let taken = line.map_or(0, |line| line.taken);
        let first = line.is_none_or(|line| line.waiting.is_empty());
        let free = !self.is_full() && taken < self.places_of_tenant && first;
        if free {
            self.take_place(tenant);
        }
        free
    }

    /// Takes a place whether or not one is free, for a run that is live already.
    pub fn take_place(&mut self, tenant: &TenantId) {
        self.taken += 1;
        self.tenants.entry(tenant.clone()).or_default().taken += 1;
    }

    pub fn leave_place(&mut self, tenant: &TenantId) {
        self.taken = self.taken.saturating_sub(1);
        if let Some(line) = self.tenants.get_mut(tenant) {
            line.taken = line.taken.saturating_sub(1);
            if line.taken == 0 && line.waiting.is_empty() {
                self.tenants.remove(tenant);
            }
        }
    }

    /// How many places are taken, all tenants together.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// How many tasks wait for a place.
    pub fn waiting(&self) -> usize {
        self.tenants.values().map(|line| line.waiting.len()).sum()
    }

    pub fn is_full(&self) -> bool {
        self.taken >= self.places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tenant: &str, id: &str) -> TaskKey {
        TaskKey {
            tenant: TenantId::parse(tenant).unwrap(),
            id: TaskId::parse(id).unwrap(),
        }
    }

    fn popped(queue: &mut FairQueue) -> Vec<String> {
        std::iter::from_fn(|| queue.pop())
            .map(|key| key.id.to_string())
            .collect()
    }

    #[test]
    fn tenants_take_turns() {
        let mut queue = FairQueue::new(10, 10);
        for id in ["a1", "a2", "a3"] {
            queue.push(key("a", id));
        }
        queue.push(key("b", "b1"));
        assert_eq!(popped(&mut queue), ["a1", "b1", "a2", "a3"]);
    }

    #[test]
    fn a_tenant_at_its_limit_does_not_hold_up_the_others() {
        let mut queue = FairQueue::new(10, 1);
        queue.push(key("a", "a1"));
        queue.push(key("a", "a2"));
        queue.push(key("b", "b1"));
        assert_eq!(popped(&mut queue), ["a1", "b1"]);
        queue.leave_place(&TenantId::parse("a").unwrap());
        assert_eq!(popped(&mut queue), ["a2"]);
    }

    #[test]
    fn nobody_overtakes_a_task_that_waits() {
        let mut queue = FairQueue::new(1, 1);
        let tenant = TenantId::parse("a").unwrap();
        assert!(queue.try_take_place(&tenant));
        queue.push(key("a", "a1"));
        queue.leave_place(&tenant);
        assert!(!queue.try_take_place(&tenant));
        assert_eq!(popped(&mut queue), ["a1"]);
    }

    #[test]
    fn a_task_waits_once() {
        let mut queue = FairQueue::new(10, 10);
        queue.push(key("a", "a1"));
        queue.push(key("a", "a1"));
        assert_eq!(popped(&mut queue), ["a1"]);
    }
}
