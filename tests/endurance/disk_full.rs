//! A disk of 64 MiB that fills up: new work is refused in plain words, what there is goes on, and
//! nothing is lost. With no byte left everything waits, and goes on when there is room, whether or
//! not the host dies meanwhile; and what is read from a copy of the records then, leaves none behind.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use super::mount::Mounted;
use super::{asking, checked, data_dir, script_host, status, store_command, yes};
use crate::harness::{Client, Host, Setup, longshore, run};

const DISK_MIB: u64 = 64;
/// A little above what a commit has to find.
const COMMIT_ROOM_BYTES: u64 = 16 << 20;

const FREE_MIN_BYTES: u64 = 18 << 20;

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

/// Every file in a directory with its length and when it was written.
fn contents(directory: &Path) -> Vec<(PathBuf, u64, SystemTime)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        match metadata.is_dir() {
            true => found.extend(contents(&entry.path())),
            false => found.push((entry.path(), metadata.len(), metadata.modified().unwrap())),
        }
    }
    found.sort();
    found
}

/// Calls a tool; the whole answer.
async fn call(client: &Client) -> Value {
    let params = json!({"name": "script_resume", "arguments": asking()});
    client.request("tools/call", params).await.body
}

/// Saves again and again, for longer than it takes to fill the disk.
fn working() -> Value {
    let mut script = vec![json!({"do": "progress", "message": "at work"})];
    for round in 0..200 {
        script.push(json!({"do": "checkpoint", "state": round.to_string()}));
        script.push(json!({"do": "wait", "ms": 10}));
    }
    json!({"script": script})
}

async fn is_ready(host: &Host) -> bool {
    let url = host.url().replace("/mcp", "/readyz");
    reqwest::get(url).await.unwrap().status().is_success()
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
         tasks_unfinished_max = 100000\ndrain_timeout_ms = 500"
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
    let refused = call(&client).await;
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(words.contains("less than 18 MiB free"), "{refused:#}");
    // What there is can be read, answered and cancelled.
    client.answer(&ids[0], yes()).await.result();
    client.until_status(&ids[0], "completed").await;
    client.cancel(&ids[1]).await.result();
    client.until_status(&ids[1], "cancelled").await;

    fs::remove_file(&filler).unwrap();
    let accepted = call(&client).await;
    ids.push(accepted["result"]["taskId"].as_str().unwrap().to_owned());

    // No room for a commit: a run waits with its checkpoint, a client is told, and both go on.
    let works = client.start("script_resume", working()).await;
    client
        .until(&works, |task| task["statusMessage"] == "at work")
        .await;
    fill(&filler, COMMIT_ROOM_BYTES);
    while is_ready(&host).await {}
    fill(&filler, 1);
    let refused = client.cancel(&ids[3]).await;
    insta::assert_snapshot!(refused.body["error"]["message"].as_str().unwrap(), @"the disk is full, and nothing can be stored until it has room; try again later");
    assert_eq!(status(&client, &works).await.as_deref(), Some("working"));
    fs::remove_file(&filler).unwrap();
    client.until_status(&works, "completed").await;
    assert!(is_ready(&host).await);
    assert!(host.output().contains("the disk has room again"));

    // Not a byte is left, and the host dies: the space kept aside opens the store once more.
    fill(&filler, 1);
    host.kill().await;
    // Whoever only looks changes nothing, and needs no room here.
    let before = contents(&data_dir(&setup));
    checked(&setup);
    let (code, exported) = store_command(&setup, &["export", "-"]);
    assert_eq!((code, exported.lines().count() > ids.len()), (0, true));
    assert_eq!(contents(&data_dir(&setup)), before);
    let (host, client) = start(&setup).await;
    for (id, expected) in [(0, "completed"), (1, "cancelled"), (2, "input_required")] {
        let now = status(&client, &ids[id]).await;
        assert_eq!(now.as_deref(), Some(expected));
    }
    // That space is for what there is, not for new work.
    fill(&filler, FREE_MIN_BYTES);
    let refused = call(&client).await;
    assert!(refused.get("error").is_some(), "{refused:#}");
    client.answer(&ids[2], yes()).await.result();
    client.until_status(&ids[2], "completed").await;
    fs::remove_file(&filler).unwrap();
    let accepted = call(&client).await;
    ids.push(accepted["result"]["taskId"].as_str().unwrap().to_owned());
    for id in &ids[3..] {
        client.until_asked(id).await;
        client.answer(id, yes()).await.result();
        client.until_status(id, "completed").await;
    }

    // A host that is stopped does not wait for room, and its run goes on in the next process.
    let works = client.start("script_resume", working()).await;
    client
        .until(&works, |task| task["statusMessage"] == "at work")
        .await;
    fill(&filler, COMMIT_ROOM_BYTES);
    while is_ready(&host).await {}
    assert!(host.terminate().await.success());
    fs::remove_file(&filler).unwrap();
    let (host, client) = start(&setup).await;
    client.until_status(&works, "completed").await;
    assert!(host.terminate().await.success());
    checked(&setup);
}

/// More than a pipe holds: an export of it waits for its reader, with the store open.
const RESULT_BYTES: usize = 512 << 10;

fn small_disk_host() -> Setup {
    script_host().configure(&format!("[limits]\nfree_disk_min_bytes = {FREE_MIN_BYTES}"))
}

/// A store with one task that has ended, on a disk of its own.
async fn stopped_store(setup: &Setup) -> Option<(Mounted, PathBuf)> {
    let disk = match Mounted::tmpfs(&data_dir(setup), 96) {
        Ok(disk) => disk,
        Err(why) => {
            println!("skipped: no tmpfs can be mounted here: {why}");
            return None;
        }
    };
    let (host, client) = start(setup).await;
    let script = json!([{"do": "repeat", "text": "x", "times": RESULT_BYTES}]);
    let id = client
        .start("script_resume", json!({"script": script}))
        .await;
    client.until_status(&id, "completed").await;
    assert!(host.terminate().await.success());
    fs::remove_file(data_dir(setup).join("store/ballast")).unwrap();
    Some((disk, data_dir(setup).join("filler")))
}

/// `longshore store` with a directory for temporary files.
fn looking(setup: &Setup, arguments: &[&str], temporary: &Path) -> Command {
    fs::create_dir_all(temporary).unwrap();
    let data = data_dir(setup);
    let place = ["--data-dir", data.to_str().unwrap()];
    let mut command = longshore(&[&["store"], arguments, &place].concat());
    command.env("TMPDIR", temporary);
    command
}

fn count(directory: &Path) -> usize {
    fs::read_dir(directory).unwrap().count()
}

#[tokio::test]
async fn whoever_only_looks_needs_no_copy_while_the_database_can_be_opened() {
    let setup = small_disk_host();
    let Some((_disk, filler)) = stopped_store(&setup).await else {
        return;
    };
    let same_disk = data_dir(&setup).join("temporary");
    for left in [24 << 20, 12 << 20] {
        fill(&filler, left);
        let ended = run(looking(&setup, &["check"], &same_disk)).await;
        assert_eq!(ended.code, 0, "{left} bytes left: {}", ended.stderr);
    }
    fill(&filler, 1);
    let ended = run(looking(&setup, &["check"], &same_disk)).await;
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("set TMPDIR"), "{}", ended.stderr);
    assert_eq!(count(&same_disk), 0);
}

/// An export that waits for somebody to read on, from a copy.
async fn exporting(setup: &Setup, temporary: &Path) -> Child {
    let mut child = looking(setup, &["export", "-"], temporary).spawn().unwrap();
    let mut begun = [0; 100];
    let out = child.stdout.as_mut().unwrap();
    out.read_exact(&mut begun).await.unwrap();
    assert_eq!(count(temporary), 1, "there is a copy");
    child
}

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[tokio::test]
async fn a_copy_of_the_records_goes_with_its_command_however_that_ends() {
    let setup = small_disk_host();
    let Some((_disk, filler)) = stopped_store(&setup).await else {
        return;
    };
    fill(&filler, 1);
    let temporary = setup.path("temporary");
    for signal in [Signal::TERM, Signal::INT] {
        let mut stopped = exporting(&setup, &temporary).await;
        send(&stopped, signal);
        assert_eq!(stopped.wait().await.unwrap().code(), Some(130));
        assert_eq!(count(&temporary), 0, "{signal:?}");
    }

    // As `| head` does.
    let mut left = exporting(&setup, &temporary).await;
    drop(left.stdout.take());
    let ended = left.wait().await.unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&ended);
    assert_eq!(signal, Some(Signal::PIPE.as_raw()));
    assert_eq!(count(&temporary), 0);

    let mut killed = exporting(&setup, &temporary).await;
    killed.kill().await.unwrap();
    assert_eq!(count(&temporary), 1, "nobody was left to delete it");
    let next = run(looking(&setup, &["check"], &temporary)).await;
    assert_eq!((next.code, count(&temporary)), (0, 0), "{}", next.stderr);
}
