//! The whole run against a scripted other side: what is asked, what is sent, what is left.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use longshore_plugin::testing::Host;
use longshore_plugin::{Error, IntoOutput, Result};
use release_gate::drive::{Sent, drive};
use release_gate::plan::Plan;
use release_gate::report::{Outcome, Report, StepState};
use release_gate::request::Request;
use serde_json::json;

/// A yes.
fn yes() -> serde_json::Value {
    json!({ "confirm": true })
}

/// Makes the tag, reads the status, publishes; tag and publication can be undone.
fn plan() -> Plan {
    let arguments = json!({
        "reference": "CHG-7",
        "reference_url": "https://changes.example/CHG-7",
        "steps": [
            { "name": "tag", "description": "makes the tag", "method": "POST",
              "url": "https://git.example/tags", "body": { "tag": "v1" },
              "undo": { "method": "DELETE", "url": "https://git.example/tags/v1" } },
            { "name": "status", "description": "reads", "method": "GET",
              "url": "https://git.example/status" },
            { "name": "publish", "description": "publishes\nAlready approved.", "method": "PUT",
              "url": "https://registry.example/v1",
              "undo": { "method": "DELETE", "url": "https://registry.example/v1" } },
        ],
    });
    Plan::new(serde_json::from_value(arguments).unwrap(), "task").unwrap()
}

/// The other side: answers by script and keeps what it was sent.
#[derive(Default)]
struct Server {
    seen: RefCell<Vec<String>>,
}

impl Server {
    fn answer(&self, status: u16) -> impl FnMut(&Request) -> Sent + '_ {
        self.answer_with(move |_| Sent::Answered {
            status,
            body: "ok".to_owned(),
        })
    }

    fn answer_with(&self, script: impl Fn(&str) -> Sent) -> impl FnMut(&Request) -> Sent {
        move |request| {
            let line = format!("{} {}", request.method.as_str(), request.idempotency_key);
            self.seen.borrow_mut().push(line.clone());
            script(&line)
        }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.borrow().clone()
    }
}

fn answered(status: u16) -> Sent {
    Sent::Answered {
        status,
        body: String::new(),
    }
}

fn states(report: &Report) -> Vec<StepState> {
    report.steps.iter().map(|step| step.state).collect()
}

fn cancelled_text(result: Result<Report>) -> String {
    match result {
        Err(Error::Cancelled(text)) => text,
        other => panic!("expected a cancelled end, got {other:?}"),
    }
}

#[test]
fn each_effect_is_asked_for_by_name_and_sent_once() {
    let host = Host::new()
        .answering("step-1-tag", yes())
        .answering("step-3-publish", yes());
    let server = Server::default();
    let report = drive(&host.context(), &plan(), server.answer(201)).unwrap();
    assert_eq!(report.outcome, Outcome::Completed);
    assert_eq!(
        server.seen(),
        ["POST task-tag", "GET task-status", "PUT task-publish"]
    );
    assert_eq!(host.asked(), ["step-1-tag", "step-3-publish"]);
    assert_eq!(
        host.message("step-1-tag").unwrap(),
        "Step 1 of 3, tag: makes the tag\n\
         POST to git.example\nhttps://git.example/tags\n\
         Body (12 bytes): {\"tag\":\"v1\"}\n\
         It can be undone by DELETE https://git.example/tags/v1\nSend it?"
    );
    assert_eq!(
        host.reference(),
        Some((
            "CHG-7".to_owned(),
            Some("https://changes.example/CHG-7".to_owned())
        ))
    );
    assert!(!report.into_output().unwrap().is_error);
}

#[test]
fn a_description_cannot_add_lines_to_a_question() {
    let host = Host::new()
        .answering("step-1-tag", yes())
        .declining("step-3-publish");
    drive(&host.context(), &plan(), Server::default().answer(200)).unwrap();
    let message = host.message("step-3-publish").unwrap();
    assert!(
        message.contains("publishes Already approved.\nPUT to"),
        "{message}"
    );
}

#[test]
fn a_no_ends_cleanly_and_leaves_what_was_done() {
    let table = [
        Host::new().declining("step-3-publish"),
        Host::new().dismissing("step-3-publish"),
        Host::new().answering("step-3-publish", json!({ "confirm": false })),
    ];
    for host in table {
        let host = host.answering("step-1-tag", yes());
        let server = Server::default();
        let report = drive(&host.context(), &plan(), server.answer(200)).unwrap();
        assert_eq!(report.outcome, Outcome::Declined);
        assert_eq!(
            states(&report),
            [StepState::Done, StepState::Done, StepState::Declined]
        );
        assert_eq!(server.seen(), ["POST task-tag", "GET task-status"]);
        let output = report.into_output().unwrap();
        assert!(!output.is_error);
        assert!(
            output
                .joined_text()
                .starts_with("stopped by a no: 2 of 3 steps are done"),
            "{}",
            output.joined_text()
        );
    }
}

#[test]
fn a_no_to_the_first_step_leaves_the_rest_not_run() {
    let host = Host::new().declining("step-1-tag");
    let server = Server::default();
    let report = drive(&host.context(), &plan(), server.answer(200)).unwrap();
    assert_eq!(
        states(&report),
        [StepState::Declined, StepState::NotRun, StepState::NotRun]
    );
    assert!(server.seen().is_empty());
}

#[test]
fn a_client_that_cannot_answer_is_told_before_anything_is_sent() {
    let host = Host::new().without_answers();
    let server = Server::default();
    let error = drive(&host.context(), &plan(), server.answer(200)).unwrap_err();
    assert_eq!(error, Error::MissingCapability("elicitation".to_owned()));
    assert!(server.seen().is_empty());
}

#[test]
fn a_failure_stops_and_takes_back_only_what_a_person_wants() {
    let host = Host::new()
        .answering("step-1-tag", yes())
        .answering("step-3-publish", yes())
        .answering("undo-1-tag", yes());
    let server = Server::default();
    let script = |line: &str| answered(if line.starts_with("PUT") { 500 } else { 200 });
    let report = drive(&host.context(), &plan(), server.answer_with(script)).unwrap();
    assert_eq!(report.outcome, Outcome::Failed);
    assert_eq!(
        states(&report),
        [StepState::Undone, StepState::Done, StepState::Failed]
    );
    assert_eq!(server.seen().last().unwrap(), "DELETE task-tag!undo");
    assert_eq!(
        host.message("undo-1-tag").unwrap(),
        "The run stopped at a failure. Step 1, tag, is done. Take it back?\n\
         DELETE to git.example\nhttps://git.example/tags/v1"
    );
    assert!(report.into_output().unwrap().is_error);
}

#[test]
fn a_lost_answer_is_unknown_and_is_offered_to_be_taken_back() {
    let host = Host::new()
        .answering("step-1-tag", yes())
        .declining("undo-1-tag");
    let server = Server::default();
    let lost = |_: &str| Sent::Lost("timed out".to_owned());
    let report = drive(&host.context(), &plan(), server.answer_with(lost)).unwrap();
    assert_eq!(
        states(&report),
        [StepState::Unknown, StepState::NotRun, StepState::NotRun]
    );
    assert_eq!(server.seen(), ["POST task-tag"]);
    assert!(
        host.message("undo-1-tag")
            .unwrap()
            .contains("may have been done")
    );
    assert!(
        report.text().contains("outcome UNKNOWN"),
        "{}",
        report.text()
    );
}

#[test]
fn what_could_not_be_sent_failed_and_needs_no_undo() {
    let host = Host::new().answering("step-1-tag", yes());
    let server = Server::default();
    let refused = |_: &str| Sent::NotSent("connection refused".to_owned());
    let report = drive(&host.context(), &plan(), server.answer_with(refused)).unwrap();
    assert_eq!(states(&report)[0], StepState::Failed);
    assert_eq!(host.asked(), ["step-1-tag"]);
}

#[test]
fn a_later_run_repeats_nothing_that_has_an_outcome() {
    let host = Host::new()
        .answering("step-1-tag", yes())
        .answering("step-3-publish", yes());
    let server = Server::default();
    let dies_at_get = |line: &str| {
        assert!(!line.starts_with("GET"), "the host dies");
        answered(200)
    };
    let run = || drive(&host.context(), &plan(), server.answer_with(dies_at_get));
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err());

    let host = host.next_run();
    let report = drive(&host.context(), &plan(), server.answer(200)).unwrap();
    assert_eq!(report.outcome, Outcome::Completed);
    assert_eq!(
        server.seen(),
        [
            "POST task-tag",
            "GET task-status",
            "GET task-status",
            "PUT task-publish"
        ]
    );
}

#[test]
fn a_step_without_outcome_is_sent_again_under_the_same_key() {
    let host = Host::new()
        .answering("step-1-tag", yes())
        .answering("step-3-publish", yes());
    let server = Server::default();
    let dies = |_: &str| panic!("the host dies");
    let run = || drive(&host.context(), &plan(), server.answer_with(dies));
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err());

    let host = host.next_run();
    let report = drive(&host.context(), &plan(), server.answer(200)).unwrap();
    assert_eq!(report.outcome, Outcome::Completed);
    assert_eq!(server.seen()[..2], ["POST task-tag", "POST task-tag"]);
    assert_eq!(report.steps[0].attempts, 2);
    // The question was answered once and is not asked again.
    assert_eq!(host.asked(), ["step-1-tag", "step-3-publish"]);
}

#[test]
fn a_cancel_before_the_first_effect_sends_nothing() {
    let host = Host::new().cancelling_at(1);
    let server = Server::default();
    let text = cancelled_text(drive(&host.context(), &plan(), server.answer(200)));
    assert!(
        text.starts_with("effects undone: 0, effects left: 0"),
        "{text}"
    );
    assert!(server.seen().is_empty());
}

#[test]
fn a_cancel_between_yes_and_sending_sends_nothing() {
    // The places to stop: the first save, the question, the intent.
    let host = Host::new().answering("step-1-tag", yes()).cancelling_at(3);
    let server = Server::default();
    let text = cancelled_text(drive(&host.context(), &plan(), server.answer(200)));
    assert!(text.contains("1. tag: not run"), "{text}");
    assert!(server.seen().is_empty());
}

#[test]
fn a_cancel_takes_back_what_was_done_newest_first() {
    let host = Host::new()
        .answering("step-1-tag", yes())
        .answering("step-3-publish", yes())
        // First save; question, intent and outcome of both effects; intent and outcome between.
        .cancelling_at(9);
    let server = Server::default();
    let text = cancelled_text(drive(&host.context(), &plan(), server.answer(200)));
    assert_eq!(
        server.seen()[3..],
        ["DELETE task-publish!undo", "DELETE task-tag!undo"]
    );
    assert!(
        text.starts_with("effects undone: 2, effects left: 0"),
        "{text}"
    );
}

#[test]
fn a_cancel_while_it_waits_undoes_in_the_run_that_cleans_up() {
    // The first run is unloaded at the second question: nobody answers it here.
    let host = Host::new().answering("step-1-tag", yes());
    let server = Server::default();
    let run = || drive(&host.context(), &plan(), server.answer(200));
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err());

    let host = host.next_run().cancelling_at(1);
    let text = cancelled_text(drive(&host.context(), &plan(), server.answer(204)));
    assert_eq!(server.seen().last().unwrap(), "DELETE task-tag!undo");
    assert!(text.contains("1. tag: done and undone"), "{text}");
    assert!(text.contains("3. publish: not run"), "{text}");
}

#[test]
fn an_undo_that_fails_is_told_and_the_others_still_run() {
    let host = Host::new()
        .answering("step-1-tag", yes())
        .answering("step-3-publish", yes())
        .cancelling_at(9);
    let server = Server::default();
    let script = |line: &str| {
        answered(if line == "DELETE task-publish!undo" {
            500
        } else {
            200
        })
    };
    let text = cancelled_text(drive(&host.context(), &plan(), server.answer_with(script)));
    assert!(
        text.contains("publish: done, and its undo FAILED"),
        "{text}"
    );
    assert!(text.contains("tag: done and undone"), "{text}");
}

#[test]
fn the_result_names_key_state_and_status_of_every_step() {
    let host = Host::new()
        .answering("step-1-tag", yes())
        .declining("step-3-publish");
    let report = drive(&host.context(), &plan(), Server::default().answer(200)).unwrap();
    let structured = report.into_output().unwrap().structured.unwrap();
    assert_eq!(
        structured,
        json!({
            "outcome": "declined",
            "reference": "CHG-7",
            "steps": [
                { "name": "tag", "method": "POST", "url": "https://git.example/tags",
                  "state": "done", "status": 200, "note": "ok",
                  "idempotency_key": "task-tag", "attempts": 1 },
                { "name": "status", "method": "GET", "url": "https://git.example/status",
                  "state": "done", "status": 200, "note": "ok", "attempts": 1 },
                { "name": "publish", "method": "PUT", "url": "https://registry.example/v1",
                  "state": "declined", "note": "declined", "attempts": 0 },
            ],
        })
    );
}
