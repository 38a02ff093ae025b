//! JSON text that guests hand over: checked, and on one line. Parsing it into values would change
//! numbers that have no `f64`, so the text stays what the guest wrote.

use serde_json::value::RawValue;

/// The text without whitespace between its tokens, or what is wrong with it.
pub(super) fn compact(text: &str) -> Result<Box<RawValue>, String> {
    // Bounds the nesting, too.
    serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|error| error.to_string())?;
    RawValue::from_string(without_whitespace(text)).map_err(|error| error.to_string())
}

/// As [`compact`], for what must be an object.
pub(super) fn compact_object(text: &str) -> Result<Box<RawValue>, String> {
    let value = compact(text)?;
    if value.get().starts_with('{') {
        Ok(value)
    } else {
        Err("it is not a JSON object".to_owned())
    }
}

/// A line break inside valid JSON can only be between tokens: strings escape theirs.
fn without_whitespace(text: &str) -> String {
    let mut compacted = String::with_capacity(text.len());
    let (mut is_in_string, mut is_escaped) = (false, false);
    for character in text.chars() {
        if !is_in_string && character.is_ascii_whitespace() {
            continue;
        }
        compacted.push(character);
        if is_in_string && is_escaped {
            is_escaped = false;
        } else if is_in_string && character == '\\' {
            is_escaped = true;
        } else if character == '"' {
            is_in_string = !is_in_string;
        }
    }
    compacted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whitespace_goes_and_text_stays() {
        let text = "{ \"a b\\\" c\" :\n [1.0000000000000000001, 18446744073709551616 ] }";
        assert_eq!(
            compact(text).unwrap().get(),
            r#"{"a b\" c":[1.0000000000000000001,18446744073709551616]}"#
        );
    }

    #[test]
    fn what_is_not_json_is_refused() {
        let deep = "[".repeat(10_000);
        for text in ["", "{", "{} {}", "nan", "{\"a\":01}", deep.as_str()] {
            assert!(compact(text).is_err(), "{text:.20}");
        }
        assert!(compact_object("[]").is_err());
        assert!(compact_object(" {}").is_ok());
    }
}
