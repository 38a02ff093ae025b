//! The open connections: how many there may be, and which of them wait for a request. When there is
//! no room left, the one that has waited longest makes it, so that connections that never say
//! anything cannot keep others out.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::task::{AbortHandle, Id, JoinSet};

/// What [`Activity`] holds during a request.
const BUSY: u64 = u64::MAX;

pub struct Connections {
    max: usize,
    tasks: JoinSet<()>,
    open: HashMap<Id, (Activity, AbortHandle)>,
    started: Instant,
}

/// Since when one connection waits for a request, in microseconds of the listener's life.
#[derive(Clone)]
pub struct Activity {
    waiting_since: Arc<AtomicU64>,
    started: Instant,
}

/// A request under way, up to the last byte of its answer's body.
pub struct Busy(Activity);

/// An answer's body that keeps its connection busy.
pub struct Answer {
    body: Body,
    _busy: Busy,
}

impl Connections {
    pub fn new(max: usize) -> Connections {
        Connections {
            max,
            tasks: JoinSet::new(),
            open: HashMap::new(),
            started: Instant::now(),
        }
    }

    pub fn count(&self) -> usize {
        self.tasks.len()
    }

    /// Whether one more may come, if need be in the place of one that waits.
    pub fn has_room(&self) -> bool {
        self.tasks.len() < self.max || self.longest_waiting().is_some()
    }

    pub fn open<F>(&mut self, serve: impl FnOnce(Activity) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if self.tasks.len() >= self.max
            && let Some(waiting) = self.longest_waiting()
        {
            waiting.abort();
        }
        let activity = Activity {
            waiting_since: Arc::default(),
            started: self.started,
        };
        activity.wait();
        let task = self.tasks.spawn(serve(activity.clone()));
        self.open.insert(task.id(), (activity, task));
    }

    /// Resolves when one has ended; None while there is none.
    pub async fn one_ended(&mut self) -> Option<()> {
        let id = match self.tasks.join_next_with_id().await? {
            Ok((id, ())) => id,
            Err(error) => error.id(),
        };
        self.open.remove(&id);
        Some(())
    }

    pub async fn shutdown(&mut self) {
        self.tasks.shutdown().await;
    }

    /// One that is aborted already is on its way out, and frees its own place.
    fn longest_waiting(&self) -> Option<&AbortHandle> {
        let waiting = self.open.values().filter_map(|(activity, task)| {
            let since = activity.waiting_since.load(Ordering::Relaxed);
            (since != BUSY && !task.is_finished()).then_some((since, task))
        });
        let longest = waiting.min_by_key(|(since, _)| *since);
        longest.map(|(_, task)| task)
    }
}

impl Activity {
    pub fn busy(&self) -> Busy {
        self.waiting_since.store(BUSY, Ordering::Relaxed);
        Busy(self.clone())
    }

    fn wait(&self) {
        let since = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(BUSY - 1);
        self.waiting_since.store(since, Ordering::Relaxed);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.wait();
    }
}

impl Answer {
    pub fn new(body: Body, busy: Busy) -> Answer {
        Answer { body, _busy: busy }
    }
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
