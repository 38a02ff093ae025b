//! What calls leave between rounds: kept until it is over, and marked once.

use std::time::Duration;

use futures_util::FutureExt;

use super::super::bodies::INLINE_BYTES_MAX;
use super::super::{RoundName, StoreError, check};
use super::{Bench, NOW, key, options};
use crate::clock::Timestamp;

fn round(id: &str, expires_ms: u64) -> RoundName {
    RoundName {
        key: key(id),
        expires_at: Timestamp(expires_ms),
    }
}

#[tokio::test]
async fn a_rounds_state_survives_a_restart_and_goes_with_its_time() {
    let bench = Bench::new();
    let store = bench.open();
    let states = [vec![1; 10], vec![2; INLINE_BYTES_MAX + 1]];
    for (id, state) in ["small", "large"].iter().zip(&states) {
        let name = round(id, 5_000);
        store.keep_round(&name, state.clone()).await.unwrap();
    }
    store
        .keep_round(&round("later", 9_000), vec![3])
        .await
        .unwrap();
    store.close().await;
    drop(store);
    let report = check(bench.path()).unwrap();
    assert!(report.is_sound(), "{:?}", report.told);
    assert_eq!((report.files, report.leftover_files), (1, 0));

    let store = bench.open();
    for (id, state) in ["small", "large"].iter().zip(&states) {
        let kept = store.kept_round(&round(id, 5_000)).unwrap();
        assert_eq!(kept.as_ref(), Some(state));
    }
    assert_eq!(store.expired_rounds(Timestamp(4_999), 10).unwrap(), []);
    let expired = store.expired_rounds(Timestamp(5_000), 10).unwrap();
    assert_eq!(expired, [round("large", 5_000), round("small", 5_000)]);
    for name in &expired {
        store.remove_round(name).await.unwrap();
        assert_eq!(store.kept_round(name).unwrap(), None);
    }
    store.close().await;
    assert_eq!(bench.files("bodies"), [""; 0]);
    assert!(store.kept_round(&round("later", 9_000)).unwrap().is_some());
}

#[tokio::test]
async fn a_round_is_marked_once_also_across_a_restart() {
    let bench = Bench::new();
    let store = bench.open();
    let name = round("once", 5_000);
    // Side by side, so that one commit decides both.
    let (first, second) = tokio::join!(store.use_round(&name), store.use_round(&name));
    first.unwrap();
    assert!(matches!(second, Err(StoreError::RoundUsed)));
    drop(store);
    let store = bench.open();
    let again = store.use_round(&name).await;
    assert!(matches!(again, Err(StoreError::RoundUsed)));
    let other = round("another", 5_000);
    store.use_round(&other).await.unwrap();
}

#[tokio::test]
async fn a_round_that_is_over_is_not_begun_again() {
    let bench = Bench::new();
    let store = bench.open();
    let name = round("once", 5_000);
    store.use_round(&name).await.unwrap();
    bench.clock.advance(Duration::from_secs(4));
    // Its mark may be swept at any time now.
    store.remove_round(&name).await.unwrap();
    let late = store.use_round(&name).await;
    assert!(matches!(late, Err(StoreError::RoundOver)));
}

#[tokio::test]
async fn what_a_client_that_went_away_left_half_kept_is_not_counted() {
    let bench = Bench::new();
    let state = vec![0; INLINE_BYTES_MAX + 1];
    let mut small = options();
    small.tenant_rounds_max_bytes = state.len() as u64 + 300;
    let store = bench.try_open(small).unwrap();
    let left = round("gone", 5_000);
    for _ in 0..3 {
        let gone = store.keep_round(&left, state.clone());
        assert!(gone.now_or_never().is_none());
    }
    let next = round("next", 5_000);
    store.keep_round(&next, state.clone()).await.unwrap();
    let full = store.keep_round(&round("full", 5_000), state).await;
    assert!(matches!(full, Err(StoreError::TooManyRounds { .. })));
}

#[tokio::test]
async fn a_tenants_rounds_have_a_limit_and_what_goes_makes_room() {
    let bench = Bench::new();
    let mut small = options();
    small.tenant_rounds_max_bytes = 2_000;
    let store = bench.try_open(small.clone()).unwrap();
    let (first, second) = (round("first", 5_000), round("second", 6_000));
    store.keep_round(&first, vec![0; 1_000]).await.unwrap();
    store.use_round(&first).await.unwrap();
    let refused = store.keep_round(&second, vec![0; 1_000]).await;
    assert!(matches!(
        refused,
        Err(StoreError::TooManyRounds { max: 2_000 })
    ));
    // What an earlier process left counts as well.
    drop(store);
    let store = bench.try_open(small).unwrap();
    let refused = store.keep_round(&second, vec![0; 1_000]).await;
    assert!(matches!(refused, Err(StoreError::TooManyRounds { .. })));
    store.remove_round(&first).await.unwrap();
    store.keep_round(&second, vec![0; 1_000]).await.unwrap();
    store.use_round(&second).await.unwrap();
    assert_eq!(store.expired_rounds(NOW, 10).unwrap(), []);
}
