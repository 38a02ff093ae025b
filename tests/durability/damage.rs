//! Files of the data directory that something changed behind the host's back (I8): what needs them
//! ends with the reason, in words without a path, and everything else goes on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::{Client, Host, Setup};

/// Large enough for bodies to be files.
const LARGE: usize = 40_000;

fn setup() -> Setup {
    let guest = longshore_guests::SCRIPT;
    Setup::new(&[(guest.name, &guest.directory())]).configure("[limits]\npark_after_ms = 0")
}

fn large() -> String {
    "x".repeat(LARGE)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => found.push(path),
            }
        }
    }
    found
}

/// Changes one byte of the only file of the task that begins like this.
fn change(setup: &Setup, id: &str, beginning: &[u8]) {
    let mut changed = 0;
    for file in files(&setup.path("data/store/bodies")) {
        let mut bytes = fs::read(&file).unwrap();
        if file.parent().unwrap().ends_with(id) && bytes.starts_with(beginning) {
            bytes[LARGE / 2] = b'y';
            fs::write(&file, bytes).unwrap();
            changed += 1;
        }
    }
    assert_eq!(changed, 1);
}

async fn start(client: &Client, script: Value) -> String {
    client
        .start("script_resume", json!({"script": script}))
        .await
}

async fn answered(client: &Client, id: &str) -> Value {
    let yes = json!({"go": {"action": "accept", "content": {"confirm": true}}});
    client.answer(id, yes).await.result();
    client.until_status(id, "failed").await
}

#[tokio::test]
async fn a_task_that_needs_a_changed_file_ends_with_the_reason() {
    let setup = setup();
    let host = setup.start().await;
    let asks = json!({"do": "confirm", "key": "go", "message": "Go on?"});
    let saves = json!({"do": "checkpoint", "state": large()});
    // Its arguments are large as well: an object, and the state is a text.
    let mut ids = Vec::new();
    for (what, beginning) in [("checkpoint", b"\"xxx"), ("arguments", b"{\"sc")] {
        let id = start(&host.client(), json!([{"do": "saved"}, saves, asks])).await;
        host.client().until_asked(&id).await;
        change(&setup, &id, beginning);
        ids.push((id, what));
    }
    // Whatever it had in memory is gone.
    host.kill().await;
    let host = setup.start().await;
    let client = host.client();
    for (id, what) in ids {
        let task = answered(&client, &id).await;
        let expected = format!(
            "the stored {what} can't be used: its file does not hold what was written; call the tool \
             again"
        );
        assert_eq!(task["error"]["message"], json!(expected));
    }
    // The host is as well as before.
    let id = start(&client, json!([{"do": "say", "text": "fine"}])).await;
    client.until_status(&id, "completed").await;
}

#[tokio::test]
async fn a_changed_result_is_not_given_out_and_the_check_finds_it() {
    let setup = setup();
    let host = setup.start().await;
    let client = host.client();
    let says = json!([{"do": "say", "text": large()}]);
    let (changed, other) = (
        start(&client, says.clone()).await,
        start(&client, says).await,
    );
    for id in [&changed, &other] {
        client.until_status(id, "completed").await;
    }
    // A result begins with the version of its record.
    change(&setup, &changed, &[1]);
    let reply = client
        .request("tasks/get", json!({"taskId": changed}))
        .await;
    assert_eq!((reply.status, reply.code()), (200, -32603));
    insta::assert_snapshot!(reply.body["error"]["message"].as_str().unwrap(), @"the stored result can't be used: its file does not hold what was written; call the tool again");
    let text = &client.task(&other).await["result"]["content"][0]["text"];
    assert_eq!(text, &json!(large()));
    assert!(host.terminate().await.success());

    let (code, report) = crate::endurance::store_command(&setup, &["check", "--json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(
        (code, &report["problems"]),
        (1, &json!({"changed_file": 1}))
    );
}

#[tokio::test]
async fn a_changed_part_of_a_large_result_is_told_and_the_others_are_given() {
    let setup = setup().configure("memory_max_bytes = 268435456");
    let host = setup.start().await;
    let client = host.client();
    let repeats = json!([{"do": "repeat", "text": "0123456789", "times": 300_000}]);
    let id = start(&client, repeats).await;
    let task = client.until_status(&id, "completed").await;
    let blocks = task["result"]["content"].as_array().unwrap().iter();
    let uris: Vec<&Value> = blocks.filter_map(|block| block.get("uri")).collect();
    assert_eq!(uris.len(), 3);
    // The last is the only one of its size.
    let of_task = |file: &PathBuf| file.parent().unwrap().ends_with(&id);
    let mut parts = files(&setup.path("data/store/bodies"));
    parts.retain(of_task);
    let size = |file: &PathBuf| fs::metadata(file).unwrap().len();
    parts.sort_by_key(size);
    let last = parts.iter().find(|file| size(file) > 500_000).unwrap();
    let mut bytes = fs::read(last).unwrap();
    bytes[LARGE] ^= 1;
    fs::write(last, bytes).unwrap();

    for uri in &uris[..2] {
        let reply = client.request("resources/read", json!({"uri": uri})).await;
        assert!(reply.result()["contents"][0]["text"].is_string());
    }
    let reply = client
        .request("resources/read", json!({"uri": uris[2]}))
        .await;
    insta::assert_snapshot!(reply.body["error"]["message"].as_str().unwrap(), @"the stored part of a result can't be used: its file does not hold what was written; call the tool again");
}

async fn ready_status(host: &Host) -> u16 {
    let url = host.url().replace("/mcp", "/readyz");
    reqwest::get(url).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_host_whose_data_directory_is_deleted_says_that_it_is_not_ready() {
    let setup = setup();
    let host = setup.start().await;
    assert_eq!(ready_status(&host).await, 200);
    fs::remove_dir_all(setup.path("data/store")).unwrap();
    assert_eq!(ready_status(&host).await, 503);
    host.until_said("the data directory was deleted").await;
}

/// As to a full disk, and not the end of the process without a word.
#[tokio::test]
async fn a_file_that_may_not_be_as_large_fails_its_task_and_not_the_host() {
    // Code that is compiled already is not written again.
    drop(setup().start().await);
    let setup = setup();
    let serve = setup.serve_command();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 512 && exec \"$0\" \"$@\""]);
    command.arg(serve.as_std().get_program());
    command.args(serve.as_std().get_args());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::piped()).kill_on_drop(true);
    let host = Host::start(command).await;
    let client = host.client();
    let large = json!([{"do": "repeat", "text": "x", "times": 900_000}]);
    let id = start(&client, large).await;
    let task = client.until_status(&id, "failed").await;
    let message = task["error"]["message"].as_str().unwrap();
    assert!(message.contains("stor"), "{message}");
    let small = json!([{"do": "say", "text": "hello"}]);
    let call = json!({"name": "script_inline", "arguments": {"script": small}});
    let reply = client.request("tools/call", call).await.result();
    assert_eq!(reply["content"][0]["text"], "hello");
}
