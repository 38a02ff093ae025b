//! What a sealed state survives, and what it does not.

use super::*;
use proptest::prelude::*;
use serde_json::json;

use crate::clock::Timestamp;
use crate::service::{HeldRound, Saved};
use crate::task::{Answer, ExternalReference, InputKey};

const START: Timestamp = Timestamp(1_800_000_000_000);

/// With keys in memory only: their file is gone.
fn sealer() -> (Sealer, Clock) {
    sealer_in(&tempfile::tempdir().unwrap())
}

fn sealer_in(dir: &tempfile::TempDir) -> (Sealer, Clock) {
    let clock = Clock::manual(START);
    let max_age = Duration::from_secs(3_600);
    let keys = Keyring::open(&dir.path().join("key"), max_age, clock.clone()).unwrap();
    (Sealer::new(keys, clock.clone()), clock)
}

fn content(sealer: &Sealer, left: Left) -> Content {
    Content {
        expires_at: sealer.clock.now().plus(LIFETIME),
        id: [9; 16],
        left: Some(left),
    }
}

fn seal(sealer: &Sealer, binding: &Binding) -> String {
    let content = content(sealer, Left::State(saved()));
    sealer.close(binding, &content.encode())
}

fn arguments(value: Value) -> ArgumentsDigest {
    match value {
        Value::Object(members) => ArgumentsDigest::of(&members),
        other => panic!("{other} is no object"),
    }
}

fn saved() -> Saved {
    let key = |text| InputKey::parse(text).unwrap();
    Saved {
        checkpoint: Some(vec![0, 1, 255]),
        steps: [("sent".to_owned(), b"id 7".to_vec())].into(),
        answers: [
            (key("form"), Answer::Accept(Some(r#"{"a":1}"#.into()))),
            (key("page"), Answer::Accept(None)),
            (key("no"), Answer::Decline),
            (key("closed"), Answer::Dismiss),
            (key("model"), Answer::Value("{}".into())),
        ]
        .into(),
        external_reference: Some(ExternalReference {
            reference: "run 7".into(),
            url: None,
        }),
    }
}

#[test]
fn a_state_comes_back_whole_for_the_same_call() {
    let (sealer, _) = sealer();
    let tenant = TenantId::local();
    let first = arguments(json!({"b": [1, {"y": 2, "x": null}], "a": "text"}));
    // The same arguments, written in another order.
    let again = arguments(json!({"a": "text", "b": [1, {"x": null, "y": 2}]}));
    let binding = |arguments| Binding {
        tenant: &tenant,
        method: "tools/call",
        tool: "deploy",
        arguments,
    };
    let state = seal(&sealer, &binding(&first));
    let read = sealer.read(&binding(&again), &state).unwrap();
    assert_eq!(read, content(&sealer, Left::State(saved())));
    assert_ne!(
        state,
        seal(&sealer, &binding(&first)),
        "no nonce is used twice"
    );
}

#[test]
fn a_state_of_another_tenant_tool_call_or_key_is_refused() {
    let (sealer, _) = sealer();
    let (ours, theirs) = (TenantId::local(), TenantId::parse("other").unwrap());
    let given = arguments(json!({"a": 1}));
    let binding = || Binding {
        tenant: &ours,
        method: "tools/call",
        tool: "deploy",
        arguments: &given,
    };
    let state = seal(&sealer, &binding());
    let changed = arguments(json!({"a": 2}));
    for (what, other) in [
        (
            "tenant (I4)",
            Binding {
                tenant: &theirs,
                ..binding()
            },
        ),
        (
            "method",
            Binding {
                method: "prompts/get",
                ..binding()
            },
        ),
        (
            "tool",
            Binding {
                tool: "deplo",
                ..binding()
            },
        ),
        (
            "arguments",
            Binding {
                arguments: &changed,
                ..binding()
            },
        ),
    ] {
        assert!(sealer.read(&other, &state).is_err(), "{what}");
    }
    let (stranger, _) = super::tests::sealer();
    assert!(stranger.read(&binding(), &state).is_err());
}

#[test]
fn a_state_with_any_letter_changed_added_or_missing_is_refused() {
    let (sealer, _) = sealer();
    let (tenant, none) = (TenantId::local(), arguments(json!({})));
    let binding = Binding {
        tenant: &tenant,
        method: "tools/call",
        tool: "deploy",
        arguments: &none,
    };
    let state = seal(&sealer, &binding);
    let mut bytes = URL_SAFE_NO_PAD.decode(&state).unwrap();
    for index in 0..bytes.len() {
        for bit in 0..8 {
            bytes[index] ^= 1 << bit;
            let changed = URL_SAFE_NO_PAD.encode(&bytes);
            assert!(sealer.read(&binding, &changed).is_err(), "byte {index}");
            bytes[index] ^= 1 << bit;
        }
    }
    for length in 0..state.len() {
        assert!(sealer.read(&binding, &state[..length]).is_err(), "{length}");
    }
    for tail in ["A", "-TAMPERED", "=", " ", "\n"] {
        assert!(sealer.read(&binding, &format!("{state}{tail}")).is_err());
    }
    assert!(
        sealer
            .read(&binding, &"A".repeat(STATE_MAX_BYTES * 2))
            .is_err()
    );
    assert!(sealer.read(&binding, "").is_err());
}

#[test]
fn a_state_lives_ten_minutes() {
    let (sealer, clock) = sealer();
    let (tenant, none) = (TenantId::local(), arguments(json!({})));
    let binding = Binding {
        tenant: &tenant,
        method: "tools/call",
        tool: "deploy",
        arguments: &none,
    };
    let state = seal(&sealer, &binding);
    clock.advance(LIFETIME - Duration::from_millis(1));
    assert!(sealer.read(&binding, &state).is_ok());
    clock.advance(Duration::from_millis(1));
    let refusal = sealer.read(&binding, &state).unwrap_err();
    assert!(refusal.to_string().contains("expired, 10 minutes after"));
}

#[tokio::test]
async fn a_state_sealed_before_a_rotation_opens_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let (sealer, clock) = sealer_in(&dir);
    let (tenant, none) = (TenantId::local(), arguments(json!({})));
    let binding = Binding {
        tenant: &tenant,
        method: "tools/call",
        tool: "deploy",
        arguments: &none,
    };
    clock.advance(Duration::from_secs(3_599));
    let state = seal(&sealer, &binding);
    clock.advance(Duration::from_secs(1));
    sealer.keys.rotate_if_due().await;
    assert_eq!(sealer.keys.usable().len(), 2);
    assert!(sealer.read(&binding, &state).is_ok());
    let newer = seal(&sealer, &binding);
    clock.advance(LIFETIME - Duration::from_secs(1));
    assert!(sealer.read(&binding, &newer).is_ok());
    assert_eq!(sealer.keys.usable().len(), 2);
    clock.advance(Duration::from_secs(1));
    assert_eq!(sealer.keys.usable().len(), 1);
    assert!(sealer.read(&binding, &state).is_err());
}

#[test]
fn names_of_what_waits_elsewhere_come_back_too() {
    for left in [
        None,
        Some(Left::Task(TaskId::from_random([3; 16]))),
        Some(Left::Held(HeldRound {
            process: 1,
            number: u64::MAX,
            until: START,
        })),
    ] {
        let content = Content {
            expires_at: START,
            id: [0xff; 16],
            left,
        };
        assert_eq!(Content::decode(&content.encode()), Some(content));
    }
}

proptest! {
    #[test]
    fn every_state_survives_the_codec(
        checkpoint in proptest::option::of(any::<Vec<u8>>()),
        steps in proptest::collection::btree_map(any::<String>(), any::<Vec<u8>>(), 0..4),
        content in proptest::option::of(any::<String>()),
        reference in proptest::option::of(any::<(String, Option<String>)>()),
        at in any::<u64>(),
    ) {
        let answers = [(InputKey::parse("key").unwrap(), Answer::Accept(content))].into();
        let external_reference =
            reference.map(|(reference, url)| ExternalReference { reference, url });
        let saved = Saved { checkpoint, steps, answers, external_reference };
        prop_assert_eq!(form::decode_saved(&form::encode_saved(&saved)), Some(saved.clone()));
        let content = Content {
            expires_at: Timestamp(at),
            id: [1; 16],
            left: Some(Left::State(saved)),
        };
        prop_assert_eq!(Content::decode(&content.encode()), Some(content));
    }

    #[test]
    fn no_bytes_make_the_codec_panic(bytes in any::<Vec<u8>>()) {
        let _ = Content::decode(&bytes);
        let _ = form::decode_saved(&bytes);
    }
}
