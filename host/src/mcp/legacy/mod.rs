//! MCP's handshake revisions (2025-11-25 back to 2024-11-05), for clients that open with
//! `initialize`. It calls the same service as the modern era, asks while the tool waits, and never
//! shows a task. The protocol itself is rmcp's, which nothing outside this folder names.

mod ask;
mod call;
mod follow;
mod gathering;
mod inbound;
mod lines;
mod message;
mod read;
mod reading;
mod server;
mod sessions;
mod streams;
mod unanswered;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, future, stream};
use http::header::ACCEPT;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, request};
use http_body_util::Full;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager,
};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use thiserror::Error;
use tokio::io::AsyncRead;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::envelope::Rejection;
use super::error::Refusal;
use super::json;
use super::lines::Paced;
use super::list::Lists;
use super::{LegacyOutcome, Messages, Outcome, refused, stopping, wire};
use crate::service::{CallError, Service};
use crate::task::TenantId;
use lines::LineTransport;
use reading::Reading;
use server::{LegacyServer, Offer};
use sessions::{Sessions, TENANT};

/// The session of a request, given by the answer to `initialize`.
pub const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");

/// What rmcp insists on; who may be answered with events was settled before.
const ACCEPT_BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// How long a session may take to accept a message of many parts, which keeps others of its tenant
/// from being read meanwhile.
const HAND_OVER_MAX: Duration = Duration::from_secs(10);

/// How long a client is told to wait before it takes up a stream that broke.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Limits of the handshake revisions; every one is a configuration key of the same name with the
/// prefix `legacy_`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyLimits {
    /// Sessions open at once, all tenants together.
    pub sessions_max: usize,
    /// Sessions of one tenant.
    pub tenant_sessions_max: usize,
    /// How long a session may go without a request or an open stream.
    pub session_idle: Duration,
    /// How long a call goes on after its stream broke, for its client to take it up again.
    pub reconnect: Duration,
}

impl Default for LegacyLimits {
    fn default() -> LegacyLimits {
        LegacyLimits {
            sessions_max: 256,
            tenant_sessions_max: 128,
            session_idle: Duration::from_secs(300),
            reconnect: Duration::from_secs(10),
        }
    }
}

/// What the handshake revisions have open, all tenants together.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Sessions over HTTP.
    pub sessions: usize,
    /// Their open responses.
    pub streams: usize,
    /// Calls that are not answered, also those over lines.
    pub calls: usize,
}

/// Why a request reaches no session.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SessionError {
    /// Closed, expired, foreign and invented ids: all look the same (I4).
    #[error("no such session: it has ended, or never was; open a new one with `initialize`")]
    Unknown,
    #[error(
        "{0} sessions are open, which is the limit; close one with DELETE, or try again when some \
         have idled out"
    )]
    Full(usize),
    #[error(
        "{0} of your sessions are open, which is the limit; close one with DELETE, or try again \
         when some have idled out"
    )]
    TenantFull(usize),
    #[error("the host is stopping; open a new session when it is back")]
    Stopping,
}

/// Serves the handshake revisions. Cheap to clone.
#[derive(Clone)]
pub struct Legacy(Arc<Parts>);

struct Parts {
    offer: Offer,
    http: StreamableHttpService<LegacyServer, Sessions>,
    sessions: Arc<Sessions>,
    /// Ends every session.
    ending: CancellationToken,
    shutdown: watch::Receiver<bool>,
    _keeper: AbortOnDropHandle<()>,
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.ending.cancel();
    }
}

/// Hands the messages of a batch to their session, one after the other, and the streams of their
/// answers to `answers`.
async fn hand_over(
    sessions: Arc<Sessions>,
    session: SessionId,
    messages: Vec<Result<ClientJsonRpcMessage, Rejection>>,
    answers: mpsc::Sender<Messages>,
) -> Result<(), SessionError> {
    for message in messages {
        let answer = match message {
            Ok(request @ ClientJsonRpcMessage::Request(_)) => {
                let events = sessions.create_stream(&session, request).await;
                let events = events.map_err(|_| SessionError::Unknown)?;
                events.filter_map(as_line).boxed()
            }
            Ok(other) => {
                let accepted = sessions.accept_message(&session, other).await;
                accepted.map_err(|_| SessionError::Unknown)?;
                continue;
            }
            Err(Rejection { id, refusal }) => {
                let failure = wire::failure(id.as_ref(), &refusal.face());
                stream::once(future::ready(failure)).boxed()
            }
        };
        // There is room for all; it fails when the client has gone.
        let _ = answers.send(answer).await;
    }
    Ok(())
}

impl Legacy {
    /// Sessions take no new calls once `shutdown` is true, and end when the last call has.
    pub(super) fn new(
        service: Service,
        lists: Arc<Lists>,
        limits: LegacyLimits,
        shutdown: watch::Receiver<bool>,
    ) -> Legacy {
        let ending = CancellationToken::new();
        let offer = Offer {
            service,
            lists,
            calls: Arc::new(watch::Sender::new(0)),
        };
        let sessions = Arc::new(Sessions::new(limits));
        let made_of = offer.clone();
        let http = StreamableHttpService::new(
            move || Ok(LegacyServer::new(made_of.clone(), TENANT.get())),
            Arc::clone(&sessions),
            http_config(ending.clone()),
        );
        let keeper = keep(
            Arc::clone(&sessions),
            offer.calls.subscribe(),
            shutdown.clone(),
            ending.clone(),
        );
        Legacy(Arc::new(Parts {
            offer,
            http,
            sessions,
            ending,
            shutdown,
            _keeper: AbortOnDropHandle::new(tokio::spawn(keeper)),
        }))
    }

    pub(super) fn counts(&self) -> Counts {
        let (sessions, streams) = self.0.sessions.open();
        Counts {
            sessions,
            streams,
            calls: *self.0.offer.calls.borrow(),
        }
    }

    /// Answers one HTTP request of an authenticated tenant: an `initialize`, or one with a session.
    pub async fn answer(
        &self,
        tenant: &TenantId,
        mut head: request::Parts,
        body: Bytes,
    ) -> Result<LegacyOutcome, SessionError> {
        let session = session(&head.headers);
        // Calls that are running are seen to their end: their clients may still answer and cancel.
        if session.is_none() && *self.0.shutdown.borrow() {
            return Err(SessionError::Stopping);
        }
        self.0.sessions.check(session, tenant)?;
        let mut place = match json::has_few_parts(&body) {
            true => None,
            false => Some(self.0.offer.service.place_to_read(tenant).await),
        };
        let is_large = place.is_some();
        if head.method == Method::POST {
            if let Some(session) = session
                && inbound::is_batch(&body)
            {
                let outcome = self.answer_batch(session, &body).await?;
                return Ok(LegacyOutcome::Outcome(outcome));
            }
            let refusal = match inbound::check(&body) {
                Err(Rejection { id, refusal }) => Some((id, refusal)),
                Ok(checked) => {
                    let is_used = self.0.sessions.awaits(session, checked.id.as_ref());
                    // Only a call's arguments are kept after they have been read.
                    if checked.is_call
                        && let Some(place) = place.take()
                    {
                        head.extensions.insert(Reading::new(place));
                    }
                    is_used.then(|| (None, Refusal::same_id()))
                }
            };
            if let Some((id, refusal)) = refusal {
                return Ok(LegacyOutcome::Outcome(refused(id.as_ref(), &refusal)));
            }
        }
        head.headers.insert(ACCEPT, ACCEPT_BOTH);
        let ends_session = head.method == Method::DELETE;
        let request = Request::from_parts(head, Full::new(body));
        let answering = TENANT.scope(tenant.clone(), self.0.http.handle(request));
        let mut response = match is_large {
            false => answering.await,
            true => match timeout(HAND_OVER_MAX, answering).await {
                Ok(response) => response,
                Err(_) => {
                    let busy = "the session takes no further message until its streams are read";
                    let busy = CallError::Busy(busy.to_owned()).into();
                    return Ok(LegacyOutcome::Outcome(refused(None, &busy)));
                }
            },
        };
        drop(place);
        // rmcp says 202, which a widely used client takes for a failure and tells its user of.
        if ends_session && response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        // The type was checked before: it is the message that rmcp can't read.
        if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            let refusal = Refusal::NotARequest(inbound::NO_MESSAGE.to_owned());
            return Ok(LegacyOutcome::Outcome(refused(None, &refusal)));
        }
        Ok(LegacyOutcome::Response(response))
    }

    /// Hands each message of a batch to its session, which knows single ones only; what they are
    /// answered with is one stream. It can't be taken up again when it breaks: an event's id is of
    /// one message's stream.
    async fn answer_batch(&self, session: &str, body: &[u8]) -> Result<Outcome, SessionError> {
        let sessions = &self.0.sessions;
        let session = SessionId::from(session);
        let messages = match sessions.takes_batches(&session) {
            true => inbound::read_batch(body),
            false => Err(Refusal::NotARequest(inbound::NO_BATCHES.to_owned())),
        };
        let messages = match messages {
            Ok(messages) => messages,
            Err(refusal) => return Ok(refused(None, &refusal)),
        };
        let is_answered = |message: &Result<ClientJsonRpcMessage, Rejection>| {
            matches!(message, Ok(ClientJsonRpcMessage::Request(_)) | Err(_))
        };
        let is_answered = messages.iter().any(is_answered);
        let (answers, answered) = mpsc::channel(messages.len());
        let handing = hand_over(Arc::clone(sessions), session, messages, answers);
        if !is_answered {
            return handing.await.map(|()| Outcome::Accepted);
        }
        // Side by side: a session whose streams nobody reads takes no further message.
        let handing = stream::once(handing).filter_map(|_| future::ready(None));
        let answered = stream::unfold(answered, async |mut answered| {
            let next = answered.recv().await?;
            Some((next, answered))
        });
        let answered = answered.flatten_unordered(None);
        Ok(Outcome::Stream(stream::select(handing, answered).boxed()))
    }

    /// Serves one client over lines, from its `initialize` until it ends its side.
    pub(super) async fn serve_lines(
        &self,
        tenant: TenantId,
        initialize: &[u8],
        client: Paced<impl AsyncRead + Send + Unpin + 'static>,
        drain: Duration,
    ) -> io::Result<()> {
        let server = LegacyServer::new(self.0.offer.clone(), tenant);
        let transport = LineTransport::new(initialize, client, drain);
        let ending = self.0.ending.child_token();
        let serving = rmcp::service::serve_server_with_ct(server, transport, ending);
        let running = serving.await.map_err(io::Error::other)?;
        running.waiting().await.map_err(io::Error::other)?;
        Ok(())
    }
}

/// What an event says, which is nothing when it only tells where a stream is.
async fn as_line(event: ServerSseMessage) -> Option<Bytes> {
    let json = serde_json::to_vec(&*event.message?);
    Some(
        json.expect("a message has text keys and writes to memory")
            .into(),
    )
}

/// The session a request belongs to; an unreadable id is one that nobody has.
fn session(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(SESSION_HEADER)?;
    Some(value.to_str().unwrap_or_default())
}

fn http_config(ending: CancellationToken) -> StreamableHttpServerConfig {
    let mut config = StreamableHttpServerConfig::default();
    // Host, Origin and size were checked before a request comes here.
    config.allowed_hosts = Vec::new();
    config.max_request_body_bytes = usize::MAX;
    // Only a call's stream can be taken up again, and the session tells its own stream so.
    config.sse_retry = None;
    config.cancellation_token = ending;
    config
}

/// Ends what nobody uses; after the shutdown began, waits for the calls and ends everything.
async fn keep(
    sessions: Arc<Sessions>,
    mut calls: watch::Receiver<usize>,
    mut shutdown: watch::Receiver<bool>,
    ending: CancellationToken,
) {
    let mut tick = tokio::time::interval(sessions.sweep_interval());
    loop {
        tokio::select! {
            _ = tick.tick() => sessions.sweep().await,
            () = stopping(&mut shutdown) => break,
        }
    }
    let _ = calls.wait_for(|running| *running == 0).await;
    ending.cancel();
}
