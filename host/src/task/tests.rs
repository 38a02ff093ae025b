//! The state machine, by table.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::clock::Timestamp;

const NOW: Timestamp = Timestamp(1_000);
const RUN: Attempt = Attempt(1);

fn task(phase: Phase) -> Task {
    Task {
        key: TaskKey {
            tenant: TenantId::local(),
            id: TaskId::from_random([7; 16]),
        },
        tool: ToolRef {
            plugin: "p".into(),
            tool: "t".into(),
            digest: Digest([1; 32]),
        },
        policy: Policy {
            recovery: Recovery::Resume,
            cleanup_on_cancel: false,
            cancel_grace: Duration::from_secs(30),
            poll_interval: Duration::from_secs(1),
        },
        abilities: Abilities::default(),
        created_at: Timestamp(1),
        updated_at: Timestamp(1),
        expires_at: None,
        attempt: match phase {
            Phase::Queued { .. } => Attempt(0),
            _ => RUN,
        },
        phase,
        crashes: 0,
        crashes_in_all: 0,
        interrupted: None,
        steps: 0,
        message: None,
        done: None,
        total: None,
        cancel: None,
        inputs: BTreeMap::new(),
        external_reference: None,
        result_is_error: false,
        trace: None,
    }
}

fn queued() -> Task {
    task(Phase::Queued { ready_at: NOW })
}

fn running() -> Task {
    task(Phase::Running)
}

fn asking(phase: Phase) -> Task {
    let mut task = task(phase);
    task.inputs.insert(
        key("q"),
        Input {
            asked_by: RUN,
            answered: false,
        },
    );
    task
}

fn with(mut task: Task, change: impl FnOnce(&mut Task)) -> Task {
    change(&mut task);
    task
}

fn key(text: &str) -> InputKey {
    InputKey::parse(text).unwrap()
}

fn roots(text: &str) -> InputRequest {
    InputRequest {
        key: key(text),
        ask: Ask::Roots,
    }
}

fn asked(keys: &[&str]) -> Event {
    Event::Asked {
        attempt: RUN,
        requests: keys.iter().map(|text| roots(text)).collect(),
    }
}

fn answered(text: &str) -> Event {
    Event::Answered {
        answers: vec![(key(text), Answer::Decline)],
    }
}

fn cancel() -> Event {
    Event::CancelRequested {
        reason: "asked to".into(),
    }
}

fn crash() -> Event {
    Event::Interrupted {
        attempt: RUN,
        cause: Interruption::Crash,
    }
}

fn returned(attempt: Attempt) -> Event {
    Event::Returned {
        attempt,
        result: CallResult {
            json: "{}".into(),
            is_error: false,
        },
    }
}

/// One word for where a task stands.
fn place(task: &Task) -> &'static str {
    match &task.phase {
        Phase::Queued { .. } => "queued",
        Phase::Running => "running",
        Phase::Parked => "parked",
        Phase::Ended(Ending::Completed) => "completed",
        Phase::Ended(Ending::Failed(_)) => "failed",
        Phase::Ended(Ending::Cancelled) => "cancelled",
    }
}

#[test]
fn every_event_leads_where_the_table_says() {
    let cleans_up = |task: &mut Task| task.policy.cleanup_on_cancel = true;
    let fails = |task: &mut Task| task.policy.recovery = Recovery::Fail;
    let cancelling = |task: &mut Task| {
        task.cancel = Some(CancelRequest {
            at: NOW,
            reason: "so".into(),
        })
    };
    let error = RpcError {
        code: -1,
        message: "no".into(),
        data: None,
    };
    let table: Vec<(&str, Task, Event, &str)> = vec![
        ("claim", queued(), Event::Claimed, "running"),
        ("return", running(), returned(RUN), "completed"),
        (
            "fail",
            running(),
            Event::Failed {
                attempt: RUN,
                error,
            },
            "failed",
        ),
        ("ask", running(), asked(&["q"]), "running"),
        (
            "park",
            asking(Phase::Running),
            Event::Parked { attempt: RUN },
            "parked",
        ),
        (
            "answer in memory",
            asking(Phase::Running),
            answered("q"),
            "running",
        ),
        (
            "answer while parked",
            asking(Phase::Parked),
            answered("q"),
            "queued",
        ),
        (
            "answer to nothing",
            asking(Phase::Parked),
            answered("other"),
            "parked",
        ),
        (
            "cancel before the first run",
            queued(),
            cancel(),
            "cancelled",
        ),
        (
            "cancel before it, with clean-up",
            with(queued(), cleans_up),
            cancel(),
            "cancelled",
        ),
        ("cancel a run", running(), cancel(), "running"),
        (
            "cancel while parked",
            asking(Phase::Parked),
            cancel(),
            "cancelled",
        ),
        (
            "the same, with clean-up",
            with(asking(Phase::Parked), cleans_up),
            cancel(),
            "queued",
        ),
        ("crash of a tool that resumes", running(), crash(), "queued"),
        (
            "crash while it waits",
            asking(Phase::Running),
            crash(),
            "parked",
        ),
        (
            "crash of a tool that does not",
            with(running(), fails),
            crash(),
            "failed",
        ),
        (
            "crash during a cancel",
            with(running(), cancelling),
            crash(),
            "cancelled",
        ),
        (
            "the same, with clean-up",
            with(with(running(), cancelling), cleans_up),
            crash(),
            "queued",
        ),
        (
            "the third crash in a row",
            with(running(), |task| task.crashes = 2),
            crash(),
            "failed",
        ),
        (
            "a crash after many, all of whose runs got further",
            with(running(), |task| {
                task.crashes_in_all = lifecycle::CRASHES_IN_ALL_MAX - 2
            }),
            crash(),
            "queued",
        ),
        (
            "the last one a task may have",
            with(running(), |task| {
                task.crashes_in_all = lifecycle::CRASHES_IN_ALL_MAX - 1
            }),
            crash(),
            "failed",
        ),
    ];
    for (name, before, event, expected) in table {
        let after = apply(&before, &event, NOW).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(place(&after), expected, "{name}");
        assert_eq!(after.updated_at, NOW, "{name}");
    }
}

#[test]
fn refused_events_say_why() {
    let cancelling = with(asking(Phase::Running), |task| {
        task.cancel = Some(CancelRequest {
            at: NOW,
            reason: "so".into(),
        });
    });
    let later = task(Phase::Queued {
        ready_at: Timestamp(NOW.0 + 1),
    });
    let many: Vec<String> = (0..65).map(|n| format!("q{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let park = Event::Parked { attempt: RUN };
    let table = [
        (running(), Event::Claimed, Rejected::NotQueued),
        (later, Event::Claimed, Rejected::NotQueued),
        (running(), returned(Attempt(2)), Rejected::StaleRun),
        (asking(Phase::Parked), returned(RUN), Rejected::StaleRun),
        (queued(), crash(), Rejected::StaleRun),
        (running(), park.clone(), Rejected::NothingToWaitFor),
        (cancelling.clone(), park, Rejected::Cancelling),
        (cancelling, asked(&["other"]), Rejected::Cancelling),
        (running(), asked(&many), Rejected::TooManyInputs),
    ];
    for (before, event, expected) in table {
        assert_eq!(apply(&before, &event, NOW), Err(expected), "{event:?}");
    }
}

#[test]
fn a_terminal_task_refuses_every_event() {
    let error = RpcError {
        code: -1,
        message: "no".into(),
        data: None,
    };
    for ending in [Ending::Completed, Ending::Failed(error), Ending::Cancelled] {
        let ended = task(Phase::Ended(ending));
        for event in [
            Event::Claimed,
            returned(RUN),
            cancel(),
            crash(),
            answered("q"),
            asked(&["q"]),
        ] {
            assert_eq!(
                apply(&ended, &event, NOW),
                Err(Rejected::Terminal),
                "{event:?}"
            );
        }
    }
}

#[test]
fn a_claim_makes_the_earlier_run_stale() {
    let second = with(queued(), |task| task.attempt = RUN);
    let claimed = apply(&second, &Event::Claimed, NOW).unwrap();
    assert_eq!(claimed.attempt, Attempt(2));
    assert_eq!(
        apply(&claimed, &returned(RUN), NOW),
        Err(Rejected::StaleRun)
    );
}

#[test]
fn a_partial_answer_leaves_the_task_waiting() {
    let two = apply(&running(), &asked(&["a", "b"]), NOW).unwrap();
    let parked = apply(&two, &Event::Parked { attempt: RUN }, NOW).unwrap();
    let one_left = apply(&parked, &answered("a"), NOW).unwrap();
    assert_eq!(
        (place(&one_left), one_left.status()),
        ("parked", Status::InputRequired)
    );
    assert_eq!(one_left.open_inputs().collect::<Vec<_>>(), [&key("b")]);
    let none_left = apply(&one_left, &answered("b"), NOW).unwrap();
    assert_eq!(
        (place(&none_left), none_left.status()),
        ("queued", Status::Working)
    );
}

#[test]
fn a_question_asked_again_keeps_its_answer() {
    let answered_once = apply(&asking(Phase::Running), &answered("q"), NOW).unwrap();
    let again = apply(&answered_once, &asked(&["q"]), NOW).unwrap();
    assert_eq!(again.open_inputs().count(), 0);
}

#[test]
fn getting_further_forgives_crashes() {
    let crashed = with(running(), |task| task.crashes = 2);
    let event = Event::Checkpointed {
        attempt: RUN,
        state: None,
    };
    assert_eq!(apply(&crashed, &event, NOW).unwrap().crashes, 0);
}

#[test]
fn steps_are_bounded() {
    let event = Event::StepRecorded {
        attempt: RUN,
        name: "step".to_owned(),
        value: Vec::new(),
    };
    let last = with(running(), |task| task.steps = STEPS_MAX - 1);
    let full = apply(&last, &event, NOW).unwrap();
    assert_eq!(full.steps, STEPS_MAX);
    assert_eq!(apply(&full, &event, NOW), Err(Rejected::TooManySteps));
}

#[test]
fn a_shutdown_is_not_held_against_the_tool() {
    let event = Event::Interrupted {
        attempt: RUN,
        cause: Interruption::Shutdown,
    };
    let after = apply(&with(running(), |task| task.crashes = 2), &event, NOW).unwrap();
    assert_eq!((place(&after), after.crashes), ("queued", 2));
    assert_eq!(after.crashes_in_all, 0);
}

#[test]
fn a_task_remembers_its_last_interruption_whatever_its_runs_say_later() {
    let cut_short = apply(&running(), &crash(), NOW).unwrap();
    let later = Timestamp(NOW.0 + 5);
    let second = apply(&cut_short, &Event::Claimed, later).unwrap();
    let progress = Progress {
        message: "at work".into(),
        done: None,
        total: None,
    };
    let attempt = Attempt(2);
    let event = Event::Progressed { attempt, progress };
    let goes_on = apply(&second, &event, later).unwrap();
    assert_eq!(goes_on.message.as_deref(), Some("at work"));
    let expected = Interrupted {
        attempt: RUN,
        cause: Interruption::Crash,
        at: NOW,
    };
    assert_eq!(goes_on.interrupted, Some(expected));
    assert_eq!((goes_on.attempt, goes_on.crashes_in_all), (Attempt(2), 1));
}

#[test]
fn the_first_cancel_gives_the_reason() {
    let once = apply(&running(), &cancel(), NOW).unwrap();
    let second = Event::CancelRequested {
        reason: "again".into(),
    };
    let twice = apply(&once, &second, Timestamp(NOW.0 + 5)).unwrap();
    assert_eq!(twice.cancel, once.cancel);
}

#[test]
fn a_cancelled_task_no_longer_asks() {
    let task = apply(&asking(Phase::Running), &cancel(), NOW).unwrap();
    assert_eq!(task.status(), Status::Working);
}

#[test]
fn time_never_runs_backwards_in_a_task() {
    let ahead = with(running(), |task| task.updated_at = Timestamp(9_000));
    assert_eq!(
        apply(&ahead, &cancel(), NOW).unwrap().updated_at,
        Timestamp(9_000)
    );
}

#[test]
fn ids_take_only_what_is_safe_in_a_path_and_on_the_wire() {
    for bad in ["", "..", "a/b", "A", "ä", &"a".repeat(65)] {
        assert!(TenantId::parse(bad).is_err(), "{bad:?}");
    }
    for bad in ["", "a b", "a/b", "..", "é", &"a".repeat(129)] {
        assert!(TaskId::parse(bad).is_err(), "{bad:?}");
    }
    for bad in ["", "a b", "a\n", "é", &"a".repeat(129)] {
        assert!(InputKey::parse(bad).is_err(), "{bad:?}");
    }
    let digest = Digest([0xab; 32]);
    assert_eq!(Digest::parse(&digest.to_string()), Ok(digest));
    assert!(Digest::parse(&"é".repeat(32)).is_err());
}
