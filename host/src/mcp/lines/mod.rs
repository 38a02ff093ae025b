//! Messages as lines over a pair of byte streams: MCP's stdio transport, and the local socket behind
//! it. How the client opens decides the era. Nothing but messages is ever written.

mod paced;
mod reader;
mod requests;

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep_until, timeout};

use super::envelope::{self, Head, Rejection};
use super::error::Refusal;
use super::{Endpoint, Outcome, administration, status, stopping, wire};
use crate::service::CallError;
use crate::task::TenantId;
pub use paced::Paced;
pub use reader::Line;
use reader::Lines;
use requests::{Open, Requests};
pub use requests::{REQUESTS_MAX, Room, no_room};

/// Messages that wait to be written; more hold back whoever makes them, and no line is read.
const OUTGOING_MAX: usize = 64;

/// Limits of one client.
#[derive(Clone, Copy, Debug)]
pub struct LineLimits {
    /// One message; a configuration key of HTTP (`request_body_max_bytes`).
    pub line_max_bytes: usize,
    /// How long requests may go on after the client ended its side, or the host stops.
    pub drain: Duration,
}

/// Who is at the other end.
#[derive(Clone, Debug)]
pub enum LineClient {
    Tenant(TenantId),
    /// Whoever changes the host's plugins, and has no tasks.
    Administrator,
}

/// Why the loop over the modern era's messages ended.
enum Ended {
    /// The client ended its side, or reads no more, or the host stops.
    Over,
    /// The tenant opens a session of the handshake revisions with this line.
    Handshake(TenantId, Vec<u8>),
}

impl Endpoint {
    /// Serves one client until it ends its side or `shutdown` becomes true; what it asked for before
    /// is answered for a while.
    ///
    /// # Errors
    /// When the streams break, or the client breaks the legacy protocol before it has begun.
    pub async fn serve_lines(
        &self,
        who: LineClient,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        limits: LineLimits,
    ) -> io::Result<()> {
        let _client = self.0.line_clients.enter();
        let lines = Lines::new(reader, limits.line_max_bytes);
        let mut connection = Connection::new(self.clone(), who, limits.drain);
        // Messages go through a channel, because several requests write at once.
        let (outgoing, messages) = mpsc::channel(OUTGOING_MAX);
        let writing = tokio::spawn(write(messages, writer));
        let mut client = Paced::new(lines, outgoing);
        let ended = connection.run(&mut client).await;
        drop(connection);
        let served = match ended {
            Ok(Ended::Handshake(tenant, first)) => {
                let legacy = &self.0.legacy;
                legacy
                    .serve_lines(tenant, &first, client, limits.drain)
                    .await
            }
            ended => {
                // Nothing more is written.
                drop(client);
                ended.map(drop)
            }
        };
        match timeout(limits.drain, writing).await {
            Ok(written) => written.map_err(io::Error::other)??,
            Err(_) => return Err(io::Error::from(io::ErrorKind::TimedOut)),
        }
        served
    }
}

/// Writes messages until nobody makes any more.
async fn write(
    mut messages: mpsc::Receiver<Bytes>,
    mut writer: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    while let Some(message) = messages.recv().await {
        writer.write_all(&message).await?;
        writer.write_all(b"\n").await?;
        if messages.is_empty() {
            writer.flush().await?;
        }
    }
    Ok(())
}

/// One client of the modern era, or one that has not decided.
struct Connection {
    endpoint: Endpoint,
    who: LineClient,
    requests: Requests,
    /// Whether the client has asked for nothing yet but what both eras may ask.
    is_undecided: bool,
    shutdown: watch::Receiver<bool>,
    drain: Duration,
}

impl Connection {
    fn new(endpoint: Endpoint, who: LineClient, drain: Duration) -> Connection {
        Connection {
            shutdown: endpoint.0.shutdown.clone(),
            endpoint,
            who,
            requests: Requests::default(),
            is_undecided: true,
            drain,
        }
    }

    async fn run<R: AsyncRead + Unpin>(&mut self, client: &mut Paced<R>) -> io::Result<Ended> {
        loop {
            let mut shutdown = self.shutdown.clone();
            let pause = self.requests.pause();
            let next = async {
                if let Some(until) = pause {
                    sleep_until(until).await;
                }
                client.next().await
            };
            let line = tokio::select! {
                line = next => line?,
                () = stopping(&mut shutdown) => {
                    // Subscriptions are answered, too, and end by themselves.
                    self.finish(client, "the host stops").await;
                    return Ok(Ended::Over);
                }
                () = self.requests.next_ended() => continue,
            };
            match line {
                None => return Ok(Ended::Over),
                Some(Line::Message(line)) => {
                    if let Some(tenant) = self.opens_session(&line) {
                        self.finish(client, "the client opened a session").await;
                        return Ok(Ended::Handshake(tenant, line));
                    }
                    self.take(line, client).await;
                }
                Some(Line::TooLong) => {
                    let refusal = Refusal::line_too_long();
                    say(client, wire::failure(None, &refusal.face())).await;
                }
                Some(Line::End) => {
                    // A client that sends no more may still read what it asked for.
                    self.requests.end_subscriptions();
                    self.finish(client, "the client ended its side").await;
                    return Ok(Ended::Over);
                }
            }
        }
    }

    /// Whose session of the handshake revisions the line opens; None when it opens none.
    fn opens_session(&self, line: &[u8]) -> Option<TenantId> {
        match &self.who {
            LineClient::Tenant(tenant) if self.is_undecided => {
                envelope::is_handshake(line).then(|| tenant.clone())
            }
            LineClient::Tenant(_) | LineClient::Administrator => None,
        }
    }

    async fn take<R: AsyncRead + Unpin>(&mut self, line: Vec<u8>, client: &mut Paced<R>) {
        let head = Head::read(&line);
        self.is_undecided &= head.is_of_both_eras();
        if let Some(cancelled) = &head.cancels {
            return self.requests.cancel(cancelled);
        }
        if head.asks_for_status()
            && let Some(id) = &head.id
        {
            return say(client, status::answer(&self.endpoint, id)).await;
        }
        let (endpoint, who) = (self.endpoint.clone(), self.who.clone());
        let outgoing = client.outgoing().clone();
        let started = self
            .requests
            .start(&head, |open| answer(endpoint, who, line, outgoing, open));
        if let Err(Rejection { id, refusal }) = started {
            say(client, wire::failure(id.as_ref(), &refusal.face())).await;
        }
    }

    /// Waits for what is under way, as long as it may; what is stopped is told why (I8).
    async fn finish<R: AsyncRead + Unpin>(&mut self, client: &mut Paced<R>, why: &str) {
        let stopped = self.requests.finish(self.drain).await;
        let told = async {
            for id in stopped {
                say(client, wire::failure(Some(&id), &gone(why).face())).await;
            }
        };
        // It may not be reading.
        let _ = timeout(self.drain, told).await;
    }
}

/// Why a request that was under way has no other answer.
pub fn gone(why: &str) -> Refusal {
    Refusal::Call(CallError::Unavailable(format!(
        "{why} before the request was answered, and the request was stopped"
    )))
}

/// Says something of a line that starts nothing, in the place that came with it.
async fn say<R: AsyncRead + Unpin>(client: &mut Paced<R>, message: Bytes) {
    // A client that reads no more hears nothing.
    if let Some(place) = client.place().await {
        place.send(message);
    }
}

/// Answers one message; dropping this cancels its request.
async fn answer(
    endpoint: Endpoint,
    who: LineClient,
    line: Vec<u8>,
    outgoing: mpsc::Sender<Bytes>,
    open: Open,
) {
    let outcome = match who {
        LineClient::Tenant(tenant) => endpoint.answer(&tenant, &line, None, true).await,
        LineClient::Administrator => administration::answer(&endpoint, &line).await,
    };
    // Messages that can't be sent have nobody who waits for them.
    match outcome {
        Outcome::Accepted => {}
        Outcome::Message { json, .. } => {
            open.end();
            let _ = outgoing.send(json).await;
        }
        Outcome::Stream(mut messages) => {
            let mut next = messages.next().await;
            while let Some(message) = next {
                // The answer is the last one, and that nothing follows it shows at once.
                let following = messages.next().now_or_never();
                if let Some(None) = following {
                    open.end();
                    let _ = outgoing.send(message).await;
                    return;
                }
                if outgoing.send(message).await.is_err() {
                    return;
                }
                next = match following {
                    Some(following) => following,
                    None => messages.next().await,
                };
            }
        }
    }
}
