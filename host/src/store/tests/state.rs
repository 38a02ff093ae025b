//! The key-value state of plugins: whose it is, what it may take, and what readers see of it.

use super::super::{
    StateChange, StateError, StateOwner, StateQuota, StateUsage, Store, check, forget_state,
    state_usages,
};
use super::{Bench, options};
use crate::clock::Clock;
use crate::store::simulated::Medium;
use crate::task::TenantId;

const QUOTA: StateQuota = StateQuota {
    bytes: 100,
    keys: 3,
};

fn owner(tenant: &str, plugin: &str) -> StateOwner {
    StateOwner {
        tenant: TenantId::parse(tenant).unwrap(),
        plugin: plugin.to_owned(),
    }
}

fn set(key: &str, value: &[u8]) -> StateChange {
    StateChange {
        key: key.to_owned(),
        expected: None,
        value: Some(value.to_vec()),
    }
}

async fn change(
    store: &Store,
    owner: &StateOwner,
    change: StateChange,
) -> Result<bool, StateError> {
    store.change_state(owner.clone(), change, QUOTA).await
}

#[tokio::test]
async fn a_state_is_its_tenants_and_its_plugins() {
    let bench = Bench::new();
    let store = bench.open();
    let mine = owner("acme", "a");
    change(&store, &mine, set("k", b"v")).await.unwrap();
    assert_eq!(store.state(&mine, "k").unwrap(), Some(b"v".to_vec()));
    // Names that begin alike are others.
    for other in [owner("acme", "ab"), owner("acm", "a"), owner("globex", "a")] {
        assert_eq!(store.state(&other, "k").unwrap(), None);
        assert!(store.state_keys(&other, "", None).unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_value_changes_only_from_the_one_that_is_expected() {
    let bench = Bench::new();
    let store = bench.open();
    let owner = owner("acme", "a");
    let swap = |expected: Option<&[u8]>, value: Option<&[u8]>| StateChange {
        key: "k".to_owned(),
        expected: Some(expected.map(<[u8]>::to_vec)),
        value: value.map(<[u8]>::to_vec),
    };
    let table: [(Option<&[u8]>, Option<&[u8]>, bool); 5] = [
        (Some(b"1"), Some(b"2"), false),
        (None, Some(b"1"), true),
        (None, Some(b"2"), false),
        (Some(b"1"), Some(b"2"), true),
        (Some(b"2"), None, true),
    ];
    for (expected, value, is_changed) in table {
        let changed = change(&store, &owner, swap(expected, value)).await.unwrap();
        assert_eq!(changed, is_changed, "{expected:?} {value:?}");
    }
    assert_eq!(store.state(&owner, "k").unwrap(), None);
}

#[tokio::test]
async fn a_quota_holds_over_a_restart_and_never_keeps_anyone_from_making_room() {
    let bench = Bench::new();
    let store = bench.open();
    let owner = owner("acme", "a");
    for key in ["a", "b"] {
        change(&store, &owner, set(key, &[0; 40])).await.unwrap();
    }
    drop(store);
    let store = bench.open();
    let full = change(&store, &owner, set("c", &[0; 40])).await;
    assert!(
        matches!(
            full,
            Err(StateError::TooManyBytes {
                bytes: 123,
                max: 100
            })
        ),
        "{full:?}"
    );
    change(&store, &owner, set("c", b"")).await.unwrap();
    let full = change(&store, &owner, set("d", b"")).await;
    assert!(
        matches!(full, Err(StateError::TooManyKeys { keys: 4, max: 3 })),
        "{full:?}"
    );

    let lowered = StateQuota { bytes: 10, keys: 1 };
    let smaller = store.change_state(owner.clone(), set("a", &[0; 30]), lowered);
    assert!(smaller.await.unwrap());
    let larger = store.change_state(owner.clone(), set("a", &[0; 31]), lowered);
    assert!(larger.await.is_err());
}

#[tokio::test]
async fn keys_are_listed_page_by_page() {
    let bench = Bench::new();
    let store = bench.open();
    let owner = owner("acme", "a");
    let quota = StateQuota {
        bytes: 1 << 20,
        keys: 3_000,
    };
    let changes = (0..1_500)
        .map(|number| store.change_state(owner.clone(), set(&format!("k{number:04}"), b""), quota));
    for changed in futures_util::future::join_all(changes).await {
        assert!(changed.unwrap());
    }
    let first = store.state_keys(&owner, "k", None).unwrap();
    assert_eq!(first.len(), 1_000);
    let second = store.state_keys(&owner, "k", first.last().map(String::as_str));
    assert_eq!(second.unwrap().len(), 500);
    assert_eq!(store.state_keys(&owner, "k149", None).unwrap().len(), 10);
    let none = store.state_keys(&owner, "k", Some("z")).unwrap();
    assert!(none.is_empty());
}

#[tokio::test]
async fn a_change_counts_when_it_is_committed_and_not_before() {
    let medium = Medium::new();
    let (store, hand) = medium.open(Clock::system());
    let owner = owner("acme", "a");
    let changed = change(&store, &owner, set("k", b"v"));
    let mut changed = std::pin::pin!(changed);
    assert!(futures_util::poll!(&mut changed).is_pending());
    assert_eq!(store.state(&owner, "k").unwrap(), None);
    // Dropped with what it was told: a crash.
    drop(hand);
    let (store, mut hand) = medium.open(Clock::system());
    assert_eq!(store.state(&owner, "k").unwrap(), None);
    let changed = change(&store, &owner, set("k", b"v"));
    let mut changed = std::pin::pin!(changed);
    assert!(futures_util::poll!(&mut changed).is_pending());
    hand.commit(10);
    assert!(changed.await.unwrap());
    assert_eq!(store.state(&owner, "k").unwrap(), Some(b"v".to_vec()));
    assert!(medium.check().is_sound());
}

#[tokio::test]
async fn state_is_forgotten_by_plugin_and_tenant_and_by_nothing_else() {
    let bench = Bench::new();
    let store = bench.open();
    let owners = [owner("acme", "a"), owner("acme", "b"), owner("globex", "a")];
    for owner in &owners {
        change(&store, owner, set("k", b"v")).await.unwrap();
    }
    drop(store);
    assert!(check(bench.path()).unwrap().is_sound());
    let acme = TenantId::parse("acme").unwrap();
    assert_eq!(forget_state(bench.path(), "a", Some(&acme)).unwrap(), 1);
    let left = state_usages(bench.path()).unwrap();
    let one = StateUsage { bytes: 2, keys: 1 };
    assert_eq!(
        left.into_iter().collect::<Vec<_>>(),
        [(owners[1].clone(), one), (owners[2].clone(), one)]
    );
    let store = bench.try_open(options()).unwrap();
    assert_eq!(store.state(&owners[1], "k").unwrap(), Some(b"v".to_vec()));
}
