//! The data directory: who may use it, which format it has, how full its disk may be.

use super::super::records::{Records, Writes};
use super::super::{
    OpenError, StateChange, StateOwner, StateQuota, StoreError, StoreOptions, keys,
};
use super::{Bench, key, new_task, options, running, task};

#[tokio::test]
async fn everything_survives_a_restart() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    store.insert(new_task("b")).await.unwrap();
    let before = store.get(&key("a")).unwrap();
    drop(store);
    let store = bench.open();
    assert_eq!(store.get(&key("a")).unwrap(), before);
    assert_eq!(store.get(&key("b")).unwrap(), Some(task("b")));
    assert_eq!(store.arguments(&key("b")).unwrap().as_deref(), Some("{}"));
    assert_eq!(store.queued().unwrap(), [key("b")]);
}

#[tokio::test]
async fn a_second_store_on_the_directory_is_refused() {
    let bench = Bench::new();
    let store = bench.open();
    let error = bench.try_open(options()).err().unwrap();
    assert!(
        matches!(&error, OpenError::InUse(path) if *path == bench.path().display().to_string())
    );
    drop(store);
    bench.open();
}

#[test]
fn a_directory_of_a_newer_version_is_refused() {
    let bench = Bench::new();
    drop(bench.open());
    write_mark(&bench, Some(vec![3]));
    let error = bench.try_open(options()).err().unwrap();
    assert!(matches!(
        error,
        OpenError::NewerFormat {
            found: 3,
            supported: 2,
            ..
        }
    ));
}

#[test]
fn a_database_of_something_else_is_refused() {
    let bench = Bench::new();
    let records = Records::open(&bench.path().join("records"), 1 << 20).unwrap();
    let writes = Writes::from([(b"other".to_vec(), Some(b"data".to_vec()))]);
    records.commit(writes).unwrap();
    drop(records);
    let error = bench.try_open(options()).err().unwrap();
    assert!(matches!(error, OpenError::Foreign(_)));
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let bench = Bench::new();
    std::fs::write(bench.path().join("file"), b"").unwrap();
    let (clock, notifier) = (bench.clock.clone(), bench.notifier.clone());
    let under_a_file = bench.path().join("file/data");
    let error = super::Store::open(&under_a_file, options(), clock, notifier)
        .err()
        .unwrap();
    assert!(matches!(&error, OpenError::Directory { .. }));
    assert!(error.to_string().contains("file/data"));
}

#[tokio::test]
async fn a_nearly_full_disk_takes_updates_and_no_new_tasks() {
    let bench = Bench::new();
    drop(running(&bench, "a").await);
    let store = bench
        .try_open(StoreOptions {
            free_disk_min_bytes: u64::MAX,
            ..options()
        })
        .unwrap();
    let error = store.insert(new_task("b")).await.unwrap_err();
    assert!(matches!(error, StoreError::DiskFull { .. }));
    store
        .update(&key("a"), super::returned("{}"))
        .await
        .unwrap();
    // A plugin's state is a running task's, too.
    let owner = StateOwner {
        tenant: key("a").tenant,
        plugin: "p".to_owned(),
    };
    let change = StateChange {
        key: "k".to_owned(),
        expected: None,
        value: Some(b"v".to_vec()),
    };
    let quota = StateQuota { bytes: 10, keys: 1 };
    assert!(store.change_state(owner, change, quota).await.unwrap());
    assert!(store.is_ready());
}

#[test]
fn space_is_kept_aside_while_there_is_room() {
    let bench = Bench::new();
    drop(bench.open());
    let ballast = bench.path().join("ballast");
    assert_eq!(std::fs::metadata(&ballast).unwrap().len(), 32 << 20);
    std::fs::remove_file(&ballast).unwrap();
    let no_room = StoreOptions {
        free_disk_min_bytes: u64::MAX,
        ..options()
    };
    drop(bench.try_open(no_room).unwrap());
    assert!(!ballast.exists());
    drop(bench.open());
    assert!(ballast.exists());
}

fn write_mark(bench: &Bench, mark: Option<Vec<u8>>) {
    let records = Records::open(&bench.path().join("records"), 1 << 20).unwrap();
    let writes = Writes::from([(keys::SCHEMA.to_vec(), mark)]);
    records.commit(writes).unwrap();
}

#[test]
fn a_store_whose_directory_is_gone_is_not_ready() {
    let bench = Bench::new();
    let store = bench.open();
    assert!(store.is_ready());
    let elsewhere = bench.path().with_extension("moved");
    std::fs::rename(bench.path(), &elsewhere).unwrap();
    assert!(!store.is_ready());
    // One that was put in its place is another one.
    std::fs::create_dir(bench.path()).unwrap();
    std::fs::write(bench.path().join("lock"), "").unwrap();
    assert!(!store.is_ready());
    std::fs::remove_dir_all(bench.path()).unwrap();
    std::fs::rename(&elsewhere, bench.path()).unwrap();
    assert!(store.is_ready());
}
