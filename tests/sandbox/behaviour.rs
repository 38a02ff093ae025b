//! What a run gives a guest, and what becomes of what the guest gives back.

use std::collections::BTreeMap;

use longshore::scheduler::{Asks, CallOutcome, Left, RunEnd, Saved};
use longshore::task::{Answer, CallResult, InputKey, RpcError};
use longshore::wasm::{DirectoryGrant, Grants};

use super::fixture::{Fixture, limits, submission, text_of};

#[tokio::test]
async fn a_call_returns_what_the_tool_returns() {
    let host = Fixture::new().await;
    assert_eq!(host.text("echo", "hello").await, "hello");
}

#[tokio::test]
async fn structured_content_must_be_json() {
    let host = Fixture::new().await;
    let RunEnd::Returned(result) = host.call("structured", "{\n\"n\": 1}").await else {
        panic!("it did not return");
    };
    assert!(
        result.json.contains(r#""structuredContent":{"n":1}"#),
        "{}",
        result.json
    );
    let message = host.failure("structured", "{n: 1}").await;
    assert!(message.contains("not JSON"), "{message}");
}

#[tokio::test]
async fn a_tools_own_errors_come_through() {
    let host = Fixture::new().await;
    let error = |data: Option<&str>| {
        RunEnd::Failed(RpcError {
            code: -32001,
            message: "no such account".into(),
            data: data.map(str::to_owned),
        })
    };
    assert_eq!(host.call("fail", "[ 7 ]").await, error(Some("[7]")));
    assert_eq!(host.call("fail", "not json").await, error(None));
    // Wrong arguments are for the caller to mend, so they are a result.
    let json = r#"{"content":[{"type":"text","text":"why"}],"isError":true}"#.to_owned();
    assert_eq!(
        host.call("refuse", "why").await,
        RunEnd::Returned(CallResult {
            json,
            is_error: true
        })
    );
    assert_eq!(
        host.call("cancelled", "done").await,
        RunEnd::Cancelled(Some("done".into()))
    );
}

#[tokio::test]
async fn a_guest_sees_its_call_and_its_own_saves() {
    let host = Fixture::new().await;
    let context = host.text("context", "").await;
    assert!(
        context.contains(r#"tenant: "local", attempt: 1, can-ask-form: true"#),
        "{context}"
    );
    let saved = host.text("save", "x").await;
    assert_eq!(saved, r#"Some([120]) Some("x")"#);
}

#[tokio::test]
async fn a_question_that_nobody_can_answer_comes_back_as_unsupported() {
    let host = Fixture::new().await;
    let answer = host.text("ask", "go").await;
    assert!(answer.contains("Unsupported"), "{answer}");
    let answer = host.text("ask", "not a key").await;
    assert!(answer.contains("Invalid"), "{answer}");
}

#[tokio::test]
async fn a_question_ends_the_run_and_its_answer_comes_with_the_next() {
    let host = Fixture::new().await;
    let call = async |saved: Saved| {
        let submission = submission("ask", "go");
        let mut call = host
            .scheduler
            .start_call(submission, Asks::InRounds, saved, Default::default())
            .await
            .unwrap();
        call.outcome().await
    };
    let CallOutcome::Asks(requests, Left::State(mut saved)) = call(Saved::default()).await else {
        panic!("it did not ask");
    };
    assert_eq!(requests[0].key.as_str(), "go");
    saved
        .answers
        .insert(InputKey::parse("go").unwrap(), Answer::Decline);
    let CallOutcome::Ended(RunEnd::Returned(result)) = call(saved).await else {
        panic!("it did not return");
    };
    assert!(text_of(&result.json).contains("Decline"), "{}", result.json);
}

#[tokio::test]
async fn an_external_reference_must_lead_to_the_web() {
    let host = Fixture::new().await;
    assert_eq!(
        host.text("reference", "https://tickets.example/7").await,
        "set"
    );
    let message = host.failure("reference", "file:///etc/passwd").await;
    assert!(message.contains("http or https"), "{message}");
}

#[tokio::test]
async fn a_guest_reaches_only_the_directories_it_was_granted() {
    let directory = |name: &str, dir: &std::path::Path, write: bool| DirectoryGrant {
        name: name.to_owned(),
        path: dir.join(name).join("{tenant}"),
        write,
        quota_bytes: None,
        led: Default::default(),
    };
    let host = Fixture::with(limits(), |dir| {
        std::fs::create_dir_all(dir.join("in/local")).unwrap();
        std::fs::write(dir.join("in/local/a.txt"), "granted").unwrap();
        std::fs::write(dir.join("in/b.txt"), "not granted").unwrap();
        std::os::unix::fs::symlink("../b.txt", dir.join("in/local/link")).unwrap();
        Grants {
            directories: vec![directory("in", dir, false), directory("out", dir, true)],
            environment: BTreeMap::from([("MODE".to_owned(), "test".to_owned())]),
            ..Grants::default()
        }
    })
    .await;
    assert_eq!(host.text("read", "/in/a.txt").await, "granted");
    assert_eq!(host.text("write", "/out/c.txt").await, "written");
    let written = std::fs::read_to_string(host.dir.path().join("out/local/c.txt")).unwrap();
    assert_eq!(written, "written");
    for (tool, path) in [
        ("read", "/in/../b.txt"),
        ("read", "/in/link"),
        ("read", "/etc/passwd"),
        ("write", "/in/d.txt"),
        ("write", "/out/../e.txt"),
    ] {
        let text = host.text(tool, path).await;
        assert!(text.starts_with("error: "), "{tool} {path}: {text}");
    }
    assert_eq!(host.text("environment", "").await, r#"[("MODE", "test")]"#);
}

#[tokio::test]
async fn a_missing_directory_fails_what_looks_into_it_without_telling_where_it_is() {
    let host = Fixture::with(limits(), |dir| Grants {
        directories: vec![DirectoryGrant {
            name: "in".to_owned(),
            path: dir.join("missing"),
            write: true,
            quota_bytes: None,
            led: Default::default(),
        }],
        ..Grants::default()
    })
    .await;
    assert_eq!(host.text("echo", "as before").await, "as before");
    let message = host.failure("read", "/in/file").await;
    assert!(message.contains("granted as `in`"), "{message}");
    assert!(
        !message.contains(host.dir.path().to_str().unwrap()),
        "{message}"
    );
}

#[tokio::test]
async fn a_guest_without_grants_sees_nothing() {
    let host = Fixture::new().await;
    assert_eq!(host.text("environment", "").await, "[]");
    for (tool, argument) in [
        ("read", "/etc/passwd"),
        ("read", "."),
        ("connect", "127.0.0.1:80"),
    ] {
        let text = host.text(tool, argument).await;
        assert!(text.starts_with("error: "), "{tool} {argument}: {text}");
    }
}
