//! What a client declares decides what a tool may ask of it, in every way a call is served: as a task,
//! in rounds, and in a session.

use longshore_guests::SCRIPT;
use serde_json::{Value, json};

use crate::harness::{Client, Host, LegacyClient, Setup};

fn scripts() -> Setup {
    Setup::new(&[("script", &SCRIPT.directory())])
}

fn all() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

/// A client with Tasks beside what it declares.
fn with_tasks(host: &Host, mut capabilities: Value) -> Client {
    capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
    host.client().declaring(capabilities)
}

fn script(operation: Value) -> Value {
    json!({"script": [operation]})
}

fn text(result: &Value) -> String {
    result["content"][0]["text"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Each kind of question: the operation that asks it, its method, an answer, and what the tool tells.
fn questions() -> [(Value, &'static str, Value, &'static str); 3] {
    [
        (
            json!({"do": "visit", "key": "it"}),
            "elicitation/create",
            json!({"action": "accept"}),
            "it: Accept(())",
        ),
        (
            json!({"do": "sample", "key": "it"}),
            "sampling/createMessage",
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "Old pond"}}),
            "it: Old pond",
        ),
        (
            json!({"do": "roots", "key": "it"}),
            "roots/list",
            json!({"roots": [{"uri": "file:///a"}, {"uri": "file:///b"}]}),
            "it: file:///a file:///b",
        ),
    ]
}

fn check_request(request: &Value, method: &str) {
    assert_eq!(request["method"], method, "{request:#}");
    if method == "elicitation/create" {
        assert_eq!(request["params"]["mode"], "url", "{request:#}");
        assert_eq!(request["params"]["url"], "https://login.example/");
    }
}

#[tokio::test]
async fn a_tool_is_told_what_its_client_can_be_asked() {
    let setup = scripts();
    let host = setup.start().await;
    let tells = script(json!({"do": "abilities"}));
    for (declared, told) in [
        (json!({}), ""),
        (json!({"elicitation": {}}), "form"),
        (json!({"elicitation": {"form": {}}}), "form"),
        (json!({"elicitation": {"url": {}}}), "url"),
        (json!({"sampling": {}}), "sampling"),
        (json!({"roots": {"listChanged": true}}), "roots"),
        (all(), "form url sampling roots"),
    ] {
        let modern = host.client().declaring(declared.clone());
        assert_eq!(text(&modern.call("script_auto", tells.clone()).await), told);
        let with_tasks = with_tasks(&host, declared.clone());
        let task = with_tasks.start("script_resume", tells.clone()).await;
        let ended = with_tasks.until_status(&task, "completed").await;
        assert_eq!(text(&ended["result"]), told);
        let session = LegacyClient::open_declaring(host.url(), "2025-11-25", declared).await;
        let answered = session.call("script_auto", tells.clone()).await;
        assert_eq!(text(&answered["result"]), told);
    }
}

#[tokio::test]
async fn every_kind_of_question_is_asked_and_answered_in_every_way_a_call_is_served() {
    let setup = scripts();
    let host = setup.start().await;
    let rounds = host.client().declaring(all());
    let tasks = with_tasks(&host, all());
    let session = LegacyClient::open_declaring(host.url(), "2025-11-25", all()).await;
    for (operation, method, answer, told) in questions() {
        let arguments = script(operation);

        let id = tasks.start("script_resume", arguments.clone()).await;
        let asked = tasks.until_asked(&id).await;
        check_request(&asked["it"], method);
        tasks.answer(&id, json!({"it": answer})).await.result();
        let ended = tasks.until_status(&id, "completed").await;
        assert_eq!(text(&ended["result"]), told);

        let mut call = json!({"name": "script_auto", "arguments": arguments});
        let round = rounds.request("tools/call", call.clone()).await.result();
        check_request(&round["inputRequests"]["it"], method);
        call["requestState"] = round["requestState"].clone();
        call["inputResponses"] = json!({"it": answer});
        let ended = rounds.request("tools/call", call).await.result();
        assert_eq!(text(&ended), told);

        let mut stream = session.call_stream("script_auto", arguments, None).await;
        let asked = stream.next().await.unwrap();
        check_request(&asked, method);
        session
            .respond(&asked["id"], json!({"result": answer}))
            .await;
        let ended = stream.next().await.unwrap();
        assert_eq!(text(&ended["result"]), told, "{ended:#}");
    }
}

#[tokio::test]
async fn what_a_client_does_not_declare_is_not_asked_and_the_tool_hears_why() {
    let setup = scripts();
    let host = setup.start().await;
    // Forms alone: each other kind is one that it does not have.
    let declared = json!({"elicitation": {}});
    let rounds = host.client().declaring(declared.clone());
    let tasks = with_tasks(&host, declared.clone());
    let session = LegacyClient::open_declaring(host.url(), "2025-06-18", declared).await;
    for ((operation, ..), lacking) in
        questions()
            .into_iter()
            .zip(["elicitation.url", "sampling", "roots"])
    {
        let arguments = script(operation);
        let call = json!({"name": "script_auto", "arguments": arguments});
        let reply = rounds.request("tools/call", call).await;
        assert_eq!((reply.status, reply.code()), (400, -32021));
        let words = reply.body["error"]["message"].as_str().unwrap();
        assert!(words.contains(lacking), "{words}");

        let id = tasks.start("script_resume", arguments.clone()).await;
        let failed = tasks.until_status(&id, "failed").await;
        assert_eq!(failed["error"]["code"], -32021, "{failed:#}");

        let answered = session.call("script_auto", arguments).await;
        assert_eq!(answered["result"]["isError"], true, "{answered:#}");
        assert!(text(&answered["result"]).contains(lacking), "{answered:#}");
    }
}
