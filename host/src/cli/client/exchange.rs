//! One request to a host's MCP endpoint, and its answer in whichever form it comes. It knows no method.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use http::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Response, StatusCode, Url};
use serde_json::{Map, Value, json};

use super::room::Room;
use crate::cli::sse::Parser;
use crate::cli::wire::{ClientError, Progress};

const PROTOCOL_VERSION: &str = "2026-07-28";
const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// More than any result a host may be configured to return.
const BODY_MAX_BYTES: usize = 128 << 20;

/// Where a host is reached.
pub struct Endpoint {
    http: reqwest::Client,
    url: Url,
    token: Option<String>,
    next_id: AtomicU64,
}

/// A request before it has an id.
pub struct Message<'a> {
    pub method: &'static str,
    pub params: Map<String, Value>,
    /// What it is about, which is mirrored in a header.
    pub name: Option<&'a str>,
    /// Arguments that are mirrored, too.
    pub headers: &'a [(String, String)],
    /// None for what may take as long as it does.
    pub timeout: Option<Duration>,
}

impl Endpoint {
    pub fn new(url: &str, token: Option<String>) -> Result<Endpoint, ClientError> {
        let bad_url = || ClientError::BadUrl(url.to_owned());
        let parsed: Url = url.parse().map_err(|_| bad_url())?;
        if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
            return Err(bad_url());
        }
        // Another part of the process may have chosen one already, which is just as good.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none());
        if parsed.scheme() == "http" {
            // Without TLS nothing needs the system's certificates, which may not even be there.
            builder = builder.no_proxy().tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| unreachable(url, &error))?;
        Ok(Endpoint {
            http,
            url: parsed,
            token,
            next_id: AtomicU64::new(1),
        })
    }

    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Sends a request with the metadata every modern request carries, in the body and mirrored in
    /// headers (MCP, Streamable HTTP, "Request Metadata").
    pub async fn post(&self, message: Message<'_>) -> Result<(u64, Response), ClientError> {
        let Message {
            method,
            mut params,
            name,
            headers,
            timeout,
        } = message;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        params.insert("_meta".to_owned(), request_meta(id));
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let mut request = self
            .http
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .header("MCP-Protocol-Version", PROTOCOL_VERSION)
            .header("Mcp-Method", method)
            .body(body.to_string());
        if let Some(name) = name {
            request = request.header("Mcp-Name", header_value(name));
        }
        for (header, value) in headers {
            request = request.header(format!("Mcp-Param-{header}"), header_value(value));
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(timeout) = timeout {
            request = request.timeout(timeout);
        }
        let sent = request.send().await;
        let response = sent.map_err(|error| unreachable(self.url.as_str(), &error))?;
        match (response.status(), &self.token) {
            (StatusCode::UNAUTHORIZED, None) => Err(ClientError::NoToken),
            (StatusCode::UNAUTHORIZED, Some(_)) => Err(ClientError::UnknownToken),
            _ => Ok((id, response)),
        }
    }
}

/// The next message of an event stream; None at its end.
pub async fn next_message(
    response: &mut Response,
    parser: &mut Parser,
) -> Result<Option<Value>, ClientError> {
    loop {
        if let Some(event) = parser.next_event()? {
            // The one before is gone, or a part of it that is not kept with others.
            Room::new().take(event.as_bytes())?;
            return serde_json::from_str(&event)
                .map(Some)
                .map_err(|error| ClientError::Malformed(error.to_string()));
        }
        let chunk = response.chunk().await;
        match chunk.map_err(|error| unreachable(response.url().as_str(), &error))? {
            Some(bytes) => parser.push(&bytes)?,
            None => return Ok(None),
        }
    }
}

/// Reads the response to request `id`, whichever of the two forms it has, if there is room for it.
pub async fn read_answer(
    mut response: Response,
    id: u64,
    room: &mut Room,
    mut on_progress: impl FnMut(Progress),
) -> Result<Value, ClientError> {
    if !is_event_stream(&response) {
        return read_json(response, room).await;
    }
    let mut parser = Parser::default();
    while let Some(mut message) = next_message(&mut response, &mut parser).await? {
        if message.get("id").and_then(Value::as_u64) == Some(id) {
            return into_result(message);
        }
        if message.get("method").and_then(Value::as_str) == Some("notifications/progress") {
            let params = message["params"].take();
            on_progress(Progress {
                message: params["message"].as_str().map(str::to_owned),
                done: params["progress"].as_f64(),
                total: params["total"].as_f64(),
            });
        }
    }
    Err(ClientError::Unreachable {
        url: response.url().to_string(),
        reason: "the connection ended before the answer".to_owned(),
    })
}

async fn read_json(response: Response, room: &mut Room) -> Result<Value, ClientError> {
    let status = response.status();
    let url = response.url().to_string();
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk.map_err(|error| unreachable(&url, &error))?);
        if body.len() > BODY_MAX_BYTES {
            let limit = BODY_MAX_BYTES >> 20;
            return Err(ClientError::Malformed(format!("more than {limit} MiB")));
        }
    }
    room.take(&body)?;
    match serde_json::from_slice::<Value>(&body) {
        Ok(message) if message.get("jsonrpc").is_some() => into_result(message),
        Err(_) if status == StatusCode::NOT_FOUND => Err(ClientError::NoEndpoint(url)),
        Ok(_) | Err(_) if !status.is_success() => Err(ClientError::Status {
            status: status.as_u16(),
            text: crate::cli::text::plain_line(&String::from_utf8_lossy(&body), 300),
        }),
        Ok(_) => Err(ClientError::Malformed("no JSON-RPC message".to_owned())),
        Err(error) => Err(ClientError::Malformed(error.to_string())),
    }
}

fn into_result(mut message: Value) -> Result<Value, ClientError> {
    if let Some(error) = message.get_mut("error") {
        return match serde_json::from_value(error.take()) {
            Ok(failure) => Err(ClientError::Rpc(failure)),
            Err(error) => Err(ClientError::Malformed(format!("an error: {error}"))),
        };
    }
    match message.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => Err(ClientError::Malformed(
            "neither result nor error".to_owned(),
        )),
    }
}

fn request_meta(id: u64) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": PROTOCOL_VERSION,
        "io.modelcontextprotocol/clientInfo": {
            "name": "longshore",
            "version": env!("CARGO_PKG_VERSION"),
        },
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": { "form": {}, "url": {} },
            "extensions": { TASKS_EXTENSION: {} },
        },
        "progressToken": id,
    })
}

/// The arguments that travel as headers, too (MCP, "Custom Headers from Tool Parameters"): those
/// whose property, reached by `properties` alone, is marked `x-mcp-header`.
pub fn param_headers(schema: &Value, arguments: &Map<String, Value>) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    let properties = schema["properties"].as_object();
    for (name, property) in properties.into_iter().flatten() {
        match (property["x-mcp-header"].as_str(), arguments.get(name)) {
            (_, Some(Value::Object(inner))) => headers.extend(param_headers(property, inner)),
            (Some(header), Some(Value::String(text))) => {
                headers.push((header.to_owned(), text.clone()));
            }
            (Some(header), Some(scalar @ (Value::Number(_) | Value::Bool(_)))) => {
                headers.push((header.to_owned(), scalar.to_string()));
            }
            _ => {}
        }
    }
    headers
}

/// Encodes what a header can't carry as it is (MCP, Streamable HTTP, "Value Encoding").
fn header_value(value: &str) -> String {
    let is_visible = value.bytes().all(|b| matches!(b, b'\t' | b' '..=b'~'));
    let is_padded = value.trim_matches([' ', '\t']) != value;
    let is_sentinel = value.starts_with("=?base64?") && value.ends_with("?=");
    match is_visible && !is_padded && !is_sentinel {
        true => value.to_owned(),
        false => format!("=?base64?{}?=", STANDARD.encode(value)),
    }
}

pub fn is_event_stream(response: &Response) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE);
    content_type
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.starts_with("text/event-stream"))
}

fn unreachable(url: &str, error: &reqwest::Error) -> ClientError {
    // The innermost cause is the one that helps ("connection refused").
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    ClientError::Unreachable {
        url: url.to_owned(),
        reason: cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_carry_what_they_can_and_encode_the_rest() {
        let table = [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ];
        for (value, expected) in table {
            assert_eq!(header_value(value), expected);
        }
    }

    #[test]
    fn marked_arguments_travel_as_headers_when_they_are_there() {
        let schema = json!({ "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "absent": { "type": "string", "x-mcp-header": "Absent" },
            "query": { "type": "string" },
            "page": { "properties": { "size": { "type": "integer", "x-mcp-header": "Size" } } },
        } });
        let arguments = json!({ "region": "eu", "query": "q", "page": { "size": 7 } });
        let headers = param_headers(&schema, arguments.as_object().unwrap());
        let expected = [("Size", "7"), ("Region", "eu")];
        assert_eq!(
            headers,
            expected.map(|(header, value)| (header.into(), value.into()))
        );
    }

    #[test]
    fn only_addresses_of_hosts_are_taken() {
        for url in ["", "localhost", "ftp://a/mcp", "http://"] {
            let result = Endpoint::new(url, None);
            assert!(matches!(result, Err(ClientError::BadUrl(_))), "{url}");
        }
    }
}
