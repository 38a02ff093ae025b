//! One connection: what it does at the moment, which decides whether it may have to make room, and
//! how it hears that it must. Which one must is decided in `connections`.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;

use super::connections::{Crowded, Room};
use crate::task::TenantId;

/// How long a body may take before its connection may have to make room for another.
const SLOW_BODY: Duration = Duration::from_secs(1);

/// What [`Inner::doing`] holds while an answer is made or sent.
const ANSWERS: u64 = u64::MAX;

/// Set in it while a request's body is awaited; the rest is since when.
const READS: u64 = 1 << 63;

/// A handle on an open connection. Cheap to clone.
#[derive(Clone)]
pub struct Connection(Arc<Inner>);

struct Inner {
    room: Arc<Room>,
    number: u64,
    opened: Instant,
    /// Since when it waits for a request or reads one, in microseconds from `opened`, or neither.
    doing: AtomicU64,
    /// Whether its client has yet to take what was written.
    is_writing: AtomicBool,
    /// Whether the connection has answered nothing yet since it was last polled.
    has_turn: AtomicBool,
    leaving: CancellationToken,
}

/// A connection's place, free again when this is dropped.
pub struct Place(pub(super) Connection);

/// A request under way, until the last of its answer's body was handed over for writing.
pub struct Busy(Connection);

/// A connection's stream, which notes whether it can be written to.
pub struct Noted<S> {
    stream: S,
    connection: Connection,
}

/// An answer's body that keeps its connection busy.
pub struct Answer {
    body: Body,
    _busy: Busy,
}

impl Connection {
    pub(super) fn new(room: Arc<Room>, number: u64) -> Connection {
        Connection(Arc::new(Inner {
            room,
            number,
            opened: Instant::now(),
            doing: AtomicU64::new(0),
            is_writing: AtomicBool::new(false),
            has_turn: AtomicBool::new(true),
            leaving: CancellationToken::new(),
        }))
    }

    pub(super) fn number(&self) -> u64 {
        self.0.number
    }

    /// Counts the connection to the tenant that its request is of (I4).
    pub fn belong_to(&self, tenant: &TenantId) -> Result<(), Crowded> {
        self.0.room.count_to(self, tenant)
    }

    /// A request's head is there; its body may be on its way.
    pub fn begin(&self) -> Busy {
        self.0.doing.store(READS | self.now(), Ordering::Relaxed);
        Busy(self.clone())
    }

    /// The request is there as a whole: from here on it is the host that takes time.
    pub fn has_request(&self) {
        self.0.doing.store(ANSWERS, Ordering::Relaxed);
    }

    pub fn note<S>(&self, stream: S) -> Noted<S> {
        Noted {
            stream,
            connection: self.clone(),
        }
    }

    /// What the connection does, with a turn each time it is polled.
    pub async fn in_turns<F: Future>(&self, mut serving: Pin<&mut F>) -> F::Output {
        poll_fn(|context| {
            self.0.has_turn.store(true, Ordering::Relaxed);
            serving.as_mut().poll(context)
        })
        .await
    }

    /// Waits for the connection's next turn when this one was used: of requests that were sent at
    /// once each is answered after what other connections sent meanwhile.
    pub async fn turn(&self) {
        if !self.0.has_turn.swap(false, Ordering::Relaxed) {
            yield_now().await;
            self.0.has_turn.store(false, Ordering::Relaxed);
        }
    }

    /// Tells it to make room.
    pub(super) fn leave(&self) {
        self.0.leaving.cancel();
    }

    pub fn is_leaving(&self) -> bool {
        self.0.leaving.is_cancelled()
    }

    /// Resolves when it has to make room.
    pub async fn leaving(&self) {
        self.0.leaving.cancelled().await;
    }

    /// Whether a request is under way.
    pub fn is_busy(&self) -> bool {
        self.0.doing.load(Ordering::Relaxed) >= READS
    }

    pub(super) fn is_writing(&self) -> bool {
        self.0.is_writing.load(Ordering::Relaxed)
    }

    /// How long its client has kept the host waiting, for a request or for the body of one; None
    /// while the host is the one that takes time.
    pub(super) fn awaited(&self) -> Option<Duration> {
        let doing = self.0.doing.load(Ordering::Relaxed);
        let since = Duration::from_micros(doing & !READS);
        let awaited = self.0.opened.elapsed().saturating_sub(since);
        match doing {
            ANSWERS => None,
            READS.. => (awaited >= SLOW_BODY).then_some(awaited),
            _ => Some(awaited),
        }
    }

    fn now(&self) -> u64 {
        let micros = u64::try_from(self.0.opened.elapsed().as_micros());
        // Half the range is 292,000 years.
        micros.unwrap_or(0) & !READS
    }
}

impl Place {
    pub fn connection(&self) -> &Connection {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.room.leave(&self.0);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.0.doing.store(self.0.now(), Ordering::Relaxed);
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

impl<S> Noted<S> {
    fn noting<T>(&self, written: Poll<T>) -> Poll<T> {
        let is_writing = &self.connection.0.is_writing;
        is_writing.store(written.is_pending(), Ordering::Relaxed);
        written
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
        self.noting(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.noting(written)
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
