//! Many tasks: what each costs in memory while it waits, how long a start takes, a thousand answers
//! at once, and a sweep of many that nobody else notices. Times are printed and not judged.

use std::io::Write as _;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use serde_json::json;

use super::{asking, checked, data_dir, is_long, script_host, status, store_command, swept, yes};
use crate::harness::{Client, Host, Setup};

/// Requests under way at once.
const CONCURRENCY: usize = 64;

/// What a waiting task may add to the host's memory.
const WAITING_MAX_BYTES: u64 = 4 * 1024;

struct Scale {
    waiting: usize,
    stored: usize,
    answered: usize,
}

fn scale() -> Scale {
    match is_long() {
        true => Scale {
            waiting: 20_000,
            stored: 100_000,
            answered: 1_000,
        },
        false => Scale {
            waiting: 400,
            stored: 3_000,
            answered: 100,
        },
    }
}

fn resident_bytes(host: &Host) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", host.pid())).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024
}

/// Starts so many tasks that wait for an answer, spread over the tools that can be parked.
async fn park(client: &Client, count: usize) -> Vec<String> {
    let ids: Vec<String> = stream::iter(0..count)
        .map(|number| async move {
            let tool = ["script_resume", "script_clean_up"][number % 2];
            client.start(tool, asking()).await
        })
        .buffer_unordered(CONCURRENCY)
        .collect()
        .await;
    until_all(client, &ids, "input_required").await;
    ids
}

async fn until_all(client: &Client, ids: &[String], expected: &str) {
    stream::iter(ids)
        .map(|id| async move { while status(client, id).await.as_deref() != Some(expected) {} })
        .buffer_unordered(CONCURRENCY)
        .collect::<Vec<()>>()
        .await;
}

/// Puts so many copies of one ended task beside what the store has, expired or not.
fn multiply(setup: &Setup, copies: usize, expires_ms: u64) {
    let export = setup.path("tasks.jsonl");
    let (code, _) = store_command(setup, &["export", export.to_str().unwrap()]);
    assert_eq!(code, 0);
    let text = std::fs::read_to_string(&export).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    let end: serde_json::Value = serde_json::from_str(lines.pop().unwrap()).unwrap();
    let tasks = end["end"]["tasks"].as_u64().unwrap() as usize;
    let first = lines
        .iter()
        .position(|line| line.contains("\"phase\":\"completed\""))
        .expect("a task has ended");
    let length = lines[first + 1..]
        .iter()
        .position(|line| line.starts_with("{\"task\""))
        .unwrap_or(lines.len() - first - 1);
    let mut template: serde_json::Value = serde_json::from_str(lines[first]).unwrap();
    template["task"]["record"]["expires_ms"] = json!(expires_ms);
    let mut file = std::io::BufWriter::new(std::fs::File::create(&export).unwrap());
    for line in &lines {
        writeln!(file, "{line}").unwrap();
    }
    for copy in 0..copies {
        template["task"]["id"] = json!(format!("copy-{expires_ms}-{copy}"));
        writeln!(file, "{template}").unwrap();
        for line in &lines[first + 1..=first + length] {
            writeln!(file, "{line}").unwrap();
        }
    }
    writeln!(file, "{}", json!({"end": {"tasks": tasks + copies}})).unwrap();
    drop(file);
    std::fs::remove_dir_all(data_dir(setup).join("store")).unwrap();
    let (code, _) = store_command(setup, &["import", export.to_str().unwrap()]);
    assert_eq!(code, 0);
    std::fs::remove_file(&export).unwrap();
}

fn far_away_ms() -> u64 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    u64::try_from(now.as_millis()).unwrap() + 3_600_000
}

fn percentile_99(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() * 99 / 100]
}

/// How long `tasks/get` takes while `goes_on`.
async fn look_while(client: &Client, id: &str, goes_on: impl Fn(usize) -> bool) -> Vec<Duration> {
    let mut times = Vec::new();
    while goes_on(times.len()) {
        let began = Instant::now();
        assert!(status(client, id).await.is_some());
        times.push(began.elapsed());
    }
    times
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_cost_little() {
    let scale = scale();
    let setup = script_host()
        .configure(
            "[limits]\npark_after_ms = 0\ntasks_unfinished_max = 1000000\nsweep_interval_ms = 3000",
        )
        .logging("longshore::scheduler=debug,longshore=info");

    // Memory of a waiting task.
    let host = setup.start().await;
    let client = host.client();
    let mut ids = park(&client, 200).await;
    let before = resident_bytes(&host);
    ids.extend(park(&client, scale.waiting).await);
    let grown = resident_bytes(&host).saturating_sub(before);
    let each = grown / scale.waiting as u64;
    println!(
        "{} waiting tasks: {each} bytes of memory each",
        scale.waiting
    );
    if is_long() {
        assert!(
            each < WAITING_MAX_BYTES,
            "{each} bytes for each waiting task"
        );
    }
    let done = client.start("script_resume", json!({"script": []})).await;
    client.until_status(&done, "completed").await;
    assert!(host.terminate().await.success());

    // A start with many tasks.
    multiply(&setup, scale.stored - scale.waiting, far_away_ms());
    let began = Instant::now();
    let host = setup.start().await;
    let client = host.client();
    assert_eq!(status(&client, &done).await.as_deref(), Some("completed"));
    println!(
        "{} stored tasks: serving after {:?}",
        scale.stored,
        began.elapsed()
    );

    // Answers at once.
    let began = Instant::now();
    let answered = &ids[..scale.answered];
    let replies =
        futures_util::future::join_all(answered.iter().map(|id| client.answer(id, yes())));
    for reply in replies.await {
        reply.result();
    }
    until_all(&client, answered, "completed").await;
    println!(
        "{} answers at once: all completed after {:?}",
        answered.len(),
        began.elapsed()
    );
    assert!(host.terminate().await.success());

    // A sweep of many.
    multiply(&setup, scale.stored, 1);
    let host = setup.start().await;
    let client = host.client();
    let began = Instant::now();
    let idle = look_while(&client, &done, |_| began.elapsed() < Duration::from_secs(2)).await;
    let looks = idle.len();
    while !host.output().contains("sweeping") {
        assert!(status(&client, &done).await.is_some());
    }
    let began = Instant::now();
    let busy = look_while(&client, &done, |_| swept(&host) < scale.stored).await;
    println!(
        "a sweep of {} tasks took {:?}; tasks/get p99 {:?} before ({looks} looks), {:?} during ({})",
        scale.stored,
        began.elapsed(),
        percentile_99(idle),
        percentile_99(busy.clone()),
        busy.len(),
    );
    assert!(host.terminate().await.success());
    assert_eq!(checked(&setup)["leftoverFiles"], 0);
}
