//! Sends one request through the SDK's client and says what is certain about it.

use std::time::Duration;

use longshore_plugin::http::{self, HttpError};

use crate::drive::Sent;
use crate::request::Request;

/// From the start of a request to the end of its answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// An answer's body, bytes; only its beginning is kept.
const BODY_MAX_BYTES: usize = 1024 * 1024;

pub fn send(request: &Request) -> Sent {
    let mut outgoing = http::Request::new(request.method.as_str(), request.url.as_str())
        .timeout(TIMEOUT)
        .body_max_bytes(BODY_MAX_BYTES);
    for (name, value) in &request.headers {
        outgoing = outgoing.header(name.as_str(), value.as_str());
    }
    if !request.method.is_safe() {
        outgoing = outgoing.header("idempotency-key", request.idempotency_key.as_str());
    }
    if let Some(body) = &request.body {
        outgoing = outgoing.body(body.as_str());
    }
    match outgoing.send() {
        Ok(response) => Sent::Answered {
            status: response.status,
            body: response.text().into_owned(),
        },
        Err(
            error @ (HttpError::Denied | HttpError::Unreachable(_) | HttpError::InvalidRequest(_)),
        ) => Sent::NotSent(error.to_string()),
        // Whatever else went wrong, it may have arrived before.
        Err(error) => Sent::Lost(error.to_string()),
    }
}
