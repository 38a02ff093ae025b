//! Large bodies and logs as files: there while a record names them, and no longer.

use super::super::bodies::INLINE_BYTES_MAX;
use super::super::logs::{LIMIT_LINE, LOG_BYTES_MAX};
use super::{Bench, asked, checkpointed, key, new_task, returned, running, step};

const LARGE: usize = INLINE_BYTES_MAX + 1;

#[tokio::test]
async fn a_large_body_survives_a_restart() {
    let bench = Bench::new();
    let store = bench.open();
    let mut new = new_task("a");
    new.arguments = "x".repeat(LARGE);
    store.insert(new.clone()).await.unwrap();
    drop(store);
    assert_eq!(bench.files("bodies").len(), 1);
    let store = bench.open();
    assert_eq!(store.arguments(&key("a")).unwrap(), Some(new.arguments));
}

#[tokio::test]
async fn a_body_of_the_inline_size_needs_no_file() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    let state = vec![1; INLINE_BYTES_MAX];
    store.update(&key("a"), checkpointed(&state)).await.unwrap();
    assert_eq!(store.checkpoint(&key("a")).unwrap(), Some(state));
    assert_eq!(bench.files("bodies"), [""; 0]);
}

#[tokio::test]
async fn a_replaced_checkpoints_file_is_deleted() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    for byte in 0..3 {
        let state = vec![byte; LARGE];
        store.update(&key("a"), checkpointed(&state)).await.unwrap();
        assert_eq!(store.checkpoint(&key("a")).unwrap(), Some(state));
    }
    store.update(&key("a"), checkpointed(b"")).await.unwrap();
    store.close().await;
    assert_eq!(bench.files("bodies"), [""; 0]);
}

#[tokio::test]
async fn a_refused_events_file_is_deleted() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    let large = vec![7; LARGE];
    store.update(&key("a"), step("s", &large)).await.unwrap();
    let named = bench.files("bodies");
    store.update(&key("a"), step("s", &large)).await.unwrap();
    store.update(&key("a"), returned("{}")).await.unwrap();
    store
        .update(&key("a"), checkpointed(&large))
        .await
        .unwrap_err();
    store
        .update(&key("unknown"), checkpointed(&large))
        .await
        .unwrap_err();
    assert_eq!(bench.files("bodies"), named);
    assert!(!bench.path().join("bodies/acme/unknown").exists());
}

#[tokio::test]
async fn removing_leaves_no_file_of_the_task() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    let large = vec![7; LARGE];
    store.update(&key("a"), checkpointed(&large)).await.unwrap();
    store.update(&key("a"), step("s", &large)).await.unwrap();
    store.update(&key("a"), asked(&["k"])).await.unwrap();
    let result = "x".repeat(LARGE);
    store.update(&key("a"), returned(&result)).await.unwrap();
    assert_eq!(store.result(&key("a")).unwrap().unwrap().json, result);
    store.append_log(&key("a"), b"hello").unwrap();
    assert_eq!(store.log(&key("a")).unwrap(), b"hello");
    assert_eq!(bench.files("bodies").len(), 3);
    store.remove(&key("a")).await.unwrap();
    store.append_log(&key("a"), b"too late").unwrap();
    store.close().await;
    assert_eq!(store.log(&key("a")).unwrap(), b"");
    assert_eq!(bench.files("bodies"), [""; 0]);
    assert_eq!(bench.files("logs"), [""; 0]);
    assert!(!bench.path().join("bodies/acme/a").exists());
}

#[tokio::test]
async fn files_a_crash_left_are_swept_at_the_next_start() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    let large = vec![7; LARGE];
    store.update(&key("a"), checkpointed(&large)).await.unwrap();
    store.append_log(&key("a"), b"hello").unwrap();
    store.close().await;
    drop(store);
    let named = (bench.files("bodies"), bench.files("logs"));
    let bodies = bench.path().join("bodies/acme");
    std::fs::create_dir(bodies.join("gone")).unwrap();
    for orphan in ["a/0123", "a/0123.tmp", "gone/4567"] {
        std::fs::write(bodies.join(orphan), b"x").unwrap();
    }
    std::fs::write(bench.path().join("logs/acme/gone.log"), b"x").unwrap();
    let store = bench.open();
    assert_eq!((bench.files("bodies"), bench.files("logs")), named);
    assert!(!bodies.join("gone").exists());
    assert_eq!(store.checkpoint(&key("a")).unwrap(), Some(large));
}

#[tokio::test]
async fn a_full_log_ends_with_one_line_that_says_so() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    let chunk = vec![b'x'; 100_000];
    for _ in 0..5 {
        store.append_log(&key("a"), &chunk).unwrap();
    }
    let log = std::fs::read(bench.path().join("logs/acme/a.log")).unwrap();
    assert_eq!(log.len(), LOG_BYTES_MAX);
    assert_eq!(store.log(&key("a")).unwrap(), log);
    let line = log
        .windows(LIMIT_LINE.len())
        .position(|w| w == LIMIT_LINE)
        .unwrap();
    assert_eq!(line, LOG_BYTES_MAX - LIMIT_LINE.len());
}
