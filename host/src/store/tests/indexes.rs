//! Each task is in the indexes exactly as its state says, after every transition.

use super::super::keys;
use super::super::{Store, UpdateError};
use super::{Bench, asked, input_key, key, new_task, returned, running};
use crate::task::{Answer, Attempt, Event, Interruption, Task};

/// The index keys in the database, and those the task's state asks for.
fn assert_indexed(store: &Store, task: &Task) {
    let records = &store.core().records;
    let mut found = Vec::new();
    for family in [keys::QUEUE, keys::RUNNING, keys::PARKED, keys::EXPIRY] {
        found.extend(records.scan(family).map(|entry| entry.unwrap().0.to_vec()));
    }
    let mut wanted = keys::index(task);
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted, "in phase {:?}", task.phase);
}

#[tokio::test]
async fn the_indexes_follow_every_transition() {
    let bench = Bench::new();
    let store = bench.open();
    let new = new_task("a");
    store.insert(new.clone()).await.unwrap();
    assert_indexed(&store, &new.task);
    let attempt = Attempt(1);
    let events = [
        Event::Claimed,
        asked(&["k"]),
        Event::Parked { attempt },
        Event::Answered {
            answers: vec![(input_key("k"), Answer::Decline)],
        },
        Event::Claimed,
        Event::Interrupted {
            attempt: Attempt(2),
            cause: Interruption::Shutdown,
        },
        Event::Claimed,
        Event::Cancelled {
            attempt: Attempt(3),
            message: "stopped".into(),
        },
    ];
    for event in events {
        let task = store.update(&key("a"), event).await.unwrap();
        assert_indexed(&store, &task);
    }
    assert_eq!(store.queued().unwrap(), []);
    assert_eq!(store.running().unwrap(), []);
}

/// Two events of one task in one commit leave the indexes of the second.
#[tokio::test]
async fn the_indexes_follow_two_transitions_in_one_commit() {
    let bench = Bench::new();
    let store = bench.open();
    store.insert(new_task("a")).await.unwrap();
    let id = key("a");
    let (_, ended) = tokio::join!(
        store.update(&id, Event::Claimed),
        store.update(&id, returned("{}"))
    );
    assert_indexed(&store, &ended.unwrap());
}

#[tokio::test]
async fn removing_leaves_no_key_of_the_task() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    store.update(&key("a"), asked(&["k"])).await.unwrap();
    store.insert(new_task("ab")).await.unwrap();
    store.remove(&key("a")).await.unwrap();
    store.remove(&key("ab")).await.unwrap();
    let left: Vec<_> = store
        .core()
        .records
        .scan(b"")
        .map(|entry| entry.unwrap().0.to_vec())
        .collect();
    assert_eq!(left, [keys::COMMITS, keys::SCHEMA]);
    let error = store.update(&key("a"), returned("{}")).await.unwrap_err();
    assert!(matches!(error, UpdateError::Unknown));
}

/// A body that is written and removed within one commit is gone as well.
#[tokio::test]
async fn removing_takes_what_the_same_commit_wrote() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    let id = key("a");
    let (asked, removed) = tokio::join!(store.update(&id, asked(&["k"])), store.remove(&id));
    asked.unwrap();
    removed.unwrap();
    assert_eq!(store.inputs(&id).unwrap(), []);
    // What is left are the store's own two.
    assert_eq!(store.core().records.scan(b"").count(), 2);
}
