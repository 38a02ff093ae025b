//! The modern era's methods.

use serde_json::{Value, json};

use super::{list, prompt, read, text_of, world};
use crate::harness::{Client, Reply};

#[tokio::test]
async fn lists_show_what_the_plugin_declares_and_may_be_kept() {
    let setup = world();
    let host = setup.start().await;
    let client = host.client();
    let uris = list(&client, "resources/list", "resources", "uri").await;
    assert!(uris.is_sorted(), "{uris:?}");
    assert!(uris.contains(&"world://text".to_owned()));
    let templates = list(
        &client,
        "resources/templates/list",
        "resourceTemplates",
        "uriTemplate",
    );
    assert_eq!(
        templates.await,
        ["world://item/{id}", "world://{room}/x/{y}"]
    );
    let listed = client.request("prompts/list", json!({})).await.result();
    assert_eq!(listed["ttlMs"], 300_000);
    assert_eq!(listed["cacheScope"], "private");
    let greet = &listed["prompts"][1];
    assert_eq!(greet["name"], "greet");
    assert_eq!(
        greet["arguments"],
        json!([{"name": "name", "required": true}, {"name": "tone", "required": false}])
    );
    let host = client.request("server/discover", json!({})).await.result();
    let capabilities = &host["capabilities"];
    assert_eq!(
        capabilities["resources"],
        json!({"listChanged": true, "subscribe": true})
    );
    assert_eq!(capabilities["prompts"], json!({"listChanged": true}));
    assert_eq!(capabilities["completions"], json!({}));
    assert_eq!(capabilities["logging"], json!({}));
}

#[tokio::test]
async fn a_resource_is_read_by_its_uri_or_by_a_template_it_fits() {
    let setup = world();
    let host = setup.start().await;
    let client = host.client();
    let result = read(&client, "world://text").await.result();
    assert_eq!(result["resultType"], "complete");
    assert_eq!(
        result["contents"],
        json!([{"uri": "world://text", "mimeType": "text/plain", "text": "read for local"}])
    );
    assert_eq!(
        (&result["ttlMs"], &result["cacheScope"]),
        (&json!(0), &json!("private"))
    );
    let result = read(&client, "world://binary").await.result();
    assert_eq!(
        result["contents"],
        json!([{"uri": "world://binary", "blob": "AAE="}, {"uri": "world://second", "blob": "/w=="}])
    );
    for uri in ["world://item/7", "world://item/x", "world://hall/x/9"] {
        assert_eq!(text_of(&client, uri).await, format!("made of {uri}"));
    }
}

#[tokio::test]
async fn what_nobody_serves_is_an_unknown_resource_and_says_which() {
    let setup = world();
    let host = setup.start().await;
    let client = host.client();
    let unknown = [
        "world://nothing",
        // It fits a template, and the plugin has none.
        "world://item/none",
        "world://item/",
        "world://item/a/b",
        "longshore://result/1",
        "",
        "../../etc/passwd",
    ];
    for uri in unknown {
        let reply = read(&client, uri).await;
        assert_eq!((reply.status, reply.code()), (200, -32602), "{uri}");
        assert_eq!(reply.body["error"]["data"], json!({ "uri": uri }));
    }
    let reply = read(&client, "world://item/broken").await;
    assert_eq!(reply.code(), 7);
    assert_eq!(reply.body["error"]["message"], "the shelf is broken");
    for params in [json!({}), json!({"uri": 7})] {
        let reply = client.request("resources/read", params).await;
        assert_eq!(reply.code(), -32602);
    }
}

#[tokio::test]
async fn headers_have_to_name_what_is_read_or_got() {
    let setup = world();
    let host = setup.start().await;
    let client = host.client();
    for (method, params) in [
        ("resources/read", json!({"uri": "world://text"})),
        ("prompts/get", json!({"name": "wrong"})),
    ] {
        let body = client.body(method, params).to_string();
        let version = ("mcp-protocol-version", "2026-07-28");
        let headers = [version, ("mcp-method", method)];
        let missing = client.raw(body.clone(), &headers).await;
        assert_eq!((missing.status, missing.code()), (400, -32020), "{method}");
        let wrong = [version, ("mcp-method", method), ("mcp-name", "other")];
        let wrong = client.raw(body, &wrong).await;
        assert_eq!((wrong.status, wrong.code()), (400, -32020), "{method}");
    }
}

#[tokio::test]
async fn a_prompt_is_got_with_arguments_that_were_checked() {
    let setup = world();
    let host = setup.start().await;
    let client = host.client();
    let got = prompt(&client, "greet", json!({"tone": "dry", "name": "Ada"})).await;
    let result = got.result();
    assert_eq!(result["description"], "the prompt greet");
    let said = &result["messages"];
    assert_eq!(said[0]["role"], "user");
    assert_eq!(
        said[0]["content"]["text"],
        r#"[("name", "Ada"), ("tone", "dry")]"#
    );
    assert_eq!(said[1]["role"], "assistant");

    for (name, arguments, words) in [
        ("nobody", json!({}), "no prompt is called `nobody`"),
        ("greet", json!({}), "`name` is missing"),
        ("greet", json!({"name": "a", "age": "b"}), "no `age`"),
        ("greet", json!({"name": 7}), "strings"),
        ("greet", json!([]), "has to be an object"),
        ("wrong", json!({}), "nothing pleases it"),
    ] {
        let reply = prompt(&client, name, arguments).await;
        assert_eq!((reply.status, reply.code()), (200, -32602), "{name}");
        let message = reply.body["error"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{message}");
    }
}

fn completing(reference: Value, argument: &str, value: &str) -> Value {
    json!({"ref": reference, "argument": {"name": argument, "value": value}})
}

#[tokio::test]
async fn arguments_are_completed_by_the_plugin_that_has_them() {
    let setup = world();
    let host = setup.start().await;
    let client = host.client();
    let complete = |params: Value| client.request("completion/complete", params);
    let greet = json!({"type": "ref/prompt", "name": "greet"});
    let mut params = completing(greet.clone(), "name", "a");
    params["context"] = json!({"arguments": {"tone": "dry", "other": "left out"}});
    let result = complete(params).await.result();
    assert_eq!(result["resultType"], "complete");
    assert_eq!(
        result["completion"],
        json!({"values": ["ada", "alan", r#"greet [("tone", "dry")]"#], "total": 3, "hasMore": false})
    );

    let item = json!({"type": "ref/resource", "uri": "world://item/{id}"});
    let result = complete(completing(item.clone(), "id", "n")).await.result();
    let completion = &result["completion"];
    assert_eq!(completion["values"].as_array().unwrap().len(), 100);
    assert_eq!(completion["total"], 150);
    assert_eq!(completion["hasMore"], true);

    let text = json!({"type": "ref/resource", "uri": "world://text"});
    let nobody = json!({"type": "ref/prompt", "name": "nobody"});
    for params in [
        completing(greet.clone(), "age", ""),
        completing(item, "room", ""),
        completing(text, "id", ""),
        completing(nobody, "name", ""),
        completing(json!({"type": "ref/tool", "name": "speak"}), "a", ""),
        completing(json!({"type": "ref/prompt"}), "a", ""),
        json!({"ref": greet}),
        json!({"ref": greet, "argument": {"name": "name"}}),
        json!({}),
    ] {
        let reply = complete(params.clone()).await;
        assert_eq!((reply.status, reply.code()), (200, -32602), "{params}");
    }
}

/// Answers a round's question and returns the next reply.
async fn answer(
    client: &Client,
    method: &str,
    mut params: Value,
    round: &Value,
    key: &str,
) -> Reply {
    params["requestState"] = round["requestState"].clone();
    params["inputResponses"] = json!({key: {"action": "accept", "content": {"name": "Ada"}}});
    client.request(method, params).await
}

#[tokio::test]
async fn a_resource_and_a_prompt_may_ask_in_rounds_bound_to_what_was_asked_for() {
    let setup = world();
    let host = setup.start().await;
    let client = host.client();
    for (method, params, key) in [
        ("resources/read", json!({"uri": "world://ask"}), "name"),
        ("prompts/get", json!({"name": "ask"}), "who"),
    ] {
        let round = client.request(method, params.clone()).await.result();
        assert_eq!(round["resultType"], "input_required");
        assert!(round.get("ttlMs").is_none(), "{round:#}");
        let request = &round["inputRequests"][key];
        assert_eq!(request["method"], "elicitation/create");
        let done = answer(&client, method, params, &round, key).await.result();
        assert_eq!(done["resultType"], "complete");
        assert!(done.to_string().contains("Ada"), "{done:#}");

        // What was given out for one thing is worth nothing for another.
        let other = match method {
            "resources/read" => json!({"uri": "world://text"}),
            _ => json!({"name": "wrong"}),
        };
        let refused = answer(&client, method, other, &round, key).await;
        assert_eq!(refused.code(), -32602);
        let message = refused.body["error"]["message"].as_str().unwrap();
        assert!(message.contains("requestState"), "{message}");
    }
    let silent = client.declaring(json!({}));
    let reply = read(&silent, "world://ask").await;
    let message = reply.body["error"]["message"].as_str().unwrap();
    assert!(message.contains("MissingCapability"), "{message}");
}

/// The reply once the tenant has a place for a call.
async fn with_room(client: &Client, method: &str, params: Value) -> Reply {
    loop {
        let reply = client.request(method, params.clone()).await;
        if reply.code() != -31000 {
            return reply;
        }
    }
}

#[tokio::test]
async fn a_hostile_resource_hurts_only_whoever_reads_it() {
    let setup = world().configure("[limits]\nread_timeout_ms = 300\ntenant_calls_running_max = 2");
    let host = setup.start().await;
    let client = host.client();
    let tone = json!({"type": "ref/prompt", "name": "greet"});
    let spin = completing(tone, "tone", "");
    // As often as there are places and once more: what was given up gives its place back.
    for _ in 0..3 {
        for (method, params) in [
            ("resources/read", json!({"uri": "world://spin"})),
            ("completion/complete", spin.clone()),
        ] {
            let reply = with_room(&client, method, params).await;
            assert_eq!(reply.code(), -32603, "{:#}", reply.body);
            let message = reply.body["error"]["message"].as_str().unwrap();
            assert!(message.contains("did not answer within 300ms"), "{message}");
        }
        let text = json!({"uri": "world://text"});
        let reply = with_room(&client, "resources/read", text).await;
        assert_eq!(reply.code(), 0, "{:#}", reply.body);
    }
    for (uri, words) in [
        ("world://huge", "1048576"),
        ("world://trap", "the page is torn"),
    ] {
        let reply = with_room(&client, "resources/read", json!({"uri": uri})).await;
        assert_eq!(reply.code(), -32603);
        let message = reply.body["error"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test]
async fn a_read_whose_client_leaves_is_stopped_and_gives_its_place_back() {
    let setup = world().configure("[limits]\ntenant_calls_running_max = 1");
    let host = setup.start().await;
    let client = host.client();
    let params = json!({"uri": "world://spin", "_meta": {"progressToken": "t"}});
    let stream = client.stream("resources/read", params).await;
    assert_eq!(read(&client, "world://text").await.code(), -31000);
    drop(stream);
    let text = json!({"uri": "world://text"});
    let reply = with_room(&client, "resources/read", text).await;
    assert_eq!(reply.code(), 0, "{:#}", reply.body);
}

#[tokio::test]
async fn progress_of_a_read_goes_on_its_own_stream() {
    let setup = world();
    let host = setup.start().await;
    let client = host.client();
    let params = json!({"uri": "world://speak", "_meta": {"progressToken": "t"}});
    let mut messages = client.stream("resources/read", params).await;
    let told = messages.next().await.unwrap();
    assert_eq!(told["method"], "notifications/progress");
    assert_eq!(told["params"]["progressToken"], "t");
    assert_eq!(told["params"]["total"], 2);
    let answer = messages.next().await.unwrap();
    assert_eq!(answer["result"]["contents"][0]["text"], "spoken");
}
