//! Directories: those a person is asked for while a tool runs, and those that are granted and not
//! there.

use serde_json::{Map, Value, json};

use super::run;
use crate::harness::{Client, Ended, Host, Setup, longshore, run as run_command};
use crate::tasks::{accept, script, scripts, text};

/// A set-up whose plugin may ask for the directory `desk`.
fn asking(more: &str) -> Setup {
    let setup = scripts();
    std::fs::create_dir(setup.path("desk")).unwrap();
    let path = setup.path("desk").display().to_string();
    setup.configure(&format!(
        "[plugin.script.grants.ask]\n\
         directories.desk = {{ path = \"{path}\", access = \"write\" }}\n{more}\n\
         [limits]\npark_after_ms = 0"
    ))
}

fn append(path: &str) -> Value {
    json!({"do": "append", "path": path, "bytes": 10})
}

fn confirm() -> Value {
    json!({"do": "confirm", "key": "go", "message": "Go on?"})
}

fn names(setup: &Setup, directory: &str) -> Vec<String> {
    let files = std::fs::read_dir(setup.path(directory)).unwrap();
    let mut names: Vec<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The one question that is open, if it is none of those answered before.
async fn question(client: &Client, id: &str, before: &[&str]) -> (String, Value) {
    let is_new = |task: &Value| {
        assert_ne!(task["status"], "completed", "nothing was asked: {task:#}");
        let asked = task["inputRequests"].as_object();
        asked.is_some_and(|asked| asked.keys().any(|key| !before.contains(&key.as_str())))
    };
    let task = client.until(id, is_new).await;
    let mut asked = task["inputRequests"]
        .as_object()
        .unwrap()
        .clone()
        .into_iter();
    let first = asked.next().unwrap();
    assert_eq!(asked.next(), None);
    first
}

/// Answers the question for access; its key.
async fn allow(client: &Client, id: &str, before: &[&str], choice: &str) -> String {
    let (key, asked) = question(client, id, before).await;
    assert!(key.starts_with("longshore.grant/"), "{asked:#}");
    let answers = json!({ key.clone(): accept(json!({"access": choice})) });
    client.answer(id, answers).await.result();
    key
}

async fn go(client: &Client, id: &str, before: &[&str]) {
    let (key, _) = question(client, id, before).await;
    assert_eq!(key, "go");
    let answers = json!({ "go": accept(json!({"confirm": true})) });
    client.answer(id, answers).await.result();
}

async fn ended(client: &Client, id: &str) -> String {
    let task = client.until_status(id, "completed").await;
    text(&task["result"]).to_owned()
}

async fn log(client: &Client, id: &str) -> String {
    let log = client.request("longshore/tasks/log", json!({"taskId": id}));
    log.await.result()["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_question_names_plugin_tool_directory_and_reason_and_no_place_on_the_host() {
    let setup = asking("remember = true");
    let host = setup.start().await;
    let client = host.client();
    let id = client
        .start("script_resume", script(json!([append("/desk/a")])))
        .await;
    let (key, asked) = question(&client, &id, &[]).await;
    assert!(key.starts_with("longshore.grant/"), "{key}");
    insta::assert_snapshot!(asked["params"]["message"].as_str().unwrap(), @r#"The plugin `script` asks for access to the directory /desk, to read and write, which its `script_resume` is about to use: open `a` in /desk. Its author's reason: "tests of directories asked for""#);
    let choices = &asked["params"]["requestedSchema"]["properties"]["access"];
    let choices: Vec<String> = choices["oneOf"]
        .as_array()
        .unwrap()
        .iter()
        .map(|choice| choice["title"].as_str().unwrap().to_owned())
        .collect();
    insta::assert_snapshot!(choices.join("\n"), @r"
    Allow until the tool stops or starts again
    Allow for this task
    Always allow
    No
    ");
    let place = setup.path("desk").display().to_string();
    assert!(!client.task(&id).await.to_string().contains(&place));
    assert_eq!(names(&setup, "desk"), [""; 0]);
}

#[tokio::test]
async fn for_this_task_allows_it_over_restarts_of_the_tool_and_not_another_task() {
    let setup = asking("");
    let host = setup.start().await;
    let client = host.client();
    let operations = json!([append("/desk/a"), confirm(), append("/desk/b")]);
    let id = client
        .start("script_resume", script(operations.clone()))
        .await;
    let key = allow(&client, &id, &[], "task").await;
    go(&client, &id, &[&key]).await;
    insta::assert_snapshot!(ended(&client, &id).await, @r"
    /desk/a: written
    go: true
    /desk/b: written
    ");
    assert_eq!(names(&setup, "desk"), ["a", "b"]);

    let other = client.start("script_resume", script(operations)).await;
    question(&client, &other, &[]).await;
}

#[tokio::test]
async fn once_holds_until_the_tool_starts_again() {
    let setup = asking("");
    let host = setup.start().await;
    let client = host.client();
    let operations = json!([append("/desk/a"), append("/desk/b"), confirm()]);
    let id = client.start("script_resume", script(operations)).await;
    let first = allow(&client, &id, &[], "once").await;
    question(&client, &id, &[&first]).await;
    while setup.counts().await["runs"] != 0 {
        tokio::task::yield_now().await;
    }
    go(&client, &id, &[&first]).await;
    assert_eq!(names(&setup, "desk"), ["a", "b"]);
    // It was unloaded for the answer, and is another run now.
    let second = allow(&client, &id, &[&first, "go"], "no").await;
    assert_ne!(first, second);
    insta::assert_snapshot!(ended(&client, &id).await, @r"
    /desk/a: Permission denied (os error 2)
    /desk/b: Permission denied (os error 2)
    go: true
    ");
}

#[tokio::test]
async fn always_is_kept_and_taken_back_and_holds_for_its_place_only() {
    let setup = asking("remember = true");
    let host = setup.start().await;
    let client = host.client();
    let operations = script(json!([append("/desk/a")]));
    let id = client.start("script_resume", operations.clone()).await;
    allow(&client, &id, &[], "always").await;
    ended(&client, &id).await;
    let told = run(&client, json!([append("/desk/b")])).await;
    assert_eq!(told, "/desk/b: written");

    let data = setup.path("data").display().to_string();
    let grants = async |more: &[&str]| {
        let arguments = [&["plugin", "grants", "--data-dir", &data, "--json"], more].concat();
        let listed = run_command(longshore(&arguments)).await;
        assert_eq!(listed.code, 0, "{}", listed.stderr);
        serde_json::from_str::<Value>(&listed.stdout).unwrap()["grants"].clone()
    };
    let place = setup.path("desk").display().to_string();
    let target = grants(&[]).await[0]["target"].clone();
    assert_eq!(target, format!("/desk (read and write), {place}"));

    // The operator's rule leads elsewhere: what was allowed does not hold there.
    host.kill().await;
    std::fs::create_dir(setup.path("elsewhere")).unwrap();
    let config = std::fs::read_to_string(setup.path("longshore.toml")).unwrap();
    let config = config.replace(&place, &setup.path("elsewhere").display().to_string());
    let moved = setup.path("moved.toml");
    std::fs::write(&moved, config).unwrap();
    let host = start_with(&setup, &moved).await;
    let client = host.client();
    let id = client.start("script_resume", operations.clone()).await;
    question(&client, &id, &[]).await;
    assert_eq!(names(&setup, "elsewhere"), [""; 0]);
    host.kill().await;

    let host = setup.start().await;
    let client = host.client();
    let target = target.as_str().unwrap();
    grants(&["--target", target, "--revoke"]).await;
    let id = client.start("script_resume", operations).await;
    question(&client, &id, &[]).await;
}

#[tokio::test]
async fn every_way_into_the_directory_asks_first() {
    let setup = asking("");
    std::fs::write(setup.path("desk/kept"), "kept").unwrap();
    let host = setup.start().await;
    let client = host.client();
    for operation in [
        append("/desk/a"),
        json!({"do": "length", "path": "/desk/kept"}),
        json!({"do": "length", "path": "/desk"}),
        json!({"do": "list", "path": "/desk"}),
        json!({"do": "delete", "path": "/desk/kept"}),
        json!({"do": "resize", "path": "/desk/kept", "bytes": 0}),
        json!({"do": "rename", "path": "/desk/kept", "to": "/desk/gone"}),
        json!({"do": "make_directory", "path": "/desk/new"}),
    ] {
        let id = client
            .start("script_resume", script(json!([operation])))
            .await;
        let (key, _) = question(&client, &id, &[]).await;
        client
            .answer(&id, json!({ key: {"action": "decline"} }))
            .await
            .result();
        let told = ended(&client, &id).await;
        assert!(told.ends_with("Permission denied (os error 2)"), "{told}");
        assert_eq!(names(&setup, "desk"), ["kept"]);
    }
}

#[tokio::test]
async fn a_no_says_in_the_log_whose_it_was_and_is_not_asked_again() {
    let setup = asking("");
    let host = setup.start().await;
    let client = host.client();
    let operations = json!([append("/desk/a"), append("/desk/b")]);
    let id = client.start("script_resume", script(operations)).await;
    allow(&client, &id, &[], "no").await;
    let told = ended(&client, &id).await;
    assert_eq!(told.matches("Permission denied").count(), 2, "{told}");
    let log = log(&client, &id).await;
    assert!(
        log.contains("the person who was asked for access to the directory /desk"),
        "{log}"
    );
    assert_eq!(names(&setup, "desk"), [""; 0]);
}

#[tokio::test]
async fn what_is_allowed_is_not_more_than_the_rule() {
    let setup = scripts();
    for name in ["desk", "small"] {
        std::fs::create_dir(setup.path(name)).unwrap();
    }
    let path = setup.path("desk").display().to_string();
    let setup = setup.configure(&format!(
        "[plugin.script.grants.ask]\n\
         directories.desk = {{ path = \"{path}\", access = \"write\", quota_bytes = 65536 }}"
    ));
    std::fs::write(setup.path("outside"), "outside").unwrap();
    std::os::unix::fs::symlink(setup.path("outside"), setup.path("desk/link")).unwrap();
    let host = setup.start().await;
    let client = host.client();
    let operations = json!([
        {"do": "length", "path": "/desk/../outside"},
        {"do": "length", "path": "/desk/link"},
        append("/desk/a"),
        {"do": "append", "path": "/desk/b", "bytes": 100_000},
    ]);
    let id = client.start("script_resume", script(operations)).await;
    allow(&client, &id, &[], "task").await;
    let told = ended(&client, &id).await;
    let lines: Vec<&str> = told.lines().collect();
    assert!(!lines[0].contains("long"), "{told}");
    assert!(!lines[1].contains("long"), "{told}");
    assert_eq!(lines[2], "/desk/a: written", "{told}");
    assert!(lines[3].contains("I/O error"), "{told}");
    // `always` was not offered.
    let id = client
        .start("script_resume", script(json!([append("/desk/c")])))
        .await;
    let (key, _) = question(&client, &id, &[]).await;
    let answers = json!({ key: accept(json!({"access": "always"})) });
    assert_eq!(client.answer(&id, answers).await.code(), -32602);
}

#[tokio::test]
async fn without_a_rule_the_guest_does_not_see_the_directory() {
    let setup = scripts();
    let host = setup.start().await;
    let told = run(&host.client(), json!([append("/desk/a")])).await;
    assert!(!told.contains("written"), "{told}");
}

#[tokio::test]
async fn a_tool_that_can_not_be_parked_and_a_call_without_tasks_are_asked_too() {
    let setup = asking("");
    let host = setup.start().await;
    let client = host.client();
    let operations = script(json!([append("/desk/a"), append("/desk/b")]));
    let id = client.start("script_fail", operations.clone()).await;
    allow(&client, &id, &[], "once").await;
    assert_eq!(ended(&client, &id).await.matches("written").count(), 2);

    let client = host.client().without_tasks();
    let call = json!({"name": "script_auto", "arguments": operations});
    let first = client.request("tools/call", call.clone()).await.result();
    let asked = first["inputRequests"].as_object().unwrap();
    let key = asked.keys().next().unwrap();
    let mut second = call;
    let more: Map<String, Value> = serde_json::from_value(json!({
        "requestState": first["requestState"],
        "inputResponses": { key.clone(): accept(json!({"access": "once"})) },
    }))
    .unwrap();
    second.as_object_mut().unwrap().extend(more);
    let result = client.request("tools/call", second).await.result();
    assert_eq!(text(&result).matches("written").count(), 2, "{result:#}");
}

#[tokio::test]
async fn nobody_is_asked_for_a_directory_that_is_not_there() {
    let setup = asking("");
    std::fs::remove_dir(setup.path("desk")).unwrap();
    let host = setup.start().await;
    let client = host.client();
    let id = client
        .start("script_resume", script(json!([append("/desk/a")])))
        .await;
    let task = client.until_status(&id, "failed").await;
    insta::assert_snapshot!(task["error"]["message"].as_str().unwrap(), @"the directory granted as `desk` can't be opened on the host; ask its operator to create it, or to correct the grant");
}

/// A set-up whose plugin is given a directory that is not there.
fn missing() -> Setup {
    let setup = scripts();
    let path = setup.path("out").display().to_string();
    setup.configure(&format!(
        "[plugin.script.grants]\ndirectories.out = {{ path = \"{path}\", access = \"write\" }}"
    ))
}

async fn list(setup: &Setup, config: &std::path::Path) -> Ended {
    let mut command = longshore(&["plugin", "list"]);
    command.arg("--config").arg(config);
    command.arg("--data-dir").arg(setup.path("data"));
    command.arg("--plugins").arg(setup.path("plugins"));
    run_command(command).await
}

#[tokio::test]
async fn a_granted_directory_that_is_missing_fails_only_what_looks_into_it() {
    let setup = missing();
    let host = setup.start().await;
    let client = host.client();
    let warned = "the directory granted as `out` can't be opened";
    assert!(host.output().contains(warned), "{}", host.output());
    assert_eq!(
        run(&client, json!([{"do": "say", "text": "hello"}])).await,
        "hello"
    );
    let params = json!({"name": "script_inline", "arguments": script(json!([append("/out/a")]))});
    let reply = client.request("tools/call", params).await.body.to_string();
    assert!(reply.contains(warned), "{reply}");
    assert!(
        !reply.contains(setup.directory().to_str().unwrap()),
        "{reply}"
    );

    let listed = list(&setup, &setup.path("longshore.toml")).await;
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    assert!(
        listed.stdout.contains("missing on the host"),
        "{}",
        listed.stdout
    );
    assert!(listed.stdout.contains("as above"), "{}", listed.stdout);

    // It is looked for at each run, so that nothing has to be started again.
    std::fs::create_dir(setup.path("out")).unwrap();
    assert_eq!(
        run(&client, json!([append("/out/a")])).await,
        "/out/a: written"
    );
    let listed = list(&setup, &setup.path("longshore.toml")).await;
    assert!(!listed.stdout.contains("missing"), "{}", listed.stdout);
}

#[tokio::test]
async fn a_link_that_is_changed_after_the_start_leads_nobody_elsewhere() {
    for asked in [false, true] {
        let setup = scripts();
        for name in ["given", "secret"] {
            std::fs::create_dir(setup.path(name)).unwrap();
        }
        let link = setup.path("link");
        std::os::unix::fs::symlink("given", &link).unwrap();
        let path = link.display();
        let (table, name) = match asked {
            true => ("grants.ask", "desk"),
            false => ("grants", "out"),
        };
        let setup = setup.configure(&format!(
            "[plugin.script.{table}]\ndirectories.{name} = {{ path = \"{path}\", access = \"write\" }}"
        ));
        let host = setup.start().await;
        let client = host.client();
        let start = async |file: &str| {
            let operations = json!([append(&format!("/{name}/{file}"))]);
            client.start("script_resume", script(operations)).await
        };
        let id = start("a").await;
        if asked {
            allow(&client, &id, &[], "task").await;
        }
        ended(&client, &id).await;
        assert_eq!(names(&setup, "given"), ["a"]);

        // While a person is asked is as good a time as any.
        let waiting = match asked {
            true => {
                let id = start("b").await;
                question(&client, &id, &[]).await;
                Some(id)
            }
            false => None,
        };
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("secret", &link).unwrap();
        let id = match waiting {
            Some(id) => {
                allow(&client, &id, &[], "task").await;
                id
            }
            None => start("b").await,
        };
        let task = client.until_status(&id, "failed").await;
        let message = task["error"]["message"].as_str().unwrap();
        assert_eq!(
            message,
            format!(
                "the directory granted as `{name}` can't be opened on the host; a link on its way was \
                 changed after the host had checked it: ask its operator to take that back, or to \
                 start the host again"
            )
        );
        assert_eq!(names(&setup, "secret"), [""; 0]);
    }
}

/// Waits until the host has said what it serves.
async fn until_said(setup: &Setup) {
    while !setup.path("data/serving.json").exists() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_secret_whose_variable_the_host_does_not_have_is_told_when_it_starts() {
    const VARIABLE: &str = "LONGSHORE_TEST_API_TOKEN";
    let secret = format!(
        "[plugin.script.grants]\nsecrets.API_TOKEN = {{ env = \"{VARIABLE}\", hosts = [\"https://a.example\"] }}"
    );
    for (value, is_missing) in [(None, true), (Some("figures"), false)] {
        let mut setup = scripts().configure(&secret);
        let manifest = setup.path("plugins/script/plugin.toml");
        let mut text = std::fs::read_to_string(&manifest).unwrap();
        text += "secrets = [{ name = \"API_TOKEN\", why = \"tests of secrets\" }]\n";
        std::fs::write(&manifest, text).unwrap();
        if let Some(value) = value {
            setup = setup.environment(VARIABLE, value);
        }
        let host = setup.start().await;
        let output = host.output();
        let warned = output.contains("the secret granted as `API_TOKEN` can't be opened");
        assert_eq!(warned, is_missing, "{output}");
        assert_eq!(output.contains(VARIABLE), is_missing, "{output}");

        // The command has another environment than the host, whose word it takes.
        until_said(&setup).await;
        let listed = list(&setup, &setup.path("longshore.toml")).await;
        let shown = listed.stdout.contains("missing on the host");
        assert_eq!(shown, is_missing, "{}", listed.stdout);
    }
}

#[tokio::test]
async fn a_change_of_grants_is_shown_as_one_that_needs_a_restart() {
    let setup = missing();
    let _host = setup.start().await;
    let changed = setup.path("changed.toml");
    std::fs::write(
        &changed,
        "[plugin.script.grants]\nconfiguration.region = \"eu\"\n",
    )
    .unwrap();
    let listed = list(&setup, &changed).await;
    assert!(
        listed
            .stdout
            .contains("others; restart it to give those above"),
        "{}",
        listed.stdout
    );
}

/// A host of the set-up with another configuration.
async fn start_with(setup: &Setup, config: &std::path::Path) -> Host {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_longshore"));
    command.arg("serve").arg("--config").arg(config);
    command.args(["--listen", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(setup.path("data"));
    command.arg("--plugins").arg(setup.path("plugins"));
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true);
    Host::start(command).await
}
