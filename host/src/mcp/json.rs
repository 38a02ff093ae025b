//! A message's JSON before any of its members means something: how deep it nests, and what a piece is
//! that was left unread. It must not know what a member is for.

use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::error::Refusal;

/// How deep a message may nest. serde_json gives up at 128, but only where it builds values.
const DEPTH_MAX: usize = 100;

/// More values than this are many. A check of no more is quick by [`crate::schema`]'s own measure.
const PARTS_FEW: usize = 200;

/// Ids and progress tokens are sent back with every message of a stream.
pub const TOKEN_MAX_BYTES: usize = 1024;

/// A body as text that is not empty and nests no deeper than a message may.
pub fn read_text(body: &[u8]) -> Result<&str, Refusal> {
    let text = std::str::from_utf8(body)
        .map_err(|error| Refusal::NotJson(format!("it is not UTF-8 ({error})")))?
        .trim_ascii();
    if text.is_empty() {
        return Err(Refusal::NotJson("it is empty".into()));
    }
    if is_deeper_than(text.as_bytes(), DEPTH_MAX) {
        return Err(Refusal::NotJson(format!(
            "it nests deeper than {DEPTH_MAX} levels"
        )));
    }
    Ok(text)
}

/// JSON of another shape, or no JSON.
pub fn misfit(error: serde_json::Error) -> Refusal {
    if error.is_data() {
        Refusal::NotARequest(error.to_string())
    } else {
        Refusal::NotJson(error.to_string())
    }
}

/// Reads an object; `at` says in an error where it stands.
pub fn parse<'a, T: Deserialize<'a>>(raw: &'a RawValue, at: &str) -> Result<T, String> {
    // serde would take an array for a struct, field by field.
    if !is_object(raw) {
        return Err(format!("{at} has to be an object"));
    }
    serde_json::from_str(raw.get()).map_err(|error| format!("{at}: {error}"))
}

/// The text of a JSON string; borrowed when nothing in it is escaped. None when it is no string.
pub fn text_of(raw: &RawValue) -> Option<Cow<'_, str>> {
    let json = raw.get();
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(json).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

pub fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

pub fn is_string_or_integer(json: &str) -> bool {
    match json.as_bytes() {
        [b'"', ..] => true,
        [b'-' | b'0'..=b'9', ..] => !json.contains(['.', 'e', 'E']),
        _ => false,
    }
}

/// Keeps `null` apart from a member that is not there.
pub fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Whether JSON is read and checked in no time. What has many parts takes up to a hundred times its
/// bytes when it is read.
pub fn has_few_parts(json: &[u8]) -> bool {
    has_parts_at_most(json, PARTS_FEW)
}

/// Whether there are no more than `max` values in it.
pub fn has_parts_at_most(json: &[u8], max: usize) -> bool {
    let begins_one = |byte: &u8| matches!(byte, b',' | b'{' | b'[');
    // As below: commas in texts count only where there are many.
    json.iter().filter(|byte| begins_one(byte)).count() < max
        || outside_texts(json)
            .filter(begins_one)
            .nth(max - 1)
            .is_none()
}

fn is_deeper_than(json: &[u8], max: usize) -> bool {
    // Most messages open too few brackets in all, and counting is many bytes at a time.
    let opening = json.iter().filter(|byte| matches!(byte, b'{' | b'['));
    if opening.count() <= max {
        return false;
    }
    let mut depth = 0usize;
    outside_texts(json).any(|byte| {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > max
    })
}

/// The bytes that are part of no string.
fn outside_texts(json: &[u8]) -> impl Iterator<Item = u8> {
    let mut is_text = false;
    let mut bytes = json.iter();
    std::iter::from_fn(move || {
        loop {
            match *bytes.next()? {
                b'\\' if is_text => {
                    bytes.next();
                }
                b'"' => is_text = !is_text,
                byte if !is_text => return Some(byte),
                _ => {}
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_texts_is_no_part() {
        let text = serde_json::to_string(&",{[\\\"".repeat(PARTS_FEW)).unwrap();
        assert!(has_few_parts(text.as_bytes()));
        let few = format!("[{}]", vec![&*text; PARTS_FEW - 1].join(","));
        assert!(has_few_parts(few.as_bytes()));
        let many = format!("[{}]", vec![&*text; PARTS_FEW].join(","));
        assert!(!has_few_parts(many.as_bytes()));
    }
}
