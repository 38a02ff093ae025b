//! What is typed for a field on one line, and whether it fits.

use std::io;

use dialoguer::Input;
use dialoguer::theme::ColorfulTheme;
use serde_json::{Number, Value};

use super::to_io;
use crate::cli::asked::bounds;
use crate::cli::questions::{Field, FieldKind};
use crate::cli::text;

/// Of a default, as it is shown.
const DEFAULT_MAX_CHARS: usize = 200;

/// None leaves an optional field out.
pub fn ask_line(prompt: &str, field: &Field) -> io::Result<Option<Value>> {
    let checked_field = field.clone();
    let theme = ColorfulTheme::default();
    let input = Input::<String>::with_theme(&theme)
        .with_prompt(with_default(prompt, field))
        .allow_empty(may_be_empty(field))
        .validate_with(move |line: &String| check_line(line, &checked_field));
    let line = input.interact_text().map_err(to_io)?;
    match line.is_empty() && may_be_empty(field) {
        true => Ok(field.default.clone()),
        false => Ok(parse_line(&line, field).ok()),
    }
}

/// The prompt with what an empty line stands for, in words that don't drive the terminal: what is sent
/// is the default itself.
fn with_default(prompt: &str, field: &Field) -> String {
    let Some(default) = &field.default else {
        return prompt.to_owned();
    };
    let default = match default.as_str() {
        Some(default) => text::plain_line(default, DEFAULT_MAX_CHARS),
        None => text::plain_line(&default.to_string(), DEFAULT_MAX_CHARS),
    };
    format!("{prompt} [{default}]")
}

fn may_be_empty(field: &Field) -> bool {
    !field.required || field.default.is_some()
}

fn check_line(line: &str, field: &Field) -> Result<(), String> {
    if line.is_empty() && may_be_empty(field) {
        return Ok(());
    }
    parse_line(line, field).map(drop)
}

/// Reads what was typed for a text or number field; the error says what would fit.
fn parse_line(line: &str, field: &Field) -> Result<Value, String> {
    match &field.kind {
        FieldKind::Number {
            integer,
            minimum,
            maximum,
        } => {
            let number = match integer {
                true => line.trim().parse::<i64>().ok().map(Number::from),
                false => line.trim().parse::<f64>().ok().and_then(Number::from_f64),
            };
            let what = if *integer {
                "a whole number"
            } else {
                "a number"
            };
            let number = number.ok_or_else(|| format!("type {what}"))?;
            let value = number.as_f64().unwrap_or_default();
            let fits =
                minimum.is_none_or(|min| value >= min) && maximum.is_none_or(|max| value <= max);
            match fits {
                true => Ok(Value::Number(number)),
                false => Err(format!("type {what}, {}", bounds(*minimum, *maximum))),
            }
        }
        FieldKind::Text {
            min_length,
            max_length,
            format,
        } => {
            let length = line.chars().count();
            if !(*min_length..=*max_length).contains(&length) {
                let max = Some(*max_length).filter(|max| *max < usize::MAX);
                return Err(format!(
                    "type {} characters",
                    bounds(Some(*min_length), max)
                ));
            }
            if format.as_deref() == Some("email") && !line.contains('@') {
                return Err("type an e-mail address".to_owned());
            }
            Ok(Value::String(line.to_owned()))
        }
        _ => Err("this field is chosen, not typed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::questions::form_field;

    #[test]
    fn a_default_is_shown_without_what_drives_the_terminal() {
        let shown = |schema| with_default("name", &form_field(schema));
        let text = json!({ "type": "string", "default": "\u{1b}[2J\u{9b}31ma\u{202e}\nb" });
        assert_eq!(shown(text), "name [[2J31ma b]");
        let number = json!({ "type": "integer", "default": 5 });
        assert_eq!(shown(number), "name [5]");
        assert_eq!(shown(json!({ "type": "string" })), "name");
    }

    #[test]
    fn what_is_typed_is_checked_against_the_field() {
        let age = json!({ "type": "integer", "minimum": 18, "maximum": 99 });
        let name = json!({ "type": "string", "minLength": 2, "maxLength": 3 });
        let mail = json!({ "type": "string", "format": "email" });
        let table = [
            (&age, "18", Ok(json!(18))),
            (&age, "17", Err("type a whole number, from 18 to 99")),
            (&age, "old", Err("type a whole number")),
            (&name, "Ann", Ok(json!("Ann"))),
            (&name, "A", Err("type from 2 to 3 characters")),
            (&mail, "a@b", Ok(json!("a@b"))),
            (&mail, "a", Err("type an e-mail address")),
        ];
        for (schema, line, expected) in table {
            let parsed = parse_line(line, &form_field(schema.clone()));
            assert_eq!(parsed, expected.map_err(str::to_owned), "{line}");
        }
    }
}
