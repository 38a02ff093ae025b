//! MCP, whatever carries it. The modern era (2026-07-28 and the Tasks extension) is written here: one
//! message in, one message or a stream of messages out. The handshake revisions are in `legacy`. It
//! owns the wire's shapes and errors; it keeps no state but caches, counts and legacy sessions, and
//! knows nothing of HTTP beyond the headers that repeat a message.

mod administration;
mod ask;
mod call;
mod client;
mod discover;
mod envelope;
mod error;
mod filter;
mod headers;
mod items;
mod json;
mod legacy;
mod lines;
mod list;
mod listen;
mod measure;
mod members;
mod meta;
mod notice;
mod request_state;
mod status;
mod tasks;
mod tell;
mod wire;

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use http::{HeaderMap, StatusCode};
use http_body_util::combinators::BoxBody;
use tokio::sync::watch;

pub use envelope::RequestId;
use envelope::{Rejection, Request};
use error::Refusal;
pub use error::{Face, INVALID_REQUEST};
use legacy::Legacy;
pub use legacy::{LegacyLimits, SessionError};
pub use lines::{LineClient, LineLimits};
use listen::Streams;
use request_state::Sealer;
pub use request_state::{Keyring, KeyringError};
pub use wire::failure;

use crate::admin::Admin;
use crate::clock::Clock;
use crate::service::Service;
use crate::task::TenantId;

/// The protocol versions served without a handshake, newest first.
pub const VERSIONS: [&str; 1] = ["2026-07-28"];

/// Answers messages. Cheap to clone.
#[derive(Clone)]
pub struct Endpoint(Arc<Parts>);

struct Parts {
    service: Service,
    admin: Admin,
    sealer: Arc<Sealer>,
    lists: Arc<list::Lists>,
    streams: Arc<Streams>,
    /// Clients over lines.
    line_clients: status::Clients,
    legacy: Legacy,
    shutdown: watch::Receiver<bool>,
}

/// What a message is answered with.
pub enum Outcome {
    /// A notification: nothing.
    Accepted,
    /// One JSON-RPC response, and the HTTP status that goes with it.
    Message { status: StatusCode, json: Bytes },
    /// JSON-RPC messages of one line each; the response is the last. Dropping the stream cancels
    /// the request.
    Stream(Messages),
}

pub type Messages = BoxStream<'static, Bytes>;

/// The body of an answer to a client of the handshake revisions.
pub type LegacyBody = BoxBody<Bytes, Infallible>;

/// How a request of the handshake revisions is answered.
pub enum LegacyOutcome {
    /// By its session.
    Response(http::Response<LegacyBody>),
    /// Before it came to a session as one message: refused, or a batch.
    Outcome(Outcome),
}

/// How a request was answered.
enum Output {
    Message(Bytes),
    Stream(Messages),
}

/// The methods of this revision that the host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Discover,
    ToolsList,
    ToolsCall,
    PromptsList,
    PromptsGet,
    ResourcesList,
    ResourcesRead,
    ResourceTemplatesList,
    Complete,
    TasksGet,
    TasksUpdate,
    TasksCancel,
    /// This host's own: what a task's tool wrote to its output.
    TasksLog,
    /// This host's own: the tasks of a tenant.
    TasksList,
    Listen,
}

impl Method {
    fn parse(name: &str) -> Option<Method> {
        Some(match name {
            "server/discover" => Method::Discover,
            "tools/list" => Method::ToolsList,
            "tools/call" => Method::ToolsCall,
            "prompts/list" => Method::PromptsList,
            "prompts/get" => Method::PromptsGet,
            "resources/list" => Method::ResourcesList,
            "resources/read" => Method::ResourcesRead,
            "resources/templates/list" => Method::ResourceTemplatesList,
            "completion/complete" => Method::Complete,
            "tasks/get" => Method::TasksGet,
            "tasks/update" => Method::TasksUpdate,
            "tasks/cancel" => Method::TasksCancel,
            "longshore/tasks/log" => Method::TasksLog,
            "longshore/tasks/list" => Method::TasksList,
            "subscriptions/listen" => Method::Listen,
            _ => return None,
        })
    }

    fn as_str(self) -> &'static str {
        match self {
            Method::Discover => "server/discover",
            Method::ToolsList => "tools/list",
            Method::ToolsCall => "tools/call",
            Method::PromptsList => "prompts/list",
            Method::PromptsGet => "prompts/get",
            Method::ResourcesList => "resources/list",
            Method::ResourcesRead => "resources/read",
            Method::ResourceTemplatesList => "resources/templates/list",
            Method::Complete => "completion/complete",
            Method::TasksGet => "tasks/get",
            Method::TasksUpdate => "tasks/update",
            Method::TasksCancel => "tasks/cancel",
            Method::TasksLog => "longshore/tasks/log",
            Method::TasksList => "longshore/tasks/list",
            Method::Listen => "subscriptions/listen",
        }
    }
}

impl Endpoint {
    /// `keyring` seals what a call carries through its client; streams end when `shutdown` becomes
    /// true.
    pub fn new(
        service: Service,
        admin: Admin,
        keyring: Keyring,
        legacy: LegacyLimits,
        shutdown: watch::Receiver<bool>,
    ) -> Endpoint {
        let lists = Arc::<list::Lists>::default();
        let legacy = Legacy::new(
            service.clone(),
            Arc::clone(&lists),
            legacy,
            shutdown.clone(),
        );
        Endpoint(Arc::new(Parts {
            service,
            admin,
            sealer: Arc::new(Sealer::new(keyring, Clock::system())),
            lists,
            streams: Arc::default(),
            line_clients: status::Clients::default(),
            legacy,
            shutdown,
        }))
    }

    /// Whether an HTTP request belongs to the handshake revisions: an `initialize`, or one with a
    /// session. One that names a version of the modern era never does.
    pub fn is_legacy(headers: &HeaderMap, body: &[u8]) -> bool {
        if headers::names_served_version(headers) {
            return false;
        }
        headers.contains_key(legacy::SESSION_HEADER) || envelope::is_handshake(body)
    }

    /// Answers one HTTP request of the handshake revisions.
    pub async fn answer_legacy(
        &self,
        tenant: &TenantId,
        head: http::request::Parts,
        body: Bytes,
    ) -> Result<LegacyOutcome, SessionError> {
        self.0.legacy.answer(tenant, head, body).await
    }

    /// Answers one message of an authenticated tenant. `headers` are those of its HTTP request;
    /// `can_stream` says whether its sender reads more than one message.
    pub async fn answer(
        &self,
        tenant: &TenantId,
        body: &[u8],
        headers: Option<&HeaderMap>,
        can_stream: bool,
    ) -> Outcome {
        let request = match envelope::read(body, headers) {
            Ok(Some(request)) => request,
            Ok(None) => return Outcome::Accepted,
            Err(Rejection { id, refusal }) => return refused(id.as_ref(), &refusal),
        };
        match self.0.dispatch(tenant, &request, headers, can_stream).await {
            Ok(Output::Message(json)) => Outcome::Message {
                status: StatusCode::OK,
                json,
            },
            Ok(Output::Stream(messages)) => Outcome::Stream(messages),
            Err(refusal) => refused(Some(&request.id), &refusal),
        }
    }
}

impl Parts {
    async fn dispatch(
        &self,
        tenant: &TenantId,
        request: &Request<'_>,
        headers: Option<&HeaderMap>,
        can_stream: bool,
    ) -> Result<Output, Refusal> {
        let service = &self.service;
        // Who the host is does not depend on its plugins.
        if request.method != Method::Discover {
            service.until_loaded().await;
        }
        match request.method {
            Method::Discover => Ok(discover::discover(request)),
            Method::ToolsList => self.lists.tools.answer(service.tools(), request),
            Method::PromptsList => self.lists.prompts.answer(service.tools(), request),
            Method::ResourcesList => self.lists.resources.answer(service.tools(), request),
            Method::ResourceTemplatesList => self.lists.templates.answer(service.tools(), request),
            Method::ToolsCall => {
                // Boxed, as below, so that a small request carries no room for a call.
                Box::pin(call::call(
                    service,
                    &self.sealer,
                    tenant,
                    request,
                    headers,
                    can_stream,
                ))
                .await
            }
            Method::PromptsGet | Method::ResourcesRead | Method::Complete => {
                Box::pin(ask::ask(service, &self.sealer, tenant, request, can_stream)).await
            }
            Method::TasksGet => tasks::get(service, tenant, request),
            Method::TasksUpdate => tasks::update(service, tenant, request).await,
            Method::TasksCancel => tasks::cancel(service, tenant, request).await,
            Method::TasksLog => tasks::log(service, tenant, request),
            Method::TasksList => tasks::list(service, tenant, request),
            Method::Listen if can_stream => {
                let shutdown = self.shutdown.clone();
                listen::listen(service, &self.streams, shutdown, tenant, request)
            }
            Method::Listen => Err(Refusal::NeedsStream),
        }
    }
}

/// Resolves when the host stops, also when whoever would say so is gone.
pub async fn stopping(shutdown: &mut watch::Receiver<bool>) {
    // The guard this yields must not live on in the caller.
    let _ = shutdown.wait_for(|is_stopping| *is_stopping).await;
}

fn refused(id: Option<&RequestId>, refusal: &Refusal) -> Outcome {
    let face = refusal.face();
    Outcome::Message {
        status: face.status,
        json: wire::failure(id, &face),
    }
}
