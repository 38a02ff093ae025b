//! The tool as the host calls it, over scripted HTTP.

use std::cell::RefCell;
use std::rc::Rc;

use longshore_plugin::http::{HttpError, Response};
use longshore_plugin::testing::{Host, answer_http};
use longshore_plugin::{Error, Output, Result};
use release_gate::tools;
use serde_json::{Value, json};

/// A tag that can be undone.
fn arguments() -> Value {
    json!({ "steps": [
        { "name": "check", "description": "reads", "method": "GET", "url": "http://h/health" },
        { "name": "tag", "description": "makes the tag", "method": "POST", "url": "http://h/tags",
          "headers": { "X-Team": "blue" }, "body": { "tag": "v1" }, "expect_status": [201],
          "undo": { "method": "DELETE", "url": "http://h/tags/v1" } },
    ] })
}

/// Calls the tool; the second value is what went out, one line a request.
fn call(
    host: &Host,
    answer: fn(&str) -> Result<Response, HttpError>,
) -> (Result<Output>, Vec<String>) {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&seen);
    let _http = answer_http(move |request| {
        let header = |name| request.header_value(name).unwrap_or("-").to_owned();
        log.borrow_mut().push(format!(
            "{} {} key={} team={} type={} {}",
            request.method(),
            request.url(),
            header("idempotency-key"),
            header("x-team"),
            header("content-type"),
            String::from_utf8_lossy(request.body_bytes())
        ));
        answer(request.method())
    });
    let result = host.call(&tools(), "release-gate", arguments());
    let seen = seen.borrow().clone();
    (result, seen)
}

fn states(output: &Output) -> Vec<String> {
    let steps = output.structured.as_ref().unwrap()["steps"]
        .as_array()
        .unwrap();
    let states = steps.iter().map(|step| step["state"].as_str().unwrap());
    states.map(str::to_owned).collect()
}

#[test]
fn an_effect_carries_its_key_and_a_reading_step_none() {
    let host = Host::new().answering("step-2-tag", json!({ "confirm": true }));
    let (result, seen) = call(&host, |method| {
        Ok(Response::new(
            if method == "POST" { 201 } else { 200 },
            "fine",
        ))
    });
    assert_eq!(states(&result.unwrap()), ["done", "done"]);
    assert_eq!(
        seen,
        [
            "GET http://h/health key=- team=- type=- ",
            "POST http://h/tags key=task-tag team=blue type=application/json {\"tag\":\"v1\"}",
        ]
    );
    assert_eq!(
        host.reference(),
        Some(("release-gate:task".to_owned(), None))
    );
}

#[test]
fn an_ungranted_host_fails_the_step_and_sends_nothing_more() {
    let host = Host::new();
    let (result, seen) = call(&host, |_| Err(HttpError::Denied));
    let output = result.unwrap();
    assert!(output.is_error);
    assert_eq!(states(&output), ["failed", "not_run"]);
    assert!(output.joined_text().contains("no grant covers it"));
    assert_eq!(seen.len(), 1);
}

#[test]
fn an_effect_that_timed_out_is_unknown() {
    let host = Host::new()
        .answering("step-2-tag", json!({ "confirm": true }))
        .declining("undo-2-tag");
    let (result, _) = call(&host, |method| match method {
        "POST" => Err(HttpError::TimedOut),
        _ => Ok(Response::new(200, "")),
    });
    assert_eq!(states(&result.unwrap()), ["done", "unknown"]);
}

#[test]
fn without_a_task_it_refuses() {
    let (result, seen) = call(&Host::new().inline(), |_| Ok(Response::new(200, "")));
    assert!(matches!(result, Err(Error::Failed(text)) if text.contains("only as a task")));
    assert!(seen.is_empty());
}

#[test]
fn the_declaration_says_what_people_must_know() {
    let declaration = tools()[0].declaration();
    assert!(declaration.traits.cleanup_on_cancel);
    assert!(
        declaration
            .traits
            .questions
            .iter()
            .all(|question| question.allows_effect)
    );
    let schema: Value = serde_json::from_str(&declaration.input_schema).unwrap();
    assert_eq!(schema["required"], json!(["steps"]));
    assert_eq!(schema["additionalProperties"], json!(false));
    let schema: Value = serde_json::from_str(&declaration.output_schema.unwrap()).unwrap();
    assert_eq!(schema["required"], json!(["outcome", "reference", "steps"]));
}
