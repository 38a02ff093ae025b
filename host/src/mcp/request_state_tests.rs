//! What a sealed state survives, and what it does not.

use super::*;
use proptest::prelude::*;
use serde_json::json;

const START: Timestamp = Timestamp(1_800_000_000_000);

fn sealer() -> (Sealer, Clock) {
    let clock = Clock::manual(START);
    (Sealer::new([7; 32], clock.clone()), clock)
}

fn arguments(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
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
    let again: Map<String, Value> = first.clone().into_iter().rev().collect();
    let binding = |arguments| Binding {
        tenant: &tenant,
        method: "tools/call",
        tool: "deploy",
        arguments,
    };
    let state = sealer.seal(&binding(&first), &saved()).unwrap();
    assert_eq!(sealer.open(&binding(&again), &state).unwrap(), saved());
    assert_ne!(
        state,
        sealer.seal(&binding(&first), &saved()).unwrap(),
        "no nonce is used twice"
    );
}

#[test]
fn a_state_of_another_tenant_tool_call_or_key_is_refused() {
    let (sealer, clock) = sealer();
    let (ours, theirs) = (TenantId::local(), TenantId::parse("other").unwrap());
    let given = arguments(json!({"a": 1}));
    let binding = || Binding {
        tenant: &ours,
        method: "tools/call",
        tool: "deploy",
        arguments: &given,
    };
    let state = sealer.seal(&binding(), &saved()).unwrap();
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
        assert!(sealer.open(&other, &state).is_err(), "{what}");
    }
    let stranger = Sealer::new([8; 32], clock);
    assert!(stranger.open(&binding(), &state).is_err());
}

#[test]
fn a_state_with_any_letter_changed_added_or_missing_is_refused() {
    let (sealer, _) = sealer();
    let (tenant, none) = (TenantId::local(), Map::new());
    let binding = Binding {
        tenant: &tenant,
        method: "tools/call",
        tool: "deploy",
        arguments: &none,
    };
    let state = sealer.seal(&binding, &saved()).unwrap();
    let mut bytes = URL_SAFE_NO_PAD.decode(&state).unwrap();
    for index in 0..bytes.len() {
        for bit in 0..8 {
            bytes[index] ^= 1 << bit;
            let changed = URL_SAFE_NO_PAD.encode(&bytes);
            assert!(sealer.open(&binding, &changed).is_err(), "byte {index}");
            bytes[index] ^= 1 << bit;
        }
    }
    for length in 0..state.len() {
        assert!(sealer.open(&binding, &state[..length]).is_err(), "{length}");
    }
    for tail in ["A", "-TAMPERED", "=", " ", "\n"] {
        assert!(sealer.open(&binding, &format!("{state}{tail}")).is_err());
    }
    assert!(
        sealer
            .open(&binding, &"A".repeat(STATE_MAX_BYTES * 2))
            .is_err()
    );
    assert!(sealer.open(&binding, "").is_err());
}

#[test]
fn a_state_lives_ten_minutes() {
    let (sealer, clock) = sealer();
    let (tenant, none) = (TenantId::local(), Map::new());
    let binding = Binding {
        tenant: &tenant,
        method: "tools/call",
        tool: "deploy",
        arguments: &none,
    };
    let state = sealer.seal(&binding, &saved()).unwrap();
    clock.advance(LIFETIME - Duration::from_millis(1));
    assert!(sealer.open(&binding, &state).is_ok());
    clock.advance(Duration::from_millis(1));
    let refusal = sealer.open(&binding, &state).unwrap_err();
    assert!(refusal.to_string().contains("expired, 10 minutes after"));
}

#[test]
fn a_state_beyond_the_limit_is_not_given_out() {
    let (sealer, _) = sealer();
    let (tenant, none) = (TenantId::local(), Map::new());
    let binding = Binding {
        tenant: &tenant,
        method: "tools/call",
        tool: "deploy",
        arguments: &none,
    };
    let large = Saved {
        checkpoint: Some(vec![0; STATE_MAX_BYTES]),
        ..Saved::default()
    };
    assert!(matches!(
        sealer.seal(&binding, &large),
        Err(Refusal::StateTooLarge { .. })
    ));
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
        prop_assert_eq!(decode(&encode(Timestamp(at), &saved)), Some((Timestamp(at), saved)));
    }

    #[test]
    fn no_bytes_make_the_codec_panic(bytes in any::<Vec<u8>>()) {
        let _ = decode(&bytes);
    }
}
