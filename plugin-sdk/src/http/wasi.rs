//! The transport of a component: `wasi:http/outgoing-handler`, without ever blocking on one
//! request while others could go on.

use std::time::{Duration, Instant};

use wasip2::clocks::monotonic_clock;
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    self, ErrorCode, Fields, FutureIncomingResponse, IncomingBody, IncomingResponse, Method,
    OutgoingBody, OutgoingRequest, RequestOptions, Scheme,
};
use wasip2::io::poll::{self, Pollable};
use wasip2::io::streams::{InputStream, OutputStream, StreamError};

use super::{HttpError, Request, Response, url};

/// The most bytes taken from a response at once.
const READ_MAX_BYTES: u64 = 64 * 1024;

/// One request under way.
pub(super) struct Flight {
    stage: Stage,
    deadline: Pollable,
    started: Instant,
    body_max_bytes: usize,
}

// In all three: a child is declared, and so dropped, before the resource it comes from. The host
// traps a component that drops them the other way round.
enum Stage {
    Waiting {
        upload: Option<Upload>,
        ready: Pollable,
        future: FutureIncomingResponse,
    },
    Reading {
        download: Download,
        response: Response,
    },
    Ended,
}

struct Upload {
    ready: Pollable,
    stream: OutputStream,
    body: OutgoingBody,
    bytes: Vec<u8>,
    sent: usize,
    is_flushed: bool,
}

struct Download {
    ready: Pollable,
    stream: InputStream,
    _body: IncomingBody,
    _incoming: IncomingResponse,
}

impl Flight {
    pub fn start(request: Request) -> Result<Flight, HttpError> {
        let parts = url::split(&request.url)?;
        let outgoing = OutgoingRequest::new(fields(&request)?);
        let scheme = match parts.is_https {
            true => Scheme::Https,
            false => Scheme::Http,
        };
        let is_valid = outgoing.set_method(&method(&request.method)).is_ok()
            && outgoing.set_scheme(Some(&scheme)).is_ok()
            && outgoing.set_authority(Some(parts.authority)).is_ok()
            && outgoing
                .set_path_with_query(Some(&parts.path_with_query))
                .is_ok();
        if !is_valid {
            return Err(HttpError::InvalidRequest(format!(
                "`{} {}` is malformed",
                request.method, request.url
            )));
        }
        let body = match request.body.is_empty() {
            true => None,
            false => Some(outgoing.body().map_err(|()| no_stream())?),
        };
        if body.is_none() && means_content(&request.method) {
            let empty = outgoing.body().map_err(|()| no_stream())?;
            OutgoingBody::finish(empty, None).map_err(|code| failure(&code))?;
        }
        let future = outgoing_handler::handle(outgoing, options(request.timeout))
            .map_err(|code| failure(&code))?;
        let upload = match body {
            None => None,
            Some(body) => Some(Upload::start(body, request.body)?),
        };
        Ok(Flight {
            stage: Stage::Waiting {
                upload,
                ready: future.subscribe(),
                future,
            },
            deadline: monotonic_clock::subscribe_duration(nanoseconds(request.timeout)),
            started: Instant::now(),
            body_max_bytes: request.body_max_bytes,
        })
    }

    /// Does what can be done without waiting; Some once the request has ended.
    pub fn advance(&mut self) -> Option<Result<Response, HttpError>> {
        let result = match self.step() {
            Ok(None) if self.deadline.ready() => Err(HttpError::TimedOut),
            Ok(None) => return None,
            Ok(Some(mut response)) => {
                response.elapsed = self.started.elapsed();
                Ok(response)
            }
            Err(error) => Err(error),
        };
        self.stage = Stage::Ended;
        Some(result)
    }

    fn step(&mut self) -> Result<Option<Response>, HttpError> {
        if let Stage::Waiting { upload, future, .. } = &mut self.stage {
            *upload = upload.take().and_then(Upload::advance);
            let Some(answer) = future.get() else {
                return Ok(None);
            };
            let incoming = answer
                .map_err(|()| no_stream())?
                .map_err(|code| failure(&code))?;
            self.stage = Stage::reading(incoming)?;
        }
        match &mut self.stage {
            Stage::Reading { download, response } => {
                match download.advance(&mut response.body, self.body_max_bytes)? {
                    true => Ok(Some(std::mem::take(response))),
                    false => Ok(None),
                }
            }
            Stage::Waiting { .. } | Stage::Ended => Ok(None),
        }
    }

    fn pollables(&self) -> impl Iterator<Item = &Pollable> {
        let (first, second) = match &self.stage {
            Stage::Waiting { upload, ready, .. } => {
                (Some(ready), upload.as_ref().map(|upload| &upload.ready))
            }
            Stage::Reading { download, .. } => (Some(&download.ready), None),
            Stage::Ended => (None, None),
        };
        first.into_iter().chain(second).chain([&self.deadline])
    }
}

impl Stage {
    fn reading(incoming: IncomingResponse) -> Result<Stage, HttpError> {
        let headers = incoming.headers();
        let entries = headers.entries().into_iter();
        let response = Response {
            status: incoming.status(),
            headers: entries
                .map(|(name, value)| {
                    let value = String::from_utf8_lossy(&value).into_owned();
                    (name.to_ascii_lowercase(), value)
                })
                .collect(),
            ..Response::default()
        };
        drop(headers);
        let body = incoming.consume().map_err(|()| no_stream())?;
        let stream = body.stream().map_err(|()| no_stream())?;
        Ok(Stage::Reading {
            download: Download {
                ready: stream.subscribe(),
                stream,
                _body: body,
                _incoming: incoming,
            },
            response,
        })
    }
}

impl Upload {
    fn start(body: OutgoingBody, bytes: Vec<u8>) -> Result<Upload, HttpError> {
        let stream = body.write().map_err(|()| no_stream())?;
        Ok(Upload {
            ready: stream.subscribe(),
            stream,
            body,
            bytes,
            sent: 0,
            is_flushed: false,
        })
    }

    /// Sends what the host takes; None once there is nothing left to do. An error ends it too: a
    /// server may answer before it has read everything, and the response says what is wrong.
    fn advance(mut self) -> Option<Upload> {
        loop {
            let room = match self.stream.check_write() {
                Ok(0) => return Some(self),
                Ok(room) => usize::try_from(room).unwrap_or(usize::MAX),
                Err(_) => return None,
            };
            let left = &self.bytes[self.sent..];
            if left.is_empty() {
                if self.is_flushed {
                    self.finish();
                    return None;
                }
                self.is_flushed = true;
                if self.stream.flush().is_err() {
                    return None;
                }
                continue;
            }
            let chunk = &left[..left.len().min(room)];
            if self.stream.write(chunk).is_err() {
                return None;
            }
            self.sent += chunk.len();
        }
    }

    fn finish(self) {
        let Upload {
            ready,
            stream,
            body,
            ..
        } = self;
        drop(ready);
        drop(stream);
        // A failure shows in the response.
        let _ = OutgoingBody::finish(body, None);
    }
}

impl Download {
    /// Takes what has come; true at the end of the body.
    fn advance(&mut self, body: &mut Vec<u8>, max_bytes: usize) -> Result<bool, HttpError> {
        loop {
            match self.stream.read(READ_MAX_BYTES) {
                Ok(bytes) if bytes.is_empty() => return Ok(false),
                Ok(bytes) if body.len() + bytes.len() > max_bytes => {
                    return Err(HttpError::BodyTooLarge(max_bytes));
                }
                Ok(bytes) => body.extend_from_slice(&bytes),
                Err(StreamError::Closed) => return Ok(true),
                Err(StreamError::LastOperationFailed(error)) => {
                    return Err(match types::http_error_code(&error) {
                        Some(code) => failure(&code),
                        None => HttpError::Broken(error.to_debug_string()),
                    });
                }
            }
        }
    }
}

/// Blocks until some flight may go on.
pub(super) fn wait<'a>(flights: impl Iterator<Item = &'a Flight>) {
    let pollables: Vec<&Pollable> = flights.flat_map(Flight::pollables).collect();
    poll::poll(&pollables);
}

fn fields(request: &Request) -> Result<Fields, HttpError> {
    let mut entries: Vec<(String, Vec<u8>)> = request
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), value.clone().into_bytes()))
        .collect();
    let is_sized = request.header_value("content-length").is_some();
    if !is_sized && (!request.body.is_empty() || means_content(&request.method)) {
        let length = request.body.len().to_string();
        entries.push(("content-length".into(), length.into_bytes()));
    }
    Fields::from_list(&entries)
        .map_err(|error| HttpError::InvalidRequest(format!("a header is refused: {error:?}")))
}

/// Whether a server expects to be told the content's length even when there is none
/// (RFC 9110, 8.6); some answer 411 otherwise.
fn means_content(method: &str) -> bool {
    matches!(method, "POST" | "PUT" | "PATCH")
}

fn options(timeout: Duration) -> Option<RequestOptions> {
    let options = RequestOptions::new();
    let timeout = Some(nanoseconds(timeout));
    // A host may not support them; the deadline holds anyway.
    let _ = options.set_connect_timeout(timeout);
    let _ = options.set_first_byte_timeout(timeout);
    let _ = options.set_between_bytes_timeout(timeout);
    Some(options)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        "PATCH" => Method::Patch,
        other => Method::Other(other.into()),
    }
}

fn no_stream() -> HttpError {
    HttpError::Broken("the host took a stream back".into())
}

fn failure(code: &ErrorCode) -> HttpError {
    match code {
        ErrorCode::HttpRequestDenied | ErrorCode::DestinationIpProhibited => HttpError::Denied,
        ErrorCode::DnsTimeout
        | ErrorCode::ConnectionTimeout
        | ErrorCode::ConnectionReadTimeout
        | ErrorCode::ConnectionWriteTimeout
        | ErrorCode::HttpResponseTimeout => HttpError::TimedOut,
        ErrorCode::ConnectionRefused => HttpError::Unreachable("connection refused".into()),
        ErrorCode::DestinationNotFound | ErrorCode::DnsError(_) => {
            HttpError::Unreachable("its name is unknown".into())
        }
        ErrorCode::DestinationUnavailable | ErrorCode::DestinationIpUnroutable => {
            HttpError::Unreachable("no route leads there".into())
        }
        ErrorCode::TlsCertificateError => {
            HttpError::Unreachable("its certificate is not trusted".into())
        }
        ErrorCode::HttpRequestUriInvalid | ErrorCode::HttpRequestMethodInvalid => {
            HttpError::InvalidRequest("its method or URL is malformed".into())
        }
        ErrorCode::InternalError(Some(text)) => HttpError::Broken(text.clone()),
        other => HttpError::Broken(format!("{other:?}")),
    }
}
