//! A blocking HTTP client (feature `http`).
//!
//! A plugin reaches only the hosts that its `plugin.toml` asks for and the operator grants; any
//! other ends with [`HttpError::Denied`]. Redirects are not followed: each is the tool's own
//! decision, and needs a grant of its own.
//!
//! ```
//! # use longshore_plugin::prelude::*;
//! use longshore_plugin::http::{Batch, Request, Response};
//!
//! fn ping(_: &Context, _: NoArguments) -> Result<String> {
//!     let response = Request::get("https://example.org/health")
//!         .header("accept", "text/plain")
//!         .timeout(Duration::from_secs(5))
//!         .send()?;
//!     Ok(format!("{}: {}", response.status, response.text()))
//! }
//!
//! /// At most four at once, each result as it comes.
//! fn ping_all(ctx: &Context, urls: Vec<String>) -> Result<u64> {
//!     let mut batch = Batch::new(4);
//!     for url in urls {
//!         batch.push(url.clone(), Request::get(url));
//!     }
//!     let mut healthy = 0;
//!     while let Some((url, result)) = batch.next() {
//!         healthy += u64::from(result.is_ok_and(|response| response.is_success()));
//!         ctx.progress(format!("{url} done, {} left", batch.len()));
//!     }
//!     Ok(healthy)
//! }
//!
//! // Natively a test answers.
//! let _http = longshore_plugin::testing::answer_http(|request| {
//!     assert_eq!(request.method(), "GET");
//!     Ok(Response::new(200, "fine"))
//! });
//! let host = longshore_plugin::testing::Host::new();
//! assert_eq!(ping(&host.context(), NoArguments {}).unwrap(), "200: fine");
//! assert_eq!(ping_all(&host.context(), vec!["http://a/".into(), "http://b/".into()]).unwrap(), 2);
//! ```

mod batch;
#[cfg(not(target_arch = "wasm32"))]
mod native;
mod url;
#[cfg(target_arch = "wasm32")]
mod wasi;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use batch::{Batch, send_all};
#[cfg(not(target_arch = "wasm32"))]
use native as transport;
#[cfg(not(target_arch = "wasm32"))]
pub use native::{HttpAnswers, answer_http};
#[cfg(target_arch = "wasm32")]
use wasi as transport;

/// From the start of a request to the last byte of its response, unless the request says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest body read, bytes, unless the request says otherwise.
pub const DEFAULT_BODY_MAX_BYTES: usize = 4 * 1024 * 1024;

/// A request to send.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    timeout: Duration,
    body_max_bytes: usize,
}

impl Request {
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Request {
        Request {
            method: method.into(),
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
            timeout: DEFAULT_TIMEOUT,
            body_max_bytes: DEFAULT_BODY_MAX_BYTES,
        }
    }

    pub fn get(url: impl Into<String>) -> Request {
        Request::new("GET", url)
    }

    pub fn post(url: impl Into<String>) -> Request {
        Request::new("POST", url)
    }

    pub fn put(url: impl Into<String>) -> Request {
        Request::new("PUT", url)
    }

    pub fn delete(url: impl Into<String>) -> Request {
        Request::new("DELETE", url)
    }

    /// Adds a header; the same name again adds another value.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Request {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Request {
        self.body = body.into();
        self
    }

    /// A body of JSON, with its content type.
    pub fn json(self, value: &impl Serialize) -> Result<Request, serde_json::Error> {
        let body = serde_json::to_vec(value)?;
        Ok(self.header("content-type", "application/json").body(body))
    }

    /// The time allowed from the start to the response's last byte.
    pub fn timeout(mut self, timeout: Duration) -> Request {
        self.timeout = timeout;
        self
    }

    /// The largest response body to read; a larger one is [`HttpError::BodyTooLarge`].
    pub fn body_max_bytes(mut self, bytes: usize) -> Request {
        self.body_max_bytes = bytes;
        self
    }

    /// Sends the request and waits for the whole response.
    pub fn send(self) -> Result<Response, HttpError> {
        let mut batch = Batch::new(1);
        batch.push((), self);
        let (_, result) = batch.next().expect("the batch holds one request");
        result
    }

    pub fn method(&self) -> &str {
        &self.method
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The first value of a header, whatever the case of its name.
    pub fn header_value(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    pub fn body_bytes(&self) -> &[u8] {
        &self.body
    }
}

/// A response in full. Any status is a response, not an error.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Response {
    pub status: u16,
    /// In the order they came; names are lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// From the start of the request to the last byte.
    pub elapsed: Duration,
}

impl Response {
    /// A response made by hand, for tests.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Response {
        Response {
            status,
            body: body.into(),
            ..Response::default()
        }
    }

    pub fn with_header(mut self, name: &str, value: impl Into<String>) -> Response {
        self.headers.push((name.to_ascii_lowercase(), value.into()));
        self
    }

    /// Whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The first value of a header, whatever the case of its name.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// The body as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.body)
    }
}

fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let (_, value) = headers
        .iter()
        .find(|(header, _)| header.eq_ignore_ascii_case(name))?;
    Some(value)
}

/// Why there is no response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpError {
    /// No grant covers the request, the address is not allowed, or the person who was asked said no.
    Denied,
    TimedOut,
    /// The host cannot be found or takes no connection.
    Unreachable(String),
    /// The request itself cannot be sent.
    InvalidRequest(String),
    /// The body is larger than the request allows, bytes.
    BodyTooLarge(usize),
    /// The exchange broke off.
    Broken(String),
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HttpError::Denied => f.write_str(
                "the request is not allowed: either no grant covers it, which the operator can \
                 change, or the person who was asked for it said no; the task's log says which",
            ),
            HttpError::TimedOut => f.write_str("the request timed out"),
            HttpError::Unreachable(why) => write!(f, "the host cannot be reached: {why}"),
            HttpError::InvalidRequest(why) => write!(f, "the request cannot be sent: {why}"),
            HttpError::BodyTooLarge(limit) => {
                write!(f, "the response body is larger than {limit} bytes")
            }
            HttpError::Broken(why) => write!(f, "the exchange broke off: {why}"),
        }
    }
}

impl std::error::Error for HttpError {}
