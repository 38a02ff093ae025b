//! Whose turn it is: tenants take turns, each within its own share. Pure; it holds names and
//! whatever waits, and runs nothing.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::task::{TaskId, TaskKey, TenantId};

/// Places, and those of all tenants who wait for one. Beside others a tenant gets no more than it
/// leaves free, so that however many there are, the next one finds a place.
pub struct FairQueue<W> {
    places: usize,
    places_of_tenant: usize,
    taken: usize,
    tenants: HashMap<TenantId, Line<W>>,
    /// Tenants with somebody waiting, in the order of their turns.
    turns: VecDeque<TenantId>,
}

/// One tenant's line; it is there while it has places or somebody waits in it.
struct Line<W> {
    taken: usize,
    waiting: VecDeque<W>,
}

impl<W> Default for Line<W> {
    fn default() -> Line<W> {
        Line {
            taken: 0,
            waiting: VecDeque::new(),
        }
    }
}

impl<W> FairQueue<W> {
    pub fn new(places: usize, places_of_tenant: usize) -> FairQueue<W> {
        FairQueue {
            places,
            places_of_tenant,
            taken: 0,
            tenants: HashMap::new(),
            turns: VecDeque::new(),
        }
    }

    /// Puts one at the end of its tenant's line.
    pub fn push(&mut self, tenant: &TenantId, waiting: W) {
        let line = self.tenants.entry(tenant.clone()).or_default();
        line.waiting.push_back(waiting);
        if line.waiting.len() == 1 {
            self.turns.push_back(tenant.clone());
        }
    }

    /// The next one, which takes a place with it.
    pub fn pop(&mut self) -> Option<(TenantId, W)> {
        if self.is_full() {
            return None;
        }
        for _ in 0..self.turns.len() {
            let tenant = self.turns.pop_front()?;
            if !self.may_take(&tenant) {
                self.turns.push_back(tenant);
                continue;
            }
            let Some(line) = self.tenants.get_mut(&tenant) else {
                continue;
            };
            let Some(next) = line.waiting.pop_front() else {
                continue;
            };
            if !line.waiting.is_empty() {
                self.turns.push_back(tenant.clone());
            }
            self.take_place(&tenant);
            return Some((tenant, next));
        }
        None
    }

    /// Takes a place for one that never waited, if one is free and nobody is in line before it.
    pub fn try_take_place(&mut self, tenant: &TenantId) -> bool {
        let line = self.tenants.get(tenant);
        let is_first = line.is_none_or(|line| line.waiting.is_empty());
        let free = is_first && self.may_take(tenant);
        if free {
            self.take_place(tenant);
        }
        free
    }

    /// Takes a place whether or not one is free, for a run that is live already.
    pub fn take_place(&mut self, tenant: &TenantId) {
        self.taken += 1;
        match self.tenants.get_mut(tenant) {
            Some(line) => line.taken += 1,
            None => self.tenants.entry(tenant.clone()).or_default().taken = 1,
        }
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

    /// The places of each tenant, added up.
    #[cfg(test)]
    pub fn taken_by_tenants(&self) -> usize {
        self.tenants.values().map(|line| line.taken).sum()
    }

    pub fn is_anybody_waiting(&self) -> bool {
        !self.turns.is_empty()
    }

    /// How many of the tenant wait, once those that `holds` denies have been dropped.
    pub fn retain_waiting(&mut self, tenant: &TenantId, holds: impl FnMut(&W) -> bool) -> usize {
        let Some(line) = self.tenants.get_mut(tenant) else {
            return 0;
        };
        let had_some = !line.waiting.is_empty();
        line.waiting.retain(holds);
        let waiting = line.waiting.len();
        if had_some && waiting == 0 {
            if line.taken == 0 {
                self.tenants.remove(tenant);
            }
            self.turns.retain(|other| other != tenant);
        }
        waiting
    }

    pub fn is_full(&self) -> bool {
        self.taken >= self.places
    }

    fn may_take(&self, tenant: &TenantId) -> bool {
        let line = self.tenants.get(tenant);
        let taken = line.map_or(0, |line| line.taken);
        let free = self.places.saturating_sub(self.taken);
        let others = self.tenants.len() - usize::from(line.is_some());
        free > 0 && taken < self.places_of_tenant && (others == 0 || taken < free)
    }
}

/// Tasks that wait for a place, each once.
pub struct TaskQueue {
    queue: FairQueue<TaskId>,
    known: HashSet<TaskKey>,
}

impl TaskQueue {
    pub fn new(places: usize, places_of_tenant: usize) -> TaskQueue {
        TaskQueue {
            queue: FairQueue::new(places, places_of_tenant),
            known: HashSet::new(),
        }
    }

    /// Puts a task at the end of its tenant's line, unless it already waits there.
    pub fn push(&mut self, key: TaskKey) {
        if self.known.contains(&key) {
            return;
        }
        self.queue.push(&key.tenant, key.id.clone());
        self.known.insert(key);
    }

    /// The next task, which takes a place with it.
    pub fn pop(&mut self) -> Option<TaskKey> {
        let (tenant, id) = self.queue.pop()?;
        let key = TaskKey { tenant, id };
        self.known.remove(&key);
        Some(key)
    }

    pub fn try_take_place(&mut self, tenant: &TenantId) -> bool {
        self.queue.try_take_place(tenant)
    }

    pub fn take_place(&mut self, tenant: &TenantId) {
        self.queue.take_place(tenant);
    }

    pub fn leave_place(&mut self, tenant: &TenantId) {
        self.queue.leave_place(tenant);
    }

    pub fn taken(&self) -> usize {
        self.queue.taken()
    }

    /// How many tasks wait for a place.
    pub fn waiting(&self) -> usize {
        self.known.len()
    }

    pub fn is_full(&self) -> bool {
        self.queue.is_full()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name).unwrap()
    }

    fn queue(
        places: usize,
        places_of_tenant: usize,
        waiting: &[&'static str],
    ) -> FairQueue<String> {
        let mut queue = FairQueue::new(places, places_of_tenant);
        for name in waiting {
            queue.push(&tenant(&name[..1]), (*name).to_owned());
        }
        queue
    }

    fn popped(queue: &mut FairQueue<String>) -> Vec<String> {
        std::iter::from_fn(|| queue.pop())
            .map(|(_, name)| name)
            .collect()
    }

    #[test]
    fn tenants_take_turns() {
        let mut queue = queue(10, 10, &["a1", "a2", "a3", "b1"]);
        assert_eq!(popped(&mut queue), ["a1", "b1", "a2", "a3"]);
    }

    #[test]
    fn a_tenant_at_its_limit_does_not_hold_up_the_others() {
        let mut queue = queue(10, 1, &["a1", "a2", "b1"]);
        assert_eq!(popped(&mut queue), ["a1", "b1"]);
        queue.leave_place(&tenant("a"));
        assert_eq!(popped(&mut queue), ["a2"]);
    }

    #[test]
    fn beside_others_a_tenant_leaves_as_many_as_it_has() {
        let waiting = ["a", "b", "c"].map(|name| vec![name; 8]).concat();
        let mut queue = queue(8, 8, &waiting);
        assert_eq!(popped(&mut queue), ["a", "b", "c", "a", "b", "c"]);
        // Whoever comes finds one; and the last one, too.
        assert!(queue.try_take_place(&tenant("d")));
        assert!(queue.try_take_place(&tenant("e")));
        assert!(!queue.try_take_place(&tenant("f")));
    }

    #[test]
    fn alone_a_tenant_has_all_it_may() {
        let mut queue = queue(4, 4, &["a1", "a2", "a3", "a4", "a5"]);
        assert_eq!(popped(&mut queue).len(), 4);
        // What is left goes to whoever has less, also behind it in turn.
        queue.push(&tenant("b"), "b1".to_owned());
        queue.leave_place(&tenant("a"));
        assert_eq!(popped(&mut queue), ["b1"]);
    }

    #[test]
    fn nobody_overtakes_one_that_waits() {
        let mut queue = queue(1, 1, &[]);
        let tenant = tenant("a");
        assert!(queue.try_take_place(&tenant));
        queue.push(&tenant, "a1".to_owned());
        queue.leave_place(&tenant);
        assert!(!queue.try_take_place(&tenant));
        assert_eq!(popped(&mut queue), ["a1"]);
    }

    #[test]
    fn those_that_wait_no_more_leave_nothing_behind() {
        let mut queue = queue(1, 1, &["a1", "a2"]);
        assert_eq!(queue.retain_waiting(&tenant("a"), |name| name == "a2"), 1);
        assert_eq!(queue.retain_waiting(&tenant("a"), |_| false), 0);
        assert!(!queue.is_anybody_waiting());
        assert!(queue.tenants.is_empty());
    }

    #[test]
    fn a_task_waits_once() {
        let mut queue = TaskQueue::new(10, 10);
        let key = TaskKey {
            tenant: tenant("a"),
            id: TaskId::parse("a1").unwrap(),
        };
        queue.push(key.clone());
        queue.push(key.clone());
        assert_eq!(queue.waiting(), 1);
        assert_eq!(queue.pop(), Some(key.clone()));
        assert_eq!(queue.pop(), None);
        queue.push(key.clone());
        assert_eq!(queue.pop(), Some(key));
    }
}
