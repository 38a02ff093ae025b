//! HTTP: one endpoint for MCP, two for whoever supervises the host. It checks who may speak and how
//! much, hands the body on, and frames what comes back. It knows nothing of MCP's methods.

mod auth;
mod guard;
mod listener;
mod options;
mod sse;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use tokio::sync::watch;

pub use auth::{Authenticator, token_hash};
pub use listener::serve;
pub use options::HttpOptions;

use crate::mcp::{self, Endpoint, Face, Outcome};
use crate::service::Service;

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

/// The routes of a host. `request_state_key` seals what calls carry through their clients; streams
/// end when `shutdown` becomes true.
pub fn router(
    service: Service,
    options: HttpOptions,
    authenticator: Authenticator,
    request_state_key: [u8; 32],
    shutdown: watch::Receiver<bool>,
) -> Router {
    let gate = Gate {
        endpoint: Endpoint::new(service.clone(), request_state_key, shutdown),
        service,
        options,
        authenticator,
    };
    Router::new()
        .route(MCP_PATH, post(answer).fallback(not_allowed))
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
        let (head, body) = request.into_parts();
        guard::check_host(&head.headers, &head.uri, &self.options)?;
        guard::check_origin(&head.headers, &self.options)?;
        let tenant = self.authenticator.tenant(&head.headers)?;
        guard::check_content_type(&head.headers)?;
        let accepts = guard::accepts(&head.headers)?;
        let body = guard::read_body(&head.headers, body, &self.options).await?;
        let outcome = self
            .endpoint
            .answer(tenant, &body, Some(&head.headers), accepts.events)
            .await;
        Ok(match outcome {
            Outcome::Accepted => status_only(StatusCode::ACCEPTED),
            // A client that reads only events gets its one message as one.
            Outcome::Message { status, json } if status.is_success() && !accepts.json => {
                sse::once(json)
            }
            Outcome::Message { status, json } => json_response(status, json),
            Outcome::Stream(messages) => sse::response(messages),
        })
    }
}

async fn not_allowed() -> Response {
    let mut response = refuse(TurnedAway::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "only POST is served here: protocol version 2026-07-28 has no GET stream and no sessions",
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
    if status == StatusCode::UNAUTHORIZED {
        response
            .headers_mut()
            .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
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
