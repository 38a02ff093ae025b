//! A disk of 64 MiB that fills up: new work is refused in plain words, what there is goes on, and
//! nothing is lost, also when there is no byte left and the host dies.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use serde_json::json;

use super::mount::Mounted;
use super::{asking, checked, data_dir, script_host, status, yes};
use crate::harness::{Client, Host, Setup};

const DISK_MIB: u64 = 64;
const FREE_MIN_BYTES: u64 = 8 << 20;

/// Leaves less than `left` bytes of the disk.
fn fill(filler: &Path, left: u64) {
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(filler)
        .unwrap();
    let block = vec![1; 64 << 10];
    loop {
        let disk = rustix::fs::statvfs(filler).unwrap();
        let free = disk.f_bavail * disk.f_frsize;
        if free < left || free == 0 || file.write_all(&block).is_err() {
            return;
        }
    }
}

/// Calls until the host answers as it should by then; it looks at the disk once a second.
async fn call_until(client: &Client, is_accepted: bool) -> serde_json::Value {
    loop {
        let params = json!({"name": "script_resume", "arguments": asking()});
        let reply = client.request("tools/call", params).await;
        if reply.body.get("result").is_some() == is_accepted {
            return reply.body;
        }
    }
}

async fn start(setup: &Setup) -> (Host, Client) {
    let host = setup.start().await;
    let client = host.client();
    (host, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_new_work_and_loses_nothing() {
    let setup = script_host().configure(&format!(
        "[limits]\nfree_disk_min_bytes = {FREE_MIN_BYTES}\npark_after_ms = 0\n\
         tasks_unfinished_max = 100000"
    ));
    let _disk = match Mounted::tmpfs(&data_dir(&setup), DISK_MIB) {
        Ok(disk) => disk,
        Err(why) => return println!("skipped: no tmpfs can be mounted here: {why}"),
    };
    let filler = data_dir(&setup).join("filler");
    let (host, client) = start(&setup).await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(client.start("script_resume", asking()).await);
    }
    for id in &ids {
        client.until_asked(id).await;
    }

    fill(&filler, FREE_MIN_BYTES);
    let refused = call_until(&client, false).await;
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(words.contains("less than 8 MiB free"), "{refused:#}");
    // What there is can be read, answered and cancelled.
    client.answer(&ids[0], yes()).await.result();
    client.until_status(&ids[0], "completed").await;
    client.cancel(&ids[1]).await.result();
    client.until_status(&ids[1], "cancelled").await;

    fs::remove_file(&filler).unwrap();
    let accepted = call_until(&client, true).await;
    ids.push(accepted["result"]["taskId"].as_str().unwrap().to_owned());

    // Not a byte is left, and the host dies: the space kept aside opens the store once more.
    fill(&filler, 1);
    host.kill().await;
    let (host, client) = start(&setup).await;
    for (id, expected) in [(0, "completed"), (1, "cancelled"), (2, "input_required")] {
        let now = status(&client, &ids[id]).await;
        assert_eq!(now.as_deref(), Some(expected));
    }
    call_until(&client, false).await;
    fs::remove_file(&filler).unwrap();
    call_until(&client, true).await;
    for id in &ids[2..] {
        client.until_asked(id).await;
        client.answer(id, yes()).await.result();
        client.until_status(id, "completed").await;
    }
    assert!(host.terminate().await.success());
    checked(&setup);
}
