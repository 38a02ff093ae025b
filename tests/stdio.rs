//! `longshore stdio`: both eras over one process's pipes, and one data directory for all.

use longshore_guests as guests;
use serde_json::{Value, json};

use crate::harness::{Setup, StdioHost, run};

fn script_setup() -> Setup {
    Setup::new(&[("script", &guests::SCRIPT.directory())])
}

#[tokio::test]
async fn a_modern_client_is_served_and_the_process_ends_with_its_input() {
    let setup = script_setup();
    let mut host = StdioHost::start(&setup);
    let discovered = host.request("server/discover", json!({})).await;
    assert_eq!(
        discovered["result"]["supportedVersions"],
        json!(["2026-07-28"])
    );
    // What a guest prints is never on the wire: every line is checked to be a message.
    let script =
        json!({"script": [{"do": "print", "text": "{\"jsonrpc\":\"2.0\"} not a message"}]});
    let called = host
        .request(
            "tools/call",
            json!({"name": "script_inline", "arguments": script}),
        )
        .await;
    assert_eq!(called["result"]["resultType"], "complete", "{called:#}");
    host.send_line("not json").await;
    let refused = host.next().await.unwrap();
    assert_eq!(refused["error"]["code"], -32700);
    assert!(host.end().await.success());
}

#[tokio::test]
async fn requests_run_at_once_and_one_can_be_cancelled() {
    let setup = script_setup().configure("[limits]\ntenant_calls_running_max = 1");
    let mut host = StdioHost::start(&setup);
    let waits = json!({
        "name": "script_inline",
        "arguments": {"script": [
            {"do": "progress", "message": "waiting"}, {"do": "wait", "ms": 600_000},
        ]},
        "_meta": {"progressToken": "t"},
    });
    let waiting = host.ask("tools/call", waits).await;
    assert_eq!(host.next().await.unwrap()["params"]["message"], "waiting");
    let listed = host.request("tools/list", json!({})).await;
    assert!(listed["result"]["tools"].is_array(), "{listed:#}");
    host.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waiting},
    }))
    .await;
    let says = json!({
        "name": "script_inline",
        "arguments": {"script": [{"do": "say", "text": "there is room"}]},
    });
    loop {
        let called = host.request("tools/call", says.clone()).await;
        match called["error"]["code"].as_i64() {
            None => break,
            Some(-31000) => {}
            Some(_) => panic!("{called:#}"),
        }
    }
    assert!(host.end().await.success());
}

#[tokio::test]
async fn a_subscription_tells_of_a_task_until_the_input_ends() {
    let setup = script_setup();
    let mut host = StdioHost::start(&setup);
    let script = json!({"script": [{"do": "confirm", "key": "go", "message": "Go?"}]});
    let created = host
        .request(
            "tools/call",
            json!({"name": "script_resume", "arguments": script}),
        )
        .await;
    let task = created["result"]["taskId"].clone();
    let params = json!({"notifications": {"taskIds": [task]}});
    host.ask("subscriptions/listen", params).await;
    let mut seen = host.next().await.unwrap();
    assert_eq!(seen["method"], "notifications/subscriptions/acknowledged");
    while seen["params"]["status"] != "input_required" {
        seen = host.next().await.unwrap();
    }
    assert!(host.end().await.success());
}

#[tokio::test]
async fn a_task_outlives_the_process_and_is_found_by_the_next_and_by_serve() {
    let setup = script_setup();
    let mut first = StdioHost::start(&setup);
    let script = json!({"script": [
        {"do": "confirm", "key": "go", "message": "Go?"}, {"do": "say", "text": "went"},
    ]});
    let created = first
        .request(
            "tools/call",
            json!({"name": "script_resume", "arguments": script}),
        )
        .await;
    let id = created["result"]["taskId"].as_str().unwrap().to_owned();
    assert!(first.end().await.success());

    let mut second = StdioHost::start(&setup);
    let params = json!({
        "taskId": id,
        "inputResponses": {"go": {"action": "accept", "content": {"confirm": true}}},
    });
    loop {
        let task = second.request("tasks/get", json!({"taskId": id})).await;
        if task["result"]["status"] == "input_required" {
            break;
        }
        assert_eq!(task["result"]["status"], "working", "{task:#}");
    }
    let answered = second.request("tasks/update", params).await;
    assert!(answered.get("error").is_none(), "{answered:#}");
    assert!(second.end().await.success());

    let serving = setup.start().await;
    let task = serving.client().until_status(&id, "completed").await;
    let text = &task["result"]["content"][0]["text"];
    assert_eq!(*text, "go: true\nwent");
}

#[tokio::test]
async fn a_handshake_makes_the_process_a_legacy_server() {
    let setup = script_setup();
    let mut host = StdioHost::start(&setup);
    // A client of both eras may look first.
    host.request("server/discover", json!({})).await;
    let initialized = host.initialize().await;
    assert_eq!(initialized["protocolVersion"], "2025-06-18");
    let listed = host.ask_bare("tools/list", json!({})).await;
    assert!(host.answer(&listed).await["result"]["tools"].is_array());
    let script = json!({"script": [
        {"do": "print", "text": "never on the wire"},
        {"do": "confirm", "key": "go", "message": "Go?"},
    ]});
    let call = json!({"name": "script_auto", "arguments": script});
    let called = host.ask_bare("tools/call", call).await;
    let question = host.next().await.unwrap();
    assert_eq!(question["method"], "elicitation/create", "{question:#}");
    host.send(&json!({
        "jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"},
    }))
    .await;
    let answered = host.answer(&called).await;
    assert_eq!(answered["result"]["content"][0]["text"], "go: false");
    assert_eq!(answered["result"]["_meta"]["longshore/synchronous"], true);
    assert!(host.end().await.success());
}

/// A call that tells that it waits, and then does what `then` says.
fn waiting_call(then: &Value) -> Value {
    let mut script = vec![json!({"do": "progress", "message": "waiting"})];
    script.extend(then.as_array().unwrap().iter().cloned());
    json!({
        "name": "script_inline", "arguments": {"script": script}, "_meta": {"progressToken": "t"},
    })
}

#[tokio::test]
async fn a_request_that_goes_on_too_long_after_the_input_has_ended_is_answered_with_an_error() {
    let setup = script_setup().configure("[limits]\ndrain_timeout_ms = 1000");
    let call = waiting_call(&json!([{"do": "wait", "ms": 600_000}]));
    for is_legacy in [false, true] {
        let mut host = StdioHost::start(&setup);
        let id = if is_legacy {
            host.initialize().await;
            host.ask_bare("tools/call", call.clone()).await
        } else {
            host.ask("tools/call", call.clone()).await
        };
        assert_eq!(host.next().await.unwrap()["params"]["message"], "waiting");
        host.end_input();
        let answer = host.answer(&id).await;
        assert_eq!(answer["error"]["code"], -32603, "{answer:#}");
        assert!(host.ended().await.success());
    }
}

#[tokio::test]
async fn a_call_is_answered_after_the_input_has_ended_also_when_it_goes_on_reporting() {
    let setup = script_setup();
    let mut host = StdioHost::start(&setup);
    host.initialize().await;
    let mut more = Vec::new();
    for _ in 0..5 {
        more.push(json!({"do": "wait", "ms": 50}));
        more.push(json!({"do": "progress", "message": "still"}));
    }
    more.push(json!({"do": "say", "text": "done"}));
    let id = host
        .ask_bare("tools/call", waiting_call(&Value::Array(more)))
        .await;
    assert_eq!(host.next().await.unwrap()["params"]["message"], "waiting");
    host.end_input();
    let answer = host.answer(&id).await;
    assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer:#}");
    assert!(host.ended().await.success());
}

#[tokio::test]
async fn a_client_that_has_ended_its_input_is_not_waited_for_with_a_question() {
    // Longer than the test may take.
    let setup = script_setup().configure("[limits]\ndrain_timeout_ms = 600000");
    for is_asked_before in [true, false] {
        let mut host = StdioHost::start(&setup);
        host.initialize().await;
        let asks = json!({"do": "confirm", "key": "go", "message": "Go?"});
        let then = match is_asked_before {
            true => json!([asks]),
            false => json!([{"do": "wait", "ms": 100}, asks]),
        };
        let id = host.ask_bare("tools/call", waiting_call(&then)).await;
        let mut seen = host.next().await.unwrap();
        while is_asked_before && seen["method"] != "elicitation/create" {
            seen = host.next().await.unwrap();
        }
        host.end_input();
        let answer = host.answer(&id).await;
        assert!(
            answer["result"]["isError"] == true || answer.get("error").is_some(),
            "{answer:#}"
        );
        assert!(host.ended().await.success());
    }
}

#[tokio::test]
async fn beside_a_serving_host_it_is_a_bridge_in_both_eras() {
    let setup = script_setup();
    let serving = setup.start().await;
    let client = serving.client();
    let script = json!({"script": [{"do": "wait", "ms": 600_000}]});
    let id = client.start("script_resume", script).await;

    let (mut modern, mut legacy) = (StdioHost::start(&setup), StdioHost::start(&setup));
    let task = modern.request("tasks/get", json!({"taskId": id})).await;
    assert_eq!(task["result"]["status"], "working", "{task:#}");
    assert_eq!(legacy.initialize().await["serverInfo"]["name"], "longshore");
    assert!(modern.end().await.success());
    assert!(legacy.end().await.success());
    client.cancel(&id).await;
    client.until_status(&id, "cancelled").await;
}

#[tokio::test]
async fn a_bridge_outlives_the_client_of_the_process_it_goes_through() {
    let setup = script_setup();
    let mut first = StdioHost::start(&setup);
    first.request("tools/list", json!({})).await;
    let mut second = StdioHost::start(&setup);
    second.request("tools/list", json!({})).await;
    let first = tokio::spawn(first.end());
    let listed = second.request("tools/list", json!({})).await;
    assert!(listed["result"]["tools"].is_array(), "{listed:#}");
    assert!(second.end().await.success());
    assert!(first.await.unwrap().success());
}

#[tokio::test]
async fn a_bridge_says_why_when_its_host_is_gone() {
    let setup = script_setup();
    let serving = setup.start().await;
    let mut bridge = StdioHost::start(&setup);
    bridge.request("tools/list", json!({})).await;
    serving.kill().await;
    assert_eq!(bridge.next().await, None);
    assert_eq!(bridge.end().await.code(), Some(1));
}

#[tokio::test]
async fn a_client_that_closes_its_side_takes_no_other_ones_host_with_it() {
    let setup = script_setup();
    let mut holder = StdioHost::start(&setup);
    holder.request("tools/list", json!({})).await;
    let mut bridge = StdioHost::start(&setup);
    bridge.request("tools/list", json!({})).await;
    holder.stop_reading();
    holder.ask("tools/list", json!({})).await;
    let script = json!({"name": "script_resume", "arguments": {"script": []}});
    let created = bridge.request("tools/call", script).await;
    let id = created["result"]["taskId"].as_str().unwrap().to_owned();
    loop {
        let task = bridge.request("tasks/get", json!({"taskId": id})).await;
        if task["result"]["status"] == "completed" {
            break;
        }
    }
    assert!(bridge.end().await.success());
    // It says that its client broke off, once nobody needs it.
    assert_eq!(holder.end().await.code(), Some(1));
}

/// It would go on looking for the other host for longer than a client waits.
#[tokio::test]
async fn a_process_that_is_told_to_stop_while_it_starts_stops() {
    let setup = script_setup();
    let _serving = setup.start().await;
    std::fs::remove_file(setup.path("data").join("longshore.sock")).unwrap();
    let starting = StdioHost::start(&setup);
    assert_eq!(starting.terminate().await.code(), Some(130));
}

#[tokio::test]
async fn a_client_sees_the_tasks_of_the_tenant_it_is_started_for_also_through_a_bridge() {
    let setup = script_setup();
    let script = json!({"script": [{"do": "confirm", "key": "go", "message": "Go?"}]});
    let call = json!({"name": "script_resume", "arguments": script});
    let mut holder = StdioHost::start_with(&setup, &["--tenant", "ada"]);
    let created = holder.request("tools/call", call).await;
    let id = created["result"]["taskId"].as_str().unwrap().to_owned();
    let get = json!({"taskId": id});
    let unknown = json!({"taskId": "0123456789abcdef0123456789abcdef"});
    for (arguments, sees_it) in [
        (&["--tenant", "ada"][..], true),
        (&["--tenant", "bob"], false),
        (&[], false),
    ] {
        let mut bridge = StdioHost::start_with(&setup, arguments);
        let seen = bridge.request("tasks/get", get.clone()).await;
        assert_eq!(seen.get("result").is_some(), sees_it, "{seen:#}");
        if !sees_it {
            // I4: foreign and unknown look the same.
            let nothing = bridge.request("tasks/get", unknown.clone()).await;
            assert_eq!(seen["error"], nothing["error"]);
        }
        assert!(bridge.end().await.success());
    }
    assert!(holder.end().await.success());
}

#[tokio::test]
async fn a_tenant_with_a_name_that_can_not_be_is_refused_in_words() {
    let setup = script_setup();
    let mut command = setup.command("stdio");
    command.args(["--tenant", "../ada"]);
    let ended = run(command).await;
    assert_ne!(ended.code, 0);
    assert!(
        ended.stderr.contains("a tenant name is"),
        "{}",
        ended.stderr
    );
}
