//! The wire's shape of a task in each of its states.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::clock::Timestamp;
use crate::mcp::RequestId;
use crate::task::{
    Abilities, Attempt, CallResult, CancelRequest, Digest, ExternalReference, Input, InputKey,
    Interrupted, Policy, Progress, Recovery, RpcError, TaskId, TaskKey, ToolRef,
};

const CREATED: Timestamp = Timestamp(1_785_196_800_000);

fn task(phase: Phase) -> Task {
    Task {
        key: TaskKey {
            tenant: TenantId::local(),
            id: TaskId::parse("786512e2").unwrap(),
        },
        tool: ToolRef {
            plugin: "report-export".into(),
            tool: "export".into(),
            digest: Digest([0; 32]),
        },
        policy: Policy {
            recovery: Recovery::Resume,
            cleanup_on_cancel: false,
            cancel_grace: Duration::from_secs(30),
            poll_interval: Duration::from_millis(500),
        },
        abilities: Abilities::default(),
        created_at: CREATED,
        updated_at: Timestamp(CREATED.0 + 1500),
        expires_at: None,
        phase,
        attempt: Attempt(1),
        crashes: 0,
        crashes_in_all: 0,
        interrupted: None,
        steps: 0,
        message: Some("queued".into()),
        done: None,
        total: None,
        cancel: None,
        inputs: BTreeMap::new(),
        external_reference: None,
        result_is_error: false,
        trace: None,
    }
}

fn view(task: Task) -> TaskView {
    TaskView {
        task,
        progress: None,
        requests: Vec::new(),
        result: None,
    }
}

/// What `tasks/get` answers, in a form that a person can read.
fn shown(view: &TaskView) -> String {
    let json = wire::response(&RequestId::for_tests("1"), |result| {
        write_detailed(result, view);
        result.object("_meta", |meta| write_extras(meta, view));
    });
    let value: Value = serde_json::from_slice(&json).unwrap();
    serde_json::to_string_pretty(&value["result"]).unwrap()
}

#[test]
fn a_created_task_is_flat_and_bare() {
    let mut task = task(Phase::Queued { ready_at: CREATED });
    task.expires_at = Some(CREATED.plus(Duration::from_secs(60)));
    let json = wire::response(&RequestId::for_tests(r#""a""#), |result| {
        write_created(result, &task);
    });
    insta::assert_snapshot!(std::str::from_utf8(&json).unwrap(), @r###"{"jsonrpc":"2.0","id":"a","result":{"resultType":"task","taskId":"786512e2","status":"working","statusMessage":"queued","createdAt":"2026-07-28T00:00:00.000Z","lastUpdatedAt":"2026-07-28T00:00:01.500Z","ttlMs":60000,"pollIntervalMs":500,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"longshore","title":"Longshore","version":"0.1.0"}}}}"###);
}

#[test]
fn a_working_task_shows_its_live_progress() {
    let mut view = view(task(Phase::Running));
    view.task.done = Some(1.0);
    view.task.external_reference = Some(ExternalReference {
        reference: "run 7".into(),
        url: Some("https://ci.example.com/7".into()),
    });
    view.progress = Some(Progress {
        message: "37/120, 2 failing".into(),
        done: Some(37.0),
        total: Some(120.0),
    });
    insta::assert_snapshot!(shown(&view), @r###"
{
  "_meta": {
    "longshore/externalReference": {
      "reference": "run 7",
      "url": "https://ci.example.com/7"
    },
    "longshore/progress": {
      "done": 37,
      "total": 120
    }
  },
  "createdAt": "2026-07-28T00:00:00.000Z",
  "lastUpdatedAt": "2026-07-28T00:00:01.500Z",
  "pollIntervalMs": 500,
  "status": "working",
  "statusMessage": "37/120, 2 failing",
  "taskId": "786512e2",
  "ttlMs": null
}
"###);
}

#[test]
fn a_task_tells_of_its_runs_and_of_the_last_that_was_cut_short() {
    let mut view = view(task(Phase::Running));
    view.task.attempt = Attempt(3);
    view.task.crashes_in_all = 1;
    view.task.interrupted = Some(Interrupted {
        attempt: Attempt(2),
        cause: Interruption::Crash,
        at: CREATED,
    });
    let json = wire::response(&RequestId::for_tests("1"), |result| {
        result.object("_meta", |meta| write_extras(meta, &view));
    });
    let value: Value = serde_json::from_slice(&json).unwrap();
    insta::assert_snapshot!(value["result"]["_meta"], @r#"{"longshore/runs":{"count":3,"hostDeaths":1,"lastInterruption":{"at":"2026-07-28T00:00:00.000Z","cause":"crash","run":2}}}"#);
}

#[test]
fn a_task_that_waits_for_input_carries_its_open_questions() {
    let mut view = view(task(Phase::Parked));
    let asks = [
        (
            "confirm",
            Ask::Form {
                message: "Delete it?".into(),
                schema: "{\n\"type\":\"object\",\"properties\":{}}".into(),
            },
        ),
        (
            "login",
            Ask::Url {
                message: "Sign in".into(),
                url: "https://example.com/login".into(),
            },
        ),
        (
            "model",
            Ask::Sampling(r#"{"messages":[],"maxTokens":100}"#.into()),
        ),
        ("roots", Ask::Roots),
    ];
    for (key, ask) in asks {
        let key = InputKey::parse(key).unwrap();
        let input = Input {
            asked_by: Attempt(1),
            answered: false,
        };
        view.task.inputs.insert(key.clone(), input);
        view.requests.push(InputRequest { key, ask });
    }
    // Progress of the run that asked is older than the question.
    view.progress = Some(Progress {
        message: "half".into(),
        done: None,
        total: None,
    });
    view.task.message = Some("waits for an answer".into());
    insta::assert_snapshot!(shown(&view), @r###"
{
  "_meta": {},
  "createdAt": "2026-07-28T00:00:00.000Z",
  "inputRequests": {
    "confirm": {
      "method": "elicitation/create",
      "params": {
        "message": "Delete it?",
        "mode": "form",
        "requestedSchema": {
          "properties": {},
          "type": "object"
        }
      }
    },
    "login": {
      "method": "elicitation/create",
      "params": {
        "message": "Sign in",
        "mode": "url",
        "url": "https://example.com/login"
      }
    },
    "model": {
      "method": "sampling/createMessage",
      "params": {
        "maxTokens": 100,
        "messages": []
      }
    },
    "roots": {
      "method": "roots/list"
    }
  },
  "lastUpdatedAt": "2026-07-28T00:00:01.500Z",
  "pollIntervalMs": 500,
  "status": "input_required",
  "statusMessage": "waits for an answer",
  "taskId": "786512e2",
  "ttlMs": null
}
"###);
}

#[test]
fn a_completed_task_has_its_result_even_when_the_tool_failed() {
    let mut view = view(task(Phase::Ended(Ending::Completed)));
    view.result = Some(CallResult {
        json: r#"{"content":[{"type":"text","text":"no such file"}],"isError":true}"#.into(),
        is_error: true,
    });
    insta::assert_snapshot!(shown(&view), @r###"
{
  "_meta": {},
  "createdAt": "2026-07-28T00:00:00.000Z",
  "lastUpdatedAt": "2026-07-28T00:00:01.500Z",
  "pollIntervalMs": 500,
  "result": {
    "content": [
      {
        "text": "no such file",
        "type": "text"
      }
    ],
    "isError": true,
    "resultType": "complete"
  },
  "status": "completed",
  "statusMessage": "queued",
  "taskId": "786512e2",
  "ttlMs": null
}
"###);
}

#[test]
fn a_failed_task_has_an_error_and_no_code_that_the_protocol_reserves() {
    let failed = |code| {
        view(task(Phase::Ended(Ending::Failed(RpcError {
            code,
            message: "API rate limit exceeded".into(),
            data: Some(r#"{"retryAfterMs":1000}"#.into()),
        }))))
    };
    insta::assert_snapshot!(shown(&failed(-32603)), @r###"
{
  "_meta": {},
  "createdAt": "2026-07-28T00:00:00.000Z",
  "error": {
    "code": -32603,
    "data": {
      "retryAfterMs": 1000
    },
    "message": "API rate limit exceeded"
  },
  "lastUpdatedAt": "2026-07-28T00:00:01.500Z",
  "pollIntervalMs": 500,
  "status": "failed",
  "statusMessage": "queued",
  "taskId": "786512e2",
  "ttlMs": null
}
"###);
    assert!(shown(&failed(-32020)).contains("\"code\": -32603"));
    assert!(shown(&failed(17)).contains("\"code\": 17"));
}

#[test]
fn a_cancelled_task_says_how_it_stopped() {
    let mut view = view(task(Phase::Ended(Ending::Cancelled)));
    view.task.cancel = Some(CancelRequest {
        at: CREATED,
        reason: CANCEL_REASON.into(),
    });
    view.task.message = Some("cancelled: stopped at a checkpoint".into());
    insta::assert_snapshot!(shown(&view), @r###"
{
  "_meta": {},
  "createdAt": "2026-07-28T00:00:00.000Z",
  "lastUpdatedAt": "2026-07-28T00:00:01.500Z",
  "pollIntervalMs": 500,
  "status": "cancelled",
  "statusMessage": "cancelled: stopped at a checkpoint",
  "taskId": "786512e2",
  "ttlMs": null
}
"###);
}

#[test]
fn durations_are_whole_milliseconds_and_never_zero() {
    assert_eq!(millis_of(Duration::ZERO), 1);
    assert_eq!(millis_of(Duration::from_micros(2_900)), 2);
}
