//! A client that shows the wire: what is sent is what the test wrote, what comes back is JSON.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use super::record::record;

const VERSION: &str = "2026-07-28";
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// A client of one host. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    url: String,
    capabilities: Value,
    headers: HeaderMap,
    next_id: Arc<AtomicU64>,
}

/// An HTTP answer with its JSON body.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Reply {
    /// The JSON-RPC error's code; 0 when there is none.
    pub fn code(&self) -> i64 {
        self.body["error"]["code"].as_i64().unwrap_or(0)
    }

    /// The result; panics with the whole answer when there is none.
    pub fn result(self) -> Value {
        match self.body.get("result") {
            Some(result) => result.clone(),
            None => panic!("no result: {} {:#}", self.status, self.body),
        }
    }
}

impl Client {
    pub fn new(url: &str) -> Client {
        // Already installed by another test of this process: the same one.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        Client {
            http: reqwest::Client::new(),
            url: url.to_owned(),
            capabilities: json!({
                "elicitation": {"form": {}, "url": {}},
                "sampling": {},
                "roots": {},
                "extensions": {TASKS: {}},
            }),
            headers: HeaderMap::new(),
            next_id: Arc::new(AtomicU64::new(1)),
        }
    }

    /// The same client with other capabilities.
    pub fn declaring(&self, capabilities: Value) -> Client {
        Client {
            capabilities,
            ..self.clone()
        }
    }

    /// The same client without the Tasks extension.
    pub fn without_tasks(&self) -> Client {
        let mut capabilities = self.capabilities.clone();
        capabilities["extensions"] = json!({});
        self.declaring(capabilities)
    }

    /// The same client with a bearer token.
    pub fn with_token(&self, token: &str) -> Client {
        self.with_header("authorization", &format!("Bearer {token}"))
    }

    /// The same client, sending one more header.
    pub fn with_header(&self, name: &str, value: &str) -> Client {
        let mut client = self.clone();
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        client
            .headers
            .insert(name, HeaderValue::from_str(value).unwrap());
        client
    }

    /// A well-formed request body.
    pub fn body(&self, method: &str, params: Value) -> Value {
        let mut params = params.as_object().cloned().unwrap_or_default();
        let meta = params.entry("_meta").or_insert_with(|| json!({}));
        meta["io.modelcontextprotocol/protocolVersion"] = json!(VERSION);
        meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "tests", "version": "1"});
        meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    /// Sends a request whose answer is one JSON body (or the last message of a stream).
    pub async fn request(&self, method: &str, params: Value) -> Reply {
        let reply = self.try_request(method, params).await;
        reply.expect("the host answers")
    }

    /// The same of a host that may die at any moment: None when the answer did not come whole.
    pub async fn try_request(&self, method: &str, params: Value) -> Option<Reply> {
        let body = self.body(method, params);
        let response = self.try_send(method, &body).await.ok()?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let is_stream = content_type(&headers).starts_with("text/event-stream");
        let body = if is_stream {
            let mut messages = Messages::new(method, response);
            let mut last = Value::Null;
            while let Some(message) = messages.next().await {
                last = message;
            }
            last
        } else {
            let body = body_of(&response.text().await.ok()?);
            if body.is_object() {
                record(VERSION, Some(method), &body);
            }
            body
        };
        Some(Reply {
            status,
            headers,
            body,
        })
    }

    /// Sends a request and reads its answer as a stream of messages.
    pub async fn stream(&self, method: &str, params: Value) -> Messages {
        let body = self.body(method, params);
        Messages::new(method, self.send(method, &body).await)
    }

    /// [`stream`](Self::stream) of a host that may die at any moment.
    pub async fn try_stream(&self, method: &str, params: Value) -> Option<Messages> {
        let body = self.body(method, params);
        let response = self.try_send(method, &body).await.ok()?;
        Some(Messages::new(method, response))
    }

    /// Sends bytes as they are, with the headers a client would send, unless overridden.
    pub async fn raw(&self, body: impl Into<reqwest::Body>, headers: &[(&str, &str)]) -> Reply {
        let mut request = self
            .http
            .post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .headers(self.headers.clone());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.body(body).send().await.expect("the host answers");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = body_of(&response.text().await.unwrap());
        if body.is_object() {
            record(VERSION, None, &body);
        }
        Reply {
            status,
            headers,
            body,
        }
    }

    async fn send(&self, method: &str, body: &Value) -> reqwest::Response {
        let sent = self.try_send(method, body).await;
        sent.expect("the host answers")
    }

    async fn try_send(&self, method: &str, body: &Value) -> reqwest::Result<reqwest::Response> {
        let params = &body["params"];
        let names = ["name", "taskId", "uri"];
        let name = names.iter().find_map(|key| params[key].as_str());
        let mut headers = HeaderMap::new();
        let mut set = |name: &'static str, value: &str| {
            headers.insert(name, HeaderValue::from_str(value).unwrap());
        };
        set("content-type", "application/json");
        set("accept", "application/json, text/event-stream");
        set("mcp-protocol-version", VERSION);
        set("mcp-method", method);
        if let Some(name) = name {
            set("mcp-name", name);
        }
        headers.extend(self.headers.clone());
        let request = self
            .http
            .post(&self.url)
            .headers(headers)
            .body(body.to_string());
        request.send().await
    }

    /// Calls a tool and returns the result, whatever its type.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.request("tools/call", params).await.result()
    }

    /// Calls a tool that becomes a task; its id.
    pub async fn start(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result["resultType"], "task", "{result:#}");
        result["taskId"]
            .as_str()
            .expect("a task has an id")
            .to_owned()
    }

    /// The task as it is now.
    pub async fn task(&self, id: &str) -> Value {
        self.request("tasks/get", json!({"taskId": id}))
            .await
            .result()
    }

    pub async fn answer(&self, id: &str, responses: Value) -> Reply {
        self.request(
            "tasks/update",
            json!({"taskId": id, "inputResponses": responses}),
        )
        .await
    }

    pub async fn cancel(&self, id: &str) -> Reply {
        self.request("tasks/cancel", json!({"taskId": id})).await
    }

    /// Follows the task until it is as `holds` says.
    pub async fn until(&self, id: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let params = json!({"notifications": {"taskIds": [id]}});
        let mut messages = self.stream("subscriptions/listen", params).await;
        let acknowledged = messages.next().await.expect("the stream begins");
        assert_eq!(
            acknowledged["method"],
            "notifications/subscriptions/acknowledged"
        );
        // What changed before the subscription is seen here, what changes after it below.
        let mut task = self.task(id).await;
        while !holds(&task) {
            let message = messages.next().await.expect("the stream goes on");
            assert_eq!(message["method"], "notifications/tasks", "{message:#}");
            task = message["params"].clone();
        }
        task
    }

    pub async fn until_status(&self, id: &str, status: &str) -> Value {
        self.until(id, |task| {
            let ended = ["completed", "failed", "cancelled"].map(Value::from);
            let now = &task["status"];
            assert!(
                now == status || !ended.contains(now),
                "ended otherwise: {task:#}"
            );
            now == status
        })
        .await
    }

    /// Waits for a question and returns its key and request.
    pub async fn until_asked(&self, id: &str) -> Map<String, Value> {
        let task = self.until_status(id, "input_required").await;
        task["inputRequests"].as_object().expect("requests").clone()
    }
}

/// The messages of an SSE stream.
pub struct Messages {
    /// The request's.
    method: String,
    chunks: futures_util::stream::BoxStream<'static, reqwest::Result<axum::body::Bytes>>,
    buffer: Vec<u8>,
    pub status: u16,
    pub headers: HeaderMap,
}

impl Messages {
    fn new(method: &str, response: reqwest::Response) -> Messages {
        Messages {
            method: method.to_owned(),
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            chunks: response.bytes_stream().boxed(),
            buffer: Vec::new(),
        }
    }

    /// The next message; None at the end. A plain JSON answer is a stream of one.
    pub async fn next(&mut self) -> Option<Value> {
        let message = self.read().await?;
        record(VERSION, Some(&self.method), &message);
        Some(message)
    }

    async fn read(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = find(&self.buffer, b"\n\n") {
                let event: Vec<u8> = self.buffer.drain(..end + 2).collect();
                match data(&event) {
                    Some(message) => return Some(message),
                    None => continue,
                }
            }
            match self.chunks.next().await {
                Some(Ok(chunk)) => self.buffer.extend_from_slice(&chunk),
                _ => {
                    let rest = std::mem::take(&mut self.buffer);
                    return serde_json::from_slice(&rest).ok();
                }
            }
        }
    }
}

/// A body as JSON, or the text that is none.
fn body_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// An event's data as JSON; none for comments.
fn data(event: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(event).expect("a stream is UTF-8");
    let lines: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .collect();
    let data = lines.join("\n");
    (!data.trim().is_empty()).then(|| serde_json::from_str(&data).expect("data is JSON"))
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

fn content_type(headers: &HeaderMap) -> &str {
    headers
        .get("content-type")
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}
