//! What is done to a store while no host has it: check, compact, export, import.

use std::fs;
use std::io::Cursor;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::super::bodies::INLINE_BYTES_MAX;
use super::super::records::{Records, Writes};
use super::super::scratch::Scratch;
use super::super::{
    Damaged, OpenError, Problem, Report, StateChange, StateOwner, StateQuota, Store, TransferError,
    check, compact, export, import, keys,
};
use super::{Bench, asked, checkpointed, input_key, key, new_task, returned, running, step};
use crate::task::{Answer, Event};

const LARGE: usize = INLINE_BYTES_MAX + 1;

/// A store with one of everything: a completed task with large and small bodies, steps, questions
/// and a log, and one that waits.
async fn filled(bench: &Bench) -> Store {
    let store = running(bench, "done").await;
    let id = key("done");
    let answers = vec![(input_key("go"), Answer::Accept(Some(r#"{"a":1}"#.into())))];
    let events = [
        checkpointed(&[0xff; LARGE]),
        step("sent", b"\xff\x00binary"),
        step(&"long ".repeat(100), b"hashed"),
        asked(&["go", "or:not"]),
        Event::Answered { answers },
        returned(&format!(r#"{{"content":"{}"}}"#, "x".repeat(LARGE))),
    ];
    for event in events {
        store.update(&id, event).await.unwrap();
    }
    store.append_log(&id, b"it said\n").unwrap();
    store.insert(new_task("waits")).await.unwrap();
    let (owner, quota) = state_owner();
    let change = StateChange {
        key: "cursor".into(),
        expected: None,
        value: Some(b"\xff\x00binary".to_vec()),
    };
    store.change_state(owner, change, quota).await.unwrap();
    store
}

fn state_owner() -> (StateOwner, StateQuota) {
    let owner = StateOwner {
        tenant: key("done").tenant,
        plugin: "reports".into(),
    };
    let quota = StateQuota {
        bytes: 1_000,
        keys: 10,
    };
    (owner, quota)
}

fn exported(bench: &Bench) -> String {
    let mut out = Vec::new();
    export(bench.path(), &mut out, Damaged::Refuse).unwrap();
    String::from_utf8(out).unwrap()
}

/// Changes the records behind the store's back.
pub(super) fn tamper(bench: &Bench, key: Vec<u8>, value: Option<&[u8]>) {
    let records = Records::open(&bench.path().join("records"), 1 << 20).unwrap();
    let writes = Writes::from([(key, value.map(<[u8]>::to_vec))]);
    records.commit(writes).unwrap();
}

pub(super) fn only(report: &Report) -> (Problem, u64) {
    assert_eq!(report.problems.len(), 1, "{report:?}");
    let (problem, count) = report.problems.first_key_value().unwrap();
    (*problem, *count)
}

#[tokio::test]
async fn a_store_that_was_used_well_is_sound() {
    let bench = Bench::new();
    drop(filled(&bench).await);
    let report = check(bench.path()).unwrap();
    assert!(report.is_sound(), "{:?}", report.told);
    assert_eq!(
        (report.tasks, report.files, report.leftover_files),
        (2, 3, 0)
    );
    // It changed nothing.
    assert_eq!(check(bench.path()).unwrap(), report);
}

#[tokio::test]
async fn everything_that_can_be_wrong_is_found() {
    let index = keys::index(&super::task("waits")).remove(0);
    let arguments = keys::body(&key("waits"), &keys::Slot::Arguments);
    let stranger = keys::body(&key("stranger"), &keys::Slot::Arguments);
    let wrong_place = [b"p/", &keys::task(&key("waits"))[2..]].concat();
    let state = keys::state(&state_owner().0, "cursor");
    type Case<'a> = (Vec<u8>, Option<&'a [u8]>, Problem);
    let cases: [Case; 7] = [
        (state, Some(b"\xffno tag"), Problem::UnknownKey),
        (
            keys::task(&key("waits")),
            Some(b"\x01{"),
            Problem::DamagedTask,
        ),
        (stranger, Some(b"\x00{}"), Problem::Orphan),
        (arguments, None, Problem::MissingRecord),
        (index, None, Problem::WrongIndex),
        (wrong_place, Some(b""), Problem::WrongIndex),
        (b"z/what".to_vec(), Some(b""), Problem::UnknownKey),
    ];
    for (name, value, problem) in cases {
        let bench = Bench::new();
        drop(filled(&bench).await);
        tamper(&bench, name.clone(), value);
        let report = check(bench.path()).unwrap();
        assert_eq!(only(&report), (problem, 1), "{name:?} {:?}", report.told);
    }
}

#[tokio::test]
async fn files_and_records_are_compared() {
    let bench = Bench::new();
    drop(filled(&bench).await);
    let bodies = bench.path().join("bodies/acme/done");
    let named = fs::read_dir(&bodies).unwrap().next().unwrap().unwrap();
    fs::rename(named.path(), bodies.join("stray")).unwrap();
    fs::write(bench.path().join("logs/acme/nobody.log"), b"").unwrap();
    let report = check(bench.path()).unwrap();
    assert_eq!(only(&report), (Problem::MissingFile, 1));
    assert_eq!(report.leftover_files, 2);
    // The next start deletes what nothing names.
    drop(bench.open());
    assert_eq!(check(bench.path()).unwrap().leftover_files, 0);
}

#[tokio::test]
async fn a_store_in_use_is_left_alone() {
    let bench = Bench::new();
    let store = bench.open();
    assert!(matches!(check(bench.path()), Err(OpenError::InUse(_))));
    assert!(matches!(compact(bench.path()), Err(OpenError::InUse(_))));
    let mut out = Vec::new();
    let refused = export(bench.path(), &mut out, Damaged::Refuse);
    assert!(matches!(
        refused,
        Err(TransferError::Open(OpenError::InUse(_)))
    ));
    let refused = import(bench.path(), Cursor::new(b""));
    assert!(matches!(
        refused,
        Err(TransferError::Open(OpenError::InUse(_)))
    ));
    drop(store);
    check(bench.path()).unwrap();
}

#[test]
fn a_directory_without_a_store_is_named_and_left_empty() {
    let bench = Bench::new();
    let error = check(bench.path()).unwrap_err();
    assert!(matches!(error, OpenError::Missing(_)));
    assert_eq!(fs::read_dir(bench.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn compaction_keeps_everything_and_gives_space_back() {
    let bench = Bench::new();
    let store = filled(&bench).await;
    store.update(&key("waits"), Event::Claimed).await.unwrap();
    for round in 0..2_000_u32 {
        let state = [&round.to_be_bytes()[..], &[7; 8_000]].concat();
        store
            .update(&key("waits"), checkpointed(&state))
            .await
            .unwrap();
    }
    drop(store);
    let before = exported(&bench);
    let done = compact(bench.path()).unwrap();
    assert!(done.bytes_after < done.bytes_before, "{done:?}");
    assert_eq!(exported(&bench), before);
    assert!(check(bench.path()).unwrap().is_sound());
    let store = bench.open();
    let again = store.update(&key("waits"), returned("{}")).await.unwrap();
    assert!(again.is_terminal());
}

/// What is read of a store whose disk is full.
#[tokio::test]
async fn a_copy_of_the_records_has_all_of_them_and_leaves_nothing_behind() {
    let bench = Bench::new();
    drop(filled(&bench).await);
    let place = bench.path().join("records");
    let before = fs::read(place.join("db")).unwrap();
    let copy = Scratch::copy_of(bench.path(), &place).unwrap();
    let folder = copy.path().to_owned();
    assert_eq!(
        fs::metadata(&folder).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let entries = |place: &Path| -> Vec<_> {
        let records = Records::open(place, 1 << 20).unwrap();
        records.scan(b"").map(Result::unwrap).collect()
    };
    let copied = entries(&folder);
    assert!(fs::read(place.join("db")).unwrap() == before);
    assert_eq!(copied, entries(&place));
    drop(copy);
    assert!(!folder.exists());
}

/// What a compaction leaves that was cut short before or after its one step.
#[tokio::test]
async fn an_unfinished_copy_is_deleted_at_the_next_start() {
    let bench = Bench::new();
    drop(filled(&bench).await);
    let before = exported(&bench);
    let copy = bench.path().join("records.new");
    drop(Records::open(&copy, 1 << 20).unwrap());
    drop(bench.open());
    assert!(!copy.exists());
    assert_eq!(exported(&bench), before);
}

#[tokio::test]
async fn an_export_is_imported_as_it_was() {
    let bench = Bench::new();
    drop(filled(&bench).await);
    let lines = exported(&bench);
    let other = Bench::new();
    assert_eq!(import(other.path(), Cursor::new(&lines)).unwrap(), 2);
    assert_eq!(exported(&other), lines);
    assert!(check(other.path()).unwrap().is_sound());
    let (old, new) = (bench.open(), other.open());
    let id = key("done");
    assert_eq!(new.get(&id).unwrap(), old.get(&id).unwrap());
    assert_eq!(new.result(&id).unwrap(), old.result(&id).unwrap());
    assert_eq!(new.inputs(&id).unwrap(), old.inputs(&id).unwrap());
    assert_eq!(
        new.step(&id, "sent").unwrap(),
        old.step(&id, "sent").unwrap()
    );
    assert_eq!(new.queued().unwrap(), [key("waits")]);
    assert_eq!(new.unfinished(&id.tenant), 1);
    let value = new.state(&state_owner().0, "cursor").unwrap();
    assert_eq!(value.as_deref(), Some(&b"\xff\x00binary"[..]));
}

#[tokio::test]
async fn a_store_with_tasks_is_not_imported_into() {
    let bench = Bench::new();
    drop(filled(&bench).await);
    let lines = exported(&bench);
    let refused = import(bench.path(), Cursor::new(&lines));
    assert!(matches!(refused, Err(TransferError::NotEmpty(_))));
    assert_eq!(exported(&bench), lines);
    // An empty one is as good as none.
    let empty = Bench::new();
    drop(empty.open());
    assert_eq!(import(empty.path(), Cursor::new(&lines)).unwrap(), 2);
}

#[tokio::test]
async fn an_export_that_is_not_whole_and_right_changes_nothing() {
    let bench = Bench::new();
    drop(filled(&bench).await);
    let lines = exported(&bench);
    let cut = &lines[..lines.rfind("{\"end\"").unwrap()];
    let newer = lines.replacen("{\"longshore_store\":1}", "{\"longshore_store\":2}", 1);
    let damaged = lines.replacen("\"phase\"", "\"faze\"", 1);
    let headless = lines.split_once('\n').unwrap().1;
    for (text, expected) in [
        (cut, "ends too early"),
        (&newer, "newer version (format 2"),
        (&damaged, "line 2 of the export can't be used: the record"),
        (
            headless,
            "line 1 of the export can't be used: it does not begin an export",
        ),
        ("", "ends too early"),
    ] {
        let target = Bench::new();
        let error = import(target.path(), Cursor::new(text)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        let missing = check(target.path());
        assert!(matches!(missing, Err(OpenError::Missing(_))), "{missing:?}");
        // Nor is it in the way of the right one.
        assert_eq!(import(target.path(), Cursor::new(&lines)).unwrap(), 2);
    }
}

/// The upgrade path: what format 1 exported, this version and every later one imports.
#[test]
fn an_export_of_format_1_is_read() {
    let bench = Bench::new();
    let lines = include_str!("format-1.jsonl");
    assert_eq!(import(bench.path(), Cursor::new(lines)).unwrap(), 2);
    assert!(check(bench.path()).unwrap().is_sound());
    assert_eq!(exported(&bench), lines);
    let store = bench.open();
    let waiting = store.get(&key("waits")).unwrap().unwrap();
    assert_eq!(waiting.open_inputs().count(), 1);
    assert_eq!(
        store.result(&key("done")).unwrap().unwrap().json,
        r#"{"content":[]}"#
    );
}
