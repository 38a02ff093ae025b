//! Key-value state and configuration values.

use serde_json::{Value, json};

use super::{given, run};
use crate::harness::{Setup, longshore, run as run_command};
use crate::tasks::{script, scripts, text};

fn count(add: u64) -> Value {
    json!([{"do": "count", "key": "n", "add": add}])
}

/// A command on the set-up's data directory, as JSON.
async fn store(setup: &Setup, arguments: &[&str]) -> Value {
    let data = setup.path("data").display().to_string();
    let arguments = [&["store"], arguments, &["--data-dir", &data, "--json"]].concat();
    let ended = run_command(longshore(&arguments)).await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap_or(Value::Null)
}

#[tokio::test]
async fn state_outlives_the_call_the_version_and_the_host() {
    let setup = given("state = true");
    let host = setup.start().await;
    assert_eq!(run(&host.client(), count(2)).await, "n is 2");
    assert_eq!(run(&host.client(), count(3)).await, "n is 5");
    host.kill().await;

    let manifest = setup.path("plugins/script/plugin.toml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("0.1.0", "0.2.0")).unwrap();
    let host = setup.start().await;
    assert_eq!(run(&host.client(), count(1)).await, "n is 6");
    host.kill().await;

    // It moves with the tasks, and goes when it is told to.
    let report = store(&setup, &["check"]).await;
    assert_eq!(report["sound"], true, "{report:#}");
    let file = setup.path("export.jsonl").display().to_string();
    store(&setup, &["export", &file]).await;
    let used = store(&setup, &["state"]).await;
    let expected = json!([{"tenant": "local", "plugin": "script", "keys": 1, "bytes": 2}]);
    assert_eq!(used["state"], expected);
    assert_eq!(store(&setup, &["forget-state", "script"]).await["keys"], 1);
    std::fs::remove_dir_all(setup.path("data/store")).unwrap();
    store(&setup, &["import", &file]).await;
    store(&setup, &["compact"]).await;
    assert_eq!(store(&setup, &["state"]).await["state"], expected);
    let host = setup.start().await;
    assert_eq!(run(&host.client(), count(1)).await, "n is 7");
}

#[tokio::test]
async fn runs_side_by_side_change_a_value_together() {
    let setup = given("state = true");
    let host = setup.start().await;
    let client = host.client();
    let calls = (0..20).map(|_| client.call("script_auto", script(count(1))));
    futures_util::future::join_all(calls).await;
    assert_eq!(run(&client, count(0)).await, "n is 20");
}

#[tokio::test]
async fn what_goes_over_the_quota_is_refused_and_room_can_be_made() {
    let setup = given("state = { quota_bytes = 100, quota_keys = 2 }");
    let host = setup.start().await;
    let keep = |key: &str, bytes: usize| json!({"do": "keep", "key": key, "bytes": bytes});
    let told = run(
        &host.client(),
        json!([
            keep("a", 60),
            keep("b", 60),
            keep("b", 10),
            keep("c", 1),
            {"do": "forget", "key": "a"},
            keep("b", 90),
            keep("b", 70_000),
            keep("", 1),
        ]),
    )
    .await;
    insta::assert_snapshot!(told, @r"
    kept a
    the state `b`: the plugin's state would have 122 bytes for this tenant and may have 100; delete values that it no longer needs, or have the operator raise `quota_bytes` of its grant
    kept b
    the state `c`: the plugin's state would have 3 keys for this tenant and may have 2; delete some that it no longer needs, or have the operator raise `quota_keys` of its grant
    forgot a
    kept b
    the state `b`: a value of 70000 bytes; 65536 are allowed, so divide it among keys
    the state ``: a key is 1 to 200 bytes of text without control characters
    ");
}

#[tokio::test]
async fn state_and_configuration_are_given_by_the_operator_only() {
    let setup = scripts();
    let host = setup.start().await;
    let result = host.client().call("script_auto", script(count(1))).await;
    assert_eq!(result["isError"], true);
    insta::assert_snapshot!(text(&result), @"the state `n`: no grant; the plugin must ask for `state` in its plugin.toml, and the operator give it in longshore.toml");
    let region = json!([{"do": "configuration", "name": "region"}]);
    assert_eq!(run(&host.client(), region).await, "region: None");
}

#[tokio::test]
async fn a_configuration_value_is_read_when_both_sides_name_it() {
    let setup = given("configuration = { region = \"eu\", unasked = \"x\" }");
    let host = setup.start().await;
    let both = json!([
        {"do": "configuration", "name": "region"},
        {"do": "configuration", "name": "unasked"},
    ]);
    assert_eq!(
        run(&host.client(), both).await,
        "region: Some(\"eu\")\nunasked: None"
    );
}

#[tokio::test]
async fn keys_are_listed_in_order_by_prefix() {
    let setup = given("state = { quota_keys = 2000 }");
    let host = setup.start().await;
    let keep = |key: &str| json!({"do": "keep", "key": key, "bytes": 1});
    let told = run(
        &host.client(),
        json!([keep("b/2"), keep("b/1"), keep("a"), keep("c"), {"do": "keys", "prefix": "b/"}]),
    )
    .await;
    assert!(told.ends_with("b/1 b/2"), "{told}");
}
