//! `release-gate` against a server that is released to.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::harness::{Client, LegacyClient, Server, Setup};
use crate::plugins::{answer, question, structured, task_named, yes};

fn setup(server: &Server) -> Setup {
    let guest = longshore_guests::RELEASE_GATE;
    Setup::new(&[(guest.name, &guest.directory())]).configure(&format!(
        "[limits]\npark_after_ms = 0\n[plugin.release-gate.grants]\nhttp = [{:?}]",
        server.authority()
    ))
}

/// Does whatever it is asked, but fails `/fails`.
async fn server() -> Server {
    Server::start(|seen| async move {
        let status = if seen.path == "/fails" { 500 } else { 200 };
        (status, "ok".to_owned())
    })
    .await
}

fn step(server: &Server, name: &str, method: &str, path: &str) -> Value {
    json!({"name": name, "description": name, "method": method, "url": server.url(path)})
}

fn tag_and_publish(server: &Server) -> Value {
    json!([
        step(server, "tag", "POST", "/tag"),
        step(server, "publish", "POST", "/publish"),
    ])
}

fn with_undo(mut step: Value, server: &Server) -> Value {
    step["undo"] = json!({"method": "DELETE", "url": server.url("/undo")});
    step
}

async fn start(client: &Client, steps: Value) -> String {
    client.start("release-gate", json!({"steps": steps})).await
}

/// Waits for the question with this key and says yes.
async fn approve(client: &Client, id: &str, key: &str) {
    let (asked, _) = question(client, id).await;
    assert_eq!(asked, key);
    answer(client, id, key, yes()).await;
}

fn states(report: &Value) -> Vec<&str> {
    let steps = report["steps"].as_array().unwrap().iter();
    steps.map(|step| step["state"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn only_steps_that_others_see_are_asked_for_and_each_is_sent_once_under_its_key() {
    let server = server().await;
    let setup = setup(&server);
    let host = setup.start().await;
    let client = host.client();
    let steps = json!([
        step(&server, "look", "GET", "/look"),
        step(&server, "tag", "POST", "/tag"),
        step(&server, "head", "HEAD", "/head"),
        step(&server, "publish", "PUT", "/publish"),
    ]);
    let id = start(&client, steps).await;
    let (key, message) = question(&client, &id).await;
    assert_eq!(key, "step-2-tag");
    assert!(message.contains(&server.url("/tag")), "{message}");
    assert_eq!(server.lines(), ["GET /look"]);
    answer(&client, &id, &key, yes()).await;
    approve(&client, &id, "step-4-publish").await;
    let report = structured(&client, &id).await;
    assert_eq!(report["outcome"], "completed");
    assert_eq!(client.task(&id).await["statusMessage"], "4/4 done");

    let seen = server.seen();
    assert_eq!(
        server.lines(),
        ["GET /look", "POST /tag", "HEAD /head", "PUT /publish"]
    );
    let keys: Vec<_> = seen
        .iter()
        .map(|seen| seen.header("idempotency-key"))
        .collect();
    let (tag, publish) = (format!("{id}-tag"), format!("{id}-publish"));
    assert_eq!(keys, [None, Some(&*tag), None, Some(&*publish)]);
    let lengths: Vec<_> = seen
        .iter()
        .map(|seen| seen.header("content-length"))
        .collect();
    assert_eq!(lengths, [None, Some("0"), None, Some("0")]);
}

#[tokio::test]
async fn its_task_lives_as_long_as_it_declares_within_what_the_operator_allows() {
    const DAY_MS: u64 = 24 * 3_600 * 1_000;
    let server = server().await;
    for (limits, expected_ms) in [
        ("", 7 * DAY_MS),
        ("task_ttl_max_ms = 172800000", 2 * DAY_MS),
    ] {
        let guest = longshore_guests::RELEASE_GATE;
        let setup = Setup::new(&[(guest.name, &guest.directory())])
            .configure(&format!("[limits]\n{limits}"));
        let host = setup.start().await;
        let steps = json!([step(&server, "deploy", "POST", "/deploy")]);
        let id = start(&host.client(), steps).await;
        assert_eq!(host.client().task(&id).await["ttlMs"], expected_ms);
    }
}

#[tokio::test]
async fn the_external_reference_is_there_before_the_first_request() {
    let gate = Arc::new(Semaphore::new(0));
    let held = gate.clone();
    let server = Server::start(move |_| {
        let held = held.clone();
        async move {
            held.acquire().await.unwrap().forget();
            (200, String::new())
        }
    })
    .await;
    let setup = setup(&server);
    let host = setup.start().await;
    let client = host.client();
    let arguments = json!({
        "reference": "CHG-7",
        "reference_url": "https://changes.example/CHG-7",
        "steps": [step(&server, "look", "GET", "/look")],
    });
    let id = client.start("release-gate", arguments).await;
    server.until_seen(1).await;
    let task = client.task(&id).await;
    let reference = json!({"reference": "CHG-7", "url": "https://changes.example/CHG-7"});
    assert_eq!(
        task["_meta"]["longshore/externalReference"], reference,
        "{task:#}"
    );
    gate.add_permits(1);
    client.until_status(&id, "completed").await;
}

#[tokio::test]
async fn a_no_ends_cleanly_and_sends_nothing_more() {
    let server = server().await;
    let setup = setup(&server);
    let host = setup.start().await;
    let client = host.client();
    for (action, note) in [
        ("decline", "declined"),
        ("cancel", "the question was closed without an answer"),
    ] {
        let before = server.seen().len();
        let steps = json!([
            step(&server, "tag", "POST", "/tag"),
            step(&server, "publish", "POST", "/publish"),
            step(&server, "look", "GET", "/look"),
        ]);
        let id = start(&client, steps).await;
        approve(&client, &id, "step-1-tag").await;
        let (key, _) = question(&client, &id).await;
        answer(&client, &id, &key, json!({"action": action})).await;
        let report = structured(&client, &id).await;
        assert_eq!(report["outcome"], "declined");
        assert_eq!(states(&report), ["done", "declined", "not_run"]);
        assert_eq!(report["steps"][1]["note"], note);
        assert_eq!(client.task(&id).await["result"]["isError"], false);
        assert_eq!(server.lines()[before..], ["POST /tag"]);
    }
}

#[tokio::test]
async fn a_client_that_cannot_answer_is_refused_before_anything_is_sent() {
    let server = server().await;
    let setup = setup(&server);
    let host = setup.start().await;
    let client = host
        .client()
        .declaring(json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}));
    let steps = json!([
        step(&server, "look", "GET", "/look"),
        step(&server, "tag", "POST", "/tag"),
    ]);
    let id = start(&client, steps).await;
    let task = client.until_status(&id, "failed").await;
    assert_eq!(task["error"]["code"], -32021, "{task:#}");
    let message = task["error"]["message"].as_str().unwrap();
    assert!(message.contains("elicitation"), "{message}");
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_step_is_sent_once_when_the_host_is_replaced_while_the_next_waits_for_an_answer() {
    let server = server().await;
    let setup = setup(&server);
    let host = setup.start().await;
    let steps = tag_and_publish(&server);
    let id = start(&host.client(), steps).await;
    approve(&host.client(), &id, "step-1-tag").await;
    let asked = question(&host.client(), &id).await;
    assert!(host.terminate().await.success());

    let host = setup.start().await;
    let client = host.client();
    assert_eq!(question(&client, &id).await, asked);
    approve(&client, &id, "step-2-publish").await;
    let report = structured(&client, &id).await;
    assert_eq!(states(&report), ["done", "done"]);
    assert_eq!(server.lines(), ["POST /tag", "POST /publish"]);
}

#[tokio::test]
async fn a_cancel_while_it_waits_takes_back_what_was_done_and_says_so() {
    let server = server().await;
    let setup = setup(&server);
    let host = setup.start().await;
    let client = host.client();
    let steps = json!([
        with_undo(step(&server, "tag", "POST", "/tag"), &server),
        step(&server, "publish", "POST", "/publish"),
    ]);
    let id = start(&client, steps).await;
    approve(&client, &id, "step-1-tag").await;
    question(&client, &id).await;
    client.cancel(&id).await;
    let task = client.until_status(&id, "cancelled").await;
    let message = task["statusMessage"].as_str().unwrap();
    for part in [
        "cancelled: effects undone: 1, effects left: 0",
        "1. tag: done and undone (200)",
        "2. publish: not run",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(server.lines(), ["POST /tag", "DELETE /undo"]);
    let key = format!("{id}-tag!undo");
    assert_eq!(server.seen()[1].header("idempotency-key"), Some(&*key));
}

#[tokio::test]
async fn a_step_that_fails_stops_the_list_and_offers_to_take_back_the_others() {
    let server = server().await;
    let setup = setup(&server);
    let host = setup.start().await;
    let client = host.client();
    let steps = json!([
        with_undo(step(&server, "tag", "POST", "/tag"), &server),
        step(&server, "publish", "POST", "/fails"),
        step(&server, "look", "GET", "/look"),
    ]);
    let id = start(&client, steps).await;
    approve(&client, &id, "step-1-tag").await;
    approve(&client, &id, "step-2-publish").await;
    approve(&client, &id, "undo-1-tag").await;
    let report = structured(&client, &id).await;
    assert_eq!(report["outcome"], "failed");
    assert_eq!(states(&report), ["undone", "failed", "not_run"]);
    assert_eq!(client.task(&id).await["result"]["isError"], true);
    assert_eq!(server.lines(), ["POST /tag", "POST /fails", "DELETE /undo"]);
}

#[tokio::test]
async fn a_client_that_takes_no_tasks_is_asked_within_its_call_and_the_task_outlives_the_host() {
    let server = server().await;
    let setup = setup(&server);
    let host = setup.start().await;
    let steps = tag_and_publish(&server);
    let params = json!({"name": "release-gate", "arguments": {"steps": steps}});
    let client = host.client().without_tasks();
    let first = client.request("tools/call", params.clone()).await.result();
    assert!(
        first["inputRequests"].get("step-1-tag").is_some(),
        "{first:#}"
    );
    host.kill().await;

    let host = setup.start().await;
    let client = host.client().without_tasks();
    let answered = |round: &Value, key: &str| {
        let mut params = params.clone();
        params["requestState"] = round["requestState"].clone();
        params["inputResponses"] = json!({key: yes()});
        params
    };
    let second = answered(&first, "step-1-tag");
    let second = client.request("tools/call", second).await.result();
    assert_eq!(server.lines(), ["POST /tag"]);
    let last = answered(&second, "step-2-publish");
    let last = client.request("tools/call", last).await.result();
    assert_eq!(
        last["structuredContent"]["outcome"], "completed",
        "{last:#}"
    );
    let id = last["_meta"]["longshore/task"].as_str().unwrap();
    let tag = format!("{id}-tag");
    assert_eq!(server.seen()[0].header("idempotency-key"), Some(&*tag));
    assert_eq!(server.lines(), ["POST /tag", "POST /publish"]);
}

#[tokio::test]
async fn a_legacy_client_is_asked_for_each_effect_and_may_leave_in_the_middle() {
    let server = server().await;
    let setup = setup(&server);
    let host = setup.start().await;
    let steps = tag_and_publish(&server);
    let arguments = json!({"steps": steps});
    let legacy = LegacyClient::open(host.url(), "2025-11-25").await;
    let mut stream = legacy
        .call_stream("release-gate", arguments, Some("t"))
        .await;
    let first = stream.next().await.expect("a first message");
    let id = task_named(first["params"]["message"].as_str().unwrap());
    let mut asked = Vec::new();
    while asked.len() < 2 {
        let message = stream.next().await.expect("it asks for both");
        if message["method"] != "elicitation/create" {
            continue;
        }
        asked.push(message["params"]["message"].to_string());
        if asked.len() == 1 {
            let response = json!({"result": yes()});
            legacy.respond(&message["id"], response).await;
        }
    }
    assert!(
        asked[0].contains("/tag") && asked[1].contains("/publish"),
        "{asked:?}"
    );
    assert_eq!(legacy.delete().await, 204);
    // What nobody allowed is not sent; whoever comes next is asked.
    approve(&host.client(), &id, "step-2-publish").await;
    let report = structured(&host.client(), &id).await;
    assert_eq!(report["outcome"], "completed");
    assert_eq!(server.lines(), ["POST /tag", "POST /publish"]);
}
