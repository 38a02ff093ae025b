//! Files of the data directory that something changed behind the host's back (I8): what needs them
//! ends with the reason, in words without a path, and everything else goes on.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Client, Setup};

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
