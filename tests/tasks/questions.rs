//! Questions a task asks: partial answers, refused ones, and answers that come after the guest was
//! unloaded.

use serde_json::{Value, json};

use super::{accept, script, scripts, text};
use crate::harness::Client;

async fn asks_three(client: &Client) -> String {
    let operations = json!([{"do": "ask_all", "keys": ["a", "b", "c"]}]);
    let id = client.start("script_resume", script(operations)).await;
    let asked = client.until_asked(&id).await;
    assert_eq!(asked.len(), 3);
    id
}

/// The keys that are asked now.
async fn open(client: &Client, id: &str) -> Vec<String> {
    let task = client.task(id).await;
    assert_eq!(task["status"], "input_required", "{task:#}");
    let requests = task["inputRequests"].as_object().unwrap();
    requests.keys().cloned().collect()
}

#[tokio::test]
async fn questions_are_answered_one_by_one() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let id = asks_three(&client).await;
    let request = &client.task(&id).await["inputRequests"]["a"];
    assert_eq!(request["method"], "elicitation/create");
    assert_eq!(request["params"]["message"], "a?");
    assert_eq!(request["params"]["requestedSchema"]["type"], "object");

    // Keys nobody asked are ignored; an answered key is gone on the very next look.
    let answers = json!({"a": accept(json!({"name": "Ada"})), "z": accept(json!({}))});
    let acknowledged = client.answer(&id, answers).await.result();
    assert_eq!(acknowledged["resultType"], "complete");
    assert_eq!(open(&client, &id).await, ["b", "c"]);

    // The first answer stays.
    let answers = json!({"a": accept(json!({"name": "Eve"}))});
    client.answer(&id, answers).await.result();
    assert_eq!(open(&client, &id).await, ["b", "c"]);

    // A decline and a dismissal are answers, each its own.
    let answers = json!({"b": {"action": "decline"}});
    client.answer(&id, answers).await.result();
    assert_eq!(open(&client, &id).await, ["c"]);
    let answers = json!({"c": {"action": "cancel"}});
    client.answer(&id, answers).await.result();
    let task = client.until_status(&id, "completed").await;
    assert_eq!(text(&task["result"]), "a: Ada\nb: declined\nc: dismissed");
}

#[tokio::test]
async fn a_question_comes_with_how_far_the_tool_is() {
    let setup = scripts().configure("[limits]\nsave_interval_ms = 600000\npark_after_ms = 0");
    let host = setup.start().await;
    let client = host.client();
    let operations = json!([
        {"do": "progress", "message": "half", "done": 1, "total": 2},
        {"do": "confirm", "key": "go", "message": "Go on?"},
    ]);
    let id = client.start("script_resume", script(operations)).await;
    client.until_asked(&id).await;
    let task = client.task(&id).await;
    assert_eq!(task["statusMessage"], "half", "{task:#}");
    let done = json!({"done": 1, "total": 2});
    assert_eq!(task["_meta"]["longshore/progress"], done);
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_refused_and_the_question_stays() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let id = asks_three(&client).await;
    let fits = accept(json!({"name": "Ada"}));
    let refuse = async |answer: Value| {
        // All or nothing: the answer that fits is not taken either.
        let answers = json!({"a": answer, "b": fits});
        let reply = client.answer(&id, answers).await;
        assert_eq!((reply.status, reply.code()), (200, -32602));
        assert_eq!(open(&client, &id).await, ["a", "b", "c"]);
        let message = reply.body["error"]["message"].as_str();
        message.unwrap().to_owned()
    };
    let told = [
        refuse(accept(json!({"name": 7}))).await,
        refuse(accept(json!({}))).await,
        refuse(json!({"action": "perhaps"})).await,
        refuse(json!("Ada")).await,
    ];
    insta::assert_snapshot!(told.join("\n"), @r#"
    the answer to `a` does not fit: /name: 7 is not of type "string"
    the answer to `a` does not fit: /name: is missing
    the answer to `a` does not fit: /action: must be `accept`, `decline` or `cancel`
    the answer to `a` does not fit: /: the response must be an object
    "#);

    let answers = json!({"a": fits, "b": fits, "c": fits});
    client.answer(&id, answers).await.result();
    client.until_status(&id, "completed").await;
}

#[tokio::test]
async fn a_parked_task_goes_on_with_its_answer_steps_and_checkpoint() {
    let setup = scripts();
    let host = setup.start().await;
    let operations = json!([
        {"do": "step", "name": "once"},
        {"do": "checkpoint", "state": "half"},
        {"do": "confirm", "key": "go", "message": "Go?"},
        {"do": "saved"},
        {"do": "attempt"},
    ]);
    let id = host
        .client()
        .start("script_resume", script(operations))
        .await;
    host.client().until_asked(&id).await;
    // A host that stops parks what it can.
    host.terminate().await;

    let host = setup.start().await;
    let client = host.client();
    assert!(client.until_asked(&id).await.contains_key("go"));
    let answers = json!({"go": accept(json!({"confirm": true}))});
    client.answer(&id, answers).await.result();
    let task = client.until_status(&id, "completed").await;
    let told = text(&task["result"]);
    // I7: the second run was given the answer and did not ask.
    let expected = format!(
        "step once of attempt 1\ngo: true\nsaved Some(\"half\")\nattempt 2, task Some(\"{id}\")"
    );
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_tool_that_cannot_be_parked_waits_in_memory() {
    let setup = scripts().configure("[limits]\npark_after_ms = 0");
    let host = setup.start().await;
    let client = host.client();
    let operations = json!([
        {"do": "confirm", "key": "go", "message": "Go?"},
        {"do": "attempt"},
    ]);
    let id = client.start("script_fail", script(operations)).await;
    client.until_asked(&id).await;
    let answers = json!({"go": accept(json!({"confirm": false}))});
    client.answer(&id, answers).await.result();
    let task = client.until_status(&id, "completed").await;
    let expected = format!("go: false\nattempt 1, task Some(\"{id}\")");
    assert_eq!(text(&task["result"]), expected);
}

#[tokio::test]
async fn a_tool_that_cannot_be_parked_asks_only_while_there_is_memory_to_wait_in() {
    // Less than any instance has.
    let setup = scripts().configure("[limits]\nheld_memory_max_bytes = 65536\npark_after_ms = 0");
    let host = setup.start().await;
    let client = host.client();
    let operations = script(json!([{"do": "confirm", "key": "go", "message": "Go?"}]));
    let id = client.start("script_fail", operations.clone()).await;
    let task = client.until_status(&id, "completed").await;
    assert_eq!(task["result"]["isError"], true);
    insta::assert_snapshot!(text(&task["result"]), @"a question cannot be asked: tools that wait for answers in memory may have 64 KiB together, and with this one would have more; a tool that declares recovery `resume` waits without memory, in a task");
    assert_eq!(task.get("inputRequests"), None);
    // One that is parked needs none.
    let id = client.start("script_resume", operations).await;
    client.until_asked(&id).await;
}

#[tokio::test]
async fn a_key_is_not_used_for_two_questions() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let operations = json!([
        {"do": "confirm", "key": "go", "message": "Go?"},
        {"do": "confirm", "key": "go", "message": "Go further?"},
    ]);
    let id = client.start("script_fail", script(operations)).await;
    client.until_asked(&id).await;
    let answers = json!({"go": accept(json!({"confirm": true}))});
    client.answer(&id, answers).await.result();
    let task = client.until_status(&id, "failed").await;
    let message = task["error"]["message"].as_str().unwrap();
    assert!(message.contains("the key `go`"), "{message}");
}

#[tokio::test]
async fn a_task_asks_nothing_its_client_cannot_answer() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host
        .client()
        .declaring(json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}));
    let operations = json!([{"do": "confirm", "key": "go", "message": "Go?"}]);
    let id = client.start("script_resume", script(operations)).await;
    let task = client.until_status(&id, "failed").await;
    assert_eq!(task["error"]["code"], -32021);
}
