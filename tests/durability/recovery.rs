//! What a killed host's tasks do at the next start, as each tool declares, and when they are given up.

use serde_json::{Value, json};

use crate::endurance::store_command;
use crate::harness::{Client, Host, Setup, longshore, run};
use crate::tasks::{accept, script, scripts, text, wait};

/// Starts a task and waits until it has told that it works.
async fn start(client: &Client, tool: &str, operations: Value) -> String {
    let id = client.start(tool, script(operations)).await;
    let works = |task: &Value| task["statusMessage"] == "at work";
    client.until(&id, works).await;
    id
}

async fn killed(setup: &Setup, host: Host) -> Host {
    host.kill().await;
    setup.start().await
}

#[tokio::test]
async fn a_killed_hosts_tasks_go_on_as_their_tools_declare() {
    let setup = scripts();
    let host = setup.start().await;
    let work = json!([
        {"do": "saved"},
        {"do": "step", "name": "once"},
        {"do": "checkpoint", "state": "half"},
        {"do": "progress", "message": "at work"},
        {"do": "wait_once", "ms": 3_600_000},
        {"do": "attempt"},
    ]);
    let mut ids = Vec::new();
    for tool in ["script_resume", "script_restart", "script_fail"] {
        ids.push(start(&host.client(), tool, work.clone()).await);
    }
    let host = killed(&setup, host).await;
    let client = host.client();
    for (id, saved) in [(&ids[0], r#"Some("half")"#), (&ids[1], "None")] {
        let task = client.until_status(id, "completed").await;
        // The step is the first run's in both: it is recorded once in a task's life.
        let expected =
            format!("saved {saved}\nstep once of attempt 1\nattempt 2, task Some({id:?})");
        assert_eq!(text(&task["result"]), expected);
    }
    let task = client.until_status(&ids[2], "failed").await;
    insta::assert_snapshot!(task["error"]["message"].as_str().unwrap(), @"the host stopped unexpectedly during run 1, and tool `script_fail` declares recovery `fail`, so its work may be half done; its author can declare `restart` or `resume`");
}

/// What a tool that kills its host would do; the test does it for it.
#[tokio::test]
async fn a_task_whose_host_died_three_times_without_progress_is_given_up() {
    let setup = scripts();
    let mut host = setup.start().await;
    let stuck = json!([{"do": "progress", "message": "at work"}, wait()]);
    let id = start(&host.client(), "script_restart", stuck).await;
    for run in 2..=3 {
        host = killed(&setup, host).await;
        let goes_on = |task: &Value| task["statusMessage"] == "at work";
        let task = host.client().until(&id, goes_on).await;
        assert_eq!(task["status"], "working", "run {run}");
    }
    host = killed(&setup, host).await;
    let task = host.client().until_status(&id, "failed").await;
    insta::assert_snapshot!(task["error"]["message"].as_str().unwrap(), @"the host stopped unexpectedly during run 3, as in the 2 runs before it, and none of them got further; the task is given up: find out why the host stopped before you call the tool again");
    // The host itself serves as before.
    let other = host
        .client()
        .start("script_resume", script(json!([wait()])))
        .await;
    host.client().cancel(&other).await.result();
    host.client().until_status(&other, "cancelled").await;
}

/// A tool that saves its state and then takes the host down, whatever it saved before.
#[tokio::test]
async fn a_task_that_gets_further_and_kills_its_host_each_time_is_given_up_in_the_end() {
    const DEATHS: u32 = 10;
    let setup = scripts();
    let mut host = setup.start().await;
    let operations = json!([
        {"do": "checkpoint", "state": "further"},
        {"do": "progress", "message": "at work"},
        wait(),
    ]);
    let id = start(&host.client(), "script_resume", operations).await;
    for run in 2..=DEATHS {
        host = killed(&setup, host).await;
        let works = |task: &Value| task["statusMessage"] == "at work";
        let task = host.client().until(&id, works).await;
        // What happened before is still told when the next run has words of its own.
        let runs = &task["_meta"]["longshore/runs"];
        let last = &runs["lastInterruption"];
        assert_eq!(
            (&runs["count"], &runs["hostDeaths"]),
            (&json!(run), &json!(run - 1))
        );
        assert_eq!(
            (&last["run"], &last["cause"]),
            (&json!(run - 1), &json!("crash"))
        );
    }
    host = killed(&setup, host).await;
    let task = host.client().until_status(&id, "failed").await;
    insta::assert_snapshot!(task["error"]["message"].as_str().unwrap(), @"the host stopped unexpectedly during run 10, and in 10 runs of it in all; the task is given up: find out why the host stopped before you call the tool again");
    let shown = command(&host, &["task", "get", &id]).await;
    let line = shown.lines().find(|line| line.starts_with("runs "));
    let line = line.unwrap_or_else(|| panic!("{shown}"));
    assert!(
        line.starts_with("runs     10; the host stopped unexpectedly during run 10, noticed 2")
    );
    assert!(line.ends_with("; it did 10 times in all"), "{line}");
}

/// What a command of the client prints.
async fn command(host: &Host, arguments: &[&str]) -> String {
    let mut command = longshore(arguments);
    command.env("LONGSHORE_URL", host.url());
    run(command).await.stdout
}

#[tokio::test]
async fn a_list_marks_a_task_whose_tool_says_that_it_failed() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let mut ids = Vec::new();
    for operation in [
        json!({"do": "say", "text": "fine"}),
        json!({"do": "fail", "text": "no"}),
    ] {
        let id = client
            .start("script_resume", script(json!([operation])))
            .await;
        client.until_status(&id, "completed").await;
        ids.push(id);
    }
    let shown = command(&host, &["task", "list"]).await;
    for (id, status) in ids.iter().zip(["completed  ", "completed (error)"]) {
        let line = shown.lines().find(|line| line.starts_with(id)).unwrap();
        assert!(line.contains(status), "{line}");
    }
}

#[tokio::test]
async fn a_parked_task_is_run_once_more_to_clean_up_when_it_is_cancelled() {
    let setup = scripts();
    let host = setup.start().await;
    let operations = json!([
        {"do": "checkpoint", "state": "half"},
        {"do": "confirm", "key": "go", "message": "Go?"},
    ]);
    let id = host
        .client()
        .start("script_clean_up", script(operations))
        .await;
    host.client().until_asked(&id).await;
    // In the next process it holds nothing.
    let host = killed(&setup, host).await;
    let client = host.client();
    client.cancel(&id).await.result();
    let task = client.until_status(&id, "cancelled").await;
    let message = "cancelled: cleaned up after Some(\"half\")";
    assert_eq!(task["statusMessage"], message);
    // Too late, and nothing changes (I3).
    let before = client.task(&id).await;
    let answers = json!({"go": accept(json!({"confirm": true}))});
    client.answer(&id, answers).await.result();
    assert_eq!(client.task(&id).await, before);
}

#[tokio::test]
async fn a_waiting_task_outlasts_a_compaction_and_the_way_to_another_directory() {
    let setup = scripts();
    let host = setup.start().await;
    let operations = json!([
        {"do": "checkpoint", "state": "x".repeat(40_000)},
        {"do": "confirm", "key": "go", "message": "Go?"},
        {"do": "attempt"},
    ]);
    let id = host
        .client()
        .start("script_resume", script(operations))
        .await;
    let asked = host.client().until_asked(&id).await;
    assert!(host.terminate().await.success());

    assert_eq!(store_command(&setup, &["compact"]).0, 0);
    assert_eq!(store_command(&setup, &["check"]).0, 0);
    let host = setup.start().await;
    assert_eq!(host.client().until_asked(&id).await, asked);
    assert!(host.terminate().await.success());

    let lines = setup.path("tasks.jsonl").display().to_string();
    assert_eq!(store_command(&setup, &["export", &lines]).0, 0);
    std::fs::remove_dir_all(setup.path("data/store")).unwrap();
    assert_eq!(store_command(&setup, &["import", &lines]).0, 0);
    let host = setup.start().await;
    let client = host.client();
    assert_eq!(client.until_asked(&id).await, asked);
    let answers = json!({"go": accept(json!({"confirm": true}))});
    client.answer(&id, answers).await.result();
    let task = client.until_status(&id, "completed").await;
    let expected = format!("go: true\nattempt 2, task Some({id:?})");
    assert_eq!(text(&task["result"]), expected);
}
