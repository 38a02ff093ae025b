//! The protocol's edge over real HTTP: what malformed and misplaced requests are answered with.
//! Every case is one message as a client would send it; the answer's status and code are MCP's.

use serde_json::{Value, json};

use crate::harness::{Client, Setup};

const VERSION: (&str, &str) = ("mcp-protocol-version", "2026-07-28");

/// A case's name, its body, its headers, and the status and code of the answer.
type Case<'a> = (&'a str, String, &'a [(&'a str, &'a str)], (u16, i64));

async fn check(client: &Client, cases: Vec<Case<'_>>) {
    for (name, body, headers, expected) in cases {
        let reply = client.raw(body, headers).await;
        let seen = (reply.status, reply.code());
        assert_eq!(seen, expected, "{name}: {:#}", reply.body);
        if reply.code() != 0 {
            assert_ne!(reply.body["error"]["message"], "", "{name}");
        }
    }
}

/// A request without anything wrong, for a case to spoil.
fn request(client: &Client, method: &str, params: Value) -> String {
    client.body(method, params).to_string()
}

#[tokio::test]
async fn a_body_that_is_no_request_is_told_so() {
    let setup = Setup::new(&[]);
    let host = setup.start().await;
    let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(2 * 1024 * 1024));
    check(
        &host.client(),
        vec![
            ("empty", String::new(), &[], (400, -32700)),
            ("cut off", "{\"jsonrpc\"".into(), &[], (400, -32700)),
            ("too deep", deep, &[], (400, -32700)),
            ("too large", large, &[], (413, -32600)),
            ("a batch", "[]".into(), &[], (400, -32600)),
            ("no object", "7".into(), &[], (400, -32600)),
            (
                "no method",
                r#"{"jsonrpc":"2.0","id":1}"#.into(),
                &[],
                (400, -32600),
            ),
            (
                "a null id",
                r#"{"jsonrpc":"2.0","id":null,"method":"tools/list"}"#.into(),
                &[],
                (400, -32600),
            ),
            (
                "a response",
                r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.into(),
                &[],
                (400, -32600),
            ),
            (
                "a notification",
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#.into(),
                &[],
                (202, 0),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn headers_that_contradict_the_body_are_refused() {
    let setup = Setup::new(&[]);
    let host = setup.start().await;
    let client = host.client();
    let list = || request(&client, "tools/list", json!({}));
    let get = || request(&client, "tasks/get", json!({"taskId": "abc"}));
    let call = || request(&client, "tools/call", json!({"name": "nope"}));
    check(
        &client,
        vec![
            (
                "whole",
                list(),
                &[VERSION, ("mcp-method", "tools/list")],
                (200, 0),
            ),
            (
                "no version",
                list(),
                &[("mcp-method", "tools/list")],
                (400, -32020),
            ),
            ("no method", list(), &[VERSION], (400, -32020)),
            (
                "another method",
                list(),
                &[VERSION, ("mcp-method", "tools/call")],
                (400, -32020),
            ),
            (
                "no name",
                call(),
                &[VERSION, ("mcp-method", "tools/call")],
                (400, -32020),
            ),
            (
                "an encoded name",
                call(),
                &[
                    VERSION,
                    ("mcp-method", "tools/call"),
                    ("mcp-name", "=?base64?bm9wZQ==?="),
                ],
                (200, -32602),
            ),
            (
                "no task id, which a common client never sends",
                get(),
                &[VERSION, ("mcp-method", "tasks/get")],
                (200, -32602),
            ),
            (
                "a wrong task id",
                get(),
                &[VERSION, ("mcp-method", "tasks/get"), ("mcp-name", "abd")],
                (400, -32020),
            ),
            (
                "a foreign host",
                list(),
                &[("host", "evil.example.com")],
                (403, -32600),
            ),
            (
                "a foreign page",
                list(),
                &[("origin", "http://evil.example.com")],
                (403, -32600),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_request_without_its_meta_or_of_another_version_is_refused() {
    let setup = Setup::new(&[]);
    let host = setup.start().await;
    let bare = |params: Value| {
        json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": params})
            .to_string()
    };
    let initialize = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/list",
        "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "1900-01-01"}},
    });
    let discover: &[(&str, &str)] = &[VERSION, ("mcp-method", "server/discover")];
    check(
        &host.client(),
        vec![
            ("no meta", bare(json!({})), discover, (400, -32602)),
            (
                "params are no object",
                bare(json!([])),
                discover,
                (400, -32602),
            ),
            (
                "no capabilities",
                bare(json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}})),
                discover,
                (400, -32602),
            ),
            (
                "an unknown version",
                initialize.to_string(),
                &[
                    ("mcp-protocol-version", "1900-01-01"),
                    ("mcp-method", "tools/list"),
                ],
                (400, -32022),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn methods_that_are_not_there_are_not_found() {
    let setup = Setup::new(&[]);
    let host = setup.start().await;
    let client = host.client();
    for method in [
        "tasks/list",
        "tasks/result",
        "ping",
        "logging/setLevel",
        "initialize",
        "x/y",
    ] {
        let reply = client.request(method, json!({})).await;
        assert_eq!((reply.status, reply.code()), (404, -32601), "{method}");
    }
}

#[tokio::test]
async fn an_unknown_task_is_unknown_to_every_method_in_the_same_words() {
    let setup = Setup::new(&[]);
    let host = setup.start().await;
    let client = host.client();
    let mut told = Vec::new();
    for id in ["0123456789abcdef0123456789abcdef", "../etc", "", "ä"] {
        let params = json!({"taskId": id, "inputResponses": {}});
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let reply = client
                .raw(
                    request(&client, method, params.clone()),
                    &[VERSION, ("mcp-method", method)],
                )
                .await;
            assert_eq!((reply.status, reply.code()), (200, -32602), "{method} {id}");
            told.push(reply.body["error"]["message"].clone());
        }
    }
    told.dedup();
    assert_eq!(told.len(), 1, "{told:?}");
}

#[tokio::test]
async fn task_methods_and_task_subscriptions_need_the_extension() {
    let setup = Setup::new(&[]);
    let host = setup.start().await;
    let client = host.client().without_tasks();
    for (method, params) in [
        ("tasks/get", json!({"taskId": "abc"})),
        (
            "tasks/update",
            json!({"taskId": "abc", "inputResponses": {}}),
        ),
        ("tasks/cancel", json!({"taskId": "abc"})),
        (
            "subscriptions/listen",
            json!({"notifications": {"taskIds": ["abc"]}}),
        ),
    ] {
        let reply = client.request(method, params).await;
        assert_eq!((reply.status, reply.code()), (400, -32021), "{method}");
        let required = &reply.body["error"]["data"]["requiredCapabilities"];
        assert_eq!(
            *required,
            json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
        );
    }
}

#[tokio::test]
async fn a_subscription_is_acknowledged_first_and_leaves_out_unknown_tasks() {
    let setup = Setup::new(&[]);
    let host = setup.start().await;
    let filter = json!({"toolsListChanged": true, "promptsListChanged": true, "taskIds": ["abc"]});
    let params = json!({"notifications": filter});
    let mut messages = host.client().stream("subscriptions/listen", params).await;
    let first = messages.next().await.unwrap();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    let agreed = json!({"toolsListChanged": true, "promptsListChanged": true, "taskIds": []});
    assert_eq!(first["params"]["notifications"], agreed);

    // On shutdown the listen request itself is answered before the stream ends.
    let stopping = tokio::spawn(host.terminate());
    let last = messages.next().await.unwrap();
    assert_eq!(last["result"]["resultType"], "complete");
    let subscription = &first["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(last["id"], *subscription);
    assert_eq!(messages.next().await, None);
    stopping.await.unwrap();
}
