//! The same for clients of the handshake revisions.

use serde_json::{Value, json};

use super::{install_variant, world};
use crate::harness::{Host, LegacyClient};

async fn open(host: &Host) -> LegacyClient {
    LegacyClient::open(host.url(), "2025-11-25").await
}

#[tokio::test]
async fn the_lists_are_those_of_the_modern_era() {
    let setup = world();
    let host = setup.start().await;
    let modern = host.client();
    for version in ["2025-11-25", "2025-06-18", "2025-03-26"] {
        let client = LegacyClient::open(host.url(), version).await;
        let capabilities = &client.initialized["capabilities"];
        assert_eq!(
            capabilities["resources"],
            json!({"listChanged": true, "subscribe": true})
        );
        assert_eq!(capabilities["prompts"], json!({"listChanged": true}));
        assert_eq!(capabilities["completions"], json!({}));
        for (method, member) in [
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
            ("prompts/list", "prompts"),
        ] {
            let theirs = client.request(method, json!({})).await;
            let ours = modern.request(method, json!({})).await.result();
            assert_eq!(theirs["result"][member], ours[member], "{version} {method}");
        }
    }
}

#[tokio::test]
async fn resources_prompts_and_suggestions_are_answered_within_the_request() {
    let setup = world();
    let host = setup.start().await;
    let client = open(&host).await;
    let read = client
        .request("resources/read", json!({"uri": "world://binary"}))
        .await;
    assert_eq!(
        read["result"]["contents"],
        json!([{"uri": "world://binary", "blob": "AAE="}, {"uri": "world://second", "blob": "/w=="}])
    );
    let params = json!({"name": "greet", "arguments": {"name": "Ada"}});
    let got = client.request("prompts/get", params).await;
    assert_eq!(
        got["result"]["messages"][0]["content"]["text"],
        r#"[("name", "Ada")]"#
    );
    let params = json!({
        "ref": {"type": "ref/prompt", "name": "greet"},
        "argument": {"name": "name", "value": "g"},
    });
    let suggested = client.request("completion/complete", params).await;
    assert_eq!(suggested["result"]["completion"]["values"][0], "grace");

    for uri in ["world://nothing", "world://item/none"] {
        let unknown = client.request("resources/read", json!({"uri": uri})).await;
        assert_eq!(unknown["error"]["code"], -32002, "{unknown:#}");
        assert_eq!(unknown["error"]["data"]["uri"], uri);
    }
    for params in [
        json!({"name": "nobody"}),
        json!({"name": "greet"}),
        json!({"name": "greet", "arguments": {"name": 7}}),
    ] {
        let refused = client.request("prompts/get", params).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused:#}");
    }
}

#[tokio::test]
async fn a_resource_that_asks_is_answered_on_its_own_stream() {
    let setup = world();
    let host = setup.start().await;
    let client = open(&host).await;
    let mut stream = client
        .stream("resources/read", json!({"uri": "world://ask"}))
        .await;
    let question = stream.next().await.unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let outcome = json!({"result": {"action": "accept", "content": {"name": "Ada"}}});
    client.respond(&question["id"], outcome).await;
    let answer = stream.next().await.unwrap();
    assert_eq!(
        answer["result"]["contents"][0]["text"],
        r#"answered {"name":"Ada"}"#
    );
}

#[tokio::test]
async fn a_session_hears_messages_of_its_level_on_its_own_stream() {
    let setup = world();
    let host = setup.start().await;
    let client = open(&host).await;
    let mut own = client.get(None).await;
    let said = |level: &str, data: Value| json!({"messages": [{"level": level, "data": data}]});
    client.call("speak", said("debug", json!("unheard"))).await;
    client.call("speak", said("info", json!({"n": 1}))).await;
    let told = own.next().await.unwrap();
    assert_eq!(told["method"], "notifications/message");
    assert_eq!(told["params"], json!({"level": "info", "data": {"n": 1}}));
    let set = client
        .request("logging/setLevel", json!({"level": "error"}))
        .await;
    assert_eq!(set["result"], json!({}));
    client
        .call("speak", said("warning", json!("unheard")))
        .await;
    client.call("speak", said("error", json!("heard"))).await;
    let told = own.next().await.unwrap();
    assert_eq!(told["params"]["data"], "heard");
}

#[tokio::test]
async fn a_session_subscribes_to_resources_and_is_told_of_changed_lists() {
    let setup = world();
    let host = setup.start().await;
    let client = open(&host).await;
    let mut own = client.get(None).await;
    let uri = json!({"uri": "world://text"});
    let subscribed = client.request("resources/subscribe", uri.clone()).await;
    assert_eq!(subscribed["result"], json!({}));
    let unknown = json!({"uri": "world://nothing"});
    let refused = client.request("resources/subscribe", unknown).await;
    assert_eq!(refused["error"]["code"], -32002);

    let touch = json!({"uris": ["world://binary", "world://text"]});
    client.call("touch", touch).await;
    let told = own.next().await.unwrap();
    assert_eq!(told["method"], "notifications/resources/updated");
    assert_eq!(told["params"]["uri"], "world://text");

    client.request("resources/unsubscribe", uri).await;
    client
        .call("touch", json!({"uris": ["world://text"]}))
        .await;
    install_variant(setup.path("plugins"), "world", "more-prompts");
    let told = own.next().await.unwrap();
    assert_eq!(told["method"], "notifications/prompts/list_changed");
}

#[tokio::test]
async fn a_session_without_a_stream_of_its_own_misses_messages_and_nothing_else() {
    let setup = world();
    let host = setup.start().await;
    let client = open(&host).await;
    let flood = json!({"messages": [{"level": "info", "data": 1, "times": 500}]});
    for _ in 0..3 {
        let answer = client.call("speak", flood.clone()).await;
        assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer:#}");
    }
}
