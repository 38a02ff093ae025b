//! Guests that do their worst: each ends with a clear error, and everyone else goes on (I6).

use std::time::{Duration, Instant};

use longshore::task::Status;

use super::fixture::{Fixture, MIB, limits, submission};
use longshore::wasm::Grants;

#[tokio::test]
async fn each_way_to_fail_has_its_words() {
    let host = Fixture::new().await;
    let mut said = String::new();
    for (tool, argument) in [
        ("allocate", ""),
        ("recurse", ""),
        ("panic", "7"),
        ("trap", ""),
        ("exit", ""),
        ("handles", ""),
        ("return-huge", "2000000"),
        ("return-huge", "20000000"),
        ("progress-huge", "20000000"),
        ("checkpoint-huge", "4194305"),
        ("steps", "10001"),
        ("steps-huge", "17"),
    ] {
        let message = host.failure(tool, argument).await;
        said.push_str(&format!("{tool} {argument}: {message}\n"));
    }
    insta::assert_snapshot!(said, @r"
    allocate : the tool needed more than the 32 MiB of memory it may have
    recurse : the tool recursed too deeply: its stack may have 512 KiB
    panic 7: the tool panicked: no such row: 7
    trap : the tool aborted without saying why
    exit : the tool exited instead of returning
    handles : the tool holds too many handles (files, streams, requests) at once
    return-huge 2000000: the tool returned 2000000 bytes, and a result may have 1048576; it must write more than that to a granted directory and return where it is
    return-huge 20000000: the tool handed more data to its host at once than is allowed
    progress-huge 20000000: the tool handed more data to its host at once than is allowed
    checkpoint-huge 4194305: the tool broke a rule of its host: a checkpoint of 4194305 bytes; 4194304 are allowed
    steps 10001: the tool broke a rule of its host: a task may record at most 10000 steps, all its runs together
    steps-huge 17: the tool broke a rule of its host: a call may record steps of 16777216 bytes before it is a task; declare the tool's execution `task`, or record less
    ");
    assert_eq!(host.text("echo", "still there").await, "still there");
}

#[tokio::test]
async fn what_is_within_the_limits_passes() {
    let host = Fixture::new().await;
    assert_eq!(host.text("return-huge", &MIB.to_string()).await.len(), MIB);
    assert_eq!(host.text("checkpoint-huge", "4194304").await, "saved");
    assert_eq!(host.text("steps", "10000").await, "recorded");
    assert_eq!(host.text("progress-huge", "4000000").await, "told");
}

#[tokio::test]
async fn a_guest_that_floods_its_hooks_or_its_output_only_keeps_itself_busy() {
    let host = Fixture::new().await;
    assert_eq!(host.text("progress", "1000000").await, "counted");
    assert_eq!(host.text("print", "100000").await, "printed");
}

#[tokio::test]
async fn a_killed_guest_ends_also_in_a_busy_loop_or_asleep() {
    let mut one = limits();
    one.instances_max = 1;
    let host = Fixture::with(one, |_| Grants::default()).await;
    for tool in ["spin", "fill", "sleep"] {
        let mut call = host.start(tool, "").await;
        // It runs once it had the only place; a second call would wait for it.
        let waits = tokio::time::timeout(Duration::from_millis(50), call.outcome()).await;
        assert!(waits.is_err(), "{tool} ended by itself");
        drop(call);
        assert_eq!(host.text("echo", tool).await, tool);
    }
}

#[tokio::test]
async fn busy_guests_do_not_keep_others_waiting() {
    let host = Fixture::new().await;
    let mut busy = Vec::new();
    for _ in 0..6 {
        busy.push(host.start("spin", "").await);
    }
    let started = Instant::now();
    for _ in 0..10 {
        assert_eq!(host.text("echo", "x").await, "x");
    }
    // Ten ticks of every busy guest before it is far below this.
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn a_task_in_a_busy_loop_is_cancelled_by_force() {
    let host = Fixture::new().await;
    let key = host
        .scheduler
        .submit(submission("spin", ""))
        .await
        .unwrap()
        .key;
    host.until(&key, |task| task.status() == Status::Working)
        .await;
    host.scheduler.cancel(&key, "enough").await.unwrap();
    let task = host.until(&key, |task| task.is_terminal()).await;
    assert_eq!(task.status(), Status::Cancelled);
}
