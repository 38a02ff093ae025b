//! What is wrong with a value, in words for whoever sent it: where, what, and never much of the
//! value itself.

use std::collections::BTreeSet;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value};

use super::Mismatch;

/// Findings told of one value.
const FINDINGS_MAX: usize = 10;

/// Values within a small one.
const PARTS_SMALL: usize = 200;

/// How much of a value a finding shows, characters.
const VALUE_CHARS_MAX: usize = 80;

/// How long one finding may be, characters.
const FINDING_CHARS_MAX: usize = 400;

/// The findings so far and the validator's, or nothing wrong.
pub(super) fn report(
    mut findings: Vec<String>,
    validator: &Validator,
    value: &Value,
) -> Result<(), Mismatch> {
    // The validator makes every error before it tells the first: with an alternative for each part
    // of a large value that is gigabytes.
    if is_small(value) {
        for error in validator.iter_errors(value).take(FINDINGS_MAX) {
            findings.extend(lines(&error));
        }
    } else if let Err(error) = validator.validate(value) {
        findings.extend(lines(&error));
    }
    findings.truncate(FINDINGS_MAX);
    match findings.is_empty() {
        true => Ok(()),
        false => Err(Mismatch(findings)),
    }
}

/// Whether all of a value's faults may be looked for, and on the thread that answers.
pub(super) fn is_small(value: &Value) -> bool {
    fn count(value: &Value, left: &mut usize) -> bool {
        if *left == 0 {
            return false;
        }
        *left -= 1;
        match value {
            Value::Array(items) => items.iter().all(|item| count(item, left)),
            Value::Object(members) => members.values().all(|member| count(member, left)),
            _ => true,
        }
    }
    count(value, &mut PARTS_SMALL.clone())
}

/// The members of `object` that are none of `members`.
pub(super) fn unknown(object: &Map<String, Value>, members: &BTreeSet<String>) -> Vec<String> {
    let known = match members.is_empty() {
        true => "; none are taken".to_owned(),
        false => {
            let names: Vec<_> = members.iter().map(String::as_str).collect();
            format!("; known are {}", names.join(", "))
        }
    };
    let unknown = object.keys().filter(|name| !members.contains(*name));
    unknown
        .take(FINDINGS_MAX)
        .map(|name| line("", Some(name), &format!("is not known{known}")))
        .collect()
}

/// A path as it is shown: the root is `/`.
pub(super) fn path(pointer: &str) -> String {
    match pointer {
        "" => "/".to_owned(),
        pointer => clip(pointer, FINDING_CHARS_MAX / 2),
    }
}

/// What an error says, with little of the value.
pub(super) fn message(error: &ValidationError<'_>) -> String {
    let value = clip(&error.instance().to_string(), VALUE_CHARS_MAX);
    clip(&error.masked_with(value).to_string(), FINDING_CHARS_MAX)
}

/// `text` cut to `max` characters.
pub(super) fn clip(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// One finding for each thing an error names.
fn lines(error: &ValidationError<'_>) -> Vec<String> {
    let at = error.instance_path().as_str();
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            vec![line(at, property.as_str(), "is missing")]
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => unexpected
            .iter()
            .take(FINDINGS_MAX)
            .map(|name| line(at, Some(name), "is not known"))
            .collect(),
        // Its text holds the name, which the sender chose and may be of any length.
        ValidationErrorKind::PropertyNames { error } => {
            vec![line(
                at,
                None,
                &format!("a member's name: {}", message(error)),
            )]
        }
        ValidationErrorKind::FalseSchema => vec![line(at, None, "nothing is allowed here")],
        _ => vec![line(at, None, &message(error))],
    }
}

fn line(at: &str, member: Option<&str>, what: &str) -> String {
    let pointer = match member {
        None => at.to_owned(),
        Some(name) => {
            let name = clip(name, VALUE_CHARS_MAX);
            format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"))
        }
    };
    clip(&format!("{}: {what}", path(&pointer)), FINDING_CHARS_MAX)
}
