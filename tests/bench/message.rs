//! The requests that are sent, as the bytes of a whole HTTP request.

use serde_json::{Value, json};

const VERSION: &str = "2026-07-28";

/// A request of a client that takes tasks and answers forms.
pub fn request(method: &str, mut params: Value) -> Vec<u8> {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": {"form": {}},
            "extensions": {"io.modelcontextprotocol/tasks": {}},
        },
    });
    let name = params["name"].as_str().or(params["taskId"].as_str());
    let name = name.map_or(String::new(), |name| format!("mcp-name: {name}\r\n"));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: {VERSION}\r\n\
         mcp-method: {method}\r\n{name}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The same request of a tenant, whose name is its token.
pub fn of_tenant(tenant: &str, request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    let head = format!("host: localhost\r\nauthorization: Bearer {tenant}\r\n");
    text.replacen("host: localhost\r\n", &head, 1).into_bytes()
}

/// A call of one of the scripted tools.
pub fn call(tool: &str, script: Value) -> Vec<u8> {
    let params = json!({"name": tool, "arguments": {"script": script}});
    request("tools/call", params)
}

pub fn list() -> Vec<u8> {
    request("tools/list", json!({}))
}

pub fn get(task: &str) -> Vec<u8> {
    request("tasks/get", json!({"taskId": task}))
}

pub fn cancel(task: &str) -> Vec<u8> {
    request("tasks/cancel", json!({"taskId": task}))
}

/// Answers a form that asks for a confirmation.
pub fn confirm(task: &str, key: &str) -> Vec<u8> {
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    let params = json!({"taskId": task, "inputResponses": {key: yes}});
    request("tasks/update", params)
}
