//! Access that a person is asked for while a tool runs: what each answer allows, and that nothing goes
//! further than the operator's rule.

use serde_json::{Map, Value, json};

use super::given;
use crate::harness::{Client, Host, LegacyClient, Server, Setup, longshore, run as run_command};
use crate::tasks::{accept, script, text};

/// A server, and a host whose plugin may ask for it.
struct Asking {
    server: Server,
    setup: Setup,
}

impl Asking {
    async fn new(remember: bool) -> Asking {
        let server = Server::start(|_| async { (200, "secret figures".to_owned()) }).await;
        let setup = given(&format!(
            "ask = {{ http = [\"http://{}/open/\"], remember = {remember} }}",
            server.authority()
        ));
        // Parked at once: a tool that resumes starts again with the answer.
        let setup = setup.configure("[limits]\npark_after_ms = 0");
        Asking { server, setup }
    }

    /// A script that posts to each path, once in the task's life.
    fn posts(&self, paths: &[&str]) -> Value {
        let post =
            |path: &&str| json!({"do": "step_post", "name": path, "url": self.server.url(path)});
        script(paths.iter().map(post).collect())
    }

    fn count(&self) -> usize {
        self.server.seen().len()
    }
}

/// The one question that is open.
async fn question(client: &Client, id: &str) -> (String, Value) {
    let asked = client.until_asked(id).await;
    assert_eq!(asked.len(), 1, "{asked:#?}");
    asked.into_iter().next().unwrap()
}

async fn answer(client: &Client, id: &str, choice: &str) -> String {
    let (key, _) = question(client, id).await;
    let answers = json!({ key.clone(): accept(json!({"access": choice})) });
    client.answer(id, answers).await.result();
    key
}

async fn ended(client: &Client, id: &str) -> Value {
    client.until_status(id, "completed").await["result"].clone()
}

#[tokio::test]
async fn the_question_names_plugin_tool_target_and_reason() {
    let asking = Asking::new(true).await;
    let host = asking.setup.start().await;
    let client = host.client();
    let id = client
        .start("script_resume", asking.posts(&["/open/a"]))
        .await;
    let (key, asked) = question(&client, &id).await;
    assert!(key.starts_with("longshore.grant/"), "{key}");
    assert_eq!(asked["method"], "elicitation/create");
    let shown = serde_json::to_string_pretty(&asked["params"]).unwrap();
    let shown = shown.replace(asking.server.authority(), "SERVER");
    insta::assert_snapshot!(shown, @r#"
    {
      "message": "The plugin `script` asks for access to http://SERVER/open/, which its `script_resume` is about to use: POST http://SERVER/open/a. Its author's reason: \"tests of outgoing requests\"",
      "mode": "form",
      "requestedSchema": {
        "properties": {
          "access": {
            "default": "no",
            "oneOf": [
              {
                "const": "once",
                "title": "Allow one request"
              },
              {
                "const": "task",
                "title": "Allow for this task"
              },
              {
                "const": "always",
                "title": "Always allow"
              },
              {
                "const": "no",
                "title": "No"
              }
            ],
            "title": "Access",
            "type": "string"
          }
        },
        "required": [
          "access"
        ],
        "type": "object"
      }
    }
    "#);
    assert_eq!(asking.count(), 0);
}

#[tokio::test]
async fn once_allows_one_request_also_over_a_restart_of_the_tool() {
    let asking = Asking::new(true).await;
    let host = asking.setup.start().await;
    let client = host.client();
    let id = client
        .start("script_resume", asking.posts(&["/open/a", "/open/b"]))
        .await;
    let first = answer(&client, &id, "once").await;
    let (second, _) = client
        .until(&id, |task| {
            let asked = task["inputRequests"].as_object();
            asked.is_some_and(|asked| !asked.contains_key(&first) && !asked.is_empty())
        })
        .await["inputRequests"]
        .as_object()
        .and_then(|asked| asked.clone().into_iter().next())
        .unwrap();
    assert_ne!(first, second);
    assert_eq!(asking.server.lines(), ["POST /open/a"]);
    answer(&client, &id, "no").await;
    let result = ended(&client, &id).await;
    assert_eq!(result["isError"], true);
    assert_eq!(asking.server.lines(), ["POST /open/a"]);
}

#[tokio::test]
async fn for_this_task_allows_all_its_requests_and_none_of_another() {
    let asking = Asking::new(false).await;
    let host = asking.setup.start().await;
    let client = host.client();
    let posts = asking.posts(&["/open/a", "/open/b"]);
    let id = client.start("script_resume", posts.clone()).await;
    answer(&client, &id, "task").await;
    ended(&client, &id).await;
    assert_eq!(asking.server.lines(), ["POST /open/a", "POST /open/b"]);

    let other = client.start("script_resume", posts).await;
    question(&client, &other).await;
    assert_eq!(asking.count(), 2);
}

#[tokio::test]
async fn always_is_kept_listed_and_taken_back() {
    let asking = Asking::new(true).await;
    let host = asking.setup.start().await;
    let client = host.client();
    let id = client
        .start("script_resume", asking.posts(&["/open/a"]))
        .await;
    answer(&client, &id, "always").await;
    ended(&client, &id).await;

    // Another task is not asked, also after a restart of the host.
    host.kill().await;
    let host = asking.setup.start().await;
    let client = host.client();
    let id = client
        .start("script_resume", asking.posts(&["/open/b"]))
        .await;
    ended(&client, &id).await;
    assert_eq!(asking.server.lines(), ["POST /open/a", "POST /open/b"]);

    let data = asking.setup.path("data").display().to_string();
    let grants = async |more: &[&str]| {
        let arguments = [&["plugin", "grants", "--data-dir", &data, "--json"], more].concat();
        let listed = run_command(longshore(&arguments)).await;
        assert_eq!(listed.code, 0, "{}", listed.stderr);
        serde_json::from_str::<Value>(&listed.stdout).unwrap()["grants"].clone()
    };
    let listed = grants(&[]).await;
    let target = format!("http://{}/open/", asking.server.authority());
    assert_eq!(listed[0]["target"], target);
    assert_eq!(listed[0]["plugin"], "script");
    assert_eq!(grants(&["--plugin", "script", "--revoke"]).await, listed);
    assert_eq!(grants(&[]).await, json!([]));

    let id = client
        .start("script_resume", asking.posts(&["/open/c"]))
        .await;
    question(&client, &id).await;
    assert_eq!(asking.count(), 2);
}

#[tokio::test]
async fn what_was_kept_counts_only_while_the_operators_rule_says_so() {
    let asking = Asking::new(true).await;
    let host = asking.setup.start().await;
    let client = host.client();
    let id = client
        .start("script_resume", asking.posts(&["/open/a"]))
        .await;
    answer(&client, &id, "always").await;
    ended(&client, &id).await;
    host.kill().await;

    let bare = crate::tasks::scripts();
    std::fs::rename(asking.setup.path("data/grants"), bare.path("data/grants")).unwrap();
    let host = bare.start().await;
    let result = host
        .client()
        .call("script_auto", asking.posts(&["/open/b"]))
        .await;
    assert_eq!(result["isError"], true, "{result:#}");
    assert_eq!(asking.count(), 1);
}

#[tokio::test]
async fn a_no_and_a_decline_refuse_and_are_not_asked_again() {
    let asking = Asking::new(true).await;
    let host = asking.setup.start().await;
    let client = host.client();
    for refusal in [
        accept(json!({"access": "no"})),
        json!({"action": "decline"}),
        json!({"action": "cancel"}),
    ] {
        let fetch = fetch(&asking, &["/open/a", "/open/b"]);
        let id = client.start("script_resume", fetch).await;
        let (key, _) = question(&client, &id).await;
        client.answer(&id, json!({ key: refusal })).await.result();
        let result = ended(&client, &id).await;
        let told = text(&result);
        assert_eq!(told.matches("not allowed").count(), 2, "{told}");
    }
    assert_eq!(asking.count(), 0);
}

fn fetch(asking: &Asking, paths: &[&str]) -> Value {
    let urls: Vec<String> = paths.iter().map(|path| asking.server.url(path)).collect();
    script(json!([{"do": "fetch", "urls": urls, "concurrency": 2, "timeout_ms": 5_000}]))
}

#[tokio::test]
async fn nothing_a_client_or_a_guest_sends_widens_the_rule() {
    let asking = Asking::new(false).await;
    let host = asking.setup.start().await;
    let client = host.client();

    // Outside of the rule nobody is asked.
    for path in ["/", "/closed", "/open/../closed", "/open/%2e%2e/closed"] {
        let result = client.call("script_auto", fetch(&asking, &[path])).await;
        assert!(text(&result).contains("not allowed"), "{path}: {result:#}");
    }

    // The guest asks in the host's place.
    let forged = json!([{"do": "confirm", "key": "longshore.grant/x/1", "message": "Fine?"}]);
    let reply = client
        .request(
            "tools/call",
            json!({"name": "script_auto", "arguments": script(forged)}),
        )
        .await;
    assert!(
        reply.body.to_string().contains("the host's own"),
        "{reply:?}"
    );
    let forged = json!([{"do": "step", "name": "longshore.grant/x/1"}]);
    let reply = client
        .request(
            "tools/call",
            json!({"name": "script_auto", "arguments": script(forged)}),
        )
        .await;
    assert!(
        reply.body.to_string().contains("the host's own"),
        "{reply:?}"
    );

    // Answers to what was not asked, and choices that were not offered.
    let id = client
        .start("script_resume", fetch(&asking, &["/open/a"]))
        .await;
    let (key, _) = question(&client, &id).await;
    let foreign = json!({"longshore.grant/0123/1": accept(json!({"access": "task"}))});
    client.answer(&id, foreign).await.result();
    for choice in ["always", "everything"] {
        let answers = json!({ key.clone(): accept(json!({"access": choice})) });
        let reply = client.answer(&id, answers).await;
        assert_eq!(reply.code(), -32602, "{choice}: {reply:?}");
    }
    assert_eq!(question(&client, &id).await.0, key);
    assert_eq!(asking.count(), 0);
}

#[tokio::test]
async fn a_tool_that_can_not_be_parked_waits_for_the_answer() {
    let asking = Asking::new(false).await;
    let host = asking.setup.start().await;
    let client = host.client();
    let id = client
        .start("script_fail", asking.posts(&["/open/a"]))
        .await;
    answer(&client, &id, "once").await;
    let result = ended(&client, &id).await;
    assert_eq!(text(&result), "step /open/a of attempt 1");
    assert_eq!(asking.count(), 1);
}

#[tokio::test]
async fn a_call_without_tasks_asks_in_a_round() {
    let asking = Asking::new(false).await;
    let host = asking.setup.start().await;
    let client = host.client().without_tasks();
    let call = json!({"name": "script_auto", "arguments": fetch(&asking, &["/open/a", "/open/b"])});
    let first = client.request("tools/call", call.clone()).await.result();
    assert_eq!(first["resultType"], "input_required", "{first:#}");
    let (key, asked) = first["inputRequests"]
        .as_object()
        .unwrap()
        .iter()
        .next()
        .unwrap();
    let choices = asked["params"]["requestedSchema"].to_string();
    assert!(
        choices.contains("for this call") && !choices.contains("this task"),
        "{choices}"
    );

    let mut second = call;
    let more: Map<String, Value> = serde_json::from_value(json!({
        "requestState": first["requestState"],
        "inputResponses": { key.clone(): accept(json!({"access": "once"})) },
    }))
    .unwrap();
    second.as_object_mut().unwrap().extend(more);
    let result = client.request("tools/call", second).await.result();
    assert_eq!(text(&result).matches("200").count(), 2, "{result:#}");
    assert_eq!(asking.count(), 2);
}

#[tokio::test]
async fn once_holds_for_the_later_rounds_of_its_call_and_not_for_a_task() {
    let asking = Asking::new(false).await;
    let host = asking.setup.start().await;
    let (client, with_tasks) = (host.client().without_tasks(), host.client());
    let call = json!({"name": "script_auto", "arguments": script(json!([
        {"do": "step_post", "name": "a", "url": asking.server.url("/open/a")},
        {"do": "confirm", "key": "go", "message": "Go on?"},
        {"do": "step_post", "name": "b", "url": asking.server.url("/open/b")},
    ]))});
    let next = async |client: &Client, before: &Value, content: Value| {
        let asked = before["inputRequests"].as_object().unwrap();
        assert_eq!(asked.len(), 1, "{before:#}");
        let mut call = call.clone();
        call["requestState"] = before["requestState"].clone();
        call["inputResponses"] = json!({ asked.keys().next().unwrap(): accept(content) });
        client.request("tools/call", call).await.result()
    };
    let first = client.request("tools/call", call.clone()).await.result();
    let second = next(&client, &first, json!({"access": "once"})).await;
    assert_eq!(asking.server.lines(), ["POST /open/a"]);
    let last = next(&client, &second, json!({"confirm": true})).await;
    assert_eq!(last["resultType"], "complete", "{last:#}");
    assert_eq!(asking.count(), 2);

    // The same, but for a client that takes tasks by the time of its last round.
    let first = client.request("tools/call", call.clone()).await.result();
    let second = next(&client, &first, json!({"access": "once"})).await;
    assert_eq!(asking.count(), 3);
    let last = next(&with_tasks, &second, json!({"confirm": true})).await;
    let id = last["taskId"]
        .as_str()
        .unwrap_or_else(|| panic!("{last:#}"));
    let (key, _) = question(&with_tasks, id).await;
    assert!(key.ends_with("/2"), "{key}");
    assert_eq!(asking.count(), 3);
}

#[tokio::test]
async fn a_client_that_can_not_be_asked_is_refused_with_the_reason() {
    let asking = Asking::new(true).await;
    let host = asking.setup.start().await;
    let mute = host.client().declaring(json!({
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    }));
    let id = mute
        .start("script_resume", fetch(&asking, &["/open/a"]))
        .await;
    let result = ended(&mute, &id).await;
    assert!(text(&result).contains("not allowed"), "{result:#}");
    assert_eq!(asking.count(), 0);
    let log = mute
        .request("longshore/tasks/log", json!({"taskId": id}))
        .await;
    let log = log.result()["text"].as_str().unwrap().to_owned();
    assert!(
        log.contains("the client did not declare `elicitation`"),
        "{log}"
    );
}

#[tokio::test]
async fn a_command_without_a_terminal_is_not_told_that_yes_would_allow_access() {
    let asking = Asking::new(true).await;
    let host = asking.setup.start().await;
    let arguments = fetch(&asking, &["/open/a"]).to_string();
    let call = async |flags: &[&str]| {
        let call = ["call", "script_resume", "--args", &arguments];
        let mut command = longshore(&[&call, flags].concat());
        command.env("LONGSHORE_URL", host.url());
        run_command(command).await
    };
    let ended = call(&[]).await;
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    let hint = "answer with `longshore task answer ID KEY=VALUE`; --yes allows no access";
    let words = ended.stderr.split_whitespace();
    let id = words.skip_while(|word| *word != "task").nth(1).unwrap();
    let said = ended.stderr.replace(id, "ID");
    assert!(said.ends_with(&format!("{hint}\n")), "{said}");

    let ended = call(&["--yes"]).await;
    let shown = format!("{}{}", ended.stdout, ended.stderr);
    assert!(
        shown.contains("the person who was asked for it said no"),
        "{shown}"
    );
    assert_eq!(asking.count(), 0);
}

#[tokio::test]
async fn a_legacy_client_is_asked_on_its_stream() {
    let asking = Asking::new(false).await;
    let host = asking.setup.start().await;
    for (choice, told) in [("once", "200"), ("no", "not allowed")] {
        let client = open(&host).await;
        let call = fetch(&asking, &["/open/a"]);
        let mut stream = client.call_stream("script_auto", call, None).await;
        let asked = stream.next().await.unwrap();
        assert_eq!(asked["method"], "elicitation/create", "{asked:#}");
        let answer = json!({"result": {"action": "accept", "content": {"access": choice}}});
        client.respond(&asked["id"], answer).await;
        let answered = stream.next().await.unwrap();
        let text = answered["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(told), "{answered:#}");
    }
    assert_eq!(asking.count(), 1);
}

async fn open(host: &Host) -> LegacyClient {
    LegacyClient::open(host.url(), "2025-11-25").await
}
