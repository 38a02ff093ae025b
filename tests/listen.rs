//! `subscriptions/listen`: what is agreed to, what is told, and how a stream ends.

use longshore_guests::SCRIPT;
use serde_json::{Value, json};

use crate::harness::{Client, Messages, Setup};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

fn scripts() -> Setup {
    Setup::new(&[("script", &SCRIPT.directory())])
}

/// A task that asks `go`.
async fn asking(client: &Client) -> String {
    let operations = json!([{"do": "confirm", "key": "go", "message": "Go?"}]);
    let id = client
        .start("script_resume", json!({"script": operations}))
        .await;
    client.until_asked(&id).await;
    id
}

async fn confirm(client: &Client, id: &str) {
    let answer = json!({"action": "accept", "content": {"confirm": true}});
    client.answer(id, json!({"go": answer})).await.result();
}

/// Opens a stream; what it agreed to and its id.
async fn listen(client: &Client, filter: Value) -> (Messages, Value, Value) {
    let params = json!({"notifications": filter});
    let mut messages = client.stream("subscriptions/listen", params).await;
    assert_eq!(messages.status, 200);
    assert_eq!(messages.headers["x-accel-buffering"], "no");
    let first = messages.next().await.unwrap();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    let agreed = first["params"]["notifications"].clone();
    let id = first["params"]["_meta"][SUBSCRIPTION].clone();
    assert!(id.is_number(), "{first:#}");
    (messages, agreed, id)
}

/// Reads until the task has the status; every message on the way is a whole task under the
/// subscription's id.
async fn until(messages: &mut Messages, subscription: &Value, status: &str) -> Value {
    loop {
        let message = messages.next().await.expect("the stream goes on");
        assert_eq!(message["method"], "notifications/tasks", "{message:#}");
        let task = &message["params"];
        assert_eq!(task["_meta"][SUBSCRIPTION], *subscription);
        for member in ["taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"] {
            assert_ne!(task[member], Value::Null, "{member} of {task:#}");
        }
        if task["status"] == status {
            return task.clone();
        }
    }
}

#[tokio::test]
async fn a_subscriber_is_told_the_whole_task_at_every_change() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let id = asking(&client).await;
    let (mut messages, agreed, subscription) = listen(&client, json!({"taskIds": [id]})).await;
    assert_eq!(agreed, json!({"taskIds": [id]}));
    let task = until(&mut messages, &subscription, "input_required").await;
    let request = &task["inputRequests"]["go"];
    assert_eq!(request["params"]["message"], "Go?");

    confirm(&client, &id).await;
    let task = until(&mut messages, &subscription, "completed").await;
    assert_eq!(task["taskId"], id.as_str());
    assert_eq!(task["result"]["content"][0]["text"], "go: true");
}

#[tokio::test]
async fn every_subscriber_of_a_task_is_told() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let id = asking(&client).await;
    let filter = json!({"taskIds": [id]});
    let (mut first, _, first_id) = listen(&client, filter.clone()).await;
    let (mut second, _, second_id) = listen(&client, filter).await;
    assert_ne!(first_id, second_id);
    client.cancel(&id).await.result();
    until(&mut first, &first_id, "cancelled").await;
    until(&mut second, &second_id, "cancelled").await;
}

#[tokio::test]
async fn a_task_that_ended_before_is_told_once_as_it_is() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let id = asking(&client).await;
    confirm(&client, &id).await;
    client.until_status(&id, "completed").await;
    let (mut messages, _, subscription) = listen(&client, json!({"taskIds": [id]})).await;
    until(&mut messages, &subscription, "completed").await;
}

#[tokio::test]
async fn ids_that_are_no_tasks_and_repeated_ones_are_left_out_in_silence() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let (one, other) = (asking(&client).await, asking(&client).await);
    let unknown = "0123456789abcdef0123456789abcdef";
    let filter = json!({"taskIds": [other, unknown, one, "", "../etc", other]});
    let (_messages, agreed, _) = listen(&client, filter).await;
    assert_eq!(agreed, json!({"taskIds": [other, one]}));
}

#[tokio::test]
async fn tasks_need_the_extension_and_tools_do_not() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client().without_tasks();
    let (_messages, agreed, _) = listen(&client, json!({"toolsListChanged": true})).await;
    assert_eq!(agreed, json!({"toolsListChanged": true}));

    let filter = json!({"toolsListChanged": true, "taskIds": []});
    let params = json!({"notifications": filter});
    let reply = client.request("subscriptions/listen", params).await;
    assert_eq!((reply.status, reply.code()), (400, -32021));
}

#[tokio::test]
async fn a_filter_that_is_none_is_refused() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    for params in [
        json!({}),
        json!({"notifications": []}),
        json!({"notifications": {"taskIds": "abc"}}),
        json!({"notifications": {"taskIds": [7]}}),
        json!({"notifications": {"toolsListChanged": "yes"}}),
    ] {
        let reply = client.request("subscriptions/listen", params.clone()).await;
        assert_eq!((reply.status, reply.code()), (200, -32602), "{params}");
    }
}

#[tokio::test]
async fn a_host_that_stops_answers_the_listen_request_and_closes() {
    let setup = scripts();
    let host = setup.start().await;
    let client = host.client();
    let id = asking(&client).await;
    let (mut messages, _, subscription) = listen(&client, json!({"taskIds": [id]})).await;
    let stopping = tokio::spawn(host.terminate());
    let last = loop {
        let message = messages.next().await.expect("an answer before the end");
        if message.get("id").is_some() {
            break message;
        }
    };
    assert_eq!(last["id"], subscription);
    assert_eq!(last["result"]["resultType"], "complete");
    assert_eq!(messages.next().await, None);
    assert!(stopping.await.unwrap().success());
}
