//! Whether a JSON value holds at least what another says.
//!
//! Objects: every expected member must be there and match; others may stand beside them. Arrays:
//! the same length, element by element; a last expected element `"..."` lets any more follow.
//! Numbers are compared as numbers (`1` is `1.0`); all else must be equal.

use serde_json::{Number, Value};

/// Differences told of one answer; the rest only repeat the same fault.
pub const DIFFERENCES_MAX: usize = 5;

/// What lets an array go on.
const MORE: &str = "...";

/// One place where the answer is not what was expected.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// JSON pointer (RFC 6901) into the answer.
    pub pointer: String,
    pub expected: String,
    pub actual: String,
}

/// The first places, at most [`DIFFERENCES_MAX`], where `actual` lacks what `expected` says.
pub fn mismatches(expected: &Value, actual: &Value) -> Vec<Mismatch> {
    let mut found = Vec::new();
    compare(expected, actual, &mut String::new(), &mut found);
    found
}

fn compare(expected: &Value, actual: &Value, pointer: &mut String, found: &mut Vec<Mismatch>) {
    if found.len() >= DIFFERENCES_MAX {
        return;
    }
    match (expected, actual) {
        (Value::Object(wanted), Value::Object(present)) => {
            for (key, value) in wanted {
                let end = pointer.len();
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                match present.get(key) {
                    Some(member) => compare(value, member, pointer, found),
                    None => note(found, pointer, value.to_string(), "nothing".to_owned()),
                }
                pointer.truncate(end);
            }
        }
        (Value::Array(wanted), Value::Array(present)) => {
            compare_arrays(wanted, present, pointer, found);
        }
        (Value::Number(wanted), Value::Number(present)) if same_number(wanted, present) => {}
        (wanted, present) if wanted == present => {}
        (wanted, present) => note(found, pointer, wanted.to_string(), present.to_string()),
    }
}

fn compare_arrays(
    wanted: &[Value],
    present: &[Value],
    pointer: &mut String,
    found: &mut Vec<Mismatch>,
) {
    let (wanted, open) = match wanted.split_last() {
        Some((Value::String(last), rest)) if last == MORE => (rest, true),
        _ => (wanted, false),
    };
    let fits = if open {
        present.len() >= wanted.len()
    } else {
        present.len() == wanted.len()
    };
    if !fits {
        let or_more = if open { " or more" } else { "" };
        note(
            found,
            pointer,
            format!("{}{or_more} elements", wanted.len()),
            format!("{} elements", present.len()),
        );
    }
    for (index, (value, element)) in wanted.iter().zip(present).enumerate() {
        let end = pointer.len();
        pointer.push('/');
        pointer.push_str(&index.to_string());
        compare(value, element, pointer, found);
        pointer.truncate(end);
    }
}

/// Whole numbers are compared exactly: as floats, neighbours above 2^53 would be the same.
fn same_number(left: &Number, right: &Number) -> bool {
    if let (Some(left), Some(right)) = (left.as_i64(), right.as_i64()) {
        return left == right;
    }
    if let (Some(left), Some(right)) = (left.as_u64(), right.as_u64()) {
        return left == right;
    }
    left.as_f64() == right.as_f64()
}

fn note(found: &mut Vec<Mismatch>, pointer: &str, expected: String, actual: String) {
    if found.len() < DIFFERENCES_MAX {
        found.push(Mismatch {
            pointer: pointer.to_owned(),
            expected,
            actual,
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_held_matches() {
        let table = [
            (json!({}), json!({"a": 1})),
            (
                json!({"a": {"b": 1}}),
                json!({"a": {"b": 1, "c": 2}, "d": 3}),
            ),
            (json!(1), json!(1.0)),
            (json!(1e3), json!(1000)),
            (json!(u64::MAX), json!(u64::MAX)),
            (json!([]), json!([])),
            (json!([1, {"a": 1}]), json!([1, {"a": 1, "b": 2}])),
            (json!([1, "..."]), json!([1])),
            (json!([1, "..."]), json!([1, 2, 3])),
            (json!(["..."]), json!([])),
            (json!(null), json!(null)),
        ];
        for (expected, actual) in table {
            assert_eq!(mismatches(&expected, &actual), [], "{expected} in {actual}");
        }
    }

    #[test]
    fn what_is_missing_is_named_by_its_pointer() {
        let table = [
            (json!({"a": null}), json!({}), "/a", "null", "nothing"),
            (
                json!({"a": {"b/c~": 1}}),
                json!({"a": {"b/c~": 2}}),
                "/a/b~1c~0",
                "1",
                "2",
            ),
            (json!([1, 2]), json!([1]), "", "2 elements", "1 elements"),
            (
                json!([1, 2, "..."]),
                json!([1]),
                "",
                "2 or more elements",
                "1 elements",
            ),
            (json!([{"a": 1}]), json!([{"a": "1"}]), "/0/a", "1", "\"1\""),
            (json!({"a": []}), json!({"a": {}}), "/a", "[]", "{}"),
            (json!(null), json!(false), "", "null", "false"),
            (
                json!(9_007_199_254_740_993_u64),
                json!(9_007_199_254_740_992_u64),
                "",
                "9007199254740993",
                "9007199254740992",
            ),
        ];
        for (expected, actual, pointer, wanted, present) in table {
            let found = mismatches(&expected, &actual);
            assert_eq!(found.len(), 1, "{expected} in {actual}");
            assert_eq!(found[0].pointer, pointer);
            assert_eq!(found[0].expected, wanted);
            assert_eq!(found[0].actual, present);
        }
    }

    #[test]
    fn only_the_first_differences_are_told() {
        let expected = Value::from((0..100).collect::<Vec<_>>());
        let actual = Value::from((100..200).collect::<Vec<_>>());
        assert_eq!(mismatches(&expected, &actual).len(), DIFFERENCES_MAX);
    }
}
