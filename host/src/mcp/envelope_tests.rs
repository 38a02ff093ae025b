//! The envelope by table: a message and its headers, and what comes of it.

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;
use crate::harm::{changed, changes, count_taken, edited, edits};
use crate::task::Abilities;

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

/// Puts a whole `_meta` where a case says `META`.
fn whole(body: &str) -> String {
    body.replace("META", META)
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| {
            (
                HeaderName::try_from(*name).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            )
        })
        .collect()
}

/// What comes of a message: its method, or id, status, code and words.
fn outcome(body: &str, headers: Option<&HeaderMap>) -> String {
    match read(whole(body).as_bytes(), headers) {
        Ok(None) => "a notification".into(),
        Ok(Some(request)) => {
            format!("{} {:?}", request.id.as_json(), request.method)
        }
        Err(Rejection { id, refusal }) => {
            let face = refusal.face();
            format!(
                "{} {} {} {}",
                id.as_ref().map_or("-", RequestId::as_json),
                face.status.as_u16(),
                face.code,
                face.message
            )
        }
    }
}

fn outcomes(bodies: &[&str]) -> String {
    bodies
        .iter()
        .map(|body| outcome(body, None))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn what_is_no_json_rpc_message_is_told_what_it_is() {
    let deep = format!("{}{}", "[".repeat(101), "]".repeat(101));
    insta::assert_snapshot!(outcomes(&[
        "",
        "{",
        "nonsense",
        r#"{"jsonrpc":"2.0",}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"x"} {}"#,
        &deep,
        "[]",
        r#"[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]"#,
        "17",
        r#""text""#,
        "{}",
        r#"{"jsonrpc":"1.0","id":1,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":5}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}"#,
        r#"{"jsonrpc":"2.0","method":"tools/list","params":{META}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
    ]), @r###"
- 400 -32700 the body is not JSON: it is empty
- 400 -32700 the body is not JSON: EOF while parsing an object at line 1 column 1
- 400 -32700 the body is not JSON: expected ident at line 1 column 2
- 400 -32700 the body is not JSON: trailing comma at line 1 column 18
- 400 -32700 the body is not JSON: trailing characters at line 1 column 39
- 400 -32700 the body is not JSON: it nests deeper than 100 levels
- 400 -32600 the body is not a JSON-RPC request: only revision 2025-03-26 has batches, within a session; send each message on its own
- 400 -32600 the body is not a JSON-RPC request: only revision 2025-03-26 has batches, within a session; send each message on its own
- 400 -32600 the body is not a JSON-RPC request: it has to be an object
- 400 -32600 the body is not a JSON-RPC request: it has to be an object
- 400 -32600 the body is not a JSON-RPC request: `jsonrpc` has to be "2.0"
1 400 -32600 the body is not a JSON-RPC request: `jsonrpc` has to be "2.0"
1 400 -32600 the body is not a JSON-RPC request: `method` is missing
1 400 -32600 the body is not a JSON-RPC request: a client sends no responses; answers to a tool's questions go into inputResponses
1 400 -32600 the body is not a JSON-RPC request: `method` has to be a string
- 400 -32600 the body is not a JSON-RPC request: duplicate field `id` at line 1 column 28
1 400 -32602 params has to be an object
- 400 -32600 the body is not a JSON-RPC request: `tools/list` needs an `id`
a notification
"###);
}

#[test]
fn an_id_is_a_string_or_an_integer_and_comes_back_letter_for_letter() {
    for id in [
        "1",
        "-7",
        "0",
        r#""a\u00e9\"b""#,
        r#""""#,
        "123456789012345678901234567890",
    ] {
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{META}}}}"#);
        assert_eq!(outcome(&body, None), format!("{id} ToolsList"));
    }
    for id in ["null", "1.0", "1e3", "true", "{}", "[]"] {
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{META}}}}"#);
        assert_eq!(
            outcome(&body, None),
            "- 400 -32600 the body is not a JSON-RPC request: `id` has to be a string or an integer",
        );
    }
    let long = format!(
        r#"{{"jsonrpc":"2.0","id":"{}","method":"tools/list","params":{{META}}}}"#,
        "x".repeat(1024)
    );
    assert!(outcome(&long, None).starts_with("- 400 -32600 "));
}

#[test]
fn every_request_carries_its_version_and_capabilities() {
    let with = |meta: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{{{meta}}}}}"#)
    };
    let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    let capabilities = r#""io.modelcontextprotocol/clientCapabilities""#;
    let bodies = [
        r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#.to_owned(),
        with(""),
        with(r#""_meta":null"#),
        with(&format!(r#""_meta":{{{capabilities}:{{}}}}"#)),
        with(&format!(r#""_meta":{{{version}}}"#)),
        with(&format!(r#""_meta":{{{version},{capabilities}:[]}}"#)),
        with(&format!(
            r#""_meta":{{{version},{version},{capabilities}:{{}}}}"#
        )),
        with(&format!(
            r#""_meta":{{{version},{capabilities}:{{"sampling":true}}}}"#
        )),
        with(&format!(
            r#""_meta":{{{version},{capabilities}:{{}},"progressToken":1.5}}"#
        )),
        with(&format!(
            r#""_meta":{{{version},{capabilities}:{{}},"io.modelcontextprotocol/logLevel":"loud"}}"#
        )),
        with(&format!(
            r#""_meta":{{"io.modelcontextprotocol/protocolVersion":3,{capabilities}:{{}}}}"#
        )),
        with(&format!(
            r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"1900-01-01",{capabilities}:{{}}}}"#
        )),
        with(META),
    ];
    let bodies: Vec<_> = bodies.iter().map(String::as_str).collect();
    insta::assert_snapshot!(outcomes(&bodies), @r###"
1 400 -32602 params._meta is missing; example: "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
1 400 -32602 params._meta is missing; example: "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
1 400 -32602 params._meta has to be an object; example: "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
1 400 -32602 params._meta["io.modelcontextprotocol/protocolVersion"] is missing; example: "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
1 400 -32602 params._meta["io.modelcontextprotocol/clientCapabilities"] is missing; example: "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
1 400 -32602 params._meta["io.modelcontextprotocol/clientCapabilities"] has to be an object; example: "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
1 400 -32602 params._meta: duplicate field `io.modelcontextprotocol/protocolVersion` at line 1 column 97; example: "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
1 400 -32602 params._meta["io.modelcontextprotocol/clientCapabilities"].sampling has to be an object; example: "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
1 400 -32602 params._meta.progressToken has to be a string or an integer of at most 1024 bytes
1 400 -32602 params._meta["io.modelcontextprotocol/logLevel"] has to be one of debug, info, notice, warning, error, critical, alert, emergency
1 400 -32602 params._meta["io.modelcontextprotocol/protocolVersion"] has to be a string; example: "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
1 400 -32022 protocol version `1900-01-01` is not served; send one of `2026-07-28` in the MCP-Protocol-Version header and in params._meta["io.modelcontextprotocol/protocolVersion"] of every request, or open a session with `initialize` for an older one
1 Discover
"###);
}

#[test]
fn methods_of_other_revisions_are_unknown_and_a_handshake_hears_the_versions() {
    let of = |method: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":"a","method":"{method}","params":{{META}}}}"#)
    };
    let mut bodies: Vec<_> = [
        "unknown/method",
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "tasks/list",
        "tasks/result",
        "notifications/initialized",
    ]
    .map(of)
    .into();
    bodies.push(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}"#.into(),
    );
    let bodies: Vec<_> = bodies.iter().map(String::as_str).collect();
    insta::assert_snapshot!(outcomes(&bodies), @r###"
"a" 404 -32601 no method `unknown/method`; server/discover says what this host can do
"a" 404 -32601 no method `initialize`; protocol version 2026-07-28 has no handshake: send every request with its own _meta
"a" 404 -32601 no method `ping`; any request shows that the host is alive, server/discover is the smallest
"a" 404 -32601 no method `logging/setLevel`; a request asks for log messages with params._meta["io.modelcontextprotocol/logLevel"]
"a" 404 -32601 no method `resources/subscribe`; subscriptions/listen replaces it
"a" 404 -32601 no method `tasks/list`; a client keeps the ids of its tasks
"a" 404 -32601 no method `tasks/result`; tasks/get has the result once the task is completed
"a" 404 -32601 no method `notifications/initialized`; protocol version 2026-07-28 has no handshake: send every request with its own _meta
0 400 -32022 protocol version `2025-11-25` is not served; send one of `2026-07-28` in the MCP-Protocol-Version header and in params._meta["io.modelcontextprotocol/protocolVersion"] of every request, or open a session with `initialize` for an older one
"###);
}

#[test]
fn capabilities_say_what_the_client_can_answer() {
    let client = |capabilities: &str| {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{{
                "io.modelcontextprotocol/protocolVersion":"2026-07-28",
                "io.modelcontextprotocol/clientCapabilities":{capabilities}}}}}}}"#
        );
        match read(body.as_bytes(), None) {
            Ok(Some(request)) => request.client,
            other => panic!("{other:?}"),
        }
    };
    let able = |form, url, sampling, roots| Abilities {
        form,
        url,
        sampling,
        roots,
    };
    for (capabilities, abilities) in [
        ("{}", able(false, false, false, false)),
        (r#"{"elicitation":{}}"#, able(true, false, false, false)),
        (r#"{"elicitation":null}"#, able(false, false, false, false)),
        (
            r#"{"elicitation":{"url":{}}}"#,
            able(false, true, false, false),
        ),
        (
            r#"{"elicitation":{"form":{},"url":{}}}"#,
            able(true, true, false, false),
        ),
        (
            r#"{"sampling":{"tools":{}},"roots":{"listChanged":true}}"#,
            able(false, false, true, true),
        ),
    ] {
        assert_eq!(client(capabilities).abilities, abilities, "{capabilities}");
    }
    assert!(!client(r#"{"extensions":{"io.example/other":{}}}"#).takes_tasks);
    assert!(client(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#).takes_tasks);
}

#[test]
fn headers_have_to_say_what_the_body_says() {
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{META}}"#;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"gréet",META}}"#;
    let get = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"abc",META}}"#;
    let bare = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let version = ("MCP-Protocol-Version", "2026-07-28");
    let cases: &[(&str, &[(&str, &str)])] = &[
        (list, &[version, ("Mcp-Method", "tools/list")]),
        (list, &[version, ("mcp-METHOD", "  tools/list  ")]),
        (list, &[version]),
        (list, &[("Mcp-Method", "tools/list")]),
        (list, &[version, ("Mcp-Method", "TOOLS/LIST")]),
        (
            list,
            &[
                ("MCP-Protocol-Version", "v999"),
                ("Mcp-Method", "tools/list"),
            ],
        ),
        (list, &[version, version, ("Mcp-Method", "tools/list")]),
        (bare, &[("MCP-Protocol-Version", "2025-11-25")]),
        (bare, &[version, ("Mcp-Method", "tools/list")]),
        (call, &[version, ("Mcp-Method", "tools/call")]),
        (
            call,
            &[version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "greet")],
        ),
        (
            call,
            &[
                version,
                ("Mcp-Method", "tools/call"),
                ("Mcp-Name", "=?base64?Z3LDqWV0?="),
            ],
        ),
        (
            call,
            &[
                version,
                ("Mcp-Method", "tools/call"),
                ("Mcp-Name", "=?base64?Z3LDqWV0!?="),
            ],
        ),
        (get, &[version, ("Mcp-Method", "tasks/get")]),
        (
            get,
            &[version, ("Mcp-Method", "tasks/get"), ("Mcp-Name", "abc")],
        ),
        (
            get,
            &[version, ("Mcp-Method", "tasks/get"), ("Mcp-Name", "abd")],
        ),
    ];
    let text: Vec<_> = cases
        .iter()
        .map(|(body, pairs)| outcome(body, Some(&headers(pairs))))
        .collect();
    insta::assert_snapshot!(text.join("\n"), @r###"
1 ToolsList
1 ToolsList
1 400 -32020 header mismatch: Mcp-Method is missing; send `Mcp-Method: tools/list`
1 400 -32020 header mismatch: MCP-Protocol-Version is missing; send `MCP-Protocol-Version: 2026-07-28`
1 400 -32020 header mismatch: Mcp-Method is `TOOLS/LIST`, but method of the body is `tools/list`
1 400 -32020 header mismatch: MCP-Protocol-Version is `v999`, but _meta["io.modelcontextprotocol/protocolVersion"] of the body is `2026-07-28`
1 400 -32020 header mismatch: MCP-Protocol-Version is sent twice
1 400 -32022 protocol version `2025-11-25` is not served; send one of `2026-07-28` in the MCP-Protocol-Version header and in params._meta["io.modelcontextprotocol/protocolVersion"] of every request, or open a session with `initialize` for an older one
1 400 -32602 params._meta is missing; example: "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
1 400 -32020 header mismatch: Mcp-Name is missing; send `Mcp-Name: =?base64?Z3LDqWV0?=`
1 400 -32020 header mismatch: Mcp-Name is `greet`, but params.name of the body is `gréet`
1 ToolsCall
1 400 -32020 header mismatch: Mcp-Name is not padded Base64 of UTF-8 between `=?base64?` and `?=`
1 TasksGet
1 TasksGet
1 400 -32020 header mismatch: Mcp-Name is `abd`, but params.taskId of the body is `abc`
"###);
}

/// Requests as clients send them, of every method that has parameters of its own.
fn requests() -> Vec<String> {
    let of = |method: &str, params: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}"_meta":{{
                "io.modelcontextprotocol/protocolVersion":"2026-07-28",
                "io.modelcontextprotocol/clientCapabilities":{{"elicitation":{{"form":{{}}}},"extensions":{{"io.modelcontextprotocol/tasks":{{}}}}}},
                "io.modelcontextprotocol/logLevel":"debug","progressToken":"p",
                "traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}}}}}"#
        )
    };
    vec![
        of("server/discover", ""),
        of("tools/list", r#""cursor":"tool","#),
        of(
            "tools/call",
            r#""name":"gr\u00e9et","arguments":{"a":[1,{"b":null}]},"inputResponses":{"go":{"action":"accept","content":{"ok":true}}},"requestState":"abc","#,
        ),
        of("tasks/get", r#""taskId":"x","#),
        of("tasks/cancel", r#""taskId":"x","#),
        of("tasks/update", r#""taskId":"x","inputResponses":{"go":{"action":"decline"}},"#),
        of("resources/read", r#""uri":"world://text","#),
        of("prompts/get", r#""name":"greet","arguments":{"name":"ada"},"#),
        of(
            "completion/complete",
            r#""ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"name","value":"a"},"context":{"arguments":{}},"#,
        ),
        of("subscriptions/listen", r#""notifications":{"toolsListChanged":true},"#),
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#.into(),
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}"#.into(),
    ]
}

const WORDS: &[&str] = &[
    "2.0",
    "id",
    "method",
    "params",
    "_meta",
    "name",
    "uri",
    "taskId",
    "tools/call",
    "resources/read",
    "notifications/cancelled",
    "2026-07-28",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
];

#[test]
fn harm_to_a_message_gets_past_the_first_look() {
    let harm = (prop::sample::select(requests()), changes(WORDS));
    let taken = count_taken(harm, |(message, changes)| {
        let whole: serde_json::Value = serde_json::from_str(&message).unwrap();
        read(changed(&whole, &changes).to_string().as_bytes(), None).is_ok()
    });
    assert!((60..240).contains(&taken), "{taken}");
}

proptest! {
    #[test]
    fn whatever_comes_is_a_request_or_refused_in_words(
        noise: Vec<u8>,
        message in prop::sample::select(requests()),
        changes in changes(WORDS),
        edits in edits(),
    ) {
        let whole: serde_json::Value = serde_json::from_str(&message).unwrap();
        let other = changed(&whole, &changes).to_string();
        for body in [&noise, &edited(message.as_bytes(), &edits), &edited(other.as_bytes(), &edits)] {
            let _ = Head::read(body);
            let _ = is_handshake(body);
            match read(body, None) {
                Err(Rejection { refusal, .. }) => {
                    prop_assert!(!refusal.face().message.is_empty());
                }
                // What is taken is what other readers of JSON find there, unless they refuse a number
                // or an escape in a part that nobody reads.
                Ok(taken) => {
                    let Ok(found) = serde_json::from_slice::<serde_json::Value>(body) else {
                        continue;
                    };
                    prop_assert_eq!(&found["jsonrpc"], "2.0");
                    if let Some(request) = taken {
                        prop_assert_eq!(&found["method"], request.method.as_str());
                        let id: serde_json::Value = serde_json::from_str(request.id.as_json()).unwrap();
                        prop_assert_eq!(&found["id"], &id);
                    }
                }
            }
        }
    }

    /// Whoever routes by the headers sees what is executed.
    #[test]
    fn a_message_that_is_taken_is_what_its_headers_say(
        message in prop::sample::select(requests()),
        changes in changes(WORDS),
        said in prop::sample::select(requests()),
        edits in edits(),
    ) {
        let whole: serde_json::Value = serde_json::from_str(&message).unwrap();
        let body = changed(&whole, &changes).to_string();
        // Half of the time they are of the message itself, so that more than a few are taken.
        let said: serde_json::Value = serde_json::from_str(if edits.len() % 2 == 0 { &message } else { &said }).unwrap();
        let params = &said["params"];
        let name = params["name"].as_str().or(params["uri"].as_str()).or(params["taskId"].as_str());
        let version = params["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str();
        let mut headers = HeaderMap::new();
        for (header, value) in [
            ("mcp-method", said["method"].as_str()),
            ("mcp-protocol-version", version),
            ("mcp-name", name),
        ] {
            let value = headers::encode(value.unwrap_or_default()).into_owned();
            let edited = match edits.len() {
                0 | 1 => value.into_bytes(),
                _ => edited(value.as_bytes(), &edits[1..]),
            };
            if let Ok(value) = HeaderValue::from_bytes(&edited) {
                headers.append(header, value);
            }
        }
        if let Ok(Some(request)) = read(body.as_bytes(), Some(&headers)) {
            let value = |name: &str| headers[name].to_str().unwrap().trim();
            prop_assert_eq!(value("mcp-method"), request.method.as_str());
            prop_assert_eq!(value("mcp-protocol-version"), "2026-07-28");
            let named = request.params.name.or(request.params.uri).and_then(text_of);
            let is_named = matches!(request.method, Method::ToolsCall | Method::PromptsGet);
            if let (true, Some(named)) = (is_named, named) {
                prop_assert_eq!(headers::decode("Mcp-Name", value("mcp-name")).unwrap(), named);
            }
        }
    }
}
