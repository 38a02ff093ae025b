//! HTTP: one endpoint for MCP in both eras, two for whoever supervises the host. It checks who may
//! speak and how much, hands the body on, and frames what comes back. It knows nothing of MCP's
//! methods.

mod auth;
mod connection;
mod connections;
mod guard;
mod listener;
mod options;
mod sse;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{any, get};
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, ALLOW, CONNECTION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, StatusCode, request};

pub use auth::{Authenticator, token_hash};
pub use listener::serve;
pub use options::HttpOptions;

use self::connection::Connection;
use crate::mcp::{self, Endpoint, Face, LegacyOutcome, Outcome, SessionError};
use crate::service::Service;
use crate::task::TenantId;

/// Where MCP is served.
pub const MCP_PATH: &str = "/mcp";

const JSON: HeaderValue = HeaderValue::from_static("application/json");

struct Gate {
    endpoint: Endpoint,
    service: Service,
    options: HttpOptions,
    authenticator: Authenticator,
}

/// A request turned away before it was read as a message.
#[derive(Debug, PartialEq, Eq)]
struct TurnedAway {
    status: StatusCode,
    message: String,
}

impl TurnedAway {
    fn new(status: StatusCode, message: impl Into<String>) -> TurnedAway {
        TurnedAway {
            status,
            message: message.into(),
        }
    }
}

/// The routes of a host.
pub fn router(
    service: Service,
    endpoint: Endpoint,
    options: HttpOptions,
    authenticator: Authenticator,
) -> Router {
    let gate = Gate {
        endpoint,
        service,
        options,
        authenticator,
    };
    Router::new()
        .route(MCP_PATH, any(answer))
        .route("/healthz", get(async || "alive\n"))
        .route("/readyz", get(ready))
        .with_state(Arc::new(gate))
}

async fn answer(State(gate): State<Arc<Gate>>, request: Request) -> Response {
    match gate.answer(request).await {
        Ok(response) => response,
        Err(turned_away) => refuse(turned_away),
    }
}

impl Gate {
    async fn answer(&self, request: Request) -> Result<Response, TurnedAway> {
        let (mut head, body) = request.into_parts();
        guard::check_host(&head.headers, &head.uri, &self.options)?;
        guard::check_origin(&head.headers, &self.options)?;
        guard::check_framing(&head.headers)?;
        let tenant = self.authenticator.tenant(&head.headers)?;
        let connection = head.extensions.remove::<Connection>();
        let connection = connection.expect("the listener says whose connection a request is on");
        if let Err(crowded) = connection.belong_to(tenant) {
            let message = crowded.to_string();
            return Err(TurnedAway::new(StatusCode::TOO_MANY_REQUESTS, message));
        }
        if head.method != Method::POST {
            connection.has_request();
            let has_stream = matches!(head.method, Method::GET | Method::DELETE);
            return match has_stream && Endpoint::is_legacy(&head.headers, &[]) {
                true => self.answer_legacy(tenant, head, Bytes::new()).await,
                false => Ok(not_allowed()),
            };
        }
        guard::check_content(&head.headers)?;
        let accepts = guard::accepts(&head.headers)?;
        // Nothing begins on a connection that is about to go, also with a body that is there.
        if connection.is_leaving() {
            return Err(guard::too_slow());
        }
        let body = tokio::select! {
            biased;
            body = guard::read_body(&head.headers, body, &self.options) => body?,
            () = connection.leaving() => return Err(guard::too_slow()),
        };
        connection.has_request();
        if Endpoint::is_legacy(&head.headers, &body) {
            guard::check_events(accepts)?;
            return self.answer_legacy(tenant, head, body).await;
        }
        let outcome = self
            .endpoint
            .answer(tenant, &body, Some(&head.headers), accepts.events)
            .await;
        Ok(match outcome {
            // A client that reads only events gets its one message as one.
            Outcome::Message { status, json } if status.is_success() && !accepts.json => {
                sse::once(json)
            }
            outcome => framed(outcome),
        })
    }
}

impl Gate {
    async fn answer_legacy(
        &self,
        tenant: &TenantId,
        head: request::Parts,
        body: Bytes,
    ) -> Result<Response, TurnedAway> {
        // Boxed, so that the requests that take no part in a session carry no room for it.
        match Box::pin(self.endpoint.answer_legacy(tenant, head, body)).await {
            Ok(LegacyOutcome::Response(response)) => Ok(response.map(Body::new)),
            Ok(LegacyOutcome::Outcome(outcome)) => Ok(framed(outcome)),
            Err(error) => {
                let status = match error {
                    SessionError::Unknown => StatusCode::NOT_FOUND,
                    SessionError::Full(_)
                    | SessionError::TenantFull(_)
                    | SessionError::Stopping => StatusCode::SERVICE_UNAVAILABLE,
                };
                Err(TurnedAway::new(status, error.to_string()))
            }
        }
    }
}

fn framed(outcome: Outcome) -> Response {
    match outcome {
        Outcome::Accepted => status_only(StatusCode::ACCEPTED),
        Outcome::Message { status, json } => json_response(status, json),
        Outcome::Stream(messages) => sse::response(messages),
    }
}

fn not_allowed() -> Response {
    let mut response = refuse(TurnedAway::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "only POST is served here: protocol version 2026-07-28 has no GET stream and no sessions, \
         and the older ones have both only with the Mcp-Session-Id that `initialize` gave",
    ));
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static("POST"));
    response
}

async fn ready(State(gate): State<Arc<Gate>>) -> Response {
    if gate.service.is_ready() {
        status_and_text(StatusCode::OK, "ready\n")
    } else {
        status_and_text(StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
    }
}

/// A JSON-RPC error without an id, as the transport allows for what was never read as a request.
fn refuse(turned_away: TurnedAway) -> Response {
    let TurnedAway { status, message } = turned_away;
    let face = Face {
        status,
        code: mcp::INVALID_REQUEST,
        message,
        data: None,
    };
    let mut response = json_response(status, mcp::failure(None, &face));
    let header = match status {
        StatusCode::UNAUTHORIZED => (WWW_AUTHENTICATE, "Bearer"),
        // RFC 9110, 15.5.16: what would be taken.
        StatusCode::UNSUPPORTED_MEDIA_TYPE => (ACCEPT_ENCODING, "identity"),
        // Its connection is another's from now on, or nobody can say where its body ends.
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::REQUEST_TIMEOUT
        | StatusCode::NOT_IMPLEMENTED => (CONNECTION, "close"),
        _ => return response,
    };
    response
        .headers_mut()
        .insert(header.0, HeaderValue::from_static(header.1));
    response
}

fn json_response(status: StatusCode, json: Bytes) -> Response {
    let mut response = Response::new(Body::from(json));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

fn status_only(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn status_and_text(status: StatusCode, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response
}
