//! The command line as a script uses it: what it prints, where, and its exit codes.

use std::path::{Path, PathBuf};

use longshore_guests::{CONFORMANCE, SCRIPT};
use serde_json::{Value, json};

use crate::harness::{Ended, Host, Setup, longshore, run};

/// A host with the `script` plugin, and commands that talk to it.
struct Desk {
    _setup: Setup,
    host: Host,
}

impl Desk {
    async fn new() -> Desk {
        let setup = Setup::new(&[("script", &SCRIPT.directory())]);
        let host = setup.start().await;
        Desk {
            _setup: setup,
            host,
        }
    }

    async fn run(&self, arguments: &[&str]) -> Ended {
        let mut command = longshore(arguments);
        command.env("LONGSHORE_URL", self.host.url());
        run(command).await
    }

    /// `longshore call` of a script.
    async fn call(&self, tool: &str, operations: Value, flags: &[&str]) -> Ended {
        let script = format!("script={operations}");
        self.run(&[&["call", tool, &script], flags].concat()).await
    }

    /// Starts a task that asks `go` and waits until it does; its id.
    async fn asking(&self) -> String {
        let operations = json!([{"do": "confirm", "key": "go", "message": "Publish it?"}]);
        let started = self.call("script_resume", operations, &["--detach"]).await;
        assert_eq!(started.code, 0, "{}", started.stderr);
        let id = started.stdout.trim().to_owned();
        self.host.client().until_asked(&id).await;
        id
    }
}

fn say(text: &str) -> Value {
    json!([{"do": "say", "text": text}])
}

#[tokio::test]
async fn an_inline_result_goes_to_standard_output() {
    let desk = Desk::new().await;
    let ended = desk.call("script_inline", say("hi"), &[]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "hi\n"));

    let ended = desk.call("script_inline", say("hi"), &["--json"]).await;
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(result["content"][0]["text"], "hi");
    assert_eq!(ended.code, 0);

    let args = json!({"script": say("hi")}).to_string();
    let ended = desk.run(&["call", "script_inline", "--args", &args]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "hi\n"));
}

#[tokio::test]
async fn a_task_is_followed_to_its_end_and_confirmed_with_yes() {
    let desk = Desk::new().await;
    let operations = json!([
        {"do": "progress", "message": "half", "done": 1, "total": 2},
        {"do": "confirm", "key": "go", "message": "Publish it?"},
    ]);
    let ended = desk.call("script_resume", operations, &["--yes"]).await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(ended.stdout, "go: true\n");
    assert!(ended.stderr.contains("task "), "{}", ended.stderr);
    // Nothing that was allowed goes unseen.
    let told = "? Publish it?\n  answered by --yes: {\"confirm\":true}\n";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
}

#[tokio::test]
async fn a_question_before_there_is_a_task_is_confirmed_too() {
    let desk = Desk::new().await;
    let operations = json!([{"do": "confirm", "key": "first", "message": "Begin?"}]);
    let ended = desk
        .call("script_ask_first", operations.clone(), &["--yes"])
        .await;
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "first: true\n"));

    let ended = desk.call("script_ask_first", operations, &[]).await;
    assert_eq!(ended.code, 1);
    insta::assert_snapshot!(ended.stderr.trim(), @r"
    error: `script_ask_first` asks first, and there is no terminal to ask on:
      Begin?
        first.confirm: true or false
    give the command from a terminal, or confirm everything with --yes
    ");
}

#[tokio::test]
async fn a_question_without_a_terminal_says_how_to_answer() {
    let desk = Desk::new().await;
    let operations = json!([{"do": "confirm", "key": "go", "message": "Publish it?"}]);
    let ended = desk.call("script_resume", operations, &[]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    let words = ended.stderr.split_whitespace();
    let id = words.skip_while(|word| *word != "task").nth(1).unwrap();
    insta::assert_snapshot!(ended.stderr.replace(id, "ID").trim(), @r"
    task ID
    error: the task waits for an answer, and there is no terminal to ask on:
      Publish it?
        go.confirm: true or false
    answer with `longshore task answer ID KEY=VALUE`, or confirm everything with --yes
    ");

    // The task is still there, and can be answered as it says.
    let answered = desk.run(&["task", "answer", id, "go=true"]).await;
    assert_eq!(answered.code, 0, "{}", answered.stderr);
    let watched = desk.run(&["task", "watch", id]).await;
    assert_eq!((watched.code, watched.stdout.as_str()), (0, "go: true\n"));
}

#[tokio::test]
async fn a_detached_task_is_answered_and_watched_later() {
    let desk = Desk::new().await;
    let id = desk.asking().await;
    let shown = desk.run(&["task", "get", &id]).await;
    assert_eq!(shown.code, 0);
    assert!(shown.stdout.contains("status   input_required"));
    assert!(shown.stdout.contains("Publish it?"));
    assert!(shown.stdout.contains("go.confirm"), "{}", shown.stdout);

    for (words, says) in [
        (vec!["stop=true"], "nothing asks for `stop`"),
        (vec!["go=perhaps"], "`go` takes"),
        (vec!["go"], "is not KEY=VALUE"),
        (vec!["--decline", "stop"], "nothing asks for `stop`"),
        (vec!["go=true", "--decline", "go"], "answered twice"),
        (vec![], "there is no terminal to ask on"),
    ] {
        let answered = desk
            .run(&[&["task", "answer", &id], &*words].concat())
            .await;
        assert_eq!(answered.code, 2, "{words:?}: {}", answered.stderr);
        assert!(answered.stderr.contains(says), "{}", answered.stderr);
    }

    let answered = desk.run(&["task", "answer", &id, "--decline", "go"]).await;
    assert_eq!(answered.code, 0, "{}", answered.stderr);
    let watched = desk.run(&["task", "watch", &id, "--json"]).await;
    assert_eq!(watched.code, 0, "{}", watched.stderr);
    let result: Value = serde_json::from_str(&watched.stdout).unwrap();
    assert_eq!(result["content"][0]["text"], "go: false");

    let late = desk.run(&["task", "answer", &id, "go=true"]).await;
    assert_eq!(late.code, 2);
    assert!(late.stderr.contains("it is completed"), "{}", late.stderr);
}

#[tokio::test]
async fn a_detached_call_prints_an_id_or_nothing() {
    let desk = Desk::new().await;
    let ended = desk.call("script_inline", say("hi"), &["--detach"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (0, ""));
    insta::assert_snapshot!(ended.stderr.trim(), @r"
    it ended at once, so there is no task:
    hi
    ");
    let ended = desk
        .call("script_inline", say("hi"), &["--detach", "--json"])
        .await;
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(result["resultType"], "complete");
}

#[tokio::test]
async fn tasks_whose_ids_were_lost_are_listed_newest_first() {
    let desk = Desk::new().await;
    let none = desk.run(&["task", "list"]).await;
    assert_eq!((none.code, none.stderr.as_str()), (0, "no tasks\n"));
    let first = desk.asking().await;
    let ended = desk.call("script_resume", say("done"), &["--detach"]).await;
    let second = ended.stdout.trim();
    desk.host.client().until_status(second, "completed").await;

    let listed = desk.run(&["task", "list"]).await;
    let lines: Vec<&str> = listed.stdout.lines().collect();
    assert!(lines[0].starts_with(second) && lines[0].contains("completed"));
    assert!(lines[1].starts_with(&first) && lines[1].contains("input_required"));
    assert!(lines[1].contains("script_resume"), "{}", listed.stdout);
    let shown = desk.run(&["task", "list", "--limit", "1", "--json"]).await;
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(shown["tasks"][0]["taskId"], second);
}

#[tokio::test]
async fn a_cancelled_task_has_an_exit_code_of_its_own_and_says_so_once() {
    let desk = Desk::new().await;
    let operations = json!([{"do": "wait", "ms": 3_600_000}]);
    let started = desk.call("script_resume", operations, &["--detach"]).await;
    let id = started.stdout.trim();
    let cancelled = desk.run(&["task", "cancel", id, "--wait"]).await;
    assert_eq!(cancelled.code, 0, "{}", cancelled.stderr);
    let last = cancelled.stderr.trim().lines().last().unwrap();
    assert_eq!(last, "cancelled: the tool stopped at a safe place");

    let watched = desk.run(&["task", "watch", id]).await;
    assert_eq!((watched.code, watched.stdout.as_str()), (4, ""));
    assert_eq!(desk.run(&["task", "get", id]).await.code, 4);
    let again = desk.run(&["task", "cancel", id]).await;
    assert_eq!(again.code, 0);
    assert!(again.stderr.contains("has ended already: cancelled"));
}

#[tokio::test]
async fn what_fails_exits_with_one_and_its_reason() {
    let desk = Desk::new().await;
    let fails = json!([{"do": "fail", "text": "no rows"}]);
    for tool in ["script_inline", "script_resume"] {
        let ended = desk.call(tool, fails.clone(), &[]).await;
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (1, "no rows\n"),
            "{tool}"
        );
    }
    let breaks = json!([{"do": "rpc", "code": 7, "message": "no such account"}]);
    let ended = desk.call("script_fail", breaks, &[]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    assert!(
        ended.stderr.contains("failed: no such account"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn what_a_tool_printed_is_read_with_task_log() {
    let desk = Desk::new().await;
    let operations = json!([{"do": "print", "text": "a line"}]);
    let started = desk.call("script_resume", operations, &["--detach"]).await;
    let id = started.stdout.trim();
    desk.host.client().until_status(id, "completed").await;
    let log = desk.run(&["task", "log", id]).await;
    assert_eq!(
        (log.code, log.stdout.as_str()),
        (0, "a line\n"),
        "{}",
        log.stderr
    );
    let log = desk.run(&["task", "log", id, "--json"]).await;
    let log: Value = serde_json::from_str(&log.stdout).unwrap();
    assert_eq!(log["text"], "a line\n");
}

#[tokio::test]
async fn what_the_caller_got_wrong_exits_with_two_and_what_the_host_refuses_with_three() {
    let desk = Desk::new().await;
    let mut told = Vec::new();
    for (arguments, code) in [
        (vec!["call", "nope"], 2),
        (vec!["call", "script_inline", "script"], 2),
        (vec!["call", "script_inline", "scirpt=[]"], 2),
        (vec!["call", "script_inline", "--args", "[]"], 2),
        (vec!["call", "script_inline", "--url", "nowhere"], 2),
        (vec!["task", "get", "abc"], 3),
        (vec!["task", "log", "abc"], 3),
        (vec!["task", "cancel", "abc"], 3),
    ] {
        let ended = desk.run(&arguments).await;
        assert_eq!(ended.code, code, "{arguments:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{arguments:?}");
        told.push(ended.stderr.trim().to_owned());
    }
    insta::assert_snapshot!(told.join("\n"), @r"
    error: the host has no tool `nope`; it has script_ask_first, script_auto, script_clean_up, script_detach, script_fail, script_inline, script_once, script_restart, script_resume
    error: `script` is not KEY=VALUE
    error: the tool has no argument `scirpt`; it has script
    error: --args is no JSON object: invalid type: sequence, expected a map at line 1 column 0
    error: `nowhere` is not an address of a host; write one like http://127.0.0.1:7331/mcp
    error: no such task: the id is wrong, or the task has expired and was deleted
    error: no such task: the id is wrong, or the task has expired and was deleted
    error: no such task: the id is wrong, or the task has expired and was deleted
    ");
}

#[tokio::test]
async fn a_host_that_is_not_there_exits_with_three() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", taken.local_addr().unwrap());
    drop(taken);
    let ended = run(longshore(&["call", "any", "--url", &url])).await;
    assert_eq!(ended.code, 3);
    insta::assert_snapshot!(ended.stderr.replace(&url, "URL").trim(), @"error: can't reach the host at URL: Connection refused (os error 111). Is `longshore serve` running there?");
}

#[tokio::test]
async fn inspect_shows_what_must_be_known_before_a_plugin_is_trusted() {
    let directory = SCRIPT.directory();
    let directory = directory.to_str().unwrap();
    let shown = run(longshore(&["plugin", "inspect", directory])).await;
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    for told in [
        "script 0.1.0",
        "TOOL script_ask_first",
        "always a task",
        "resumes when interrupted",
        "whether there is a task at all",
        "asked before the task starts",
        "tests of outgoing requests",
    ] {
        assert!(shown.stdout.contains(told), "{told}:\n{}", shown.stdout);
    }
    let shown = run(longshore(&["plugin", "inspect", directory, "--json"])).await;
    let described: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(described["name"], "script");
    let tools = described["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["name"] == "script_ask_first");
    let traits = &tool.unwrap()["traits"];
    assert_eq!(traits["execution"], "task");
    assert_eq!(traits["recovery"], "resume");
    assert_eq!(traits["questions"][0]["beforeTask"], true);

    let missing = run(longshore(&["plugin", "inspect", "no-such-plugin.wasm"])).await;
    assert_eq!(missing.code, 1);
    insta::assert_snapshot!(missing.stderr.trim(), @"error: no-such-plugin.wasm: the component no-such-plugin.wasm is missing; build the plugin with `longshore plugin build`");
}

#[tokio::test]
async fn a_new_plugin_builds_and_serves_as_it_says() {
    let setup = Setup::new(&[]);
    let (directory, built) = (setup.path("tally"), setup.path("plugins"));
    let (directory, built) = (directory.to_str().unwrap(), built.to_str().unwrap());
    let mut new = longshore(&["plugin", "new", directory]);
    new.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
    let made = run(new).await;
    assert_eq!(made.code, 0, "{}", made.stderr);
    let again = run(longshore(&["plugin", "new", directory])).await;
    assert_eq!(again.code, 2);
    assert!(
        again.stderr.contains("is there already"),
        "{}",
        again.stderr
    );
    let misnamed = run(longshore(&["plugin", "new", "9_lives"])).await;
    assert_eq!(misnamed.code, 2);
    insta::assert_snapshot!(misnamed.stderr.trim(), @"error: the directory's name becomes the plugin's, which is 1 to 48 of a-z, 0-9 and `-` after a letter; `9_lives` is none");

    // From the checkout, where the dependencies are built already.
    let mut build = longshore(&["plugin", "build", directory, "--out", built]);
    build.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let build = run(build).await;
    assert_eq!(build.code, 0, "{}", build.stderr);
    let host = setup.start().await;
    let mut call = longshore(&["call", "tally", "up_to=7"]);
    call.env("LONGSHORE_URL", host.url());
    let called = run(call).await;
    assert_eq!((called.code, called.stdout.as_str()), (0, "counted to 7\n"));
}

#[tokio::test]
async fn a_new_plugin_finds_the_sdk_where_it_is_told_or_in_a_checkout() {
    let setup = Setup::new(&[]);
    let new = |name: &str, arguments: &[&str]| {
        let mut command = longshore(&[&["plugin", "new", name], arguments].concat());
        command.current_dir(setup.directory());
        command
    };
    let path_in = |name: &str| {
        let text = std::fs::read_to_string(setup.path(name).join("Cargo.toml")).unwrap();
        let file: toml::Table = text.parse().unwrap();
        let path = file["dependencies"]["longshore-plugin"]["path"].as_str();
        PathBuf::from(path.unwrap())
    };
    let nowhere = run(new("one", &[])).await;
    assert_eq!(nowhere.code, 2);
    insta::assert_snapshot!(nowhere.stderr.trim(), @"error: there is no `plugin-sdk` with the SDK here or above; give that of a checkout of Longshore with --sdk or LONGSHORE_SDK");
    let wrong = run(new("one", &["--sdk", "."])).await;
    assert_eq!(wrong.code, 2);
    insta::assert_snapshot!(wrong.stderr.trim(), @"error: there is no `longshore-plugin` at .; give the `plugin-sdk` of a checkout of Longshore with --sdk");
    assert!(!setup.path("one").exists(), "nothing was begun");

    let manifest = "[package]\nname = \"longshore-plugin\"\n";
    for sdk in ["plugin-sdk", "caf\u{e9} \"\\' a\nb"] {
        std::fs::create_dir(setup.path(sdk)).unwrap();
        std::fs::write(setup.path(sdk).join("Cargo.toml"), manifest).unwrap();
    }
    let checkout = setup.path("plugin-sdk").canonicalize().unwrap();
    let odd = setup.path("caf\u{e9} \"\\' a\nb").canonicalize().unwrap();
    assert_eq!(run(new("one", &[])).await.code, 0);
    assert_eq!(path_in("one"), checkout);
    assert_eq!(
        run(new("two", &["--sdk", odd.to_str().unwrap()]))
            .await
            .code,
        0
    );
    assert_eq!(path_in("two"), odd);
    let mut told = new("three", &[]);
    told.env("LONGSHORE_SDK", &odd);
    assert_eq!(run(told).await.code, 0);
    assert_eq!(path_in("three"), odd);
}

#[tokio::test]
async fn list_shows_what_would_be_served_and_what_not() {
    let setup = Setup::new(&[("conformance", &CONFORMANCE.directory())]);
    let broken = setup.path("plugins/broken");
    std::fs::create_dir_all(&broken).unwrap();
    std::fs::write(broken.join("plugin.toml"), "name = \"broken\"").unwrap();
    let plugins = setup.path("plugins");
    let plugins = plugins.to_str().unwrap();
    let listed = run(longshore(&[
        "plugin",
        "list",
        "--plugins",
        plugins,
        "--json",
    ]))
    .await;
    assert_eq!(listed.code, 1, "one does not serve");
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(listed["plugins"][0]["name"], "conformance");
    let names = listed["plugins"][0]["tools"].as_array().unwrap();
    assert!(names.contains(&json!("greet")));
    let reason = listed["failures"]["broken"].as_str().unwrap();
    assert!(reason.contains("missing field"), "{reason}");
}

#[tokio::test]
async fn a_call_from_where_the_host_was_started_says_where_the_tools_files_are() {
    let setup = Setup::new(&[("script", &SCRIPT.directory())]).configure("data_dir = \"data\"");
    let setup = setup.configure(
        "[plugin.script.grants.directories]\n\
         out = { path = \"reports/{tenant}\", access = \"write\" }",
    );
    let host = setup.start().await;
    let script = format!("script={}", say("hi"));
    let call = async |directory: &Path, flags: &[&str]| {
        let mut command = longshore(&[&["call", "script_resume", &script], flags].concat());
        command.env("LONGSHORE_URL", host.url());
        command.current_dir(directory);
        run(command).await
    };
    let here = setup.directory();
    while !setup.path("data/serving.json").exists() {
        tokio::task::yield_now().await;
    }
    let ended = call(here, &[]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "hi\n"));
    let said = "/out is reports/local on this machine\n";
    assert!(ended.stderr.ends_with(said), "{}", ended.stderr);

    let elsewhere = tempfile::tempdir().unwrap();
    for (directory, flags) in [(here, &["--json"][..]), (elsewhere.path(), &[])] {
        let ended = call(directory, flags).await;
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        assert!(
            !ended.stderr.contains("on this machine"),
            "{}",
            ended.stderr
        );
    }
}
