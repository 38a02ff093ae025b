//! Who hears that a resource or a list has changed.

use serde_json::{Value, json};

use super::{install_variant, list, listen, world};
use crate::harness::{Client, LegacyClient, Messages};
use crate::status::status;

async fn touch(client: &Client, uris: Value) {
    let result = client.call("touch", json!({ "uris": uris })).await;
    assert_eq!(result["content"][0]["text"], "done");
}

async fn updated(messages: &mut Messages) -> String {
    let message = messages.next().await.expect("the stream goes on");
    assert_eq!(message["method"], "notifications/resources/updated");
    let subscription = &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_ne!(*subscription, Value::Null);
    message["params"]["uri"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn whoever_subscribed_to_a_resource_is_told_that_it_changed() {
    let setup = world();
    let host = setup.start().await;
    let client = host.client();
    let filter = json!({"resourceSubscriptions": [
        "world://text", "world://item/7", "world://nothing", "world://text",
    ]});
    let (mut messages, agreed) = listen(&client, filter).await;
    let uris = json!({"resourceSubscriptions": ["world://text", "world://item/7"]});
    assert_eq!(agreed, uris);
    let (mut others, _) = listen(
        &client,
        json!({"resourceSubscriptions": ["world://binary"]}),
    )
    .await;
    touch(&client, json!(["world://item/8", "world://item/7"])).await;
    assert_eq!(updated(&mut messages).await, "world://item/7");
    touch(&client, json!(["world://text"])).await;
    assert_eq!(updated(&mut messages).await, "world://text");
    touch(&client, json!(["world://binary"])).await;
    assert_eq!(updated(&mut others).await, "world://binary");
    let uris = json!({"uris": ["world://item/7"]});
    client.start("touch_task", uris).await;
    assert_eq!(updated(&mut messages).await, "world://item/7");
}

#[tokio::test]
async fn subscriptions_end_with_their_streams_and_sessions() {
    let setup = world();
    let host = setup.start().await;
    let filter = json!({"resourceSubscriptions": ["world://text", "world://binary"]});
    let (stream, _) = listen(&host.client(), filter).await;
    let legacy = LegacyClient::open(host.url(), "2025-11-25").await;
    let subscribed = legacy.request("resources/subscribe", json!({"uri": "world://ask"}));
    assert_eq!(subscribed.await["result"], json!({}));
    assert_eq!(status(&setup).await["watchedResources"], 3);
    drop(stream);
    legacy.delete().await;
    while status(&setup).await["watchedResources"] != 0 {}
}

#[tokio::test]
async fn more_resources_than_one_stream_watches_are_refused() {
    let setup = world();
    let host = setup.start().await;
    let client = host.client();
    let many: Vec<String> = (0..257).map(|n| format!("world://item/{n}")).collect();
    let params = json!({"notifications": {"resourceSubscriptions": many}});
    let reply = client.request("subscriptions/listen", params).await;
    assert_eq!((reply.status, reply.code()), (200, -32602));
}

#[tokio::test]
async fn a_list_that_changed_is_told_to_whoever_follows_that_list_alone() {
    let setup = world();
    let host = setup.start().await;
    let client = host.client();
    let (mut prompts, agreed) = listen(&client, json!({"promptsListChanged": true})).await;
    assert_eq!(agreed, json!({"promptsListChanged": true}));
    let all = json!({
        "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
    });
    let (mut all, _) = listen(&client, all).await;

    install_variant(setup.path("plugins"), "world", "more-prompts");
    let told = prompts.next().await.unwrap();
    assert_eq!(told["method"], "notifications/prompts/list_changed");
    let told = all.next().await.unwrap();
    assert_eq!(told["method"], "notifications/prompts/list_changed");
    let names = list(&client, "prompts/list", "prompts", "name").await;
    assert_eq!(names, ["another", "ask", "greet", "wrong"]);

    install_variant(setup.path("plugins"), "world", "more-resources");
    let mut changed = Vec::new();
    for _ in 0..2 {
        let told = all.next().await.unwrap();
        changed.push(told["method"].as_str().unwrap().to_owned());
    }
    changed.sort();
    let expected =
        ["prompts", "resources"].map(|list| format!("notifications/{list}/list_changed"));
    assert_eq!(changed, expected, "the prompt went, a resource came");
    let uris = list(&client, "resources/list", "resources", "uri").await;
    assert!(uris.contains(&"world://more".to_owned()));
}
