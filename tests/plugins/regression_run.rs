//! `regression-run` against a server of the test's own.

use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::harness::{Host, Seen, Server, Setup};
use crate::plugins::{structured, task_named};

/// A host whose plugin has the cases in `cases/` and is granted `http`.
fn setup(cases: &[(&str, &str)], http: &[&str]) -> Setup {
    let guest = longshore_guests::REGRESSION_RUN;
    let setup = Setup::new(&[(guest.name, &guest.directory())]);
    for (path, text) in cases {
        let file = setup.path("cases").join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let directory = setup.path("cases");
    setup.configure(&format!(
        "[limits]\nsave_interval_ms = 50\n[plugin.regression-run.grants]\nhttp = {http:?}\n\
         directories.cases = {{ path = {directory:?}, access = \"read\" }}"
    ))
}

fn get(path: &str) -> String {
    format!("request.path = '{path}'\nexpect.status = 200\n")
}

/// Answers `/500` with that status and all others with 200; `/held…` waits for `gate`.
async fn server(gate: &Arc<Semaphore>) -> Server {
    let gate = gate.clone();
    Server::start(move |seen: Seen| {
        let gate = gate.clone();
        async move {
            if seen.path.starts_with("/held") {
                gate.acquire().await.unwrap().forget();
            }
            let status = if seen.path.ends_with("/500") {
                500
            } else {
                200
            };
            (status, "{\"ok\": true}".to_owned())
        }
    })
    .await
}

async fn start(host: &Host, server: &Server, concurrency: u64) -> String {
    let arguments = json!({"base_url": server.url(""), "concurrency": concurrency});
    host.client().start("regression-run", arguments).await
}

fn reasons(report: &Value) -> Vec<(&str, &str)> {
    let failing = report["failing"].as_array().unwrap();
    failing
        .iter()
        .map(|failing| {
            let text = |key: &str| failing[key].as_str().unwrap();
            (text("path"), text("reason"))
        })
        .collect()
}

#[tokio::test]
async fn progress_counts_cases_and_failures_and_every_failing_case_is_listed() {
    let gate = Arc::new(Semaphore::new(0));
    let server = server(&gate).await;
    let setup = setup(
        &[
            ("a.toml", &get("/a/500")),
            ("b.toml", "request.path = '/'\n\nexpect.stat = 1\n"),
            ("c/d.toml", &get("/held")),
            ("e.toml", &get("/e")),
        ],
        &[server.authority()],
    );
    let host = setup.start().await;
    let client = host.client();
    let id = start(&host, &server, 1).await;
    let told = |task: &Value| task["statusMessage"] == "2/4, 2 failing";
    let task = client.until(&id, told).await;
    let done = json!({"done": 2, "total": 4});
    assert_eq!(task["_meta"]["longshore/progress"], done, "{task:#}");

    gate.add_permits(1);
    let report = structured(&client, &id).await;
    assert_eq!(report["passed"], false);
    assert_eq!(
        (&report["total"], &report["passing"]),
        (&json!(4), &json!(2))
    );
    let failing = reasons(&report);
    assert_eq!(failing[0], ("a.toml", "status is 500 instead of 200"));
    assert_eq!(failing[1].0, "b.toml");
    assert!(
        failing[1].1.starts_with("not a case: line 3: "),
        "{failing:?}"
    );
    assert_eq!(failing.len(), 2);
    let task = client.task(&id).await;
    assert_eq!(task["result"]["isError"], false);
}

#[tokio::test]
async fn no_more_requests_are_under_way_than_were_asked_for() {
    let gate = Arc::new(Semaphore::new(0));
    let server = server(&gate).await;
    let names: Vec<String> = (0..7).map(|index| format!("{index}.toml")).collect();
    let case = get("/held");
    let cases: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), &*case)).collect();
    let setup = setup(&cases, &[server.authority()]);
    let host = setup.start().await;
    let id = start(&host, &server, 3).await;
    server.until_seen(3).await;
    for answered in 1..=4 {
        // One more comes only for one that was answered.
        assert_eq!(server.seen().len(), answered + 2);
        gate.add_permits(1);
        server.until_seen(answered + 3).await;
    }
    gate.add_permits(3);
    let report = structured(&host.client(), &id).await;
    assert_eq!(report["passing"], 7);
}

#[tokio::test]
async fn a_serial_case_runs_beside_no_other() {
    let gate = Arc::new(Semaphore::new(0));
    let server = server(&gate).await;
    let serial = format!("serial = true\n{}", get("/held/c"));
    let setup = setup(
        &[
            ("a.toml", &get("/held/a")),
            ("b.toml", &get("/held/b")),
            ("c.toml", &serial),
            ("d.toml", &get("/d")),
            ("e.toml", &get("/e")),
        ],
        &[server.authority()],
    );
    let host = setup.start().await;
    let id = start(&host, &server, 4).await;
    server.until_seen(2).await;
    // While `a` and `b` are under way `c` waits, though there is room for it.
    let mut paths: Vec<String> = server.seen().into_iter().map(|seen| seen.path).collect();
    paths.sort();
    assert_eq!(paths, ["/held/a", "/held/b"]);
    gate.add_permits(2);
    let seen = server.until_seen(3).await;
    assert_eq!(seen[2].path, "/held/c");
    // The checkpoint of both is durable by now, and nothing else was begun.
    let told = |task: &Value| task["statusMessage"] == "2/5, 0 failing";
    host.client().until(&id, told).await;
    assert_eq!(server.seen().len(), 3);
    gate.add_permits(1);
    assert_eq!(structured(&host.client(), &id).await["passing"], 5);
}

#[tokio::test]
async fn the_printed_command_sends_the_case_again() {
    let server = Server::start(|_| async { (500, String::new()) }).await;
    let case = "request = { method = 'PUT', path = '/a%20b?c=[1]&d=$e', \
                headers = { x-team = \"it's blue\" }, json = { text = \"two\\nlines & 'more'\" } }\n\
                expect.status = 200\n";
    let setup = setup(&[("a.toml", case)], &[server.authority()]);
    let host = setup.start().await;
    let id = start(&host, &server, 1).await;
    let report = structured(&host.client(), &id).await;
    let command = report["failing"][0]["curl"].as_str().unwrap();
    let sent = server.seen().remove(0);

    // A shell that has no curl still shows the words that curl would get.
    let script = format!("curl() {{ printf '%s\\0' \"$@\"; }}\n{command}");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = output.split_terminator('\0').collect();
    let has = |pair: [&str; 2]| words.windows(2).any(|words| words == pair);
    assert!(has(["-X", "PUT"]), "{words:?}");
    assert!(has(["-H", "x-team: it's blue"]), "{words:?}");
    assert!(has(["-H", "content-type: application/json"]), "{words:?}");
    assert!(has(["--data-raw", &sent.body]), "{words:?}");
    assert_eq!(*words.last().unwrap(), server.url(&sent.path));

    if Command::new("curl").arg("--version").output().is_err() {
        return;
    }
    let mut curl = tokio::process::Command::new("sh");
    assert!(
        curl.args(["-c", command])
            .output()
            .await
            .unwrap()
            .status
            .success()
    );
    let again = server.seen().remove(1);
    assert_eq!((again.line(), &again.body), (sent.line(), &sent.body));
    for header in ["x-team", "content-type", "content-length", "host"] {
        assert_eq!(again.header(header), sent.header(header), "{header}");
    }
}

#[tokio::test]
async fn a_host_that_is_not_granted_is_one_failure_that_says_which_grant_is_missing() {
    let gate = Arc::new(Semaphore::new(0));
    let server = server(&gate).await;
    let setup = setup(&[("a.toml", &get("/a")), ("b.toml", &get("/b"))], &[]);
    let host = setup.start().await;
    let client = host.client();
    let id = start(&host, &server, 4).await;
    let task = client.until_status(&id, "completed").await;
    assert_eq!(task["result"]["isError"], true, "{task:#}");
    let text = task["result"]["content"][0]["text"].as_str().unwrap();
    let missing = format!("no grant covers {}", server.url(""));
    assert!(text.contains(&missing), "{text}");
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_case_beyond_the_grant_fails_beside_others_that_do_not() {
    let gate = Arc::new(Semaphore::new(0));
    let server = server(&gate).await;
    let cases = [("a.toml", &*get("/open/a")), ("b.toml", &get("/b"))];
    let granted = format!("{}/open/", server.authority());
    let setup = setup(&cases, &[&granted]);
    let host = setup.start().await;
    let id = start(&host, &server, 4).await;
    let report = structured(&host.client(), &id).await;
    let failing = reasons(&report);
    assert_eq!(failing.len(), 1, "{report:#}");
    assert!(failing[0].1.contains("no grant covers it"), "{failing:?}");
    assert_eq!(server.lines(), ["GET /open/a"]);
}

#[tokio::test]
async fn a_cancel_waits_for_the_requests_under_way_and_says_how_far_it_came() {
    let gate = Arc::new(Semaphore::new(0));
    let server = server(&gate).await;
    let setup = setup(
        &[
            ("a.toml", &get("/held/500")),
            ("b.toml", &get("/held/b")),
            ("c.toml", &get("/c")),
            ("d.toml", &get("/d")),
            ("e.toml", &get("/e")),
        ],
        &[server.authority()],
    );
    let host = setup.start().await;
    let client = host.client();
    let id = start(&host, &server, 2).await;
    server.until_seen(2).await;
    client.cancel(&id).await;
    gate.add_permits(2);
    let task = client.until_status(&id, "cancelled").await;
    assert_eq!(
        task["statusMessage"],
        "cancelled: stopped after 2 of 5 cases, 1 failing; 3 did not run; failing: a.toml"
    );
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn a_run_after_a_crash_sends_only_the_cases_without_a_result() {
    let gate = Arc::new(Semaphore::new(0));
    let server = server(&gate).await;
    let setup = setup(
        &[
            ("a.toml", &get("/a/500")),
            ("b.toml", &get("/b")),
            ("c.toml", &get("/held/c")),
            ("d.toml", &get("/d")),
        ],
        &[server.authority()],
    );
    let host = setup.start().await;
    let id = start(&host, &server, 1).await;
    // One at a time: the third is sent once the results of two are saved.
    server.until_seen(3).await;
    host.kill().await;

    let host = setup.start().await;
    server.until_seen(4).await;
    gate.add_permits(2);
    let report = structured(&host.client(), &id).await;
    assert_eq!(
        server.lines(),
        [
            "GET /a/500",
            "GET /b",
            "GET /held/c",
            "GET /held/c",
            "GET /d"
        ]
    );
    assert_eq!(
        reasons(&report),
        [("a.toml", "status is 500 instead of 200")]
    );
    assert_eq!(report["total"], 4);
}

#[tokio::test]
async fn the_prompt_names_the_call_to_make() {
    let setup = setup(&[("a.toml", &get("/a"))], &[]);
    let host = setup.start().await;
    let arguments = json!({"base_url": "https://h/api"});
    let params = json!({"name": "triage-regressions", "arguments": arguments});
    let reply = host.client().request("prompts/get", params).await;
    let text = reply.result()["messages"][0]["content"]["text"].clone();
    let text = text.as_str().unwrap();
    assert!(text.contains("`regression-run` with `base_url` = \"https://h/api\""));
}

#[tokio::test]
async fn a_client_that_takes_no_tasks_follows_the_run_and_may_leave_it() {
    let gate = Arc::new(Semaphore::new(0));
    let server = server(&gate).await;
    let cases = [("a.toml", &*get("/a")), ("b.toml", &get("/held/b"))];
    let setup = setup(&cases, &[server.authority()]);
    let host = setup.start().await;
    let arguments = json!({"base_url": server.url(""), "concurrency": 1});
    let params = json!({
        "name": "regression-run", "arguments": arguments, "_meta": {"progressToken": "t"},
    });
    let leaver = host.client().without_tasks();
    let mut messages = leaver.stream("tools/call", params).await;
    let first = messages.next().await.expect("a first message");
    let id = task_named(first["params"]["message"].as_str().unwrap());
    server.until_seen(2).await;
    drop(messages);
    gate.add_permits(1);
    assert_eq!(structured(&host.client(), &id).await["passing"], 2);
}
