//! Results that are too large for one message: kept with their task in parts, read as resources, gone
//! with the task.

use longshore_guests::{SCRIPT, WORLD};
use serde_json::{Value, json};

use crate::harness::{Client, LegacyClient, Seen, Server, Setup, longshore, run};

const MIB: usize = 1 << 20;

/// Eight bytes, one of them not a letter of ASCII.
const WORD: &str = "012345\u{e9}";

fn setup(limits: &str) -> Setup {
    Setup::new(&[("script", &SCRIPT.directory())])
        .configure(&format!("[limits]\nmemory_max_bytes = 536870912\n{limits}"))
}

/// A script that returns a text of so many bytes, or one word less.
fn large(bytes: usize) -> Value {
    json!({"script": [{"do": "repeat", "text": WORD, "times": bytes / WORD.len()}]})
}

fn links(result: &Value) -> Vec<String> {
    let blocks = result["content"].as_array().unwrap().iter();
    let links = blocks.filter(|block| block["type"] == "resource_link");
    links
        .map(|link| link["uri"].as_str().unwrap().to_owned())
        .collect()
}

/// The parts of a text, read one by one and put together.
async fn read(client: &Client, uris: &[String]) -> String {
    let mut text = String::new();
    for uri in uris {
        let reply = client.request("resources/read", json!({"uri": uri})).await;
        let contents = &reply.result()["contents"];
        assert_eq!(contents[0]["uri"], *uri);
        let part = contents[0]["text"].as_str().unwrap();
        assert!(part.len() <= MIB, "{} bytes", part.len());
        text.push_str(part);
    }
    text
}

fn assert_whole(text: &str, bytes: usize) {
    assert_eq!(text.len(), bytes / WORD.len() * WORD.len());
    assert!(
        text.as_bytes()
            .chunks(WORD.len())
            .all(|word| word == WORD.as_bytes())
    );
}

#[tokio::test]
async fn forty_mebibytes_of_an_inline_call_are_read_in_parts_also_after_a_crash() {
    let setup = setup("");
    let host = setup.start().await;
    let client = host.client();
    let result = client.call("script_inline", large(40 * MIB)).await;
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["isError"], false);
    let said = result["content"][0]["text"].as_str().unwrap();
    insta::assert_snapshot!(said, @"The tool returned 41943040 bytes, and one message may have 1048576. What is larger is kept with the task for as long as that lives, in 40 parts: resources/read gets each under the links that follow, in their order.");
    let uris = links(&result);
    assert_eq!(uris.len(), 40);
    assert_whole(&read(&client, &uris).await, 40 * MIB);
    // What keeps it is a task that has ended, with the same result.
    let id = uris[0].split('/').nth(3).unwrap();
    let task = client.task(id).await;
    assert_eq!(task["status"], "completed");
    assert_eq!(task["result"]["content"], result["content"]);
    host.kill().await;

    let host = setup.start().await;
    assert_whole(&read(&host.client(), &uris).await, 40 * MIB);
    let legacy = LegacyClient::open(host.url(), "2025-11-25").await;
    let reply = legacy
        .request("resources/read", json!({"uri": uris[39]}))
        .await;
    let rest = reply["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(rest.ends_with(WORD), "{reply:.300}");
}

#[tokio::test]
async fn a_tasks_large_result_names_parts_that_go_with_the_task() {
    let setup = setup("task_ttl_default_ms = 2000\nsweep_interval_ms = 100");
    let host = setup.start().await;
    let client = host.client();
    let id = client.start("script_resume", large(3 * MIB)).await;
    let task = client.until_status(&id, "completed").await;
    let uris = links(&task["result"]);
    assert_eq!(uris[0], format!("longshore://result/{id}/1"));
    assert_whole(&read(&client, &uris).await, 3 * MIB);
    let beyond = [
        format!("longshore://result/{id}/0"),
        format!("longshore://result/{id}/5"),
    ];
    for uri in &beyond {
        let reply = client.request("resources/read", json!({"uri": uri})).await;
        assert_eq!(reply.code(), -32602, "{:#}", reply.body);
        assert_eq!(reply.body["error"]["data"]["uri"], *uri);
    }
    loop {
        let reply = client
            .request("resources/read", json!({"uri": uris[0]}))
            .await;
        if reply.code() == -32602 {
            break;
        }
    }
    let folder = setup.path("data/store/bodies/local");
    while std::fs::read_dir(&folder).unwrap().next().is_some() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_is_larger_than_is_kept_or_too_much_in_all_fails_with_what_to_do() {
    let limits = "result_kept_max_bytes = 3145728\ntenant_results_kept_max_bytes = 4194304";
    let setup = setup(limits);
    let host = setup.start().await;
    let client = host.client();
    let call = async |bytes: usize| {
        let params = json!({"name": "script_inline", "arguments": large(bytes)});
        client.request("tools/call", params).await
    };
    let message = |body: &Value| {
        body["error"]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let refused = call(3 * MIB + 8).await;
    insta::assert_snapshot!(message(&refused.body), @"the tool returned 3145736 bytes, and a result may have 3145728; it must write more than that to a granted directory and return where it is");
    call(3 * MIB).await.result();
    let refused = call(2 * MIB).await;
    insta::assert_snapshot!(message(&refused.body), @"the tool returned more than one message holds, and it was not kept: 4194304 bytes of large results are kept for this tenant, which is the limit; wait until older ones expire, or have the tool return less");
    // It counts after a restart as well.
    host.kill().await;
    let host = setup.start().await;
    let params = json!({"name": "script_inline", "arguments": large(2 * MIB)});
    let refused = host.client().request("tools/call", params).await;
    assert!(
        message(&refused.body).contains("which is the limit"),
        "{:.300}",
        refused.body.to_string()
    );
}

#[tokio::test]
async fn a_large_result_is_written_whole_by_the_command_line() {
    let setup = setup("");
    let host = setup.start().await;
    let client = host.client();
    let id = client.start("script_resume", large(3 * MIB)).await;
    client.until_status(&id, "completed").await;
    let file = setup.path("result");
    let whole = |out: &[&str]| {
        let arguments = ["task", "result", &id, "--url", host.url()];
        longshore(&[&arguments, out].concat())
    };
    let written = run(whole(&["--out", file.to_str().unwrap()])).await;
    assert_eq!(written.code, 0, "{}", written.stderr);
    assert_whole(&std::fs::read_to_string(file).unwrap(), 3 * MIB);
    let printed = run(whole(&[])).await;
    assert_whole(&printed.stdout, 3 * MIB);
    let small = json!({"script": [{"do": "say", "text": "hello"}]});
    let id = client.start("script_resume", small).await;
    client.until_status(&id, "completed").await;
    let arguments = ["task", "result", &id, "--url", host.url()];
    assert_eq!(run(longshore(&arguments)).await.stdout, "hello");
}

/// What stands between the command and its host, which reads one part and never the next.
async fn stalling(url: &str) -> Server {
    let (http, url) = (reqwest::Client::new(), url.to_owned());
    Server::start(move |seen: Seen| {
        let (http, url) = (http.clone(), url.clone());
        async move {
            if seen.body.contains("resources/read") && seen.body.contains("/2\"") {
                std::future::pending::<()>().await;
            }
            let mut request = http.post(url).body(seen.body);
            for (name, value) in &seen.headers {
                if !["host", "content-length"].contains(&name.as_str()) {
                    request = request.header(name, value);
                }
            }
            let answer = request.send().await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        }
    })
    .await
}

#[tokio::test]
async fn a_result_that_is_not_read_to_its_end_leaves_the_file_as_it_was() {
    let setup = setup("");
    let host = setup.start().await;
    let client = host.client();
    let id = client.start("script_resume", large(3 * MIB)).await;
    client.until_status(&id, "completed").await;
    let folder = setup.path("results");
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("result");
    std::fs::write(&file, "the one before").unwrap();
    let command = |url: &str| {
        let out = file.to_str().unwrap();
        longshore(&["task", "result", &id, "--url", url, "--out", out])
    };
    let is_kept = || std::fs::read(&file).unwrap() == b"the one before";
    let is_alone = || std::fs::read_dir(&folder).unwrap().count() == 1;

    let between = stalling(host.url()).await;
    let stopped = command(&between.url("/mcp")).spawn().unwrap();
    let pid = i32::try_from(stopped.id().unwrap()).unwrap();
    // The task, its first part, and the one that never comes.
    between.until_seen(3).await;
    assert!(is_kept());
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = stopped.wait_with_output().await.unwrap();
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    assert!(is_kept() && is_alone());

    let parts = setup.path("data/store/bodies/local").join(&id);
    for part in std::fs::read_dir(parts).unwrap() {
        std::fs::write(part.unwrap().path(), "damaged").unwrap();
    }
    let failed = run(command(host.url())).await;
    assert_ne!(failed.code, 0);
    assert!(is_kept() && is_alone(), "{}", failed.stderr);
}

#[tokio::test]
async fn what_a_result_holds_is_written_byte_for_byte_and_nothing_else() {
    let setup = Setup::new(&[("world", &WORLD.directory())]);
    let host = setup.start().await;
    let client = host.client();
    let id = client
        .start("hand_over", json!({"uris": ["file:///report.csv"]}))
        .await;
    client.until_status(&id, "completed").await;
    let file = setup.path("result");
    let out = file.to_str().unwrap();
    let arguments = ["task", "result", &id, "--url", host.url(), "--out", out];
    let written = run(longshore(&arguments)).await;
    assert_eq!(written.code, 0, "{}", written.stderr);
    let expected = b"a text\n\x89PNG\x00\xff\xfe\x00\x1bthe end";
    assert_eq!(std::fs::read(file).unwrap(), expected);
    insta::assert_snapshot!(written.stderr.trim(), @"not data, left out: [a link] file:///report.csv");
}

#[tokio::test]
async fn a_tool_that_returns_a_uri_of_the_hosts_own_scheme_fails() {
    let setup = Setup::new(&[("world", &WORLD.directory())]);
    let host = setup.start().await;
    let client = host.client();
    let uris = json!({"uris": ["longshore://result/another/1"]});
    let id = client.start("hand_over", uris).await;
    let task = client.until_status(&id, "failed").await;
    insta::assert_snapshot!(task["error"]["message"].as_str().unwrap(), @"the plugin returned a URI of `longshore:`, the host's own scheme; it must choose another");
}
