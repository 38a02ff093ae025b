//! Bad input from every side: requests, plugins, configurations and the machine. Each gets an error
//! that says what to do, and the host goes on.

use std::fs;
use std::path::Path;

use longshore_guests::{CONFORMANCE, SCRIPT};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{Client, Ended, Host, Setup, longshore, run};

const VERSION: (&str, &str) = ("mcp-protocol-version", "2026-07-28");

fn scripts() -> Setup {
    Setup::new(&[("script", &SCRIPT.directory())])
}

/// Whether the host still does its work.
async fn check_alive(client: &Client) {
    let operations = json!([{"do": "say", "text": "alive"}]);
    let result = client
        .call("script_inline", json!({"script": operations}))
        .await;
    assert_eq!(result["content"][0]["text"], "alive");
}

#[tokio::test]
async fn a_tool_that_is_not_there_is_named() {
    let setup = scripts();
    let host = setup.start().await;
    let params = json!({"name": "script_inlin", "arguments": {}});
    let reply = host.client().request("tools/call", params).await;
    assert_eq!((reply.status, reply.code()), (200, -32602));
    insta::assert_snapshot!(reply.body["error"]["message"].as_str().unwrap(), @"no tool is called `script_inlin`; tools/list has the names");
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_told_with_their_paths() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let mut told = Vec::new();
    for arguments in [
        json!({}),
        json!({"script": [], "scirpt": []}),
        json!({"script": "say"}),
    ] {
        for tool in ["script_inline", "script_resume"] {
            let result = client.call(tool, arguments.clone()).await;
            assert_eq!(result["isError"], true, "{result:#}");
            let text = result["content"][0]["text"].as_str().unwrap();
            told.push(text.replace(tool, "TOOL"));
        }
    }
    told.dedup();
    insta::assert_snapshot!(told.join("\n"), @r#"
    the arguments do not fit the inputSchema of `TOOL`: /script: is missing
    the arguments do not fit the inputSchema of `TOOL`: /scirpt: is not known
    the arguments do not fit the inputSchema of `TOOL`: /script: "say" is not of type "array"
    "#);

    // Deeper down the path leads there.
    let arguments = json!({"script": [{"do": "say", "text": 7}]});
    let result = client.call("script_inline", arguments).await;
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("/script/0"), "{text}");

    for params in [
        json!({"arguments": {}}),
        json!({"name": 7}),
        json!({"name": "script_inline", "arguments": []}),
        json!({"name": "script_inline", "requestState": 7}),
        json!({"name": "script_inline", "inputResponses": []}),
    ] {
        let mut body = client.body("tools/call", params.clone());
        body["id"] = json!("a");
        let headers = [
            VERSION,
            ("mcp-method", "tools/call"),
            ("mcp-name", "script_inline"),
        ];
        let reply = client.raw(body.to_string(), &headers).await;
        assert_eq!((reply.status, reply.code()), (200, -32602), "{params}");
        assert_eq!(reply.body["id"], "a");
    }
    check_alive(&client).await;
}

/// Each item fits none of many alternatives, and each alternative has its own reason.
#[tokio::test]
async fn many_faults_at_once_cost_no_more_than_one() {
    let setup = scripts();
    let host = setup.start().await;
    let items: Vec<Value> = (0..30_000)
        .map(|n| json!({"do": format!("bogus{n}")}))
        .collect();
    let client = host.client();
    let result = client.call("script_inline", json!({"script": items})).await;
    assert_eq!(result["isError"], true, "{result:#}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("/script/0"), "{text}");
    let peak = host.memory_peak_bytes();
    assert!(peak < 400 << 20, "{peak} bytes");
}

#[tokio::test]
async fn a_name_in_the_header_that_is_not_the_bodys_is_refused() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let body = client.body("tools/call", json!({"name": "script_inline"}));
    let mut told = Vec::new();
    for name in [Some("script_auto"), Some("=?base64?!?="), None] {
        let mut headers = vec![VERSION, ("mcp-method", "tools/call")];
        headers.extend(name.map(|name| ("mcp-name", name)));
        let reply = client.raw(body.to_string(), &headers).await;
        assert_eq!((reply.status, reply.code()), (400, -32020), "{name:?}");
        told.push(reply.body["error"]["message"].as_str().unwrap().to_owned());
    }
    insta::assert_snapshot!(told.join("\n"), @r"
    header mismatch: Mcp-Name is `script_auto`, but params.name of the body is `script_inline`
    header mismatch: Mcp-Name is not padded Base64 of UTF-8 between `=?base64?` and `?=`
    header mismatch: Mcp-Name is missing; send `Mcp-Name: script_inline`
    ");
}

#[tokio::test]
async fn arguments_as_deep_as_a_message_may_be_hurt_nobody() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    for depth in [50, 90, 5_000] {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let body = client
            .body(
                "tools/call",
                json!({"name": "script_inline", "arguments": {"script": "DEEP"}}),
            )
            .to_string()
            .replace("\"DEEP\"", &deep);
        let headers = [
            VERSION,
            ("mcp-method", "tools/call"),
            ("mcp-name", "script_inline"),
        ];
        let reply = client.raw(body, &headers).await;
        match depth {
            5_000 => assert_eq!((reply.status, reply.code()), (400, -32700)),
            _ => assert_eq!(reply.body["result"]["isError"], true, "{:#}", reply.body),
        }
    }
    check_alive(&client).await;
}

/// Sends bytes on a connection of its own and reads until the host closes it.
async fn exchange(host: &Host, sent: &[u8]) -> String {
    let address = host.url().strip_prefix("http://").unwrap();
    let address = address.strip_suffix("/mcp").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent).await.unwrap();
    let mut answer = Vec::new();
    // A host that closes with data unread resets the connection; what came before counts.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_given_up() {
    let setup = scripts().configure("[limits]\nrequest_body_timeout_ms = 100");
    let host = setup.start().await;
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                Content-Type: application/json\r\n";
    let slow = format!("{head}Content-Length: 100\r\n\r\n{{\"jsonrpc\"");
    let answer = exchange(&host, slow.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("did not arrive within 100ms"), "{answer}");

    // A body without an end is read up to the limit, whatever it says of its length.
    let endless = format!(
        "{head}Transfer-Encoding: chunked\r\n\r\n200000\r\n{}",
        "x".repeat(0x200000)
    );
    let answer = exchange(&host, endless.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    check_alive(&host.client()).await;
}

#[tokio::test]
async fn an_encoded_body_is_refused_with_what_to_do() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let reply = client.raw("\u{1f}", &[("content-encoding", "gzip")]).await;
    assert_eq!(reply.status, 415);
    assert_eq!(reply.headers["accept-encoding"], "identity");
    insta::assert_snapshot!(reply.body["error"]["message"].as_str().unwrap(), @"a body encoded as `gzip` is not read; send it as it is, without Content-Encoding");
    check_alive(&client).await;
}

#[tokio::test]
async fn a_request_with_two_lengths_is_the_last_on_its_connection() {
    let setup = scripts();
    let host = setup.start().await;
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let body = "2\r\n{}\r\n0\r\n\r\n";
    let smuggled = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let length = format!("Content-Length: {}\r\n", body.len() + smuggled.len());
    let chunked = "Transfer-Encoding: chunked\r\n".to_owned();
    for lengths in [length.clone() + &chunked, chunked + &length] {
        let sent = format!("{head}{lengths}\r\n{body}{smuggled}");
        let answer = exchange(&host, sent.as_bytes()).await;
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
        assert!(!answer.contains("alive"), "{answer}");
    }
    check_alive(&host.client()).await;
}

#[tokio::test]
async fn a_body_in_any_coding_but_plain_chunks_is_refused_and_the_last_on_its_connection() {
    let setup = scripts();
    let host = setup.start().await;
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let rest = "\r\n2\r\n{}\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for codings in [
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    ] {
        let answer = exchange(&host, format!("{head}{codings}{rest}").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 501"), "{codings}{answer}");
        assert!(!answer.contains("alive"), "{codings}{answer}");
    }
    check_alive(&host.client()).await;
}

#[tokio::test]
async fn a_token_that_no_tenant_has_a_use_for_is_told_to_the_operator_once() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client().with_token("s3cret");
    check_alive(&client).await;
    check_alive(&client).await;
    host.until_said("this host has no tenants").await;
    let output = host.output();
    assert_eq!(output.matches("no tenants").count(), 1, "{output}");
    assert!(!output.contains("s3cret"), "{output}");
}

#[tokio::test]
async fn what_is_not_http_is_dropped() {
    let setup = scripts();
    let host = setup.start().await;
    let answer = exchange(&host, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n").await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
        "{answer}"
    );
    check_alive(&host.client()).await;
}

/// Writes a plugin's directory.
fn install(setup: &Setup, name: &str, manifest: &str, component: Option<&[u8]>) {
    let folder = setup.path("plugins").join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("plugin.toml"), manifest).unwrap();
    if let Some(component) = component {
        fs::write(folder.join("a.wasm"), component).unwrap();
    }
}

fn manifest(name: &str) -> String {
    format!("name = \"{name}\"\nversion = \"1.0.0\"\ncomponent = \"a.wasm\"\n")
}

/// A component whose schema does not say that it is one of an object.
fn with_broken_schema() -> Vec<u8> {
    let mut wasm = fs::read(CONFORMANCE.component()).unwrap();
    let (old, new) = (br#""type": "object""#, br#""type": "number""#);
    let at = wasm.windows(old.len()).position(|window| window == old);
    let at = at.expect("a schema is part of the component as it is");
    wasm[at..at + old.len()].copy_from_slice(new);
    wasm
}

#[tokio::test]
async fn plugins_that_cannot_be_used_are_told_and_the_others_serve() {
    let setup = scripts();
    let text = |text: &str| wat::parse_str(text).unwrap();
    let junk: [(&str, Option<Vec<u8>>); 6] = [
        ("no-wasm", Some(b"#!/bin/sh\n".to_vec())),
        ("empty", Some(Vec::new())),
        ("core-module", Some(text("(module)"))),
        ("wrong-world", Some(text("(component)"))),
        ("broken-schema", Some(with_broken_schema())),
        ("no-file", None),
    ];
    for (name, component) in &junk {
        install(&setup, name, &manifest(name), component.as_deref());
    }
    let wasm = fs::read(SCRIPT.component()).unwrap();
    install(
        &setup,
        "broken-toml",
        "name = \"broken-toml\nversion",
        Some(&wasm),
    );
    let unknown_key = format!("{}grant = []\n", manifest("unknown-key"));
    install(&setup, "unknown-key", &unknown_key, Some(&wasm));
    install(&setup, "script-again", &manifest("script"), Some(&wasm));

    let host = setup.start().await;
    check_alive(&host.client()).await;
    let output = host.output();
    let directory = setup.directory().display().to_string();
    let mut told: Vec<String> = output
        .lines()
        .filter_map(|line| line.split_once("ERROR "))
        .map(|(_, what)| what.replace(&directory, "DIR"))
        .collect();
    told.sort();
    insta::assert_snapshot!(told.join("\n"), @r#"
    plugin not loaded: DIR/plugins/broken-toml/plugin.toml:2: key with no value, expected `=` plugin="broken-toml"
    plugin not loaded: DIR/plugins/unknown-key/plugin.toml:4: unknown key `grant`, did you mean `grants`? Known here: name, version, description, component, grants plugin="unknown-key"
    plugin not loaded: another plugin is called `script`, too; change the name in one plugin.toml plugin="script (script-again)"
    plugin not loaded: the component DIR/plugins/no-file/a.wasm is missing; build the plugin with `longshore plugin build` plugin="no-file"
    plugin not loaded: the component does not export `longshore:plugin/tools@0.1.0`; it exports nothing; build it against this host's `wit/` plugin="wrong-world"
    plugin not loaded: this is a core module and not a component; build it for `wasm32-wasip2`, or wrap it with `jco new` plugin="core-module"
    plugin not loaded: this is not WebAssembly; build the plugin with `longshore plugin build` plugin="empty"
    plugin not loaded: this is not WebAssembly; build the plugin with `longshore plugin build` plugin="no-wasm"
    plugin not loaded: tool `json_schema_2020_12_tool`: its input schema: /: the schema must be an object with `"type": "object"` plugin="broken-schema"
    "#);
}

/// Runs `longshore serve` with a set-up that can't be served.
async fn refused(setup: &Setup) -> Ended {
    let mut command = setup.serve_command();
    command.stdout(std::process::Stdio::piped());
    run(command).await
}

#[tokio::test]
async fn a_busy_port_is_said_to_be_busy() {
    let setup = Setup::new(&[]);
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let data = setup.path("data");
    let plugins = setup.path("plugins");
    let ended = run(longshore(&[
        "serve",
        "--listen",
        &address,
        "--data-dir",
        data.to_str().unwrap(),
        "--plugins",
        plugins.to_str().unwrap(),
    ]))
    .await;
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    let message = ended
        .message(setup.directory())
        .replace(&address, "ADDRESS");
    insta::assert_snapshot!(message, @"error: can't listen on ADDRESS; choose another with --listen ADDRESS:PORT: Address already in use (os error 98)");
}

#[tokio::test]
async fn a_data_directory_in_use_is_said_to_be_in_use() {
    let setup = scripts();
    let host = setup.start().await;
    let ended = refused(&setup).await;
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    insta::assert_snapshot!(ended.message(setup.directory()), @"error: another process uses the data directory DIR/data/store; stop it, or choose another with --data-dir");
    // The first one has lost nothing.
    check_alive(&host.client()).await;
}

#[tokio::test]
async fn a_data_directory_that_is_a_file_is_refused() {
    let setup = Setup::new(&[]);
    let file = setup.path("file");
    fs::write(&file, "mine").unwrap();
    let file = file.to_str().unwrap();
    let ended = run(longshore(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        file,
    ]))
    .await;
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    insta::assert_snapshot!(ended.message(setup.directory()), @"error: can't make the data directory DIR/file; see --data-dir: File exists (os error 17)");
    assert_eq!(fs::read_to_string(file).unwrap(), "mine");
}

/// What a configuration is refused with.
async fn refusal(toml: &str) -> String {
    let setup = Setup::new(&[]).configure(toml);
    let ended = refused(&setup).await;
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    ended.message(setup.directory())
}

#[tokio::test]
async fn a_configuration_that_is_wrong_is_told_where_and_what_would_be_right() {
    let mut told = Vec::new();
    for toml in [
        "lisen = \"127.0.0.1:0\"",
        "[limits]\n\ncall_grace = 5",
        "[limits]\ncall_grace_ms = -1",
        "[limits]\nmemory_max_bytes = 1",
        "listen = \"somewhere\"",
        "[[tenant]]\nname = \"Acme Inc\"\ntoken_sha256 = \"\"",
        "[[tenant]]\nname = \"acme\"\ntoken_sha256 = \"secret\"",
        "[plugin.a.grants.directories]\ninput = { path = \"/data\", access = \"all\" }",
        "[plugin.a.grants]\nhttp = [\"https://*.example.com\"]",
        "[plugin.a.grants]\ndirectories.all = { path = \".\", access = \"read\" }",
        "listen = ",
    ] {
        let message = refusal(toml).await;
        // The list of what is known grows with the host.
        let (message, _) = message.split_once(" Known here").unwrap_or((&message, ""));
        told.push(message.to_owned());
    }
    insta::assert_snapshot!(told.join("\n"), @r"
    error: DIR/longshore.toml:1: unknown key `lisen`, did you mean `listen`?
    error: DIR/longshore.toml:3: unknown key `call_grace`, did you mean `call_grace_ms`?
    error: DIR/longshore.toml:2: invalid value: integer `-1`, expected u64
    error: DIR/longshore.toml:2: memory_max_bytes is 1; it must be from 1048576 to 4294967296
    error: DIR/longshore.toml:1: `somewhere` is not an address to listen on; write ADDRESS:PORT, like 127.0.0.1:7331
    error: DIR/longshore.toml:2: `Acme Inc` names no tenant: a tenant name is 1 to 64 of a-z, 0-9, `-` and `_`
    error: DIR/longshore.toml:3: token_sha256 is the SHA-256 of a token, 64 hexadecimal digits; `longshore tenant add NAME` writes it
    error: DIR/longshore.toml:2: unknown variant `all`, expected `read` or `write`
    error: DIR/longshore.toml:2: `https://*.example.com` gives a pattern of hosts; name each host
    error: DIR/longshore.toml:2: the directory `all` (DIR) holds the data directory (DIR/data), and keys, tasks and answers of every tenant are in there; give it a place that is apart from the host's own
    error: DIR/longshore.toml:1: string values must be quoted, expected literal string
    ");
}

#[tokio::test]
async fn a_configuration_that_is_not_there_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("no.toml");
    let ended = run(longshore(&["serve", "--config", file.to_str().unwrap()])).await;
    assert_eq!(ended.code, 2);
    insta::assert_snapshot!(ended.message(directory.path()), @"error: can't read the configuration DIR/no.toml: No such file or directory (os error 2)");
}

#[tokio::test]
async fn an_address_that_others_reach_needs_tenants() {
    let setup = Setup::new(&[]);
    let path = |name: &str| setup.path(name).to_str().unwrap().to_owned();
    let ended = run(longshore(&[
        "serve",
        "--listen",
        "0.0.0.0:0",
        "--data-dir",
        &path("new"),
        "--plugins",
        &path("plugins"),
    ]))
    .await;
    assert_eq!(ended.code, 2);
    insta::assert_snapshot!(ended.message(setup.directory()), @"error: refusing to listen on 0.0.0.0:0 without tenants: whoever reaches that address could run every tool. Add one with `longshore tenant add NAME`, or listen on 127.0.0.1");
    assert!(!Path::new(&path("new")).exists(), "nothing was begun");
}

#[tokio::test]
async fn a_request_that_goes_wrong_leaves_the_hosts_output_clean() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    for body in [
        "",
        "{",
        "[]",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\\u0000\"}",
    ] {
        let reply = client.raw(body, &[]).await;
        assert_eq!(reply.status, 400, "{body}");
        assert_ne!(reply.body["error"]["message"], Value::Null, "{body}");
    }
    let output = host.output();
    assert!(
        !output.contains("panicked") && !output.contains("ERROR"),
        "{output}"
    );
}
