//! Harm that property tests do to what is whole: to bytes, and to JSON whose shape stays JSON, so that
//! a reader is harmed deep inside and not only at its first look. It knows nothing of what it harms,
//! and only tests name it.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

/// Something that is put into bytes at a place, and how many bytes it takes the place of.
pub type Edit = (Index, usize, Vec<u8>);

/// What is done to one value inside another.
#[derive(Clone, Debug)]
pub enum Change {
    Replace(Value),
    /// With a copy of a value from elsewhere in the same whole.
    Copy(Index),
    /// A member or an item of it is taken away.
    Remove(Index),
    /// A member of it gets another name.
    Rename(Index, String),
    /// It goes down so many levels.
    Nest(String, usize),
}

pub fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let tokens = [
        "{",
        "}",
        "[",
        "]",
        "\"",
        ",",
        ":",
        "null",
        "1e9",
        "-",
        "\\u0000",
        "\\ud800",
        "\"id\":2,",
        "\"params\":{},",
        "\"method\":\"tools/list\",",
        "\"_meta\":{},",
        " ",
        "=?base64?",
        "?=",
        "\u{feff}",
    ];
    let piece = prop_oneof![
        select(tokens.to_vec()).prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
        (1_usize..150).prop_map(|depth| vec![b'['; depth]),
    ];
    prop::collection::vec((any::<Index>(), 0_usize..4, piece), 0..4)
}

pub fn edited(whole: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for (at, taken, put) in edits {
        let at = at.index(bytes.len() + 1);
        let end = (at + taken).min(bytes.len());
        bytes.splice(at..end, put.iter().copied());
    }
    bytes
}

/// Changes whose values and names are often some of `words`, which mean something to the reader.
pub fn changes(words: &'static [&'static str]) -> impl Strategy<Value = Vec<(Index, Change)>> {
    let name = prop_oneof![3 => select(words).prop_map(str::to_owned), 1 => ".{0,6}"];
    let value = prop_oneof![
        name.clone().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-2_i64..3).prop_map(Value::from),
        Just(Value::Null),
        Just(json!([])),
        Just(json!({})),
    ];
    let change = prop_oneof![
        value.prop_map(Change::Replace),
        any::<Index>().prop_map(Change::Copy),
        any::<Index>().prop_map(Change::Remove),
        (any::<Index>(), name.clone()).prop_map(|(which, name)| Change::Rename(which, name)),
        (name, 1_usize..40).prop_map(|(name, levels)| Change::Nest(name, levels)),
    ];
    prop::collection::vec((any::<Index>(), change), 0..5)
}

pub fn changed(whole: &Value, changes: &[(Index, Change)]) -> Value {
    let mut whole = whole.clone();
    for (at, change) in changes {
        let count = count(&whole);
        let copied = match change {
            Change::Copy(from) => nth(&mut whole, &mut from.index(count)).cloned(),
            _ => None,
        };
        let Some(value) = nth(&mut whole, &mut at.index(count)) else {
            continue;
        };
        match (change, copied) {
            (Change::Copy(_), Some(copied)) => *value = copied,
            (Change::Copy(_), None) => {}
            (Change::Replace(other), _) => *value = other.clone(),
            (Change::Remove(which), _) => remove(value, which),
            (Change::Rename(which, name), _) => rename(value, which, name),
            (Change::Nest(name, levels), _) => {
                for _ in 0..*levels {
                    *value = Value::Object(Map::from_iter([(name.clone(), value.take())]));
                }
            }
        }
    }
    whole
}

/// How many of 300 pieces of harm are taken, the same in every run: where all are refused, only the
/// reader's first look is tested.
pub fn count_taken<V>(harm: impl Strategy<Value = V>, is_taken: impl Fn(V) -> bool) -> usize {
    let mut runner = TestRunner::deterministic();
    (0..300)
        .filter(|_| {
            let tree = harm.new_tree(&mut runner);
            is_taken(tree.expect("none is filtered out").current())
        })
        .count()
}

/// How many values there are, one inside another.
fn count(value: &Value) -> usize {
    let inside: usize = match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    };
    inside + 1
}

fn nth<'a>(value: &'a mut Value, left: &mut usize) -> Option<&'a mut Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, left)),
        Value::Object(members) => members.values_mut().find_map(|member| nth(member, left)),
        _ => None,
    }
}

fn remove(value: &mut Value, which: &Index) {
    match value {
        Value::Array(items) if !items.is_empty() => drop(items.remove(which.index(items.len()))),
        Value::Object(members) => {
            if let Some(name) = name_of(members, which) {
                members.remove(&name);
            }
        }
        _ => {}
    }
}

fn rename(value: &mut Value, which: &Index, name: &str) {
    let Value::Object(members) = value else {
        return;
    };
    if let Some(member) = name_of(members, which).and_then(|old| members.remove(&old)) {
        members.insert(name.to_owned(), member);
    }
}

fn name_of(members: &Map<String, Value>, which: &Index) -> Option<String> {
    match members.len() {
        0 => None,
        count => members.keys().nth(which.index(count)).cloned(),
    }
}
