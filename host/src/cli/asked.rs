//! What a question asks, in words for whoever answers it later or by a script.

use std::fmt::Display;

use super::questions::{Field, FieldKind, Question, QuestionKind};
use super::text;

/// Choices shown of one field.
const CHOICES_SHOWN: usize = 20;

/// A line for each thing that can be answered: its name and what it takes.
pub fn lines(question: &Question) -> Vec<String> {
    let key = text::name(&question.key);
    match &question.kind {
        QuestionKind::Form(fields) if fields.is_empty() => {
            vec![format!("{key}: a yes, or a no by --decline {key}")]
        }
        QuestionKind::Form(fields) => fields
            .iter()
            .map(|field| format!("{key}.{}: {}", text::name(&field.name), takes(field)))
            .collect(),
        QuestionKind::Url(url) => vec![format!("{key}: a visit to {}", text::plain_line(url, 400))],
        QuestionKind::Other(method) => {
            let method = text::name(method);
            vec![format!("{key}: {method}, which a client answers")]
        }
    }
}

fn takes(field: &Field) -> String {
    let what = match &field.kind {
        FieldKind::Boolean => "true or false".to_owned(),
        FieldKind::One(options) => format!("one of {}", choices(options)),
        FieldKind::Many { options, .. } => format!("a JSON list of {}", choices(options)),
        FieldKind::Number {
            integer,
            minimum,
            maximum,
        } => {
            let what = if *integer {
                "a whole number"
            } else {
                "a number"
            };
            match (minimum, maximum) {
                (None, None) => what.to_owned(),
                _ => format!("{what}, {}", bounds(*minimum, *maximum)),
            }
        }
        FieldKind::Text { format, .. } => format.clone().unwrap_or_else(|| "text".to_owned()),
    };
    let what = match &field.default {
        Some(default) => format!("{what}; {default} if left out"),
        None if field.required => what,
        None => format!("{what}; may be left out"),
    };
    text::plain_line(&what, 600)
}

fn choices(options: &[(String, String)]) -> String {
    let mut shown: Vec<String> = options
        .iter()
        .take(CHOICES_SHOWN)
        .map(|(value, title)| match value == title {
            true => value.clone(),
            false => format!("{value} ({title})"),
        })
        .collect();
    if options.len() > CHOICES_SHOWN {
        shown.push(format!("{} more", options.len() - CHOICES_SHOWN));
    }
    shown.join(", ")
}

pub fn bounds<T: Display>(min: Option<T>, max: Option<T>) -> String {
    match (min, max) {
        (Some(min), Some(max)) => format!("from {min} to {max}"),
        (Some(min), None) => format!("at least {min}"),
        (None, Some(max)) => format!("at most {max}"),
        (None, None) => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::json;

    use super::*;
    use crate::cli::questions::questions;

    #[test]
    fn every_field_says_what_it_takes() {
        let requests = json!({
            "ship": { "method": "elicitation/create", "params": {
                "message": "Ship it?",
                "requestedSchema": { "required": ["channel", "confirm"], "properties": {
                    "channel": { "type": "string", "oneOf": [
                        { "const": "stable", "title": "Stable" }, { "const": "beta" },
                    ] },
                    "percent": { "type": "integer", "minimum": 1, "maximum": 100, "default": 5 },
                    "note": { "type": "string" },
                    "confirm": { "type": "boolean" },
                } },
            } },
            "page": { "method": "elicitation/create", "params": {
                "mode": "url", "url": "https://a.example/", "message": "Log in",
            } },
        });
        let mut told = Vec::new();
        for question in questions(requests.as_object().unwrap()) {
            told.extend(lines(&question));
        }
        assert_snapshot!(told.join("\n"), @r"
        page: a visit to https://a.example/
        ship.channel: one of stable (Stable), beta
        ship.confirm: true or false
        ship.note: text; may be left out
        ship.percent: a whole number, from 1 to 100; 5 if left out
        ");
    }
}
