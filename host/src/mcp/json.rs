//! A message's JSON before any of its members means something: how deep it nests, and what a piece is
//! that was left unread. It must not know what a member is for.

use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::error::Refusal;

/// How deep a message may nest. serde_json gives up at 128, but only where it builds values.
const DEPTH_MAX: usize = 100;

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

fn is_deeper_than(json: &[u8], max: usize) -> bool {
    // Most messages open too few brackets in all, and counting is many bytes at a time.
    let opening = json.iter().filter(|byte| matches!(byte, b'{' | b'['));
    if opening.count() <= max {
        return false;
    }
    let mut depth = 0usize;
    let mut is_string = false;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if is_string => {
                bytes.next();
            }
            b'"' => is_string = !is_string,
            b'{' | b'[' if !is_string => {
                depth += 1;
                if depth > max {
                    return true;
                }
            }
            b'}' | b']' if !is_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}
