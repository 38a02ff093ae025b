//! What a host outlasts: full disks, power cuts, many tasks, and the end of a task's time.

mod disk_full;
mod expiry;
mod load;
mod mount;
mod power_cut;
mod scale;

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Client, Host, Setup};

/// Whether the long forms are asked for.
pub fn is_long() -> bool {
    std::env::var_os("LONGSHORE_LONG").is_some()
}

fn script_host() -> Setup {
    Setup::new(&[("script", &longshore_guests::SCRIPT.directory())])
}

/// Runs `longshore store` on the set-up's data directory; its exit code and standard output.
pub fn store_command(setup: &Setup, arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_longshore"))
        .arg("store")
        .args(arguments)
        .arg("--data-dir")
        .arg(data_dir(setup))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || !errors.is_empty() || !output.stdout.is_empty());
    eprint!("{errors}");
    let code = output.status.code().expect("it ends by itself");
    (code, String::from_utf8(output.stdout).unwrap())
}

/// What `longshore store check` finds; the store has to be sound.
fn checked(setup: &Setup) -> Value {
    let (code, out) = store_command(setup, &["check", "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["sound"]), (0, &json!(true)), "{report:#}");
    report
}

fn data_dir(setup: &Setup) -> PathBuf {
    setup.path("data")
}

/// A task that asks once under `go`.
fn asking() -> Value {
    json!({"script": [{"do": "confirm", "key": "go", "message": "Go on?"}]})
}

fn yes() -> Value {
    json!({"go": {"action": "accept", "content": {"confirm": true}}})
}

/// How many tasks the host has swept so far, by its debug log.
fn swept(host: &Host) -> usize {
    let output = host.output();
    let counts = output.split("swept deleted=").skip(1).map(|rest| {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        rest[..digits].parse::<usize>().unwrap()
    });
    counts.sum()
}

/// The task's status, or none when the host does not say.
async fn status(client: &Client, id: &str) -> Option<String> {
    let reply = client.request("tasks/get", json!({"taskId": id})).await;
    let status = reply.body["result"]["status"].as_str();
    status.map(str::to_owned)
}
