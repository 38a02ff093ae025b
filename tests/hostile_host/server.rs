//! A host that means harm to whoever calls it from a terminal: it speaks MCP, and every string of it
//! could drive one. What it does beyond that is named by the tool that is called.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::sync::watch;

/// A title, a cleared screen, colours in both spellings, text turned round, and what moves back.
const EVIL: &str = "\u{1b}]0;PWNED\u{7}\u{1b}[2J\u{1b}[31m\u{9b}31mX\u{202e}Y\u{7f}\r\u{8}\u{85}\u{61c}\u{2028}$(id)";

/// A line that somebody might take for ours.
pub const FORGED: &str = "FORGED";

/// Ends an event stream that nobody reads, so that no test leaves one behind.
const ENDLESS: usize = 10_000_000;

/// The start of a page as large as a host may send it.
const PAGE_BYTES: usize = 8 << 20;

pub struct HostileHost {
    url: String,
    methods: watch::Sender<Vec<String>>,
    serving: tokio::task::JoinHandle<()>,
}

impl HostileHost {
    pub async fn start() -> HostileHost {
        let methods = watch::Sender::new(Vec::new());
        let keep = methods.clone();
        let router = Router::new().fallback(async move |request: Request| {
            let body = to_bytes(request.into_body(), 1 << 20).await.unwrap();
            let message: Value = serde_json::from_slice(&body).unwrap();
            let method = message["method"].as_str().unwrap().to_owned();
            keep.send_modify(|all: &mut Vec<String>| all.push(method.clone()));
            answer(&method, &message).await
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        HostileHost {
            url,
            methods,
            serving,
        }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Waits until it has been asked for this.
    pub async fn until_asked(&self, method: &str) {
        let mut methods = self.methods.subscribe();
        let asked = methods.wait_for(|all| all.iter().any(|asked| asked == method));
        asked.await.expect("the host lives");
    }
}

impl Drop for HostileHost {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// What a text holds, whose lines are its own.
fn words(what: &str) -> String {
    format!("{what}{EVIL}")
}

/// What is one line, or stands further in: a name, a time, a reason.
fn name(what: &str) -> String {
    format!("{what}{EVIL}\n{FORGED}")
}

async fn answer(method: &str, message: &Value) -> Response {
    let params = &message["params"];
    let result = |result: Value| json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
    let about = params["taskId"].as_str().unwrap_or_default();
    let answered = match method {
        "tools/list" => json!({"tools": tools()}),
        "resources/list" => json!({"resources": [{
            "uri": name("u"), "name": name("n"), "title": name("t"), "description": name("d"),
            "mimeType": name("m"),
        }]}),
        "resources/templates/list" => json!({"resourceTemplates": [{
            "uriTemplate": name("u"), "name": name("n"), "title": name("only a title"),
        }]}),
        "prompts/list" => json!({"prompts": [{
            "name": name("p"), "description": name("d"),
            "arguments": [{"name": name("a"), "required": true}, {"name": name("b")}],
        }]}),
        "resources/read" => json!({"contents": [{"uri": name("u"), "text": words("t")}]}),
        "prompts/get" => json!({"description": name("d"), "messages": [
            {"role": name("r"), "content": {"type": "text", "text": words("x")}},
            {"role": "user", "content": {"type": name("c")}},
        ]}),
        "tools/call" => return call(params, result).await,
        "longshore/tasks/list" => json!({"tasks": [
            task("working"), task("completed"),
        ]}),
        "longshore/tasks/log" => json!({"text": words("log")}),
        "tasks/get" => match about.split_once(EVIL).map_or(about, |(state, _)| state) {
            "silent" => return silence().await,
            "update-silent" => asking(about),
            "listen-silent" | "endless" | "cancel-silent" => task_of(about, "working"),
            state => task_of(about, state),
        },
        "tasks/update" if about.starts_with("update-silent") => return silence().await,
        "tasks/update" => return json_rpc_error(message),
        "tasks/cancel" if about.starts_with("cancel-silent") => return silence().await,
        "tasks/cancel" => json!({}),
        "subscriptions/listen" => return listen(params).await,
        _ => return json_rpc_error(message),
    };
    json_response(&result(answered))
}

fn tools() -> Value {
    let plain = [
        "content",
        "structured",
        "rounds",
        "failed",
        "cancelled",
        "completed",
        "input_required",
        "listen-silent",
        "update-silent",
        "silent",
        "many-nodes",
        "refused",
    ];
    let named = plain.map(|tool| json!({"name": tool, "inputSchema": {"type": "object"}}));
    let mut tools = named.to_vec();
    tools.push(json!({
        "name": "needs", "description": name("d"),
        "inputSchema": {
            "type": "object", "additionalProperties": false,
            "properties": {name("a"): {"type": name("k")}, "b": {"type": name("k")}},
            "required": [name("a"), "b"],
        },
    }));
    tools.push(json!({"name": name("n"), "title": name("t"), "inputSchema": {}}));
    tools.into()
}

async fn call(params: &Value, result: impl Fn(Value) -> Value) -> Response {
    let tool = params["name"].as_str().unwrap();
    let answered = match tool {
        "content" => json!({"isError": true, "content": [
            {"type": "text", "text": words("x")},
            {"type": "image", "mimeType": name("m"), "data": "!!"},
            {"type": "resource_link", "name": name("n"), "uri": name("u")},
            {"type": "resource", "resource": {"uri": name("u"), "text": words("t")}},
            {"type": name("z")},
        ]}),
        "structured" => json!({"content": [], "structuredContent": {name("a"): words("b")}}),
        "rounds" => json!({
            "resultType": "input_required", "inputRequests": questions(), "requestState": "s",
        }),
        // Seven bytes that become an object, over and over.
        "many-nodes" => {
            let nodes = "{\"\":0},".repeat(1_000_000);
            let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[{nodes}0]}}");
            return text.into_response();
        }
        "silent" => return silence().await,
        "refused" => return json_rpc_error(&json!({"id": 2})),
        state => {
            let mut task = task_of(&format!("{state}{}", name("")), "working");
            task["resultType"] = "task".into();
            task
        }
    };
    json_response(&result(answered))
}

async fn listen(params: &Value) -> Response {
    let id = params["notifications"]["taskIds"][0].as_str().unwrap();
    if id.starts_with("listen-silent") {
        return silence().await;
    }
    let acknowledged = json!({
        "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
        "params": params,
    });
    let state = match id.starts_with("update-silent") {
        true => asking(id),
        false => task_of(id, "working"),
    };
    let changed = json!({
        "jsonrpc": "2.0", "method": "notifications/tasks", "params": state,
    });
    let event = |message: &Value| Bytes::from(format!("data: {message}\n\n"));
    let repeated = if id.starts_with("endless") {
        ENDLESS
    } else {
        1
    };
    let changes = stream::repeat(event(&changed)).take(repeated);
    let events = stream::iter([event(&acknowledged)]).chain(changes);
    let body = Body::from_stream(events.chain(stream::pending()).map(Ok::<_, Infallible>));
    ([("content-type", "text/event-stream")], body).into_response()
}

fn task(status: &str) -> Value {
    task_of(&name(status), status)
}

/// A task whose every member that may be a text is one that harms.
fn task_of(id: &str, status: &str) -> Value {
    json!({
        "taskId": id, "status": status, "statusMessage": name("message"),
        "createdAt": name("c"), "lastUpdatedAt": name("u"), "ttlMs": 1000, "pollIntervalMs": 1,
        "inputRequests": if status == "input_required" { questions() } else { json!({}) },
        "result": if status == "completed" {
            json!({"content": [{"type": "text", "text": words("done")}]})
        } else {
            Value::Null
        },
        "error": if status == "failed" {
            json!({"code": 1, "message": name("e")})
        } else {
            Value::Null
        },
        "_meta": {
            "longshore/progress": {"done": 1, "total": 2},
            "longshore/externalReference": {"reference": name("ref"), "url": name("http://x/")},
            "longshore/tool": {"name": name("tool")},
            "longshore/runs": {"count": 3, "hostDeaths": 2, "lastInterruption": {
                "run": 2, "cause": name("c"), "at": name("a"),
            }},
        },
    })
}

/// A task that `--yes` can answer.
fn asking(id: &str) -> Value {
    let mut task = task_of(id, "input_required");
    task["inputRequests"] = json!({"go": {"method": "elicitation/create", "params": {
        "message": name("Go?"),
        "requestedSchema": {"properties": {"yes": {"type": "boolean"}}, "required": ["yes"]},
    }}});
    task
}

fn questions() -> Value {
    json!({
        name("q"): {"method": "elicitation/create", "params": {
            "message": name("ask"),
            "requestedSchema": {"type": "object", "required": [name("f")], "properties": {
                name("f"): {
                    "type": "string", "title": name("t"), "description": name("d"),
                    "enum": [name("v"), "w"], "enumNames": [name("n"), "m"],
                },
                name("g"): {"type": "string", "format": name("fmt"), "default": name("def")},
            }},
        }},
        name("u"): {"method": "elicitation/create", "params": {
            "mode": "url", "message": name("m"), "url": name("http://e/"),
        }},
        name("o"): {"method": name("other")},
    })
}

fn json_rpc_error(message: &Value) -> Response {
    json_response(&json!({
        "jsonrpc": "2.0", "id": message["id"],
        "error": {"code": -1, "message": name("refused"), "data": name("d")},
    }))
}

fn json_response(message: &Value) -> Response {
    ([("content-type", "application/json")], message.to_string()).into_response()
}

/// As long as the client waits, and longer than any test does.
async fn silence() -> Response {
    tokio::time::sleep(Duration::from_secs(600)).await;
    "".into_response()
}

/// One that never comes to an end of its list.
pub async fn endless_pages() -> (String, watch::Receiver<usize>) {
    let pages = watch::Sender::new(0);
    let seen = pages.subscribe();
    let router = Router::new().fallback(async move |request: Request| {
        let body = to_bytes(request.into_body(), 1 << 20).await.unwrap();
        let message: Value = serde_json::from_slice(&body).unwrap();
        pages.send_modify(|count| *count += 1);
        let tool = json!({
            "name": "a", "inputSchema": {}, "description": "x".repeat(PAGE_BYTES),
        });
        let result = json!({"tools": [tool], "nextCursor": "more"});
        json_response(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, seen)
}
