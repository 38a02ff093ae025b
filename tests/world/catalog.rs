//! Which plugins serve, and what the command line says of them.

use longshore_guests as guests;
use serde_json::{Value, json};

use super::{install_variant, list, prompt, text_of, world};
use crate::harness::{Setup, longshore, run};
use crate::hot::until_serving;

#[tokio::test]
async fn a_plugin_that_wants_a_uri_of_another_is_refused_and_takes_nothing_over() {
    let setup = world();
    let host = setup.start().await;
    let client = host.client();
    install_variant(setup.path("plugins"), "a-newcomer", "plain");
    host.until_said("the plugin `world` serves `world://text` already")
        .await;
    assert_eq!(text_of(&client, "world://text").await, "read for local");
    let names = list(&client, "prompts/list", "prompts", "name").await;
    assert_eq!(
        names,
        ["ask", "greet", "wrong"],
        "and its prompts are not there"
    );

    // When the first one goes, the other may come.
    std::fs::remove_dir_all(setup.path("plugins").join("world")).unwrap();
    until_serving(&setup, |serving| {
        serving["plugins"]["a-newcomer"].is_object()
    })
    .await;
    assert_eq!(text_of(&client, "world://text").await, "read for local");
}

#[tokio::test]
async fn a_plugin_whose_template_is_narrower_takes_nothing_of_another_over() {
    let setup = world();
    let host = setup.start().await;
    let client = host.client();
    install_variant(setup.path("plugins"), "a-newcomer", "narrow-template");
    host.until_said("the plugin `world` serves `world://item/1{id}` already")
        .await;
    assert_eq!(
        text_of(&client, "world://item/12").await,
        "made of world://item/12"
    );
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
}

#[tokio::test]
async fn prompts_of_the_same_name_are_told_apart_by_their_plugins() {
    let setup = world();
    install_variant(setup.path("plugins"), "other", "prompts-only");
    let host = setup.start().await;
    let client = host.client();
    let names = list(&client, "prompts/list", "prompts", "name").await;
    let plugins = ["other", "world"];
    let expected: Vec<String> = plugins
        .iter()
        .flat_map(|plugin| ["ask", "greet", "wrong"].map(|name| format!("{plugin}__{name}")))
        .collect();
    assert_eq!(names, expected);
    for plugin in plugins {
        let name = format!("{plugin}__greet");
        let got = prompt(&client, &name, json!({"name": "Ada"})).await;
        assert_eq!(got.result()["description"], "the prompt greet");
        let params = json!({
            "ref": {"type": "ref/prompt", "name": name},
            "argument": {"name": "name", "value": "g"},
        });
        let suggested = client.request("completion/complete", params).await.result();
        assert_eq!(
            suggested["completion"]["values"],
            json!(["grace", "greet []"])
        );
    }
    assert_eq!(prompt(&client, "greet", json!({})).await.code(), -32602);
}

#[tokio::test]
async fn a_version_with_a_bad_list_leaves_the_old_one_serving_and_says_why() {
    let setup = world();
    let host = setup.start().await;
    let client = host.client();
    for (variant, words) in [
        (
            "bad-uri",
            "resource `world://not a uri`: ` ` can't stand in a URI",
        ),
        (
            "too-many",
            "the component declares 2000 resources; 1024 are allowed",
        ),
        ("endless-list", "its listings did not return within 5s"),
    ] {
        install_variant(setup.path("plugins"), "world", variant);
        host.until_said(words).await;
        assert_eq!(text_of(&client, "world://text").await, "read for local");
    }
}

#[tokio::test]
async fn inspect_and_list_show_resources_templates_and_prompts() {
    let setup = Setup::new(&[("world", &guests::WORLD.directory())]);
    let folder = guests::WORLD.directory();
    let folder = folder.to_str().unwrap();
    let shown = run(longshore(&["plugin", "inspect", folder])).await;
    for words in [
        "RESOURCES",
        "world://text",
        "world://item/{id}",
        "PROMPT greet",
        "values are suggested",
    ] {
        assert!(shown.stdout.contains(words), "{words} in {}", shown.stdout);
    }
    let shown = run(longshore(&["plugin", "inspect", folder, "--json"])).await;
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(
        shown["resourceTemplates"][0]["uriTemplate"],
        "world://item/{id}"
    );
    assert_eq!(shown["prompts"][0]["arguments"][0]["name"], "name");
    assert_eq!(shown["completes"], true);

    let plugins = setup.path("plugins");
    let data = setup.path("data");
    let arguments = [
        "plugin",
        "list",
        "--plugins",
        plugins.to_str().unwrap(),
        "--data-dir",
        data.to_str().unwrap(),
    ];
    let listed = run(longshore(&arguments)).await.stdout;
    let words: Vec<&str> = listed.split_whitespace().collect();
    let offers = "7 resources · 2 templates · 3 prompts";
    assert!(words.join(" ").contains(offers), "{listed}");
}
