//! Plugins that come, change and go while the host runs: nobody's call fails for it, tasks keep the
//! version they began with, and a version that can't be loaded changes nothing but what is said.

#[path = "hot/call.rs"]
mod call;

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use longshore_guests::{REPORT_EXPORT, SCRIPT};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::{Client, Host, Setup};

/// How often a file that a host writes is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Runs `longshore plugin …` on the set-up's directories.
async fn plugin(setup: &Setup, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longshore"));
    command.arg("plugin").args(arguments);
    command.arg("--config").arg(setup.path("longshore.toml"));
    command.arg("--data-dir").arg(setup.path("data"));
    if !arguments.contains(&"--plugins") {
        command.arg("--plugins").arg(setup.path("plugins"));
    }
    command.output().await.unwrap()
}

async fn plugin_done(setup: &Setup, arguments: &[&str]) -> String {
    let output = plugin(setup, arguments).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    said
}

/// What the host says it serves, once it is as `holds` says.
pub async fn until_serving(setup: &Setup, holds: impl Fn(&Value) -> bool) -> Value {
    let file = setup.path("data").join("serving.json");
    loop {
        let text = std::fs::read(&file).unwrap_or_default();
        match serde_json::from_slice(&text) {
            Ok(serving) if holds(&serving) => return serving,
            _ => tokio::time::sleep(LOOK).await,
        }
    }
}

async fn tools(client: &Client) -> Vec<String> {
    let listed = client.request("tools/list", json!({})).await.result();
    let tools = listed["tools"].as_array().unwrap();
    tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

/// A plugin's directory with the component of `guest` under another name and version. `salt` makes
/// it another component: it goes into a section that means nothing.
fn version(setup: &Setup, guest: &longshore_guests::Guest, name: &str, salt: u8) -> PathBuf {
    let folder = setup.path("versions").join(format!("{name}-{salt}"));
    std::fs::create_dir_all(&folder).unwrap();
    let mut wasm = std::fs::read(guest.component()).unwrap();
    wasm.extend([0, 6, 4, b's', b'a', b'l', b't', salt]);
    std::fs::write(folder.join("plugin.wasm"), wasm).unwrap();
    let manifest = format!(
        "name = \"{name}\"\nversion = \"0.0.{salt}\"\ncomponent = \"plugin.wasm\"\n\
         [grants]\nenvironment = [{{ name = \"GIVEN\", why = \"a test\" }}]\n"
    );
    std::fs::write(folder.join("plugin.toml"), manifest).unwrap();
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn script(operations: Value) -> Value {
    json!({ "script": operations })
}

fn said(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

/// A task that asks, so that it waits as long as the test wants.
async fn start_asking(client: &Client) -> String {
    let operations = json!([
        {"do": "step", "name": "first"},
        {"do": "confirm", "key": "go", "message": "Go on?"},
        {"do": "attempt"},
    ]);
    let id = client.start("script_resume", script(operations)).await;
    client.until_asked(&id).await;
    id
}

async fn finish(client: &Client, id: &str) -> Value {
    let responses = json!({"go": {"action": "accept", "content": {"confirm": true}}});
    let answered = client.answer(id, responses).await;
    assert_eq!(answered.code(), 0, "{:#}", answered.body);
    client.until_status(id, "completed").await
}

#[tokio::test]
async fn a_plugin_is_added_and_removed_under_a_running_host() {
    let setup = Setup::new(&[]);
    let host = setup.start().await;
    let client = host.client();
    assert!(tools(&client).await.is_empty());
    let params = json!({"notifications": {"toolsListChanged": true}});
    let mut messages = client.stream("subscriptions/listen", params).await;
    messages.next().await.unwrap();

    let report = version(&setup, &REPORT_EXPORT, "report", 1);
    let said = plugin_done(&setup, &["add", text(&report)]).await;
    assert!(said.contains("report 0.0.1 is served at"), "{said}");
    assert!(said.contains("GIVEN"), "what is not given is said: {said}");
    let changed = messages.next().await.unwrap();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert!(!tools(&client).await.is_empty());

    let again = plugin(&setup, &["add", text(&report)]).await;
    assert!(!again.status.success());
    let listed = plugin(&setup, &["list", "--json"]).await;
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["plugins"][0]["grants"][0]["effect"], "not given");
    assert_eq!(listed["host"]["plugins"]["report"]["version"], "0.0.1");

    plugin_done(&setup, &["remove", "report"]).await;
    let changed = messages.next().await.unwrap();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert!(tools(&client).await.is_empty());
}

#[tokio::test]
async fn a_plugins_directory_that_the_running_host_does_not_serve_is_refused() {
    let setup = Setup::new(&[]);
    let _host = setup.start().await;
    until_serving(&setup, |serving| serving["url"].is_string()).await;
    let script = version(&setup, &SCRIPT, "lone", 1);
    let other = setup.path("other");
    let refused = plugin(&setup, &["add", text(&script), "--plugins", text(&other)]).await;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("give --plugins"), "{said}");
    assert!(!other.exists());
}

#[tokio::test]
async fn a_component_on_its_own_is_a_plugin() {
    let setup = Setup::new(&[]);
    std::fs::copy(SCRIPT.component(), setup.path("plugins/lone.wasm")).unwrap();
    let host = setup.start().await;
    let serving = until_serving(&setup, |serving| serving["plugins"]["lone"].is_object()).await;
    assert_eq!(serving["failures"], json!({}));
    let result = host
        .client()
        .call(
            "script_inline",
            script(json!([{"do": "say", "text": "hi"}])),
        )
        .await;
    assert_eq!(said(&result), "hi");
}

#[tokio::test]
async fn what_can_not_be_loaded_never_gets_into_the_plugins_directory() {
    let setup = Setup::new(&[]);
    let host = setup.start().await;
    let entries = || std::fs::read_dir(setup.path("plugins")).unwrap().count();
    let folder = version(&setup, &SCRIPT, "lone", 1);
    let whole = std::fs::read(folder.join("plugin.wasm")).unwrap();
    std::fs::write(folder.join("plugin.wasm"), &whole[..1_000]).unwrap();
    let refused = plugin(&setup, &["add", text(&folder)]).await;
    assert_eq!(refused.status.code(), Some(1));
    let missing = plugin(
        &setup,
        &["replace", text(&version(&setup, &SCRIPT, "lone", 2))],
    )
    .await;
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(entries(), 0);

    // A component alone is given a name; a plugin's directory may take its place.
    let component = SCRIPT.component();
    plugin_done(&setup, &["add", text(&component), "--name", "lone"]).await;
    plugin_done(
        &setup,
        &["replace", text(&version(&setup, &SCRIPT, "lone", 3))],
    )
    .await;
    assert_eq!(entries(), 1);
    assert!(
        tools(&host.client())
            .await
            .contains(&"script_inline".to_owned())
    );
}

#[tokio::test]
async fn a_task_keeps_its_version_over_a_replacement_and_a_restart() {
    let setup = Setup::new(&[]).configure("[plugin.p.grants]\nenvironment = { GIVEN = \"yes\" }");
    let first = version(&setup, &SCRIPT, "p", 1);
    let host = setup.start().await;
    plugin_done(&setup, &["add", text(&first)]).await;
    let id = start_asking(&host.client()).await;

    // The new version does not even have the tool.
    let second = version(&setup, &REPORT_EXPORT, "p", 2);
    plugin_done(&setup, &["replace", text(&second)]).await;
    assert!(
        !tools(&host.client())
            .await
            .contains(&"script_resume".to_owned())
    );
    let other = client_of_task(&host, &id).await;
    assert_eq!(other["status"], "input_required");
    assert!(host.terminate().await.success());

    let host = setup.start().await;
    let task = finish(&host.client(), &id).await;
    let words = said(&task["result"]);
    assert!(words.contains("step first of attempt 1"), "{words}");
    assert!(words.contains("attempt 2"), "{words}");
}

async fn client_of_task(host: &Host, id: &str) -> Value {
    host.client().task(id).await
}

#[tokio::test]
async fn the_tasks_of_a_removed_plugin_go_on_also_after_a_restart() {
    let setup = Setup::new(&[]);
    let folder = version(&setup, &SCRIPT, "p", 1);
    let host = setup.start().await;
    plugin_done(&setup, &["add", text(&folder)]).await;
    let client = host.client();
    let (before, after) = (start_asking(&client).await, start_asking(&client).await);
    plugin_done(&setup, &["remove", "p"]).await;
    assert!(tools(&client).await.is_empty());
    finish(&client, &before).await;
    assert!(host.terminate().await.success());

    let host = setup.start().await;
    finish(&host.client(), &after).await;
}

#[tokio::test]
async fn removing_a_plugin_now_cancels_its_tasks() {
    let setup = Setup::new(&[]);
    let folder = version(&setup, &SCRIPT, "p", 1);
    let host = setup.start().await;
    plugin_done(&setup, &["add", text(&folder)]).await;
    let client = host.client();
    let id = start_asking(&client).await;
    plugin_done(&setup, &["remove", "p", "--now"]).await;
    client.until_status(&id, "cancelled").await;
    // The request was served, and is not there for a plugin of the same name.
    let asked = || {
        std::fs::read_dir(setup.path("plugins/.cancel"))
            .unwrap()
            .count()
    };
    while asked() != 0 {
        tokio::time::sleep(LOOK).await;
    }
}

#[tokio::test]
async fn an_update_that_fails_leaves_the_old_version_serving_and_says_why() {
    let setup = Setup::new(&[("script", &SCRIPT.directory())]);
    let host = setup.start().await;
    let client = host.client();
    let params = json!({"notifications": {"toolsListChanged": true}});
    let mut messages = client.stream("subscriptions/listen", params).await;
    messages.next().await.unwrap();
    let call = || {
        client.call(
            "script_inline",
            script(json!([{"do": "say", "text": "hi"}])),
        )
    };

    let component = setup.path("plugins/script/script.wasm");
    let whole = std::fs::read(&component).unwrap();
    // As a copy that was cut off would leave it.
    std::fs::write(&component, &whole[..whole.len() / 2]).unwrap();
    let failed = |serving: &Value| serving["failures"]["script"].is_string();
    let serving = until_serving(&setup, failed).await;
    assert!(serving["plugins"]["script"].is_object(), "{serving:#}");
    assert_eq!(said(&call().await), "hi");
    assert!(host.output().contains("plugin not loaded"));

    std::fs::write(setup.path("plugins/script/plugin.toml"), "name = 7").unwrap();
    let failed = |serving: &Value| {
        let reason = serving["failures"]["script"].as_str().unwrap_or_default();
        reason.contains("plugin.toml:1")
    };
    until_serving(&setup, failed).await;
    assert_eq!(said(&call().await), "hi");
    let listed = plugin(&setup, &["list"]).await;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("plugin.toml:1"), "{listed}");

    let manifest = SCRIPT.directory().join("plugin.toml");
    std::fs::copy(manifest, setup.path("plugins/script/plugin.toml")).unwrap();
    std::fs::write(&component, &whole).unwrap();
    until_serving(&setup, |serving| serving["failures"] == json!({})).await;
    assert_eq!(said(&call().await), "hi");

    // Nothing that a list shows has changed in all this.
    assert!(host.terminate().await.success());
    let last = messages.next().await.unwrap();
    assert_eq!(last["result"]["resultType"], "complete", "{last:#}");
}

#[tokio::test]
async fn a_plugin_that_is_added_never_takes_over_a_name() {
    let setup = Setup::new(&[("script", &SCRIPT.directory())]);
    let host = setup.start().await;
    let impostor = version(&setup, &REPORT_EXPORT, "script", 1);
    // Before the other in every order.
    copy(&impostor, &setup.path("plugins/a"));
    let refused = |serving: &Value| serving["failures"]["script (a)"].is_string();
    until_serving(&setup, refused).await;
    assert!(
        tools(&host.client())
            .await
            .contains(&"script_inline".to_owned())
    );
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

#[tokio::test]
async fn components_that_nothing_needs_are_given_up_and_others_never() {
    let setup = Setup::new(&[]).configure("[limits]\ncomponent_keep_ms = 1000");
    // It would give up those of other tests.
    setup.keep_compiled_code_apart();
    let [first, second, third] = [1, 2, 3].map(|salt| version(&setup, &SCRIPT, "p", salt));
    let host = setup.start().await;
    let client = host.client();
    let kept = || {
        let files = std::fs::read_dir(setup.path("data/components")).unwrap();
        files
            .filter(|file| {
                let path = file.as_ref().unwrap().path();
                path.extension().is_some_and(|ending| ending == "wasm")
            })
            .count()
    };
    plugin_done(&setup, &["add", text(&first)]).await;
    let id = start_asking(&client).await;
    plugin_done(&setup, &["replace", text(&second)]).await;
    plugin_done(&setup, &["replace", text(&third)]).await;
    // The second is nobody's: not the plugin's, not a task's.
    while kept() != 2 {
        tokio::time::sleep(LOOK).await;
    }
    finish(&client, &id).await;
    while kept() != 1 {
        tokio::time::sleep(LOOK).await;
    }
    let result = client.call(
        "script_inline",
        script(json!([{"do": "say", "text": "hi"}])),
    );
    assert_eq!(said(&result.await), "hi");
}

#[tokio::test]
async fn no_call_fails_while_a_plugin_is_replaced_again_and_again() {
    const CALLERS: usize = 4;
    let setup = Setup::new(&[]);
    let versions = [1, 2].map(|salt| version(&setup, &SCRIPT, "p", salt));
    let host = setup.start().await;
    plugin_done(&setup, &["add", text(&versions[0])]).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let called = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (client, is_over, called) = (host.client(), is_over.clone(), called.clone());
            tokio::spawn(async move {
                while !is_over.load(Ordering::Relaxed) || called.load(Ordering::Relaxed) < 1_000 {
                    let words = format!("{caller}");
                    let operations = json!([{"do": "say", "text": words}]);
                    let result = client.call("script_inline", script(operations)).await;
                    assert_eq!(said(&result), words, "{result:#}");
                    called.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for round in 1..=50 {
        plugin_done(&setup, &["replace", text(&versions[round % 2])]).await;
    }
    is_over.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.unwrap();
    }
    assert!(called.load(Ordering::Relaxed) >= 1_000);
}

#[tokio::test]
async fn who_serves_goes_on_serving_however_many_come_and_those_left_out_are_told() {
    const PLUGINS_MAX: usize = 1_000;
    let setup = crate::tasks::scripts();
    let host = setup.start().await;
    let client = host.client();
    let served = tools(&client).await;
    until_serving(&setup, |serving| serving["plugins"]["script"].is_object()).await;
    for number in 0..PLUGINS_MAX {
        let place = setup.path("plugins").join(format!("a{number:04}"));
        std::fs::create_dir(&place).unwrap();
        std::fs::write(place.join("plugin.toml"), "no manifest").unwrap();
    }
    let last = format!("a{:04}", PLUGINS_MAX - 1);
    let is_told = |serving: &Value| {
        let failures = &serving["failures"];
        let all = (0..PLUGINS_MAX).all(|number| failures[format!("a{number:04}")].is_string());
        all && failures["plugins directory"].is_string()
    };
    let serving = until_serving(&setup, is_told).await;
    let reason = |name: &str| serving["failures"][name].as_str().unwrap();
    assert!(reason(&last).contains("left out"), "{}", reason(&last));
    assert!(!reason("a0000").contains("left out"), "{}", reason("a0000"));
    let told = reason("plugins directory");
    assert!(told.contains("1 plugin is left out"), "{told}");
    assert!(host.output().contains(told), "{}", host.output());
    assert!(serving["plugins"]["script"].is_object());
    assert_eq!(tools(&client).await, served);
    let listed = plugin(&setup, &["list"]).await;
    let said = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(said.contains("left out"), "{said}");

    // One that goes makes room, and one that is left out takes it.
    std::fs::remove_dir_all(setup.path("plugins").join("a0000")).unwrap();
    let is_over = |serving: &Value| serving["failures"]["plugins directory"].is_null();
    let serving = until_serving(&setup, is_over).await;
    let reason = serving["failures"][&last].as_str().unwrap();
    assert!(!reason.contains("left out"), "{reason}");
}
