//! Records come back as they were written, and a newer one is refused in words.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::collection::btree_map;
use proptest::option;
use proptest::prelude::*;

use serde_json::Value;

use super::super::bodies::file_name;
use super::super::codec::{
    RecordError, decode_answer, decode_part, decode_request, decode_result, decode_task,
    encode_answer, encode_ask, encode_part, encode_result, encode_task,
};
use super::super::keys::{self, Slot};
use super::{input_key, key, task};
use crate::clock::Timestamp;
use crate::harm::{changed, changes, count_taken, edited, edits};
use crate::task::{
    Abilities, Answer, Ask, Attempt, CallResult, CancelRequest, Digest, Ending, ExternalReference,
    Input, InputKey, Interrupted, Interruption, PartBody, Phase, Policy, Recovery, ResultPart,
    RpcError, Task, ToolRef, Trace,
};

const WORDS: &[&str] = &[
    "queued",
    "running",
    "failed",
    "ready_ms",
    "NaN",
    "inf",
    "-1e999",
    "resume",
    "crash",
    "inputs",
    "interrupted",
    "trace",
    "parent",
    "form",
    "accept",
    "0707070707070707070707070707070707070707070707070707070707070707",
];

proptest! {
    #[test]
    fn a_task_comes_back_as_it_was(task in any_task()) {
        let read = decode_task(task.key.clone(), &encode_task(&task)).unwrap();
        prop_assert_eq!(read, task);
    }

    /// What is read of a harmed record is written and read again as it is.
    #[test]
    fn harmed_records_are_refused_or_read_and_never_panic(
        task in any_task(),
        ask in any_ask(),
        answer in any_answer(),
        changes in changes(WORDS),
        edits in edits(),
        at: prop::sample::Index,
    ) {
        let harm = |record: Vec<u8>| {
            let (version, json) = record.split_first().unwrap();
            let json: Value = serde_json::from_slice(json).unwrap();
            let mut other = vec![*version];
            other.extend(changed(&json, &changes).to_string().into_bytes());
            let edited = edited(&other, &edits);
            [record[..at.index(record.len())].to_vec(), other, edited]
        };
        for bytes in harm(encode_task(&task)) {
            if let Ok(read) = decode_task(key("a"), &bytes) {
                let again = decode_task(key("a"), &encode_task(&read)).unwrap();
                // A number that is none equals nothing.
                prop_assert_eq!(format!("{again:?}"), format!("{read:?}"));
            }
        }
        for bytes in harm(encode_ask(&ask)) {
            if let Ok(read) = decode_request(input_key("k"), &bytes) {
                prop_assert_eq!(decode_request(input_key("k"), &encode_ask(&read.ask)).unwrap().ask, read.ask);
            }
        }
        for bytes in harm(encode_answer(&answer)) {
            if let Ok(read) = decode_answer(&bytes) {
                prop_assert_eq!(decode_answer(&encode_answer(&read)).unwrap(), read);
            }
        }
    }

    #[test]
    fn harmed_results_and_parts_are_refused_or_read_and_never_panic(
        json in ".*",
        part in any_part(),
        edits in edits(),
        at: prop::sample::Index,
    ) {
        let result = encode_result(&CallResult { json, is_error: true });
        for bytes in [result[..at.index(result.len())].to_vec(), edited(&result, &edits)] {
            if let Ok(read) = decode_result(bytes) {
                prop_assert_eq!(decode_result(encode_result(&read)).unwrap(), read);
            }
        }
        let part = encode_part(part);
        for bytes in [part[..at.index(part.len())].to_vec(), edited(&part, &edits)] {
            if let Ok(read) = decode_part(bytes) {
                prop_assert_eq!(decode_part(encode_part(read.clone())).unwrap(), read);
            }
        }
    }

    /// The names of records are read, too, and so is what stands beside a large body.
    #[test]
    fn harmed_names_are_read_or_passed_over_and_never_panic(
        task in any_task(),
        edits in edits(),
        at: prop::sample::Index,
    ) {
        let mut names = keys::index(&task);
        names.push(keys::task(&task.key));
        names.push(keys::body(&task.key, &Slot::Arguments));
        names.push(keys::round_expiry(&task.key, task.created_at));
        for name in names {
            for bytes in [name[..at.index(name.len())].to_vec(), edited(&name, &edits)] {
                let _ = keys::read(&bytes);
                let _ = keys::read_input(&bytes);
                let _ = keys::read_part_head(&bytes);
                let _ = keys::read_named(&bytes);
                let _ = keys::read_timed(&bytes);
                let _ = file_name(&bytes);
            }
        }
    }

    #[test]
    fn a_part_comes_back_as_it_was(part in any_part()) {
        prop_assert_eq!(decode_part(encode_part(part.clone())).unwrap(), part);
    }

    #[test]
    fn a_question_comes_back_as_it_was(ask in any_ask()) {
        let read = decode_request(input_key("k"), &encode_ask(&ask)).unwrap();
        prop_assert_eq!(read.ask, ask);
    }

    #[test]
    fn an_answer_comes_back_as_it_was(answer in any_answer()) {
        prop_assert_eq!(decode_answer(&encode_answer(&answer)).unwrap(), answer);
    }

    #[test]
    fn a_result_comes_back_as_it_was(json in ".*", is_error: bool) {
        let result = CallResult { json, is_error };
        prop_assert_eq!(decode_result(encode_result(&result)).unwrap(), result);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes: Vec<u8>) {
        let _ = decode_task(key("a"), &bytes);
        let _ = decode_answer(&bytes);
        let _ = decode_request(input_key("k"), &bytes);
        let _ = decode_part(bytes.clone());
        let _ = keys::read(&bytes);
        let _ = decode_result(bytes);
    }
}

#[test]
fn harm_to_a_record_gets_past_the_first_look() {
    let taken = count_taken((any_task(), changes(WORDS)), |(task, changes)| {
        let json: Value = serde_json::from_slice(&encode_task(&task)[1..]).unwrap();
        let mut record = vec![1];
        record.extend(changed(&json, &changes).to_string().into_bytes());
        decode_task(task.key, &record).is_ok()
    });
    assert!((60..240).contains(&taken), "{taken}");
}

#[test]
fn a_record_of_a_newer_version_says_so() {
    let mut bytes = encode_task(&task("a"));
    bytes[0] = 9;
    let error = decode_task(key("a"), &bytes).unwrap_err();
    assert!(matches!(error, RecordError::Newer { found: 9 }));
    insta::assert_snapshot!(error, @"it was written by a newer version (format 9, this one reads up to 1)");
}

/// What is on disk is a promise to every later version.
#[test]
fn the_format_of_a_task_is_fixed() {
    let text = String::from_utf8(encode_task(&task("a"))).unwrap();
    insta::assert_snapshot!(text.replace('\u{1}', "<1>"), @r#"<1>{"tool":{"plugin":"reports","tool":"export","digest":"0707070707070707070707070707070707070707070707070707070707070707"},"policy":{"recovery":"resume","cleanup_on_cancel":false,"cancel_grace_ms":30000,"poll_interval_ms":1000},"abilities":{"form":false,"url":false,"sampling":false,"roots":false},"created_ms":1000,"updated_ms":1000,"expires_ms":9000,"phase":{"queued":{"ready_ms":1000}},"attempt":0}"#);
}

fn any_task() -> impl Strategy<Value = Task> {
    let names = (".*", ".*", any::<[u8; 32]>());
    let policy = (0..3_usize, any::<bool>(), any::<u32>(), any::<u32>());
    let times = (any::<u64>(), any::<u64>(), option::of(any::<u64>()));
    let words = (
        option::of(".*"),
        option::of(any_number()),
        option::of(any_number()),
    );
    let inputs = btree_map("[!-~]{1,20}", (any::<u32>(), any::<bool>()), 0..4);
    let outside = option::of((".*", option::of(".*")));
    let cancel = option::of((any::<u64>(), ".*"));
    let run = (any_phase(), any::<u32>(), any::<u32>(), any::<[bool; 4]>());
    (names, policy, times, words, inputs, outside, cancel, run).prop_map(
        |(names, policy, times, words, inputs, outside, cancel, run)| Task {
            key: key("a"),
            tool: ToolRef {
                plugin: names.0,
                tool: names.1,
                digest: Digest(names.2),
            },
            policy: Policy {
                recovery: [Recovery::Fail, Recovery::Restart, Recovery::Resume][policy.0],
                cleanup_on_cancel: policy.1,
                cancel_grace: Duration::from_millis(policy.2.into()),
                poll_interval: Duration::from_millis(policy.3.into()),
            },
            abilities: Abilities {
                form: run.3[0],
                url: run.3[1],
                sampling: run.3[2],
                roots: run.3[3],
            },
            created_at: Timestamp(times.0),
            updated_at: Timestamp(times.1),
            expires_at: times.2.map(Timestamp),
            phase: run.0,
            attempt: Attempt(run.1),
            crashes: run.2,
            crashes_in_all: run.2 / 3,
            interrupted: run.3[2].then_some(Interrupted {
                attempt: Attempt(run.1),
                cause: [Interruption::Crash, Interruption::Shutdown][usize::from(run.3[3])],
                at: Timestamp(times.1),
            }),
            steps: run.2 / 2,
            message: words.0,
            done: words.1,
            total: words.2,
            cancel: cancel.map(|(at, reason)| CancelRequest {
                at: Timestamp(at),
                reason,
            }),
            inputs: inputs.into_iter().map(input).collect::<BTreeMap<_, _>>(),
            external_reference: outside
                .map(|(reference, url)| ExternalReference { reference, url }),
            result_is_error: run.3[1],
            trace: Trace::read(
                run.3[0].then_some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
                run.3[1].then_some("a=b"),
                run.3[2].then_some("user=ada"),
            ),
        },
    )
}

fn input((text, (attempt, answered)): (String, (u32, bool))) -> (InputKey, Input) {
    let input = Input {
        asked_by: Attempt(attempt),
        answered,
    };
    (input_key(&text), input)
}

fn any_phase() -> impl Strategy<Value = Phase> {
    prop_oneof![
        any::<u64>().prop_map(|at| Phase::Queued {
            ready_at: Timestamp(at)
        }),
        Just(Phase::Running),
        Just(Phase::Parked),
        Just(Phase::Ended(Ending::Completed)),
        Just(Phase::Ended(Ending::Cancelled)),
        (any::<i32>(), ".*", option::of(".*")).prop_map(|(code, message, data)| {
            Phase::Ended(Ending::Failed(RpcError {
                code,
                message,
                data,
            }))
        }),
    ]
}

/// All but NaN, which equals nothing.
fn any_number() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("not a number", |number| !number.is_nan())
}

fn any_ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        (".*", ".*").prop_map(|(message, schema)| Ask::Form { message, schema }),
        (".*", ".*").prop_map(|(message, url)| Ask::Url { message, url }),
        ".*".prop_map(Ask::Sampling),
        Just(Ask::Roots),
    ]
}

fn any_answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        option::of(".*").prop_map(Answer::Accept),
        Just(Answer::Decline),
        Just(Answer::Dismiss),
        ".*".prop_map(Answer::Value),
    ]
}

fn any_part() -> impl Strategy<Value = ResultPart> {
    let body = prop_oneof![
        ".*".prop_map(PartBody::Text),
        any::<Vec<u8>>().prop_map(PartBody::Blob),
    ];
    // An empty type is none.
    (option::of(".{1,20}"), body).prop_map(|(mime_type, body)| ResultPart { mime_type, body })
}
