//! Messages as lines over a pair of byte streams: MCP's stdio transport, and the local socket behind
//! it. How the client opens decides the era. Nothing but messages is ever written.

mod reader;
mod requests;

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::envelope::{self, Head};
use super::error::Refusal;
use super::{Endpoint, Outcome, status, stopping, wire};
use crate::task::TenantId;
pub use reader::{Line, Lines};
use requests::Requests;

/// Messages that wait to be written; more hold back whoever makes them.
const OUTGOING_MAX: usize = 64;

/// Limits of one client.
#[derive(Clone, Copy, Debug)]
pub struct LineLimits {
    /// One message; a configuration key of HTTP (`request_body_max_bytes`).
    pub line_max_bytes: usize,
    /// How long requests may go on after the client ended its side, or the host stops.
    pub drain: Duration,
}

/// Why the loop over the modern era's messages ended.
enum Ended {
    /// The client ended its side, or reads no more, or the host stops.
    Over,
    /// The client opens a session of the handshake revisions with this line.
    Handshake(Vec<u8>),
}

impl Endpoint {
    /// Serves one client until it ends its side or `shutdown` becomes true; what it asked for before
    /// is answered for a while.
    ///
    /// # Errors
    /// When the streams break, or the client breaks the legacy protocol before it has begun.
    pub async fn serve_lines(
        &self,
        tenant: &TenantId,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        limits: LineLimits,
    ) -> io::Result<()> {
        let _client = self.0.line_clients.enter();
        let mut lines = Lines::new(reader, limits.line_max_bytes);
        let mut connection = Connection::new(self.clone(), tenant.clone(), limits.drain);
        // Messages go through a channel, because several requests write at once.
        let (outgoing, messages) = mpsc::channel(OUTGOING_MAX);
        let writing = tokio::spawn(write(messages, writer));
        let ended = connection.run(&mut lines, &outgoing).await;
        drop(connection);
        let served = match ended {
            Ok(Ended::Handshake(first)) => {
                let (legacy, tenant) = (&self.0.legacy, tenant.clone());
                legacy.serve_lines(tenant, &first, lines, outgoing).await
            }
            ended => {
                drop(outgoing);
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
    tenant: TenantId,
    requests: Requests,
    /// Whether the client has asked for nothing yet but what both eras may ask.
    is_undecided: bool,
    shutdown: watch::Receiver<bool>,
    drain: Duration,
}

impl Connection {
    fn new(endpoint: Endpoint, tenant: TenantId, drain: Duration) -> Connection {
        Connection {
            shutdown: endpoint.0.shutdown.clone(),
            endpoint,
            tenant,
            requests: Requests::default(),
            is_undecided: true,
            drain,
        }
    }

    async fn run<R: AsyncRead + Unpin>(
        &mut self,
        lines: &mut Lines<R>,
        outgoing: &mpsc::Sender<Bytes>,
    ) -> io::Result<Ended> {
        loop {
            let mut shutdown = self.shutdown.clone();
            let line = tokio::select! {
                line = lines.next() => line?,
                () = outgoing.closed() => return Ok(Ended::Over),
                () = stopping(&mut shutdown) => {
                    // Subscriptions are answered, too, and end by themselves.
                    self.requests.finish(self.drain).await;
                    return Ok(Ended::Over);
                }
                () = self.requests.next_ended() => continue,
            };
            match line {
                Line::Message(line) if self.is_undecided && envelope::is_handshake(&line) => {
                    self.requests.finish(self.drain).await;
                    return Ok(Ended::Handshake(line));
                }
                Line::Message(line) => self.take(line, outgoing).await,
                Line::TooLong => {
                    let refusal = Refusal::line_too_long();
                    let _ = outgoing.send(wire::failure(None, &refusal.face())).await;
                }
                Line::End => {
                    // A client that sends no more may still read what it asked for.
                    self.requests.end_subscriptions();
                    self.requests.finish(self.drain).await;
                    return Ok(Ended::Over);
                }
            }
        }
    }

    async fn take(&mut self, line: Vec<u8>, outgoing: &mpsc::Sender<Bytes>) {
        let head = Head::read(&line);
        self.is_undecided &= head.is_of_both_eras();
        if let Some(cancelled) = &head.cancels {
            return self.requests.cancel(cancelled);
        }
        if head.asks_for_status()
            && let Some(id) = &head.id
        {
            let _ = outgoing.send(status::answer(&self.endpoint, id)).await;
            return;
        }
        let (endpoint, tenant) = (self.endpoint.clone(), self.tenant.clone());
        let answering = answer(endpoint, tenant, line, outgoing.clone());
        if let Err(refusal) = self.requests.start(&head, answering) {
            let message = wire::failure(head.id.as_ref(), &refusal.face());
            let _ = outgoing.send(message).await;
        }
    }
}

/// Answers one message; dropping this cancels its request.
async fn answer(
    endpoint: Endpoint,
    tenant: TenantId,
    line: Vec<u8>,
    outgoing: mpsc::Sender<Bytes>,
) {
    // Messages that can't be sent have nobody who waits for them.
    match endpoint.answer(&tenant, &line, None, true).await {
        Outcome::Accepted => {}
        Outcome::Message { json, .. } => {
            let _ = outgoing.send(json).await;
        }
        Outcome::Stream(mut messages) => {
            while let Some(message) = messages.next().await {
                if outgoing.send(message).await.is_err() {
                    return;
                }
            }
        }
    }
}
