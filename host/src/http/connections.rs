//! The open connections: how many there may be, and which of them wait for a request. When there is
//! no room left, the one that has waited longest makes it, so that connections that never say
//! anything cannot keep others out.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::{AbortHandle, Id, JoinSet};

/// What [`Activity`] holds during a request.
const BUSY: u64 = u64::MAX;

pub struct Connections {
    max: usize,
    tasks: JoinSet<()>,
    open: HashMap<Id, (Activity, AbortHandle)>,
    started: Instant,
}

/// What one connection does.
#[derive(Clone)]
pub struct Activity {
    /// Since when it waits for a request, in microseconds of the listener's life.
    waiting_since: Arc<AtomicU64>,
    /// Whether its client has yet to take what was written.
    is_writing: Arc<AtomicBool>,
    started: Instant,
}

/// A request under way, until the last of its answer's body was handed over for writing.
pub struct Busy(Activity);

/// A connection's stream, which notes whether it can be written to.
pub struct Noted<S> {
    stream: S,
    is_writing: Arc<AtomicBool>,
}

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

    /// Whether one more may come, if need be in the place of one that waits. At most one is on its
    /// way out for another.
    pub fn has_room(&self) -> bool {
        let count = self.tasks.len();
        count < self.max || (count == self.max && self.longest_waiting().is_some())
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
            is_writing: Arc::default(),
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

    fn longest_waiting(&self) -> Option<&AbortHandle> {
        let open = self.open.values();
        let waiting = open.filter_map(|(activity, task)| Some((activity.waiting()?, task)));
        let longest = waiting.min_by_key(|(since, _)| *since);
        longest.map(|(_, task)| task)
    }
}

impl Activity {
    pub fn busy(&self) -> Busy {
        self.waiting_since.store(BUSY, Ordering::Relaxed);
        Busy(self.clone())
    }

    pub fn note<S>(&self, stream: S) -> Noted<S> {
        Noted {
            stream,
            is_writing: Arc::clone(&self.is_writing),
        }
    }

    /// Since when nothing is under way.
    fn waiting(&self) -> Option<u64> {
        let since = self.waiting_since.load(Ordering::Relaxed);
        (since != BUSY && !self.is_writing.load(Ordering::Relaxed)).then_some(since)
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

impl<S: AsyncRead + Unpin> AsyncRead for Noted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.is_writing
            .store(written.is_pending(), Ordering::Relaxed);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.is_writing
            .store(written.is_pending(), Ordering::Relaxed);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
