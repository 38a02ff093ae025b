//! The tool over scripted HTTP: what goes out, and what its declaration promises.

use std::cell::RefCell;
use std::rc::Rc;

use longshore_plugin::IntoOutput;
use longshore_plugin::http::{HttpError, Response};
use longshore_plugin::testing::{Host, answer_http};
use regression_run::run::run;
use regression_run::send::Network;
use regression_run::{offer, tools};
use serde_json::{Value, json};

#[test]
fn cases_go_out_as_they_are_written_and_failures_are_a_result() {
    let root = tempfile::tempdir().unwrap();
    let files = [
        (
            "a.toml",
            "request = { method = 'POST', path = '/orders?x=1', headers = { X-A = '1' }, json = { n = 1 } }\n\
             expect = { status = 201, headers = { etag = '*' }, json = { id = 7 } }",
        ),
        ("b.toml", "request.path = '/missing'\nexpect.status = 200"),
        ("c.toml", "request.path = '/slow'\nexpect.status = 200"),
    ];
    for (name, text) in files {
        std::fs::write(root.path().join(name), text).unwrap();
    }
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&seen);
    let _http = answer_http(move |request| {
        log.borrow_mut().push(format!(
            "{} {} {} {}",
            request.method(),
            request.url(),
            request.header_value("x-a").unwrap_or("-"),
            String::from_utf8_lossy(request.body_bytes())
        ));
        match request.url().rsplit('/').next() {
            Some("orders?x=1") => {
                Ok(Response::new(201, r#"{"id": 7, "n": 1}"#).with_header("ETag", "abc"))
            }
            Some("slow") => Err(HttpError::TimedOut),
            _ => Ok(Response::new(404, "not here")),
        }
    });
    let arguments = json!({ "base_url": "http://h/api/", "concurrency": 1 });
    let arguments = serde_json::from_value(arguments).unwrap();
    let report = run(
        &Host::new().context(),
        &arguments,
        root.path(),
        &mut Network,
    )
    .unwrap();
    assert_eq!(
        *seen.borrow(),
        [
            "POST http://h/api/orders?x=1 1 {\"n\":1}",
            "GET http://h/api/missing - ",
            "GET http://h/api/slow - ",
        ]
    );
    let output = report.into_output().unwrap();
    assert!(!output.is_error);
    let structured = output.structured.as_ref().unwrap();
    assert_eq!(structured["passed"], json!(false));
    assert_eq!(structured["failing"][0]["path"], json!("b.toml"));
    assert_eq!(
        structured["failing"][0]["reason"],
        json!("status is 404 instead of 200")
    );
    assert_eq!(
        structured["failing"][1]["reason"],
        json!("no whole answer within 10000 ms")
    );
    assert!(
        output
            .joined_text()
            .starts_with("1 of 3 cases pass, 2 fail (")
    );
}

#[test]
fn the_declaration_says_what_people_must_know() {
    let declaration = tools()[0].declaration();
    assert!(
        declaration
            .traits
            .cancellation
            .contains("requests under way")
    );
    assert!(declaration.traits.questions.is_empty());
    let schema: Value = serde_json::from_str(&declaration.input_schema).unwrap();
    assert_eq!(schema["required"], json!(["base_url"]));
    assert_eq!(schema["additionalProperties"], json!(false));
    assert_eq!(schema["properties"]["concurrency"]["maximum"], json!(16));
    let schema: Value = serde_json::from_str(&declaration.output_schema.unwrap()).unwrap();
    let required = schema["required"].as_array().unwrap();
    assert!(required.contains(&json!("failing")) && required.contains(&json!("duration_ms")));
}

#[test]
fn the_prompt_names_the_call_it_wants_made() {
    let host = Host::new();
    let arguments = json!({ "base_url": "https://h/api", "filter": "orders/**" });
    let text = host
        .prompt(&offer(), "triage-regressions", arguments)
        .unwrap()
        .joined_text();
    assert!(text.contains("`base_url` = \"https://h/api\" and `filter` = \"orders/**\""));
    let whole = json!({ "base_url": "https://h/api" });
    let text = host.prompt(&offer(), "triage-regressions", whole).unwrap();
    assert!(!text.joined_text().contains("filter"));
}
