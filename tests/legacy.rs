//! Clients of the handshake revisions over real HTTP: the same tools, synchronously, with progress and
//! questions on the call's own stream. Tasks never appear here.

use longshore_guests as guests;
use serde_json::{Value, json};

use crate::harness::{Host, LegacyClient, Setup};

fn script_setup() -> Setup {
    Setup::new(&[("script", &guests::SCRIPT.directory())])
}

/// A script that waits until it is stopped.
fn waiting() -> Value {
    json!({"script": [{"do": "progress", "message": "waiting"}, {"do": "wait", "ms": 600_000}]})
}

fn confirming() -> Value {
    json!({"script": [{"do": "confirm", "key": "go", "message": "Go on?"}]})
}

async fn open(host: &Host) -> LegacyClient {
    LegacyClient::open(host.url(), "2025-11-25").await
}

/// Waits until the tenant has a place for a call, which a stopped call gives back.
async fn until_a_call_has_room(client: &LegacyClient) {
    let script = json!({"script": [{"do": "say", "text": "there is room"}]});
    loop {
        let reply = client.call("script_inline", script.clone()).await;
        match reply["error"]["code"].as_i64() {
            None => return,
            Some(-31000) => {}
            Some(_) => panic!("{reply:#}"),
        }
    }
}

#[tokio::test]
async fn every_handshake_revision_is_served_and_lists_the_same_tools() {
    let setup = script_setup();
    let host = setup.start().await;
    let modern = host
        .client()
        .request("tools/list", json!({}))
        .await
        .result();
    for version in ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] {
        let client = LegacyClient::open(host.url(), version).await;
        assert_eq!(client.initialized["protocolVersion"], version);
        assert_eq!(client.initialized["serverInfo"]["name"], "longshore");
        let capabilities = &client.initialized["capabilities"];
        assert_eq!(capabilities["tools"]["listChanged"], true);
        assert!(capabilities.get("tasks").is_none(), "{capabilities:#}");
        let listed = client.request("tools/list", json!({})).await;
        assert_eq!(listed["result"]["tools"], modern["tools"]);
        assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
        let level = json!({"level": "debug"});
        let accepted = client.request("logging/setLevel", level).await;
        assert_eq!(accepted["result"], json!({}));
    }
    let newest = LegacyClient::open(host.url(), "2024-10-07").await;
    assert_eq!(newest.initialized["protocolVersion"], "2025-11-25");
}

#[tokio::test]
async fn what_is_no_message_is_refused_in_words_and_the_session_goes_on() {
    let setup = script_setup();
    let host = setup.start().await;
    let client = LegacyClient::open(host.url(), "2025-06-18").await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    for (body, code) in [("{", -32700), ("", -32700), ("7", -32600)]
        .map(|(body, code)| (body.to_owned(), code))
        .into_iter()
        .chain([(format!("[{ping},{ping}]"), -32600)])
    {
        let reply = host.client().raw(body, &[client.session()]).await;
        assert_eq!(
            (reply.status, reply.code()),
            (400, code),
            "{:#}",
            reply.body
        );
    }
    assert_eq!(client.post_status("ping", json!({})).await, 200);
}

#[tokio::test]
async fn a_slow_call_says_first_that_it_is_synchronous_and_then_how_far_it_is() {
    let setup = script_setup();
    let host = setup.start().await;
    let client = open(&host).await;
    let script = json!({"script": [
        {"do": "progress", "message": "a third", "done": 1, "total": 3},
        {"do": "wait", "ms": 5_000},
        {"do": "progress", "message": "two thirds", "done": 2, "total": 3},
        {"do": "say", "text": "done"},
    ]});
    let mut stream = client.call_stream("script_auto", script, Some("t")).await;
    let mut told = Vec::new();
    let result = loop {
        let message = stream.next().await.expect("the call is answered");
        match message["method"].as_str() {
            Some("notifications/progress") => told.push(message["params"].clone()),
            None => break message["result"].clone(),
            Some(_) => panic!("{message:#}"),
        }
    };
    assert_eq!(result["content"][0]["text"], "done");
    assert_eq!(result["_meta"]["longshore/synchronous"], true, "{result:#}");
    assert!(result.get("resultType").is_none(), "{result:#}");
    let messages: Vec<&str> = told
        .iter()
        .filter_map(|one| one["message"].as_str())
        .collect();
    assert!(messages[0].contains("synchronously"), "{messages:?}");
    // The third is the heartbeat of a tool that is silent for longer than a client's patience.
    assert_eq!(messages[1..], ["a third", "a third", "two thirds"]);
    let values: Vec<f64> = told
        .iter()
        .filter_map(|one| one["progress"].as_f64())
        .collect();
    assert!(values.is_sorted_by(|a, b| a < b), "{values:?}");
    assert!(
        told.iter().all(|one| one["progressToken"] == "t"),
        "{told:#?}"
    );
}

#[tokio::test]
async fn what_is_wrong_with_a_call_is_a_result_that_a_model_can_read() {
    let setup = script_setup();
    let host = setup.start().await;
    let client = open(&host).await;
    let wrong = client.call("script_inline", json!({"scrip": []})).await;
    assert_eq!(wrong["result"]["isError"], true, "{wrong:#}");
    let needs_tasks = client.call("script_fail", json!({"script": []})).await;
    assert_eq!(needs_tasks["result"]["isError"], true);
    let text = needs_tasks["result"]["content"][0]["text"]
        .as_str()
        .unwrap();
    assert!(text.contains("io.modelcontextprotocol/tasks"), "{text}");
    let unknown = client.call("nope", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32602);
    let fails = json!({"script": [{"do": "fail", "text": "no luck"}]});
    let failed = client.call("script_inline", fails).await;
    assert_eq!(failed["result"]["isError"], true);
}

#[tokio::test]
async fn a_question_is_asked_on_the_calls_stream_and_every_kind_of_answer_reaches_the_tool() {
    let setup = script_setup();
    let host = setup.start().await;
    let client = open(&host).await;
    for (answer, told) in [
        (
            json!({"action": "accept", "content": {"confirm": true}}),
            "go: true",
        ),
        (
            json!({"action": "accept", "content": {"confirm": false}}),
            "go: false",
        ),
        (json!({"action": "decline"}), "go: false"),
    ] {
        let mut stream = client.call_stream("script_auto", confirming(), None).await;
        let question = stream.next().await.unwrap();
        assert_eq!(question["method"], "elicitation/create", "{question:#}");
        assert_eq!(question["params"]["message"], "Go on?");
        client
            .respond(&question["id"], json!({"result": answer}))
            .await;
        let answered = stream.next().await.unwrap();
        assert_eq!(
            answered["result"]["content"][0]["text"], told,
            "{answered:#}"
        );
    }
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_again_and_given_up_on_after_a_while() {
    let setup = script_setup();
    let host = setup.start().await;
    let client = open(&host).await;
    let wrong = json!({"result": {"action": "accept", "content": {"confirm": "perhaps"}}});
    let mut stream = client.call_stream("script_auto", confirming(), None).await;
    let mut asked = 0;
    let answered = loop {
        let message = stream.next().await.unwrap();
        if message.get("method").is_none() {
            break message;
        }
        asked += 1;
        client.respond(&message["id"], wrong.clone()).await;
    };
    assert_eq!(asked, 3);
    let text = answered.to_string();
    assert!(text.contains("does not fit"), "{text}");
}

#[tokio::test]
async fn a_client_that_can_answer_nothing_is_asked_nothing() {
    let setup = script_setup();
    let host = setup.start().await;
    let client = LegacyClient::open_declaring(host.url(), "2025-06-18", json!({})).await;
    // A result, because many clients keep an error's words from the model.
    let result = client.call("script_auto", confirming()).await["result"].clone();
    assert_eq!(result["isError"], true, "{result:#}");
    let words = result["content"][0]["text"].as_str().unwrap();
    assert!(words.contains("elicitation"), "{words}");
}

#[tokio::test]
async fn a_cancel_stops_the_tool() {
    let setup = script_setup().configure("[limits]\ntenant_calls_running_max = 1");
    let host = setup.start().await;
    let client = open(&host).await;
    let mut stream = client
        .call_stream("script_inline", waiting(), Some("t"))
        .await;
    assert_eq!(stream.next().await.unwrap()["params"]["message"], "waiting");
    let busy = client.call("script_inline", waiting()).await;
    assert_eq!(busy["error"]["code"], -31000, "{busy:#}");
    let id = stream.id.clone();
    client
        .notify("notifications/cancelled", json!({"requestId": id}))
        .await;
    until_a_call_has_room(&client).await;
    assert_eq!(
        stream.next().await,
        None,
        "a cancelled call is not answered"
    );
}

#[tokio::test]
async fn a_call_whose_client_goes_away_is_stopped() {
    let setup = script_setup()
        .configure("[limits]\ntenant_calls_running_max = 1\nlegacy_reconnect_ms = 50");
    let host = setup.start().await;
    let client = open(&host).await;
    let mut stream = client
        .call_stream("script_inline", waiting(), Some("t"))
        .await;
    assert_eq!(stream.next().await.unwrap()["params"]["message"], "waiting");
    drop(stream);
    until_a_call_has_room(&client).await;
}

#[tokio::test]
async fn a_broken_stream_is_taken_up_again_where_it_broke() {
    let setup = script_setup();
    let host = setup.start().await;
    let client = open(&host).await;
    let mut stream = client.call_stream("script_auto", confirming(), None).await;
    let question = stream.next().await.unwrap();
    let last_event = stream.last_event_id.clone().expect("events have ids");
    drop(stream);
    let mut taken_up = client.get(Some(&last_event)).await;
    let yes = json!({"result": {"action": "accept", "content": {"confirm": true}}});
    client.respond(&question["id"], yes).await;
    let answered = taken_up.next().await.unwrap();
    assert_eq!(
        answered["result"]["content"][0]["text"], "go: true",
        "{answered:#}"
    );
}

#[tokio::test]
async fn a_session_ends_when_it_is_deleted_or_idle_but_not_while_a_stream_is_open() {
    let setup =
        script_setup().configure("[limits]\nlegacy_session_idle_ms = 100\nlegacy_sessions_max = 2");
    let host = setup.start().await;
    let (in_use, idle) = (open(&host).await, open(&host).await);
    let _stream = in_use.get(None).await;
    // There is room for a third as soon as one of the two is gone.
    while LegacyClient::try_open(host.url()).await == 503 {}
    assert_eq!(idle.post_status("ping", json!({})).await, 404);
    assert_eq!(in_use.post_status("ping", json!({})).await, 200);
    assert_eq!(in_use.delete().await, 204);
    assert_eq!(in_use.post_status("ping", json!({})).await, 404);
}

#[tokio::test]
async fn another_tenants_session_looks_like_none() {
    use sha2::{Digest, Sha256};
    let hash = |token: &str| {
        let digest = Sha256::digest(token);
        digest
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let config: String = ["one", "two"]
        .map(|name| {
            format!(
                "[[tenant]]\nname = \"{name}\"\ntoken_sha256 = \"{}\"\n",
                hash(name)
            )
        })
        .concat();
    let setup = script_setup().configure(&config);
    let host = setup.start().await;
    let one = LegacyClient::open_with_token(host.url(), "2025-11-25", Some("one")).await;
    let mut stolen = one.clone();
    stolen.token = Some("two".to_owned());
    assert_eq!(one.post_status("ping", json!({})).await, 200);
    assert_eq!(stolen.post_status("ping", json!({})).await, 404);
    assert_eq!(stolen.delete().await, 404);
    assert_eq!(one.post_status("ping", json!({})).await, 200);
}

#[tokio::test]
async fn sessions_are_capped_and_a_closed_one_makes_room() {
    let setup = script_setup().configure("[limits]\nlegacy_sessions_max = 2");
    let host = setup.start().await;
    let (first, _second) = (open(&host).await, open(&host).await);
    assert_eq!(LegacyClient::try_open(host.url()).await, 503);
    first.delete().await;
    assert_eq!(LegacyClient::try_open(host.url()).await, 200);
}
