//! Server-sent events: one message, one event; a comment line now and then, so that nobody between
//! takes a quiet stream for a dead one.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use tokio::time::timeout;

use crate::mcp::Messages;

/// After this much silence a comment is sent. Proxies commonly give up after 30 or 60 seconds.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

const COMMENT: &[u8] = b":\n\n";

/// A response that carries `messages` as events. Dropping it, as the server does when the client
/// goes away, drops them.
pub fn response(messages: Messages) -> Response {
    let events = stream::unfold(messages, |mut messages| async {
        let event = match timeout(KEEP_ALIVE, messages.next()).await {
            Ok(Some(message)) => event(&message),
            Ok(None) => return None,
            Err(_) => Bytes::from_static(COMMENT),
        };
        Some((Ok::<_, Infallible>(event), messages))
    });
    of(Body::from_stream(events))
}

/// A response that carries one message as an event.
pub fn once(message: Bytes) -> Response {
    of(Body::from(event(&message)))
}

fn of(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Tells reverse proxies to pass events on at once (basic/transports/streamable-http).
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A message is one line, so it is one `data` field.
fn event(message: &[u8]) -> Bytes {
    [b"data: ", message, b"\n\n"].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    async fn text(response: Response) -> String {
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn every_message_is_an_event() {
        let messages = stream::iter(["{\"a\":1}", "{}"].map(Bytes::from)).boxed();
        let response = response(messages);
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        assert_eq!(text(response).await, "data: {\"a\":1}\n\ndata: {}\n\n");
        assert_eq!(text(once(Bytes::from("{}"))).await, "data: {}\n\n");
    }

    #[tokio::test]
    async fn dropping_the_response_drops_the_messages() {
        let (sender, receiver) = tokio::sync::oneshot::channel::<Bytes>();
        let messages = stream::once(async { receiver.await.unwrap_or_default() }).boxed();
        drop(response(messages));
        assert!(sender.is_closed());
    }
}
