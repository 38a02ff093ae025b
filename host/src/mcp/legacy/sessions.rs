//! The sessions of the handshake revisions over HTTP: whose each is, how many there are, and when one
//! is over. Their messages are rmcp's business.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{self, Either};
use futures_util::{Stream, stream};
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientJsonRpcMessage, ClientNotification,
    ProtocolVersion, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::WorkerTransport;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, LocalSessionWorker, SessionConfig,
};
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager,
};
use thiserror::Error;
use tokio::time::{Instant, timeout};

use super::inbound;
use super::server::error_data;
use super::streams::{Call, CallStream, Watched, name};
use super::unanswered::{Number, Unanswered};
use super::{LegacyLimits, RETRY_AFTER, SessionError};
use crate::mcp::error::Refusal;
use crate::task::TenantId;

tokio::task_local! {
    /// Whose request is being answered; rmcp hands nothing of a request to who makes its session.
    pub static TENANT: TenantId;
}

/// How long a session that does not react is waited for while it is swept.
const SWEEP_PATIENCE: Duration = Duration::from_secs(1);

/// The open sessions.
pub struct Sessions {
    inner: LocalSessionManager,
    open: Table,
    limits: LegacyLimits,
}

/// The sessions by id, shared with their streams.
#[derive(Clone, Default)]
pub struct Table(Arc<Mutex<HashMap<SessionId, Session>>>);

pub struct Session {
    tenant: TenantId,
    /// Open HTTP responses.
    pub streams_open: usize,
    pub idle_since: Instant,
    /// The one agreed on; none before.
    revision: Option<ProtocolVersion>,
    pub unanswered: Unanswered,
    /// The streams of those that have one with a name, by that.
    pub calls: HashMap<String, CallStream>,
    /// Those whose client went away before their stream had a name.
    pub orphans: Vec<Number>,
}

#[derive(Debug, Error)]
pub enum ManagerError {
    #[error(transparent)]
    Full(SessionError),
    #[error(transparent)]
    Inner(#[from] LocalSessionManagerError),
}

impl Table {
    /// Statements under this lock leave every session whole, so a panic elsewhere broke nothing.
    pub fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a request up, in a session that there is.
    fn begin<'a>(
        &'a self,
        session: &'a SessionId,
        request: &mut RequestId,
    ) -> Result<Begun<'a>, Refusal> {
        let theirs = request.clone();
        let mut open = self.lock();
        let call = match open.get_mut(session) {
            Some(open) => Some(Call {
                number: open.unanswered.begin(request)?,
                theirs,
            }),
            None => None,
        };
        Ok(Begun {
            table: self,
            session,
            call,
        })
    }

    /// The number of a request that its client cancels.
    fn cancel(&self, session: &SessionId, request: &RequestId) -> Option<Number> {
        self.lock().get_mut(session)?.unanswered.cancel(request)
    }

    fn touch(&self, id: &SessionId) {
        if let Some(session) = self.lock().get_mut(id) {
            session.idle_since = Instant::now();
        }
    }
}

/// A request that is taken up; forgotten again unless it gets to its session.
struct Begun<'a> {
    table: &'a Table,
    session: &'a SessionId,
    call: Option<Call>,
}

impl Begun<'_> {
    fn arrived(mut self) -> Option<Call> {
        self.call.take()
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(call) = &self.call
            && let Some(session) = self.table.lock().get_mut(self.session)
        {
            session.unanswered.end(call.number);
        }
    }
}

impl Sessions {
    pub fn new(limits: LegacyLimits) -> Sessions {
        let mut config = SessionConfig::default();
        // Ours ends idle sessions; rmcp's timer would also end one whose call is long and silent.
        config.keep_alive = None;
        config.sse_retry = Some(RETRY_AFTER);
        let mut inner = LocalSessionManager::default();
        inner.session_config = config;
        Sessions {
            inner,
            open: Table::default(),
            limits,
        }
    }

    /// Whether a request of `tenant` may go on: to its own session (I4), or to a new one.
    pub fn check(&self, id: Option<&str>, tenant: &TenantId) -> Result<(), SessionError> {
        let open = self.open.lock();
        match id {
            Some(id)
                if open
                    .get(id)
                    .is_some_and(|session| session.tenant == *tenant) =>
            {
                Ok(())
            }
            Some(_) => Err(SessionError::Unknown),
            None => self.has_room(&open, tenant),
        }
    }

    /// In all, and for the tenant, so that none keeps the others out.
    fn has_room(
        &self,
        open: &HashMap<SessionId, Session>,
        tenant: &TenantId,
    ) -> Result<(), SessionError> {
        let own = open.values().filter(|session| session.tenant == *tenant);
        let limits = &self.limits;
        if own.count() >= limits.tenant_sessions_max {
            return Err(SessionError::TenantFull(limits.tenant_sessions_max));
        }
        match open.len() < limits.sessions_max {
            true => Ok(()),
            false => Err(SessionError::Full(limits.sessions_max)),
        }
    }

    /// Whether batches are part of what the client of a session speaks.
    pub fn takes_batches(&self, id: &SessionId) -> bool {
        let open = self.open.lock();
        let revision = open.get(id).and_then(|session| session.revision.as_ref());
        revision.is_some_and(inbound::has_batches)
    }

    /// Whether a request of a session with this id is not answered.
    pub fn awaits(&self, session: Option<&str>, request: Option<&RequestId>) -> bool {
        let (Some(session), Some(request)) = (session, request) else {
            return false;
        };
        let open = self.open.lock();
        let session = open.get(session);
        session.is_some_and(|session| session.unanswered.contains(request))
    }

    /// How many are open, and their HTTP responses.
    pub fn open(&self) -> (usize, usize) {
        let open = self.open.lock();
        let streams = open.values().map(|session| session.streams_open).sum();
        (open.len(), streams)
    }

    /// Often enough that no limit is overrun by much.
    pub fn sweep_interval(&self) -> Duration {
        let shortest = self.limits.session_idle.min(self.limits.reconnect);
        (shortest / 4).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }

    /// Closes sessions that idled out, and cancels calls that were abandoned.
    pub async fn sweep(&self) {
        let now = Instant::now();
        let mut idle = Vec::new();
        let mut abandoned = Vec::new();
        for (id, session) in self.open.lock().iter_mut() {
            if session.streams_open == 0 && now - session.idle_since >= self.limits.session_idle {
                idle.push(id.clone());
            }
            for call in session.take_abandoned(now, self.limits.reconnect) {
                abandoned.push((id.clone(), call));
            }
        }
        for (id, call) in abandoned {
            let reason = Some("the client closed the call".to_owned());
            let params = CancelledNotificationParam::new(Some(call.as_id()), reason);
            let cancel = ClientJsonRpcMessage::notification(
                ClientNotification::CancelledNotification(CancelledNotification::new(params)),
            );
            // One that has ended, or does not react, is closed when it has idled out.
            let _ = timeout(SWEEP_PATIENCE, self.inner.accept_message(&id, cancel)).await;
        }
        for id in idle {
            tracing::debug!(session = %id, "a session idled out");
            let _ = timeout(SWEEP_PATIENCE, self.close_session(&id)).await;
        }
    }

    fn watch(
        &self,
        id: &SessionId,
        call: Option<Call>,
        seen: Option<String>,
        inner: impl Stream<Item = ServerSseMessage> + Send + Sync + 'static,
    ) -> Watched {
        let mut knows_priming = true;
        if let Some(session) = self.open.lock().get_mut(id) {
            session.streams_open += 1;
            knows_priming = session.knows_priming();
        }
        Watched::new(
            self.open.clone(),
            id.clone(),
            call,
            seen,
            knows_priming,
            inner,
        )
    }
}

impl Session {
    fn new(tenant: TenantId) -> Session {
        Session {
            tenant,
            streams_open: 0,
            idle_since: Instant::now(),
            revision: None,
            unanswered: Unanswered::default(),
            calls: HashMap::new(),
            orphans: Vec::new(),
        }
    }

    /// Whether the client knows events without a message, which tell where a stream may be taken up.
    fn knows_priming(&self) -> bool {
        let revision = self.revision.as_ref().map(ProtocolVersion::as_str);
        revision >= Some(ProtocolVersion::V_2025_11_25.as_str())
    }

    fn take_abandoned(&mut self, now: Instant, reconnect: Duration) -> Vec<Number> {
        let mut taken = std::mem::take(&mut self.orphans);
        self.calls.retain(|_, call| {
            let is_abandoned = call.lost_at.is_some_and(|at| now - at >= reconnect);
            if is_abandoned {
                taken.push(call.call.number);
            }
            !is_abandoned
        });
        for number in &taken {
            self.unanswered.end(*number);
        }
        taken
    }
}

impl SessionManager for Sessions {
    type Error = ManagerError;
    type Transport = WorkerTransport<LocalSessionWorker>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), ManagerError> {
        let (id, transport) = self.inner.create_session().await?;
        let room = {
            let mut open = self.open.lock();
            let tenant = TENANT.get();
            let room = self.has_room(&open, &tenant);
            if room.is_ok() {
                open.insert(id.clone(), Session::new(tenant));
            }
            room
        };
        if let Err(full) = room {
            self.inner.close_session(&id).await?;
            return Err(ManagerError::Full(full));
        }
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, ManagerError> {
        let answer = self.inner.initialize_session(id, message).await?;
        if let ServerJsonRpcMessage::Response(response) = &answer
            && let ServerResult::InitializeResult(result) = &response.result
            && let Some(session) = self.open.lock().get_mut(id)
        {
            session.revision = Some(result.protocol_version.clone());
        }
        Ok(answer)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, ManagerError> {
        Ok(self.inner.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), ManagerError> {
        self.open.lock().remove(id);
        Ok(self.inner.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, ManagerError> {
        let begun = match &mut message {
            ClientJsonRpcMessage::Request(request) => {
                match self.open.begin(id, &mut request.id) {
                    Ok(begun) => Some(begun),
                    // Of a batch, or come while another one was on its way here.
                    Err(refusal) => {
                        let refused = ServerJsonRpcMessage::error(error_data(refusal), None);
                        let event = ServerSseMessage::from_message(refused);
                        return Ok(Either::Right(stream::once(future::ready(event))));
                    }
                }
            }
            _ => None,
        };
        let inner = self.inner.create_stream(id, message).await?;
        let call = begun.and_then(Begun::arrived);
        Ok(Either::Left(self.watch(id, call, None, inner)))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<(), ManagerError> {
        self.open.touch(id);
        if let ClientJsonRpcMessage::Notification(notification) = &mut message
            && let ClientNotification::CancelledNotification(cancelled) =
                &mut notification.notification
        {
            let request = cancelled.params.request_id.take();
            let number = request.and_then(|request| self.open.cancel(id, &request));
            cancelled.params.request_id = number.map(Number::as_id);
        }
        Ok(self.inner.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, ManagerError> {
        let inner = self.inner.create_standalone_stream(id).await?;
        Ok(self.watch(id, None, None, inner))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, ManagerError> {
        let inner = self.inner.resume(id, last_event_id.clone()).await?;
        let call = self.open.lock().get_mut(id).and_then(|session| {
            let call = session.calls.get_mut(name(&last_event_id)?)?;
            call.readers += 1;
            call.lost_at = None;
            Some(call.call.clone())
        });
        Ok(self.watch(id, call, Some(last_event_id), inner))
    }
}
