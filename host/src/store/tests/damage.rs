//! Files that somebody or something changed: a body is given back as it was written or not at all.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::bodies::INLINE_BYTES_MAX;
use super::super::{
    Damage, Damaged, OpenError, Problem, Store, StoreError, TransferError, check, compact, export,
    import, keys,
};
use super::offline::{only, tamper};
use super::{Bench, checkpointed, input_key, key, new_task, options, returned, running, step};
use crate::task::{Answer, Ask, Attempt, Event, InputRequest};

const LARGE: usize = INLINE_BYTES_MAX + 1;

/// A task whose every body is a file; each could be cut or changed and still be understood.
async fn filled(bench: &Bench) -> Store {
    let store = bench.open();
    let mut new = new_task("a");
    new.arguments = format!("{{\"arguments\":\"{}\"}}", "x".repeat(LARGE));
    store.insert(new).await.unwrap();
    let request = InputRequest {
        key: input_key("go"),
        ask: Ask::Form {
            message: "y".repeat(LARGE),
            schema: "{}".into(),
        },
    };
    let answer = Answer::Accept(Some(format!("{{\"answer\":\"{}\"}}", "x".repeat(LARGE))));
    let events = [
        Event::Claimed,
        checkpointed(&[b'x'; LARGE]),
        step("sent", &[b'y'; LARGE]),
        Event::Asked {
            attempt: Attempt(1),
            requests: vec![request],
        },
        Event::Answered {
            answers: vec![(input_key("go"), answer)],
        },
        returned(&"x".repeat(LARGE)),
    ];
    for event in events {
        store.update(&key("a"), event).await.unwrap();
    }
    store
}

/// What every kind of body says to being read.
fn read_all(store: &Store) -> Vec<Result<(), StoreError>> {
    let id = key("a");
    vec![
        store.arguments(&id).map(drop),
        store.checkpoint(&id).map(drop),
        store.step(&id, "sent").map(drop),
        store.inputs(&id).map(drop),
        store.result(&id).map(drop),
    ]
}

fn body_files(bench: &Bench) -> Vec<PathBuf> {
    let names = bench.files("bodies").into_iter();
    names
        .map(|name| bench.path().join("bodies").join(name))
        .collect()
}

type Change = fn(&Path, Vec<u8>) -> Damage;

/// Changes a file, and says what should be told of it.
const CHANGES: [Change; 4] = [
    |file, _| {
        fs::remove_file(file).unwrap();
        Damage::Missing
    },
    |file, bytes| {
        fs::write(file, &bytes[..bytes.len() - 1]).unwrap();
        Damage::Length {
            found: bytes.len() as u64 - 1,
            expected: bytes.len() as u64,
        }
    },
    |file, bytes| {
        fs::write(file, [&bytes[..], b" "].concat()).unwrap();
        Damage::Length {
            found: bytes.len() as u64 + 1,
            expected: bytes.len() as u64,
        }
    },
    |file, mut bytes| {
        bytes[LARGE / 2] = b'z';
        fs::write(file, bytes).unwrap();
        Damage::Content
    },
];

#[tokio::test]
async fn a_changed_file_is_told_and_never_given_out() {
    let bench = Bench::new();
    let store = filled(&bench).await;
    let files = body_files(&bench);
    assert_eq!(files.len(), 6);
    for file in files {
        let bytes = fs::read(&file).unwrap();
        for change in CHANGES {
            let expected = change(&file, bytes.clone());
            let errors: Vec<StoreError> = read_all(&store)
                .into_iter()
                .filter_map(Result::err)
                .collect();
            let [StoreError::Damaged { damage, .. }] = errors[..] else {
                panic!("{expected}: {errors:?}");
            };
            assert_eq!(damage, expected);
            fs::write(&file, &bytes).unwrap();
        }
    }
    assert!(read_all(&store).into_iter().all(|read| read.is_ok()));
}

#[tokio::test]
async fn a_check_finds_every_change_of_a_file() {
    let bench = Bench::new();
    drop(filled(&bench).await);
    for file in body_files(&bench) {
        let bytes = fs::read(&file).unwrap();
        for change in CHANGES {
            let problem = match change(&file, bytes.clone()) {
                Damage::Missing => Problem::MissingFile,
                _ => Problem::ChangedFile,
            };
            let report = check(bench.path()).unwrap();
            assert_eq!(only(&report), (problem, 1), "{:?}", report.told);
            fs::write(&file, &bytes).unwrap();
        }
    }
    assert!(check(bench.path()).unwrap().is_sound());
}

/// Format 1 kept the name of a file and nothing else.
#[tokio::test]
async fn a_file_of_format_1_is_read_and_its_store_is_marked() {
    let bench = Bench::new();
    let state = vec![7; LARGE];
    let store = running(&bench, "a").await;
    store.update(&key("a"), checkpointed(&state)).await.unwrap();
    drop(store);
    let file = body_files(&bench).remove(0);
    let name = file.file_name().unwrap().to_str().unwrap();
    let slot = keys::body(&key("a"), &keys::Slot::Checkpoint);
    tamper(&bench, slot, Some(&[b"\x01", name.as_bytes()].concat()));
    tamper(&bench, keys::SCHEMA.to_vec(), Some(&[1]));
    assert!(check(bench.path()).unwrap().is_sound());

    let store = bench.open();
    assert_eq!(store.checkpoint(&key("a")).unwrap(), Some(state));
    let mark = store.core().records.get(keys::SCHEMA).unwrap();
    assert_eq!(mark.as_deref(), Some(&[2][..]));
    // The next one is sealed, and the old one's file goes.
    let newer = vec![8; LARGE];
    store.update(&key("a"), checkpointed(&newer)).await.unwrap();
    store.close().await;
    assert_eq!(bench.files("bodies").len(), 1);
    fs::write(body_files(&bench).remove(0), vec![9; LARGE]).unwrap();
    assert!(store.checkpoint(&key("a")).is_err());
}

#[tokio::test]
async fn an_export_leaves_damaged_tasks_out_when_it_is_told_to() {
    let bench = Bench::new();
    let store = filled(&bench).await;
    store.insert(new_task("sound")).await.unwrap();
    drop(store);
    fs::write(body_files(&bench).remove(0), b"").unwrap();
    let refused = export(bench.path(), &mut Vec::new(), Damaged::Refuse).unwrap_err();
    assert!(matches!(refused, TransferError::Damaged { .. }));
    assert!(refused.to_string().contains("--leave-out-damaged"));

    let mut lines = Vec::new();
    let exported = export(bench.path(), &mut lines, Damaged::LeaveOut).unwrap();
    assert_eq!(exported.tasks, 1);
    let [(left_out, what)] = &exported.left_out[..] else {
        panic!("{exported:?}");
    };
    assert_eq!(*left_out, key("a"));
    assert!(what.contains("its file has 0 bytes"), "{what}");
    let other = Bench::new();
    assert_eq!(import(other.path(), &lines[..]).unwrap(), 1);
    assert!(other.open().get(&key("sound")).unwrap().is_some());
}

/// Tasks one after the other, so that each is a commit behind the one before.
async fn ten_tasks(bench: &Bench) {
    let store = bench.open();
    for number in 0..10 {
        store.insert(new_task(&format!("t{number}"))).await.unwrap();
    }
}

/// By itself the database forgets all that comes behind the damage, and goes on.
#[tokio::test]
async fn a_database_that_forgot_commits_is_not_opened() {
    let bench = Bench::new();
    ten_tasks(&bench).await;
    let database = bench.path().join("records/db");
    let mut bytes = fs::read(&database).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    fs::write(&database, bytes).unwrap();

    let error = bench.try_open(options()).err().unwrap();
    let OpenError::Lost { commits, .. } = error else {
        panic!("{error}");
    };
    assert!((1..10).contains(&commits), "{commits}");
    let words = error.to_string();
    assert!(words.contains("restore a backup"), "{words}");
    let report = check(bench.path()).unwrap();
    assert_eq!(only(&report), (Problem::LostCommits, 1));
    let refused = compact(bench.path());
    assert!(matches!(refused, Err(OpenError::Lost { .. })));
    let refused = export(bench.path(), &mut Vec::new(), Damaged::Refuse);
    let is_loss = |error| matches!(error, TransferError::Open(OpenError::Lost { .. }));
    assert!(refused.is_err_and(is_loss));

    // What is left can be had.
    let mut lines = Vec::new();
    let exported = export(bench.path(), &mut lines, Damaged::LeaveOut).unwrap();
    let other = Bench::new();
    assert_eq!(import(other.path(), &lines[..]).unwrap(), exported.tasks);
    let left = other.open().queued().unwrap().len() as u64;
    assert_eq!((left, left < 10), (exported.tasks, true));
}

#[tokio::test]
async fn a_database_without_a_noted_commit_is_opened_and_noted_from_then_on() {
    let bench = Bench::new();
    ten_tasks(&bench).await;
    let note = bench.path().join("records/watermark");
    let noted = fs::read(&note).unwrap();
    for torn in [&b""[..], &noted[..9], &[0xff; 16]] {
        fs::write(&note, torn).unwrap();
        let store = bench.open();
        store.insert(new_task("more")).await.unwrap();
        store.remove(&key("more")).await.unwrap();
    }
    assert!(fs::read(&note).unwrap() > noted);
    assert_eq!(compact(bench.path()).unwrap().records, 2 + 10 * 4);
    assert_eq!(bench.open().queued().unwrap().len(), 10);
}

#[tokio::test]
async fn a_task_whose_record_is_damaged_is_removed_with_all_it_has() {
    let bench = Bench::new();
    let store = filled(&bench).await;
    store.insert(new_task("queued")).await.unwrap();
    for (id, others, unreadable) in [("a", 1, 0), ("queued", 0, 1)] {
        store.damage_record(&key(id));
        assert!(matches!(store.get(&key(id)), Err(StoreError::Record(_))));
        // One of them keeps nobody from the others.
        let listed = store.tasks(&key(id).tenant, None, 10).unwrap();
        assert_eq!(listed.len(), others);
        assert_eq!(store.unfinished_tasks().unwrap().1, unreadable);
        store.remove(&key(id)).await.unwrap();
        assert_eq!(store.get(&key(id)).unwrap(), None);
    }
    assert_eq!(store.unfinished(&key("queued").tenant), 0);
    store.close().await;
    assert_eq!(bench.files("bodies"), [""; 0]);
    drop(store);
    let report = check(bench.path()).unwrap();
    assert_eq!(
        (report.is_sound(), report.records),
        (true, 2),
        "{:?}",
        report.told
    );
}

/// The database is whole without them.
#[tokio::test]
async fn damaged_settings_and_snapshots_of_the_database_are_made_anew() {
    let bench = Bench::new();
    let store = filled(&bench).await;
    store.close().await;
    drop(store);
    // A snapshot comes with a start that finds something new.
    drop(bench.open());
    let records = bench.path().join("records");
    let names = bench.files("records");
    let beside = names
        .iter()
        .filter(|name| *name == "conf" || name.starts_with("snap."));
    let beside: Vec<_> = beside.map(|name| records.join(name)).collect();
    assert!(beside.len() >= 2, "{names:?}");
    for file in beside {
        let whole = fs::read(&file).unwrap();
        let flipped = (0..whole.len()).step_by(7).map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            bytes
        });
        let cut = [0, 5, whole.len() - 1].map(|length| whole[..length].to_vec());
        for bytes in flipped.chain(cut) {
            fs::write(&file, &bytes).unwrap();
            let report = check(bench.path()).unwrap();
            assert!(report.is_sound(), "{report:?}");
            let store = bench.open();
            assert!(read_all(&store).iter().all(Result::is_ok));
        }
    }
}

#[test]
fn a_database_with_other_settings_is_refused_and_kept() {
    let bench = Bench::new();
    let records = bench.path().join("records");
    let other = sled::Config::new().path(&records).segment_size(1 << 20);
    drop(other.open().unwrap());
    let settings = fs::read(records.join("conf")).unwrap();
    assert!(bench.try_open(options()).is_err());
    assert_eq!(fs::read(records.join("conf")).unwrap(), settings);
}
