//! One HTTP response's events, watched: a session with an open stream is in use, and a call whose
//! stream breaks is given up unless its client takes the stream up again.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId};
use tokio::time::Instant;

use super::sessions::Table;
use super::unanswered::{self, Number, answered};

/// A call under both its names: rmcp's, and its client's.
#[derive(Clone)]
pub struct Call {
    pub number: Number,
    pub theirs: RequestId,
}

/// A call that is not answered, and who reads its stream.
pub struct CallStream {
    pub call: Call,
    /// A client that takes up its stream may do so before the broken connection is noticed.
    pub readers: usize,
    /// Since when nobody reads it.
    pub lost_at: Option<Instant>,
}

/// The events of one response.
pub struct Watched {
    inner: Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>,
    table: Table,
    session: SessionId,
    call: Option<Call>,
    /// Known from the first event on.
    stream: Option<String>,
    /// The last event the client has seen, which rmcp sends again.
    seen: Option<String>,
    knows_priming: bool,
}

/// The name of the stream that an event belongs to (rmcp's ids are `index/stream`); none for the
/// stream of the session itself.
pub fn name(event_id: &str) -> Option<&str> {
    event_id.split_once('/').map(|(_, stream)| stream)
}

impl Watched {
    pub fn new(
        table: Table,
        session: SessionId,
        call: Option<Call>,
        seen: Option<String>,
        knows_priming: bool,
        inner: impl Stream<Item = ServerSseMessage> + Send + Sync + 'static,
    ) -> Watched {
        Watched {
            inner: Box::pin(inner),
            table,
            session,
            call,
            stream: seen.as_deref().and_then(name).map(str::to_owned),
            seen,
            knows_priming,
        }
    }

    /// Notes what the event tells of the call; its answer gets the id its client gave it.
    fn note(&mut self, event: &mut ServerSseMessage) {
        let Some(call) = &self.call else {
            return;
        };
        if self.stream.is_none()
            && let Some(stream) = event.event_id.as_deref().and_then(name)
        {
            self.stream = Some(stream.to_owned());
            let known = CallStream {
                call: call.clone(),
                readers: 1,
                lost_at: None,
            };
            if let Some(session) = self.table.lock().get_mut(&self.session) {
                session.calls.insert(stream.to_owned(), known);
            }
        }
        let number = event.message.as_deref().and_then(answered);
        if number != Some(call.number) {
            return;
        }
        if let Some(message) = &mut event.message {
            unanswered::name(Arc::make_mut(message), call.theirs.clone());
        }
        if let Some(session) = self.table.lock().get_mut(&self.session) {
            session.unanswered.end(call.number);
            if let Some(stream) = &self.stream {
                session.calls.remove(stream);
            }
        }
        self.call = None;
    }
}

impl Stream for Watched {
    type Item = ServerSseMessage;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ServerSseMessage>> {
        let this = self.get_mut();
        loop {
            let Some(mut event) = ready!(this.inner.as_mut().poll_next(cx)) else {
                return Poll::Ready(None);
            };
            this.note(&mut event);
            if event.event_id.is_some() && event.event_id == this.seen {
                continue;
            }
            // Clients of the older revisions take an event without a message for a broken one.
            if event.message.is_some() || this.knows_priming {
                return Poll::Ready(Some(event));
            }
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut open = self.table.lock();
        let Some(session) = open.get_mut(&self.session) else {
            return;
        };
        session.streams_open = session.streams_open.saturating_sub(1);
        session.idle_since = Instant::now();
        let Some(call) = self.call.take() else {
            return;
        };
        match self.stream.as_ref().map(|name| session.calls.get_mut(name)) {
            Some(Some(call)) => {
                call.readers = call.readers.saturating_sub(1);
                if call.readers == 0 {
                    call.lost_at = Some(Instant::now());
                }
            }
            // Answered through another reader, or given up already.
            Some(None) => {}
            None => session.orphans.push(call.number),
        }
    }
}
