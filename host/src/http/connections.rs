//! The open connections: how many there may be, whose they are, and which of them makes room for
//! another. No tenant can keep the others out, and neither can those who say nothing (I4).
//!
//! A connection counts to a tenant from its first request on. A tenant has as many as it leaves to
//! others at most: alone it may take half, two a third each, so that there is always room to come
//! in, to be told apart, and to be served. Who has no tenant yet is owed nothing.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::task::JoinSet;

use super::connection::{Connection, Place};
use crate::task::TenantId;

/// How long every connection may stay, since it came or was last answered, before another may have
/// its place: so that what its client has sent already is read.
const STAY_MIN: Duration = Duration::from_millis(20);

/// The connections of one listener.
pub struct Connections {
    room: Arc<Room>,
    tasks: JoinSet<()>,
}

/// What all connections of a listener know of each other.
pub struct Room {
    max: usize,
    tenant_max: Option<usize>,
    open: Mutex<Open>,
}

/// Those that have not been told to leave.
#[derive(Default)]
struct Open {
    stay_min: Duration,
    opened: u64,
    all: HashMap<u64, Entry>,
    tenants: HashMap<TenantId, usize>,
    /// Those of all tenants together.
    owned: usize,
}

struct Entry {
    connection: Connection,
    tenant: Option<TenantId>,
}

/// A tenant has its share, and a request is under way on all of it.
#[derive(Debug, Error)]
#[error(
    "the {0} connections that this tenant may have at the moment are all in use; wait for their \
     answers, or use fewer"
)]
pub struct Crowded(usize);

impl Connections {
    /// With `tenant_max` None all are whoever's they are: there is one tenant.
    pub fn new(max: usize, tenant_max: Option<usize>) -> Connections {
        let room = Room {
            max,
            tenant_max,
            open: Mutex::new(Open {
                stay_min: STAY_MIN,
                ..Open::default()
            }),
        };
        Connections {
            room: Arc::new(room),
            tasks: JoinSet::new(),
        }
    }

    pub fn count(&self) -> usize {
        self.tasks.len()
    }

    /// Whether one more may come, if need be in the place of another.
    pub fn has_room(&self) -> bool {
        let (count, max) = (self.tasks.len(), self.room.max);
        count < max || (count == max && self.room.lock().can_spare_one())
    }

    /// A place for one more, if need be that of another, which is told to leave: at most one is on
    /// its way out for one that comes. None while all are busy, also if one was not a moment ago.
    pub fn take_place(&self) -> Option<Place> {
        let (count, max) = (self.tasks.len(), self.room.max);
        let has_place = count < max || (count == max && self.room.spare_one());
        has_place.then(|| Place(self.room.enter()))
    }

    /// Serves a connection that has its place.
    pub fn open(&mut self, serving: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(serving);
    }

    /// Resolves when one has ended; None while there is none.
    pub async fn one_ended(&mut self) -> Option<()> {
        self.tasks.join_next().await.map(drop)
    }

    pub async fn shutdown(&mut self) {
        self.tasks.shutdown().await;
    }
}

impl Room {
    /// Tells the connection that is needed least to leave; whether there was one.
    fn spare_one(&self) -> bool {
        let mut open = self.lock();
        let Some(spared) = open.least_needed() else {
            return false;
        };
        open.dismiss(spared);
        true
    }

    fn enter(self: &Arc<Self>) -> Connection {
        let mut open = self.lock();
        open.opened += 1;
        let connection = Connection::new(Arc::clone(self), open.opened);
        let entry = Entry {
            connection: connection.clone(),
            tenant: None,
        };
        open.all.insert(connection.number(), entry);
        connection
    }

    pub(super) fn leave(&self, connection: &Connection) {
        self.lock().remove(connection.number());
    }

    pub(super) fn count_to(
        &self,
        connection: &Connection,
        tenant: &TenantId,
    ) -> Result<(), Crowded> {
        let mut open = self.lock();
        let number = connection.number();
        // One that was told to leave a moment ago may still answer; it counts no more.
        if !open.give_to(number, tenant) {
            return Ok(());
        }
        let Some(tenant_max) = self.tenant_max else {
            return Ok(());
        };
        let left = self.max.saturating_sub(open.owned);
        let share = tenant_max.min(left).max(1);
        if open.count_of(tenant) <= share {
            return Ok(());
        }
        match open.most_awaited(Some(tenant)) {
            Some(spared) => {
                open.dismiss(spared);
                Ok(())
            }
            None => {
                open.disown(number);
                Err(Crowded(open.count_of(tenant)))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn count_of(&self, tenant: &TenantId) -> usize {
        self.tenants.get(tenant).copied().unwrap_or_default()
    }

    /// Whether the connection was not the tenant's before and is now.
    fn give_to(&mut self, number: u64, tenant: &TenantId) -> bool {
        let Some(entry) = self.all.get(&number) else {
            return false;
        };
        if entry.tenant.as_ref() == Some(tenant) {
            return false;
        }
        self.disown(number);
        if let Some(entry) = self.all.get_mut(&number) {
            entry.tenant = Some(tenant.clone());
        }
        *self.tenants.entry(tenant.clone()).or_default() += 1;
        self.owned += 1;
        true
    }

    fn disown(&mut self, number: u64) {
        let entry = self.all.get_mut(&number);
        let Some(tenant) = entry.and_then(|entry| entry.tenant.take()) else {
            return;
        };
        self.owned -= 1;
        if let Some(count) = self.tenants.get_mut(&tenant) {
            *count -= 1;
            if *count == 0 {
                self.tenants.remove(&tenant);
            }
        }
    }

    fn remove(&mut self, number: u64) -> Option<Connection> {
        self.disown(number);
        self.all.remove(&number).map(|entry| entry.connection)
    }

    fn dismiss(&mut self, number: u64) {
        if let Some(connection) = self.remove(number) {
            connection.leave();
        }
    }

    fn can_spare_one(&self) -> bool {
        self.all.values().any(|entry| self.awaited(entry).is_some())
    }

    /// Whoever has most makes room, as in a queue that is fair: who comes now is never sent away
    /// while others hold more.
    fn least_needed(&self) -> Option<u64> {
        let nobodys = self.all.len() - self.owned;
        let tenants = self.tenants.iter();
        let mut owners: Vec<(usize, Option<&TenantId>)> = tenants
            .map(|(tenant, count)| (*count, Some(tenant)))
            .chain([(nobodys, None)])
            .collect();
        owners.sort_by_key(|(count, _)| Reverse(*count));
        let mut owners = owners.into_iter();
        owners.find_map(|(_, owner)| self.most_awaited(owner))
    }

    /// The connection of `owner` whose client has kept the host waiting longest.
    fn most_awaited(&self, owner: Option<&TenantId>) -> Option<u64> {
        let entries = self.all.iter();
        entries
            .filter(|(_, entry)| entry.tenant.as_ref() == owner)
            .filter_map(|(number, entry)| Some((self.awaited(entry)?, *number)))
            .max()
            .map(|(_, number)| number)
    }

    /// As [`Connection::awaited`], but a tenant that has yet to read its answer is left to do so.
    fn awaited(&self, entry: &Entry) -> Option<Duration> {
        let is_reading = entry.tenant.is_some() && entry.connection.is_writing();
        let awaited = entry.connection.awaited()?;
        (!is_reading && awaited >= self.stay_min).then_some(awaited)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name).unwrap()
    }

    fn room(max: usize, tenant_max: usize) -> Arc<Room> {
        Arc::new(Room {
            max,
            tenant_max: Some(tenant_max),
            open: Mutex::default(),
        })
    }

    /// A connection with a request of the tenant under way.
    fn busy(room: &Arc<Room>, name: &str) -> (Connection, Result<(), Crowded>) {
        let connection = room.enter();
        std::mem::forget(connection.begin());
        let taken = connection.belong_to(&tenant(name));
        connection.has_request();
        (connection, taken)
    }

    fn has_left(room: &Room, connection: &Connection) -> bool {
        !room.lock().all.contains_key(&connection.number())
    }

    #[test]
    fn a_tenant_leaves_as_many_to_others_as_it_takes() {
        let room = room(12, 12);
        let taken = |name: &str| (0..12).filter(|_| busy(&room, name).1.is_ok()).count();
        assert_eq!(["a", "b", "c", "d", "e"].map(taken), [6, 3, 1, 1, 1]);
    }

    #[test]
    fn a_tenant_has_no_more_than_it_may() {
        let room = room(100, 2);
        assert!(busy(&room, "a").1.is_ok());
        assert!(busy(&room, "a").1.is_ok());
        let refused = busy(&room, "a").1.unwrap_err().to_string();
        assert!(refused.starts_with("the 2 connections"), "{refused}");
        assert!(busy(&room, "b").1.is_ok());
    }

    #[test]
    fn a_tenants_own_idle_connection_makes_room_for_its_next() {
        let room = room(100, 2);
        let idle = room.enter();
        idle.belong_to(&tenant("a")).unwrap();
        let other = room.enter();
        other.belong_to(&tenant("b")).unwrap();
        let used = busy(&room, "a").0;
        assert!(busy(&room, "a").1.is_ok());
        assert!(has_left(&room, &idle));
        assert!(!has_left(&room, &used) && !has_left(&room, &other));
    }

    #[test]
    fn whoever_has_most_makes_room_for_one_that_comes() {
        let room = room(100, 100);
        let idle = ["a", "a", "a", "b"].map(|name| {
            let connection = room.enter();
            connection.belong_to(&tenant(name)).unwrap();
            connection
        });
        let silent = room.enter();
        assert!(room.spare_one());
        let newest = room.enter();
        let left: Vec<bool> = idle.iter().map(|one| has_left(&room, one)).collect();
        assert_eq!(left, [true, false, false, false]);
        assert!(!has_left(&room, &silent) && !has_left(&room, &newest));
    }

    #[tokio::test]
    async fn no_more_are_served_than_may_be_also_when_one_turns_busy_as_another_comes() {
        let mut connections = Connections::new(1, None);
        connections.room.lock().stay_min = Duration::ZERO;
        let place = connections.take_place().unwrap();
        let idle = place.connection().clone();
        connections.open(async move {
            place.connection().leaving().await;
        });
        assert!(connections.has_room());
        let busy = idle.begin();
        idle.has_request();
        assert!(connections.take_place().is_none());
        drop(busy);
        // What makes room has its place until it is gone.
        let _next = connections.take_place().unwrap();
        connections.open(std::future::pending());
        assert!(idle.is_leaving());
        assert!(!connections.has_room() && connections.take_place().is_none());
        connections.one_ended().await.unwrap();
    }

    #[tokio::test]
    async fn only_a_tenant_may_take_its_time_to_read() {
        let room = room(100, 100);
        let [nobodys, tenants] = [(); 2].map(|()| room.enter());
        tenants.belong_to(&tenant("a")).unwrap();
        for connection in [&nobodys, &tenants] {
            let (near, _far) = tokio::io::duplex(1);
            let mut stream = connection.note(near);
            let written = stream.write_all(b"more than it takes").now_or_never();
            assert!(written.is_none());
        }
        let open = room.lock();
        assert_eq!(open.most_awaited(None), Some(nobodys.number()));
        assert_eq!(open.most_awaited(Some(&tenant("a"))), None);
    }

    #[tokio::test]
    async fn requests_that_were_sent_at_once_take_turns_with_those_of_other_connections() {
        let room = room(100, 100);
        let answered = Arc::new(Mutex::new(String::new()));
        let serving = ["a", "b"].map(|name| {
            let connection = room.enter();
            let answered = Arc::clone(&answered);
            tokio::spawn(async move {
                let all = pin!(async {
                    for _ in 0..3 {
                        connection.turn().await;
                        answered.lock().unwrap().push_str(name);
                    }
                });
                connection.in_turns(all).await;
            })
        });
        for serving in serving {
            serving.await.unwrap();
        }
        let answered = answered.lock().unwrap();
        for turn in answered.as_bytes().chunks(2) {
            assert!(matches!(turn, b"ab" | b"ba"), "{answered}");
        }
    }

    #[test]
    fn a_connection_counts_to_the_tenant_of_its_last_request() {
        let room = room(100, 1);
        let shared = room.enter();
        shared.belong_to(&tenant("a")).unwrap();
        shared.belong_to(&tenant("b")).unwrap();
        assert!(busy(&room, "a").1.is_ok());
        room.leave(&shared);
        assert!(busy(&room, "b").1.is_ok());
        assert_eq!(room.lock().owned, 2);
    }
}
