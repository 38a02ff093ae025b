//! Keys come back as they were made, and are where ranges look for them.

use super::*;

fn key(tenant: &str, id: &str) -> TaskKey {
    TaskKey {
        tenant: TenantId::parse(tenant).unwrap(),
        id: TaskId::parse(id).unwrap(),
    }
}

#[test]
fn index_keys_are_read_back() {
    let key = key("acme", "a-1");
    assert_eq!(read_named(&named(RUNNING, &key)), Some(key.clone()));
    assert_eq!(
        read_timed(&timed(EXPIRY, Timestamp(u64::MAX), &key)),
        Some(key)
    );
}

#[test]
fn no_task_is_in_the_range_of_another() {
    let short = key("acme", "a");
    let long = key("acme", "ab");
    for prefix in bodies(&short) {
        for slot in [Slot::Arguments, Slot::Step("x".into())] {
            assert!(!body(&long, &slot).starts_with(&prefix));
        }
    }
}

#[test]
fn a_tenants_range_holds_its_tasks_and_no_others() {
    let holds = |key: &TaskKey, after: Option<&TaskId>| {
        let (from, to) = tasks(&TenantId::parse("acme").unwrap(), after);
        (from..to).contains(&task(key))
    };
    let own = key("acme", "b");
    assert!(holds(&own, None) && holds(&own, Some(&key("acme", "a").id)));
    assert!(!holds(&own, Some(&own.id)));
    for other in ["acm", "acme-2", "acmf"] {
        assert!(!holds(&key(other, "b"), None), "{other}");
    }
}

#[test]
fn both_sides_of_an_input_are_read_back() {
    let input = InputKey::parse("deploy?").unwrap();
    let key = key("acme", "a");
    let question = body(&key, &Slot::Question(input.clone()));
    let answer = body(&key, &Slot::Answer(input.clone()));
    assert_eq!(read_input(&question), Some((input.clone(), Side::Question)));
    assert_eq!(read_input(&answer), Some((input, Side::Answer)));
}

#[test]
fn a_long_step_name_makes_a_short_key() {
    let key = key("acme", "a");
    let long = body(&key, &Slot::Step("x".repeat(1 << 20)));
    let other = body(&key, &Slot::Step("y".repeat(1 << 20)));
    assert!(long.len() < 100);
    assert_ne!(long, other);
}

#[test]
fn times_sort_as_numbers() {
    let key = key("acme", "a");
    let early = timed(EXPIRY, Timestamp(255), &key);
    let late = timed(EXPIRY, Timestamp(256), &key);
    assert!(early < expired_end(EXPIRY, Timestamp(255)));
    assert!(late >= expired_end(EXPIRY, Timestamp(255)));
}
