//! Forms that a tool asks a person to fill in, and what comes back (MCP 2026-07-28, elicitation). A
//! form is flat and its fields are of few kinds, so that every client can show it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Mismatch, SchemaError, compile, findings, object_schema, read};
use crate::plain::drives_display;
use crate::task::{Answer, Ask};

/// Fields of one form.
const FIELDS_MAX: usize = 64;

/// Of a field's name.
const NAME_MAX_CHARS: usize = 128;

/// Choices of one field.
const CHOICES_MAX: usize = 256;

const ROOT_KEYWORDS: [&str; 7] = [
    "$schema",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "title",
    "description",
];

/// What every field may say of itself.
const FIELD_KEYWORDS: [&str; 4] = ["type", "title", "description", "default"];

const TEXT_FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];

/// Checks that a form's schema is one a client can show: flat, primitive properties.
pub fn check_form(schema: &str) -> Result<(), SchemaError> {
    let value = read(schema)?;
    let root = object_schema(&value)?;
    allow_only("", root, &ROOT_KEYWORDS)?;
    let Some(Value::Object(fields)) = root.get("properties") else {
        return refuse(
            "/properties",
            "a form has `properties`, an object of its fields",
        );
    };
    if fields.len() > FIELDS_MAX {
        return refuse(
            "/properties",
            format!("a form has at most {FIELDS_MAX} fields"),
        );
    }
    for (name, field) in fields {
        if name.contains(drives_display) || !(1..=NAME_MAX_CHARS).contains(&name.chars().count()) {
            let name = findings::clip(&name.replace(drives_display, " "), 80);
            return refuse(
                &format!("/properties/{name}"),
                format!(
                    "a field's name is 1 to {NAME_MAX_CHARS} characters, none of which controls a \
                     terminal or the direction of a text"
                ),
            );
        }
        check_field(&format!("/properties/{name}"), field)?;
    }
    if root
        .get("additionalProperties")
        .is_some_and(|v| !v.is_boolean())
    {
        return refuse(
            "/additionalProperties",
            "may only be true or false in a form",
        );
    }
    if let Some(required) = root.get("required") {
        for name in texts("/required", required)? {
            if !fields.contains_key(name) {
                return refuse("/required", format!("`{name}` is not a field"));
            }
        }
    }
    // What the checks above let through is small and flat; this finds what is malformed in it.
    compile(&value, true).map(|_| ())
}

/// Reads a client's response to `ask` (an `ElicitResult`, `CreateMessageResult` or
/// `ListRootsResult`) and checks a form's content against the form. Members of the content that the
/// form does not have are left out.
pub fn read_answer(ask: &Ask, response: &Value) -> Result<Answer, Mismatch> {
    let Value::Object(members) = response else {
        return Err(wrong("/", "the response must be an object"));
    };
    match ask {
        Ask::Form { schema, .. } => match action(members)? {
            Action::Accept => Ok(Answer::Accept(Some(content(schema, members)?))),
            Action::Refused(answer) => Ok(answer),
        },
        Ask::Url { .. } => match action(members)? {
            Action::Accept => Ok(Answer::Accept(None)),
            Action::Refused(answer) => Ok(answer),
        },
        Ask::Sampling(_) => check_message(members).map(|()| Answer::Value(response.to_string())),
        Ask::Roots => check_roots(members).map(|()| Answer::Value(response.to_string())),
    }
}

enum Action {
    Accept,
    Refused(Answer),
}

fn action(members: &Map<String, Value>) -> Result<Action, Mismatch> {
    match members.get("action").and_then(Value::as_str) {
        Some("accept") => Ok(Action::Accept),
        Some("decline") => Ok(Action::Refused(Answer::Decline)),
        Some("cancel") => Ok(Action::Refused(Answer::Dismiss)),
        _ => Err(wrong("/action", "must be `accept`, `decline` or `cancel`")),
    }
}

/// What was filled in, as JSON text that fits the form.
fn content(schema: &str, members: &Map<String, Value>) -> Result<String, Mismatch> {
    // The form was checked when the tool asked; one that is not a form fits nothing.
    let unusable = |error: SchemaError| wrong("/", &format!("the form can't be used: {error}"));
    let form = read(schema).map_err(unusable)?;
    let validator = compile(&form, true).map_err(unusable)?;
    let mut content = match members.get("content") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(content)) => content.clone(),
        Some(_) => return Err(wrong("/content", "must be an object of the form's fields")),
    };
    let is_closed = form["additionalProperties"] == Value::Bool(false);
    if !is_closed {
        content.retain(|name, _| form["properties"].get(name).is_some());
    }
    let content = Value::Object(content);
    findings::report(Vec::new(), &validator, &content)?;
    Ok(content.to_string())
}

fn check_message(members: &Map<String, Value>) -> Result<(), Mismatch> {
    let is_role = matches!(
        members.get("role").and_then(Value::as_str),
        Some("user" | "assistant")
    );
    if !is_role {
        return Err(wrong("/role", "must be `user` or `assistant`"));
    }
    if !members.get("model").is_some_and(Value::is_string) {
        return Err(wrong("/model", "must be the model's name"));
    }
    let is_block = |block: &Value| block.get("type").is_some_and(Value::is_string);
    let is_content = match members.get("content") {
        Some(Value::Array(blocks)) => blocks.iter().all(is_block),
        Some(block) => is_block(block),
        None => false,
    };
    match is_content {
        true => Ok(()),
        false => Err(wrong(
            "/content",
            "must be content with a `type`, or a list of such",
        )),
    }
}

fn check_roots(members: &Map<String, Value>) -> Result<(), Mismatch> {
    let is_root = |root: &Value| root.get("uri").is_some_and(Value::is_string);
    match members.get("roots") {
        Some(Value::Array(roots)) if roots.iter().all(is_root) => Ok(()),
        _ => Err(wrong(
            "/roots",
            "must be a list of roots, each with a `uri`",
        )),
    }
}

fn check_field(at: &str, field: &Value) -> Result<(), SchemaError> {
    let Value::Object(keywords) = field else {
        return refuse(at, "a field is an object with a `type`");
    };
    let kind = keywords.get("type").and_then(Value::as_str);
    let allowed: &[&str] = match kind {
        Some("string") if keywords.contains_key("enum") => {
            check_choices(at, keywords)?;
            &["enum", "enumNames"]
        }
        Some("string") if keywords.contains_key("oneOf") => {
            check_titled(&format!("{at}/oneOf"), &keywords["oneOf"])?;
            &["oneOf"]
        }
        Some("string") => {
            check_format(at, keywords)?;
            &["minLength", "maxLength", "format"]
        }
        // `format` of a number (`uint32`) is what schema generators write; clients pass over it.
        Some("number" | "integer") => &["minimum", "maximum", "format"],
        Some("boolean") => &[],
        Some("array") => {
            check_selection(at, keywords)?;
            &["items", "minItems", "maxItems"]
        }
        _ => {
            return refuse(
                at,
                "a field's `type` is string, number, integer, boolean, or array for a selection; a \
                 field that may be empty is one that is not `required`",
            );
        }
    };
    allow_only(at, keywords, &[&FIELD_KEYWORDS, allowed].concat())?;
    check_default(at, field)
}

fn check_format(at: &str, keywords: &Map<String, Value>) -> Result<(), SchemaError> {
    match keywords.get("format") {
        Some(format) if !TEXT_FORMATS.iter().any(|known| format == known) => refuse(
            &format!("{at}/format"),
            format!("must be one of {}", TEXT_FORMATS.join(", ")),
        ),
        _ => Ok(()),
    }
}

/// A list of choices, with titles in the older way or without.
fn check_choices(at: &str, keywords: &Map<String, Value>) -> Result<(), SchemaError> {
    let choices = choices(&format!("{at}/enum"), &keywords["enum"])?;
    match keywords.get("enumNames") {
        None => Ok(()),
        Some(names) => {
            let at = format!("{at}/enumNames");
            match texts(&at, names)?.len() == choices.len() {
                true => Ok(()),
                false => refuse(&at, "must have as many names as `enum` has values"),
            }
        }
    }
}

/// A list of choices with titles: `{"const": …, "title": …}`.
fn check_titled(at: &str, list: &Value) -> Result<(), SchemaError> {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_titled = |item: &Value| {
        let has = |name| item.get(name).is_some_and(Value::is_string);
        has("const") && has("title")
    };
    if !items.iter().all(is_titled) {
        return refuse(at, "each choice has a `const` and a `title`, both strings");
    }
    let values = items.iter().map(|item| item["const"].clone()).collect();
    choices(at, &Value::Array(values)).map(|_| ())
}

/// A selection of several: an array of choices.
fn check_selection(at: &str, keywords: &Map<String, Value>) -> Result<(), SchemaError> {
    let at = format!("{at}/items");
    match keywords.get("items") {
        Some(Value::Object(items)) if items.contains_key("anyOf") => {
            allow_only(&at, items, &["anyOf", "type"])?;
            check_titled(&format!("{at}/anyOf"), &items["anyOf"])
        }
        Some(Value::Object(items)) if items.contains_key("enum") => {
            allow_only(&at, items, &["enum", "type"])?;
            if items.get("type").is_none_or(|kind| kind != "string") {
                return refuse(&at, "the choices of a selection have the type string");
            }
            choices(&format!("{at}/enum"), &items["enum"]).map(|_| ())
        }
        _ => refuse(
            &at,
            "an array in a form is a selection: `items` with `enum` or `anyOf`",
        ),
    }
}

fn choices<'a>(at: &str, list: &'a Value) -> Result<Vec<&'a str>, SchemaError> {
    let choices = texts(at, list)?;
    let distinct: BTreeSet<&str> = choices.iter().copied().collect();
    if choices.is_empty() || choices.len() > CHOICES_MAX || distinct.len() < choices.len() {
        return refuse(at, format!("must be 1 to {CHOICES_MAX} different choices"));
    }
    Ok(choices)
}

/// A default that does not fit its own field would be sent back and refused.
fn check_default(at: &str, field: &Value) -> Result<(), SchemaError> {
    let Some(default) = field.get("default") else {
        return Ok(());
    };
    let validator = compile(field, true)?;
    findings::report(Vec::new(), &validator, default).map_err(|mismatch| {
        SchemaError(format!("{at}/default: does not fit the field ({mismatch})"))
    })
}

fn texts<'a>(at: &str, list: &'a Value) -> Result<Vec<&'a str>, SchemaError> {
    let items = list.as_array();
    match items.and_then(|items| items.iter().map(Value::as_str).collect()) {
        Some(texts) => Ok(texts),
        None => refuse(at, "must be a list of strings"),
    }
}

fn allow_only(
    at: &str,
    keywords: &Map<String, Value>,
    allowed: &[&str],
) -> Result<(), SchemaError> {
    match keywords.keys().find(|k| !allowed.contains(&k.as_str())) {
        Some(keyword) => {
            let at = format!("{at}/{}", findings::clip(keyword, 80));
            refuse(
                &at,
                format!("is not for forms here; what is: {}", allowed.join(", ")),
            )
        }
        None => Ok(()),
    }
}

fn refuse<T>(at: &str, what: impl AsRef<str>) -> Result<T, SchemaError> {
    Err(SchemaError(format!("{at}: {}", what.as_ref())))
}

fn wrong(at: &str, what: &str) -> Mismatch {
    Mismatch(vec![format!("{at}: {what}")])
}
