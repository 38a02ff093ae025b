//! The requests of one client that are being answered: bounded, each under an id of its own, and
//! cancelled by it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout};

use crate::mcp::RequestId;
use crate::mcp::envelope::{Head, Rejection};
use crate::mcp::error::Refusal;
use crate::service::CallError;

/// Requests of one client that are answered at once.
pub const REQUESTS_MAX: usize = 256;

/// How long no line is read because that many are open: quick ones are not refused for coming together.
/// Not longer, since an answer that one of them waits for, or its cancel, is a line, too.
const ROOM_PATIENCE: Duration = Duration::from_millis(100);

/// Whether one client may ask for more.
#[derive(Default)]
pub struct Room {
    full_since: Option<Instant>,
}

impl Room {
    /// Until when no line is read while `open` requests are; None when one may be.
    pub fn pause(&mut self, open: usize) -> Option<Instant> {
        if open < REQUESTS_MAX {
            self.full_since = None;
            return None;
        }
        let since = *self.full_since.get_or_insert_with(Instant::now);
        Some(since + ROOM_PATIENCE)
    }
}

/// Why a request is refused while there is none.
pub fn no_room() -> Refusal {
    let what = format!("{REQUESTS_MAX} requests are open; wait for some, or cancel them");
    Refusal::Call(CallError::Busy(what))
}

#[derive(Default)]
pub struct Requests {
    /// Also those whose answer waits to be written. These are few as well: while any waits, no line is read.
    tasks: JoinSet<()>,
    running: HashMap<RequestId, Running>,
    /// As many as there are tasks without an answer.
    open: Arc<()>,
    room: Room,
}

struct Running {
    task: AbortHandle,
    is_subscription: bool,
    is_answered: Arc<AtomicBool>,
}

impl Running {
    /// What was cancelled is not answered, and over as well.
    fn is_over(&self) -> bool {
        self.is_answered.load(Ordering::Acquire) || self.task.is_finished()
    }
}

/// A request that has no answer yet.
pub struct Open {
    is_answered: Arc<AtomicBool>,
    _counted: Arc<()>,
}

impl Open {
    /// Its answer is there; told before its client can know.
    pub fn end(self) {
        self.is_answered.store(true, Ordering::Release);
    }
}

impl Requests {
    /// Starts what `answering` makes.
    pub fn start<F>(
        &mut self,
        head: &Head,
        answering: impl FnOnce(Open) -> F,
    ) -> Result<(), Rejection>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if self.open() >= REQUESTS_MAX {
            let (id, refusal) = (head.id.clone(), no_room());
            return Err(Rejection { id, refusal });
        }
        let running = head.id.as_ref().and_then(|id| self.running.get(id));
        if running.is_some_and(|running| !running.is_over()) {
            let (id, refusal) = (None, Refusal::same_id());
            return Err(Rejection { id, refusal });
        }
        let is_answered = Arc::<AtomicBool>::default();
        let task = self.tasks.spawn(answering(Open {
            is_answered: Arc::clone(&is_answered),
            _counted: Arc::clone(&self.open),
        }));
        if let Some(id) = &head.id {
            let is_subscription = head.is_subscription();
            let running = Running {
                task,
                is_subscription,
                is_answered,
            };
            self.running.insert(id.clone(), running);
        }
        Ok(())
    }

    /// Until when no line is read.
    pub fn pause(&mut self) -> Option<Instant> {
        self.room.pause(self.open())
    }

    fn open(&self) -> usize {
        Arc::strong_count(&self.open) - 1
    }

    /// Drops a request, which stops its tool; an unknown one is done already.
    pub fn cancel(&mut self, id: &RequestId) {
        if let Some(running) = self.running.remove(id) {
            running.task.abort();
        }
    }

    /// Resolves when a request has ended; never while there is none.
    pub async fn next_ended(&mut self) {
        if self.tasks.join_next().await.is_none() {
            return std::future::pending().await;
        }
        self.collect();
    }

    /// Forgets what has ended.
    fn collect(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        self.running
            .retain(|_, running| !running.task.is_finished());
    }

    pub fn end_subscriptions(&mut self) {
        let subscriptions = self.running.values().filter(|one| one.is_subscription);
        for subscription in subscriptions {
            subscription.task.abort();
        }
    }

    /// Waits for what is running, up to `limit`, and stops the rest; what was not answered, except
    /// subscriptions, which their client ended.
    pub async fn finish(&mut self, limit: Duration) -> Vec<RequestId> {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(limit, all).await.is_err() {
            self.tasks.shutdown().await;
        }
        let ended = self.running.drain().filter(|(_, running)| {
            !running.is_subscription && !running.is_answered.load(Ordering::Acquire)
        });
        ended.map(|(id, _)| id).collect()
    }
}
