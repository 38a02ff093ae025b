//! A small MCP client (revision 2026-07-28 with the Tasks extension) over HTTP. It knows the
//! protocol and nothing of terminals.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use http::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Response, StatusCode, Url};
use serde_json::{Map, Value, json};

use super::sse::Parser;
use super::wire::{CallReply, ClientError, Progress, Round, TaskState, ToolInfo};

/// Where a host listens that was told nothing else.
pub const DEFAULT_URL: &str = "http://127.0.0.1:7331/mcp";
pub const URL_VARIABLE: &str = "LONGSHORE_URL";

const PROTOCOL_VERSION: &str = "2026-07-28";
const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For requests that are answered at once; a call may take as long as its tool does.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// More than any result a host may be configured to return.
const BODY_MAX_BYTES: usize = 128 << 20;
/// A host with more pages than these is going round in circles.
const PAGES_MAX: usize = 1_000;

/// Speaks to one host.
pub struct Client {
    http: reqwest::Client,
    url: Url,
    token: Option<String>,
    next_id: AtomicU64,
}

/// An open `subscriptions/listen` stream for one task.
pub struct Listening {
    response: Response,
    parser: Parser,
}

impl Client {
    /// A client of the host whose MCP endpoint is at `url`.
    pub fn new(url: &str, token: Option<String>) -> Result<Client, ClientError> {
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
        Ok(Client {
            http,
            url: parsed,
            token,
            next_id: AtomicU64::new(1),
        })
    }

    /// What a command needs to be told to reach this host, for commands that are shown to a person.
    pub fn flags(&self) -> String {
        let usual = std::env::var(URL_VARIABLE).unwrap_or_else(|_| DEFAULT_URL.to_owned());
        match self.url.as_str() == usual {
            true => String::new(),
            false => format!(" --url {}", self.url),
        }
    }

    /// Every tool of the host.
    pub async fn tools(&self) -> Result<Vec<ToolInfo>, ClientError> {
        let tools = self.pages("tools/list", "tools").await?;
        serde_json::from_value(tools.into())
            .map_err(|error| ClientError::Malformed(format!("tools/list: {error}")))
    }

    /// All items of a list that comes in pages.
    async fn pages(&self, method: &str, member: &str) -> Result<Vec<Value>, ClientError> {
        let mut items = Vec::new();
        let mut params = Map::new();
        for _ in 0..PAGES_MAX {
            let mut page = self.ask(method, params.clone(), None).await?;
            match page.get_mut(member).map(Value::take) {
                Some(Value::Array(more)) => items.extend(more),
                _ => return Err(ClientError::Malformed(format!("{method} without {member}"))),
            }
            match page.get("nextCursor") {
                Some(cursor) => params.insert("cursor".to_owned(), cursor.clone()),
                None => break,
            };
        }
        Ok(items)
    }

    /// Calls a tool; `round` carries answers to the questions of an earlier reply.
    pub async fn call(
        &self,
        tool: &ToolInfo,
        arguments: &Map<String, Value>,
        round: Option<&Round>,
        on_progress: impl FnMut(Progress),
    ) -> Result<CallReply, ClientError> {
        let mut params = Map::new();
        params.insert("name".to_owned(), tool.name.clone().into());
        params.insert("arguments".to_owned(), arguments.clone().into());
        if let Some(round) = round {
            params.insert("inputResponses".to_owned(), round.responses.clone().into());
            if let Some(state) = &round.request_state {
                params.insert("requestState".to_owned(), state.clone().into());
            }
        }
        let headers = param_headers(&tool.input_schema, arguments);
        let (id, response) = self
            .post("tools/call", params, Some(&tool.name), &headers, None)
            .await?;
        let result = read_answer(response, id, on_progress).await?;
        match result.get("resultType").and_then(Value::as_str) {
            Some("task") => Ok(CallReply::Task(Box::new(TaskState::parse(result)?))),
            Some("input_required") => serde_json::from_value(result)
                .map(CallReply::InputRequired)
                .map_err(|error| ClientError::Malformed(format!("questions: {error}"))),
            _ => Ok(CallReply::Result(result)),
        }
    }

    pub async fn task(&self, id: &str) -> Result<TaskState, ClientError> {
        let result = self.ask("tasks/get", task_params(id), Some(id)).await?;
        TaskState::parse(result)
    }

    pub async fn answer(&self, id: &str, responses: Map<String, Value>) -> Result<(), ClientError> {
        let mut params = task_params(id);
        params.insert("inputResponses".to_owned(), responses.into());
        self.ask("tasks/update", params, Some(id)).await.map(drop)
    }

    pub async fn cancel(&self, id: &str) -> Result<(), ClientError> {
        let cancelled = self.ask("tasks/cancel", task_params(id), Some(id));
        cancelled.await.map(drop)
    }

    /// What a resource holds.
    pub async fn read(&self, uri: &str) -> Result<Value, ClientError> {
        let params = Map::from_iter([("uri".to_owned(), uri.into())]);
        self.ask("resources/read", params, Some(uri)).await
    }

    /// What the task's tool wrote to its output: a method of this host's own, beside MCP's.
    pub async fn log(&self, id: &str) -> Result<Value, ClientError> {
        self.ask("longshore/tasks/log", task_params(id), Some(id))
            .await
    }

    /// The tenant's tasks, newest first: a method of this host's own, too.
    pub async fn tasks(&self) -> Result<Vec<TaskState>, ClientError> {
        let mut tasks = self.pages("longshore/tasks/list", "tasks").await?;
        let mut states = Vec::with_capacity(tasks.len());
        for task in tasks.drain(..) {
            states.push(TaskState::parse(task)?);
        }
        states.sort_by(|a, b| b.created_at.cmp(&a.created_at));
        Ok(states)
    }

    /// Opens a stream of the task's changes; None when the host offers none for it.
    pub async fn listen(&self, id: &str) -> Result<Option<Listening>, ClientError> {
        let mut params = Map::new();
        params.insert("notifications".to_owned(), json!({ "taskIds": [id] }));
        let (_, response) = self
            .post("subscriptions/listen", params, None, &[], None)
            .await?;
        if !is_event_stream(&response) {
            return Ok(None);
        }
        let mut listening = Listening {
            response,
            parser: Parser::default(),
        };
        // The first message says what the host agreed to (MCP, Subscriptions, "Acknowledgment").
        let accepted = listening.next_message().await?;
        let ids = accepted
            .as_ref()
            .and_then(|message| message.pointer("/params/notifications/taskIds")?.as_array());
        let is_accepted = ids.is_some_and(|ids| ids.iter().any(|accepted| accepted == id));
        Ok(is_accepted.then_some(listening))
    }

    /// A request that is answered at once.
    async fn ask(
        &self,
        method: &str,
        params: Map<String, Value>,
        name: Option<&str>,
    ) -> Result<Value, ClientError> {
        let (id, response) = self
            .post(method, params, name, &[], Some(ANSWER_TIMEOUT))
            .await?;
        read_answer(response, id, |_| {}).await
    }

    /// Sends a request with the metadata every modern request carries, in the body and mirrored in
    /// headers (MCP, Streamable HTTP, "Request Metadata").
    async fn post(
        &self,
        method: &str,
        mut params: Map<String, Value>,
        name: Option<&str>,
        headers: &[(String, String)],
        timeout: Option<Duration>,
    ) -> Result<(u64, Response), ClientError> {
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

impl Listening {
    /// The task after its next change; None once the stream has ended. Safe to cancel.
    pub async fn changed(&mut self) -> Result<Option<TaskState>, ClientError> {
        while let Some(mut message) = self.next_message().await? {
            if message.get("method").and_then(Value::as_str) == Some("notifications/tasks") {
                return TaskState::parse(message["params"].take()).map(Some);
            }
            if message.get("id").is_some() {
                return Ok(None);
            }
        }
        Ok(None)
    }

    async fn next_message(&mut self) -> Result<Option<Value>, ClientError> {
        next_message(&mut self.response, &mut self.parser).await
    }
}

async fn next_message(
    response: &mut Response,
    parser: &mut Parser,
) -> Result<Option<Value>, ClientError> {
    loop {
        if let Some(event) = parser.next_event()? {
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

/// Reads the response to request `id`, whichever of the two forms it has.
async fn read_answer(
    mut response: Response,
    id: u64,
    mut on_progress: impl FnMut(Progress),
) -> Result<Value, ClientError> {
    if !is_event_stream(&response) {
        return read_json(response).await;
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

async fn read_json(response: Response) -> Result<Value, ClientError> {
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
    match serde_json::from_slice::<Value>(&body) {
        Ok(message) if message.get("jsonrpc").is_some() => into_result(message),
        Err(_) if status == StatusCode::NOT_FOUND => Err(ClientError::NoEndpoint(url)),
        Ok(_) | Err(_) if !status.is_success() => Err(ClientError::Status {
            status: status.as_u16(),
            text: super::text::plain_line(&String::from_utf8_lossy(&body), 300),
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

fn task_params(id: &str) -> Map<String, Value> {
    Map::from_iter([("taskId".to_owned(), id.into())])
}

/// The arguments that travel as headers, too (MCP, "Custom Headers from Tool Parameters"): those
/// whose property, reached by `properties` alone, is marked `x-mcp-header`.
fn param_headers(schema: &Value, arguments: &Map<String, Value>) -> Vec<(String, String)> {
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

fn is_event_stream(response: &Response) -> bool {
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
            let result = Client::new(url, None);
            assert!(matches!(result, Err(ClientError::BadUrl(_))), "{url}");
        }
    }
}
