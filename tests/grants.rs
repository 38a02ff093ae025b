//! What a plugin is granted, from the outside: key-value state, configuration values, quotas, methods,
//! and what a person allows while a tool runs.

mod asked;
mod directories;
mod outgoing;
mod quota;
mod state;

use longshore_guests::SCRIPT;
use serde_json::{Value, json};

use crate::harness::{Client, Setup, longshore, run as run_command};
use crate::tasks::{script, scripts, text};

/// A host's set-up whose `script` plugin is given this.
fn given(grants: &str) -> Setup {
    scripts().configure(&format!("[plugin.script.grants]\n{grants}"))
}

/// Runs a script within the call; its lines.
async fn run(client: &Client, operations: Value) -> String {
    let result = client.call("script_inline", script(operations)).await;
    text(&result).to_owned()
}

#[tokio::test]
async fn inspect_shows_both_sides_of_every_kind() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("longshore.toml");
    let given = r#"
        [plugin.script.grants]
        http = [{ host = "https://a.example", methods = ["GET"] }]
        ask = { http = ["*.example.com"], directories.desk = { path = "/usr", access = "read" } }
        configuration = { region = "not for everybody", unasked = "x" }
        state = { quota_bytes = 4096 }
        directories.out = { path = "/nowhere/out", access = "write", quota_bytes = 1048576 }
    "#;
    std::fs::write(&config, given).unwrap();
    let plugin = SCRIPT.directory().display().to_string();
    let config = config.display().to_string();
    let arguments = ["plugin", "inspect", &plugin, "--config", &config, "--json"];
    let ended = run_command(longshore(&arguments)).await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        !ended.stdout.contains("not for everybody"),
        "values stay unsaid"
    );
    let told: Value = serde_json::from_str(&ended.stdout).unwrap();
    let rows: Vec<String> = told["grants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let cell = |name: &str| row[name].as_str().unwrap_or("–").to_owned();
            ["kind", "name", "asked", "given", "effect"]
                .map(cell)
                .join(" | ")
        })
        .collect();
    insta::assert_snapshot!(rows.join("\n"), @r"
    directory | out | write | write /nowhere/out, at most 1 MiB | missing on the host
    directory | other | write | – | not given
    directory | desk | write, at run time | ask for read /usr | asks a person
    http | * | *, at run time | https://a.example (GET), ask for *.example.com | narrowed
    configuration | region | value | set | granted
    configuration | unasked | – | set | not asked
    state | state | values | 4 KiB, the host's limit of keys | granted
    ");
    assert_eq!(told["grants"][0]["why"], json!("tests of quotas"));
}
