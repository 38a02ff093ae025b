//! Parts of large results: written by the run that holds the lease, counted, and gone with their task.

use std::collections::BTreeMap;
use std::io::Cursor;

use super::super::bodies::INLINE_BYTES_MAX;
use super::super::keys::{self, Slot};
use super::super::records::Writes;
use super::super::{Damaged, Problem, StoreError, UpdateError, check, export, import};
use super::{Bench, key, options, returned, running};
use crate::task::{Attempt, Event, Interruption, PartBody, Rejected, ResultPart, RpcError};

const LARGE: usize = INLINE_BYTES_MAX + 1;

fn parts() -> Vec<ResultPart> {
    vec![
        ResultPart {
            mime_type: None,
            body: PartBody::Text("\u{e9}".repeat(LARGE)),
        },
        ResultPart {
            mime_type: Some("image/png".into()),
            body: PartBody::Blob(vec![0xff, 0]),
        },
    ]
}

#[tokio::test]
async fn parts_are_read_back_also_by_the_next_process_and_from_an_export() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    let id = key("a");
    store.keep_parts(&id, Attempt(1), parts()).await.unwrap();
    store.update(&id, returned("{}")).await.unwrap();
    store.close().await;
    drop(store);
    let report = check(bench.path()).unwrap();
    assert!(report.is_sound(), "{:?}", report.told);
    assert_eq!((report.files, report.leftover_files), (1, 0));
    let mut lines = Vec::new();
    export(bench.path(), &mut lines, Damaged::Refuse).unwrap();
    let copy = Bench::new();
    import(copy.path(), Cursor::new(lines)).unwrap();
    for bench in [bench, copy] {
        let store = bench.open();
        for (number, part) in (1..).zip(parts()) {
            assert_eq!(store.part(&id, number).unwrap(), Some(part));
        }
        for number in [0, 3, u32::MAX] {
            assert_eq!(store.part(&id, number).unwrap(), None);
        }
        store.remove(&id).await.unwrap();
        assert_eq!(store.part(&id, 1).unwrap(), None);
        store.close().await;
        assert_eq!(bench.files("bodies"), [""; 0]);
    }
}

#[tokio::test]
async fn what_an_earlier_run_kept_goes_when_there_are_fewer_parts() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    let id = key("a");
    store.keep_parts(&id, Attempt(1), parts()).await.unwrap();
    let one = parts().split_off(1);
    store
        .keep_parts(&id, Attempt(1), one.clone())
        .await
        .unwrap();
    assert_eq!(store.part(&id, 1).unwrap().as_ref(), one.first());
    assert_eq!(store.part(&id, 2).unwrap(), None);
    store.close().await;
    assert_eq!(bench.files("bodies"), [""; 0]);
    drop(store);
    let report = check(bench.path()).unwrap();
    assert!(report.is_sound(), "{:?}", report.told);
}

/// The run died between its parts and its end.
#[tokio::test]
async fn what_a_dead_run_kept_goes_when_the_next_begins_or_the_task_ends_otherwise() {
    let (attempt, cause) = (Attempt(1), Interruption::Crash);
    let interrupted = Event::Interrupted { attempt, cause };
    let error = RpcError::internal("no");
    let ways = [
        vec![interrupted, Event::Claimed],
        vec![Event::Failed { attempt, error }],
    ];
    for events in ways {
        let bench = Bench::new();
        let store = running(&bench, "a").await;
        let id = key("a");
        store.keep_parts(&id, attempt, parts()).await.unwrap();
        for event in events {
            store.update(&id, event).await.unwrap();
        }
        assert_eq!(store.part(&id, 1).unwrap(), None);
        assert_eq!(store.core().part_bytes.of(&id.tenant), 0);
        store.close().await;
        assert_eq!(bench.files("bodies"), [""; 0]);
    }
}

#[tokio::test]
async fn a_check_tells_of_a_part_that_is_not_there() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    store
        .keep_parts(&key("a"), Attempt(1), parts())
        .await
        .unwrap();
    let lost = Writes::from([(keys::body(&key("a"), &Slot::Part(2)), None)]);
    store.core().records.commit(lost).unwrap();
    store.close().await;
    drop(store);
    let report = check(bench.path()).unwrap();
    let expected = BTreeMap::from([(Problem::MissingRecord, 1)]);
    assert_eq!(report.problems, expected, "{:?}", report.told);
}

#[tokio::test]
async fn only_the_run_that_holds_the_lease_keeps_parts() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    let stale = store.keep_parts(&key("a"), Attempt(2), parts()).await;
    let rejected = Rejected::StaleRun;
    assert!(
        matches!(stale, Err(UpdateError::Rejected(error)) if error == rejected),
        "I2"
    );
    let unknown = store.keep_parts(&key("b"), Attempt(1), parts()).await;
    assert!(matches!(unknown, Err(UpdateError::Unknown)));
    store.update(&key("a"), returned("{}")).await.unwrap();
    let late = store.keep_parts(&key("a"), Attempt(1), parts()).await;
    assert!(matches!(late, Err(UpdateError::Rejected(_))), "I3");
    store.close().await;
    assert_eq!(bench.files("bodies"), [""; 0]);
}

#[tokio::test]
async fn what_is_kept_of_a_tenant_has_a_limit_and_what_goes_or_is_replaced_makes_room() {
    let bench = Bench::new();
    let mut small = options();
    small.tenant_results_kept_max_bytes = 3 * LARGE as u64;
    let store = running(&bench, "a").await;
    drop(store);
    let store = bench.try_open(small.clone()).unwrap();
    let one = |times| {
        vec![ResultPart {
            mime_type: None,
            body: PartBody::Blob(vec![1; times * LARGE]),
        }]
    };
    let keep = async |parts| store.keep_parts(&key("a"), Attempt(1), parts).await;
    assert!(matches!(
        keep(one(4)).await,
        Err(UpdateError::Store(StoreError::TooManyResults { .. }))
    ));
    // A run that begins again replaces what the one before it kept.
    keep(one(1)).await.unwrap();
    keep(one(2)).await.unwrap();
    keep(one(1)).await.unwrap();
    keep(one(2)).await.unwrap();
    drop(store);
    assert_eq!(bench.files("bodies").len(), 1);
    let store = bench.try_open(small).unwrap();
    let refused = store.keep_parts(&key("a"), Attempt(1), one(2)).await;
    assert!(refused.is_err(), "it counts what an earlier process kept");
    store.remove(&key("a")).await.unwrap();
    store.insert(super::new_task("b")).await.unwrap();
    store
        .update(&key("b"), crate::task::Event::Claimed)
        .await
        .unwrap();
    store
        .keep_parts(&key("b"), Attempt(1), one(3))
        .await
        .unwrap();
}
