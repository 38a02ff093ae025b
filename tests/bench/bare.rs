//! The least that could answer instead of the host: a handler that parses the JSON it is sent and
//! returns a body of a given size, in a process of its own.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::Response;
use axum::routing::post;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::host::Host;

/// Makes this program the server.
pub const FLAG: &str = "--serve-bare";

/// Starts this program as a server of answers of `size` bytes.
pub async fn start(size: usize) -> anyhow::Result<Host> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(FLAG).arg(size.to_string());
    Host::start(command).await
}

/// Serves until killed, on as many threads as the host would.
pub fn serve(size: Option<String>) -> anyhow::Result<()> {
    let size: usize = size.context("a size is missing")?.parse()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        eprintln!("listening on http://{}/mcp", listener.local_addr()?);
        let answer: Arc<[u8]> = vec![b' '; size].into();
        let router = Router::new()
            .route("/mcp", post(answer_parsed))
            .with_state(answer);
        let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
            let _ = stream.set_nodelay(true);
        });
        Ok(axum::serve(listener, router).await?)
    })
}

async fn answer_parsed(State(answer): State<Arc<[u8]>>, body: Bytes) -> Response {
    let is_request = serde_json::from_slice::<Value>(&body).is_ok_and(|body| body.is_object());
    let mut response = Response::new(Body::from(answer.to_vec()));
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    if !is_request {
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    response
}
