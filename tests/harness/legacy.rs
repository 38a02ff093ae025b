//! A client of the handshake revisions over HTTP, as small as one can be.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt;
use serde_json::{Value, json};

use super::record::record;

/// A client with an open session. Clones share it.
#[derive(Clone)]
pub struct LegacyClient {
    http: reqwest::Client,
    url: String,
    version: String,
    session: String,
    pub token: Option<String>,
    /// The result of `initialize`.
    pub initialized: Value,
    next_id: Arc<AtomicU64>,
}

impl LegacyClient {
    pub async fn open(url: &str, version: &str) -> LegacyClient {
        LegacyClient::open_with_token(url, version, None).await
    }

    pub async fn open_with_token(url: &str, version: &str, token: Option<&str>) -> LegacyClient {
        let all = json!({"elicitation": {}, "sampling": {}, "roots": {}});
        LegacyClient::handshake(url, version, all, token).await
    }

    pub async fn open_declaring(url: &str, version: &str, capabilities: Value) -> LegacyClient {
        LegacyClient::handshake(url, version, capabilities, None).await
    }

    /// Sends an `initialize` and returns the answer's status.
    pub async fn try_open(url: &str) -> u16 {
        let client = LegacyClient::unopened(url, "2025-11-25", None);
        let body = initialize("2025-11-25", json!({}));
        client.post(&body).await.status().as_u16()
    }

    fn unopened(url: &str, version: &str, token: Option<&str>) -> LegacyClient {
        // Already installed by another test of this process: the same one.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        LegacyClient {
            http: reqwest::Client::new(),
            url: url.to_owned(),
            version: version.to_owned(),
            session: String::new(),
            token: token.map(str::to_owned),
            initialized: Value::Null,
            next_id: Arc::new(AtomicU64::new(1)),
        }
    }

    async fn handshake(
        url: &str,
        version: &str,
        capabilities: Value,
        token: Option<&str>,
    ) -> LegacyClient {
        let mut client = LegacyClient::unopened(url, version, token);
        let response = client.post(&initialize(version, capabilities)).await;
        assert_eq!(response.status(), 200);
        let session = response.headers()["mcp-session-id"].to_str().unwrap();
        client.session = session.to_owned();
        let opening = HashMap::from([("0".to_owned(), "initialize".to_owned())]);
        let mut stream = client.read_stream(Value::from(0), opening, response);
        client.initialized = stream.next().await.unwrap()["result"].clone();
        let agreed = client.initialized["protocolVersion"].as_str().unwrap();
        client.version = agreed.to_owned();
        client.notify("notifications/initialized", json!({})).await;
        client
    }

    /// Sends a request and returns its answer, whatever comes before it.
    pub async fn request(&self, method: &str, params: Value) -> Value {
        let mut stream = self.stream(method, params).await;
        loop {
            let message = stream.next().await.expect("the request is answered");
            if message["id"] == stream.id && message.get("method").is_none() {
                return message;
            }
        }
    }

    pub async fn stream(&self, method: &str, params: Value) -> LegacyStream {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.stream_under(id, method, params).await
    }

    /// Sends a request under an id that a test chose.
    pub async fn stream_under(&self, id: u64, method: &str, params: Value) -> LegacyStream {
        let id = Value::from(id);
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let response = self.post(&body).await;
        assert_eq!(response.status(), 200, "{method}");
        let methods = HashMap::from([(id.to_string(), method.to_owned())]);
        self.read_stream(id, methods, response)
    }

    /// Sends a batch as it is; what its messages are answered with.
    pub async fn batch(&self, batch: &Value) -> LegacyStream {
        self.batch_text(&batch.to_string()).await
    }

    pub async fn batch_text(&self, batch: &str) -> LegacyStream {
        let response = self.post_body(batch.to_owned()).await;
        assert_eq!(response.status(), 200);
        let asked: Vec<Value> = serde_json::from_str(batch).unwrap();
        let methods = asked.iter().filter_map(|message| {
            let method = message["method"].as_str()?.to_owned();
            Some((message.get("id")?.to_string(), method))
        });
        self.read_stream(Value::Null, methods.collect(), response)
    }

    /// Sends a body as it is; the answer's status, and its JSON, which is null where it is empty.
    pub async fn post_text(&self, body: &str) -> (u16, Value) {
        let response = self.post_body(body.to_owned()).await;
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        if text.is_empty() {
            return (status, Value::Null);
        }
        let message: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
        record(&self.version, None, &message);
        (status, message)
    }

    fn read_stream(
        &self,
        id: Value,
        methods: HashMap<String, String>,
        response: reqwest::Response,
    ) -> LegacyStream {
        LegacyStream {
            id,
            last_event_id: None,
            revision: self.version.clone(),
            methods,
            chunks: response.bytes_stream().boxed(),
            buffer: String::new(),
        }
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
            .await
    }

    pub async fn call_stream(
        &self,
        tool: &str,
        arguments: Value,
        token: Option<&str>,
    ) -> LegacyStream {
        let mut params = json!({"name": tool, "arguments": arguments});
        if let Some(token) = token {
            params["_meta"] = json!({"progressToken": token});
        }
        self.stream("tools/call", params).await
    }

    pub async fn notify(&self, method: &str, params: Value) {
        let body = json!({"jsonrpc": "2.0", "method": method, "params": params});
        assert_eq!(self.post(&body).await.status(), 202);
    }

    /// Answers a request of the host with `outcome`, an object with `result` or `error`.
    pub async fn respond(&self, id: &Value, mut outcome: Value) {
        outcome["jsonrpc"] = json!("2.0");
        outcome["id"] = id.clone();
        assert_eq!(self.post(&outcome).await.status(), 202);
    }

    /// The header that makes a request one of this session.
    pub fn session(&self) -> (&'static str, &str) {
        ("mcp-session-id", &self.session)
    }

    /// The status of a request's answer.
    pub async fn post_status(&self, method: &str, params: Value) -> u16 {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.post(&body).await.status().as_u16()
    }

    /// The session's own stream, or the rest of one that broke.
    pub async fn get(&self, last_event_id: Option<&str>) -> LegacyStream {
        let mut request = self.with_headers(self.http.get(&self.url));
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        let response = request.send().await.expect("the host answers");
        assert_eq!(response.status(), 200);
        self.read_stream(Value::Null, HashMap::new(), response)
    }

    /// Closes the session; the answer's status.
    pub async fn delete(&self) -> u16 {
        let request = self.with_headers(self.http.delete(&self.url));
        request.send().await.unwrap().status().as_u16()
    }

    async fn post(&self, body: &Value) -> reqwest::Response {
        self.post_body(body.to_string()).await
    }

    async fn post_body(&self, body: String) -> reqwest::Response {
        self.with_headers(self.http.post(&self.url))
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await
            .expect("the host answers")
    }

    fn with_headers(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        let mut request = request.header("accept", "application/json, text/event-stream");
        if !self.session.is_empty() {
            request = request
                .header("mcp-session-id", &self.session)
                .header("mcp-protocol-version", &self.version);
        }
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }
}

fn initialize(version: &str, capabilities: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": version,
        "capabilities": capabilities,
        "clientInfo": {"name": "tests", "version": "1"},
    }})
}

/// The messages of a request's stream.
pub struct LegacyStream {
    /// The request's.
    pub id: Value,
    pub last_event_id: Option<String>,
    revision: String,
    /// Of the requests that are answered here, by id; none on the session's own stream and the rest
    /// of one.
    methods: HashMap<String, String>,
    chunks: futures_util::stream::BoxStream<'static, reqwest::Result<axum::body::Bytes>>,
    buffer: String,
}

impl LegacyStream {
    /// The next message; None at the end.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some((event, rest)) = self.buffer.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.buffer = rest;
                if let Some(message) = self.read(&event) {
                    let method = self.methods.get(&message["id"].to_string());
                    record(&self.revision, method.map(String::as_str), &message);
                    return Some(message);
                }
            }
            let chunk = self.chunks.next().await?.ok()?;
            self.buffer.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    fn read(&mut self, event: &str) -> Option<Value> {
        let field = |name: &str| {
            let line = event.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim().to_owned())
        };
        if let Some(id) = field("id:") {
            self.last_event_id = Some(id);
        }
        let data = field("data:").filter(|data| !data.is_empty())?;
        Some(serde_json::from_str(&data).expect("data is JSON"))
    }
}
