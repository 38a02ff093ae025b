//! `key=value` arguments, typed by the tool's input schema. Pure.

use serde_json::{Map, Value};

use super::text;

/// Names of arguments shown of one tool.
const SYNOPSIS_MAX_CHARS: usize = 400;

/// Properties deeper than this many references are taken as they come.
const REFERENCES_MAX: usize = 16;

/// Builds a tool's arguments from `key=value` words. The error is for the person who wrote them.
pub fn from_words(words: &[String], schema: &Value) -> Result<Map<String, Value>, String> {
    let mut arguments = Map::new();
    for word in words {
        let (key, text) = split(word)?;
        let property = property(schema, key)?;
        let kinds = property
            .map(|property| kinds(property, schema))
            .unwrap_or_default();
        let value = typed(text, &kinds)
            .map_err(|wanted| format!("`{key}` takes {wanted}, and `{text}` is none"))?;
        match (arguments.get_mut(key), value) {
            (Some(Value::Array(items)), Value::Array(more)) => items.extend(more),
            (Some(_), _) => return Err(format!("`{key}` is given twice")),
            (None, value) => {
                arguments.insert(key.to_owned(), value);
            }
        }
    }
    let missing = required(schema);
    let missing = missing
        .iter()
        .filter(|name| !arguments.contains_key(**name));
    let missing: Vec<String> = missing
        .map(|name| format!("`{}`", text::name(name)))
        .collect();
    match missing.is_empty() {
        true => Ok(arguments),
        false => Err(format!(
            "the tool needs {}; it takes {}",
            text::plain_line(&missing.join(" and "), SYNOPSIS_MAX_CHARS),
            of_schema(schema)
        )),
    }
}

/// Builds a prompt's arguments, which are texts whatever they look like.
pub fn texts(words: &[String]) -> Result<Map<String, Value>, String> {
    let mut arguments = Map::new();
    for word in words {
        let (key, text) = split(word)?;
        if arguments.insert(key.to_owned(), text.into()).is_some() {
            return Err(format!("`{key}` is given twice"));
        }
    }
    Ok(arguments)
}

/// A word's name and value.
pub fn split(word: &str) -> Result<(&str, &str), String> {
    word.split_once('=')
        .ok_or_else(|| format!("`{word}` is not KEY=VALUE"))
}

/// Types `text` for a property of a form, whose schema is flat.
pub fn typed_for(text: &str, property: &Value) -> Result<Value, String> {
    typed(text, &kinds(property, property)).map_err(|wanted| format!("{wanted}, not `{text}`"))
}

/// The properties that an object's schema requires.
pub fn required(schema: &Value) -> Vec<&str> {
    let names = schema["required"].as_array().into_iter().flatten();
    names.filter_map(Value::as_str).collect()
}

/// What an object's schema takes, in the words of [`synopsis`].
pub fn of_schema(schema: &Value) -> String {
    let required = required(schema);
    let names = schema["properties"].as_object().into_iter().flatten();
    let names = names.map(|(name, _)| name.as_str());
    synopsis(names.map(|name| (name, required.contains(&name))))
}

/// Names and whether each must be given, as `file= group_by= [measures=]`.
pub fn synopsis<'a>(arguments: impl Iterator<Item = (&'a str, bool)>) -> String {
    let (required, optional): (Vec<_>, Vec<_>) = arguments.partition(|(_, required)| *required);
    let required = required.into_iter().map(|(name, _)| format!("{name}="));
    let optional = optional.into_iter().map(|(name, _)| format!("[{name}=]"));
    let words: Vec<String> = required.chain(optional).collect();
    text::plain_line(&words.join(" "), SYNOPSIS_MAX_CHARS)
}

/// The schema of `key`; None where the tool takes what it did not declare.
fn property<'a>(schema: &'a Value, key: &str) -> Result<Option<&'a Value>, String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    if let Some(property) = properties.and_then(|properties| properties.get(key)) {
        return Ok(Some(property));
    }
    if schema.get("additionalProperties") != Some(&Value::Bool(false)) && properties.is_none() {
        return Ok(None);
    }
    let known: Vec<&str> = properties
        .into_iter()
        .flat_map(|properties| properties.keys().map(String::as_str))
        .collect();
    Err(match known.is_empty() {
        true => format!("the tool takes no arguments, so no `{key}`"),
        false => format!(
            "the tool has no argument `{key}`; it has {}",
            text::plain_line(&known.join(", "), SYNOPSIS_MAX_CHARS)
        ),
    })
}

/// The JSON types a schema allows, looked up through references and alternatives.
fn kinds(schema: &Value, root: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect_kinds(schema, root, REFERENCES_MAX, &mut found);
    found
}

fn collect_kinds(schema: &Value, root: &Value, depth: usize, found: &mut Vec<String>) {
    let Some(deeper) = depth.checked_sub(1) else {
        return;
    };
    let mut add = |kind: &str| {
        if !found.iter().any(|known| known == kind) {
            found.push(kind.to_owned());
        }
    };
    match schema.get("type") {
        Some(Value::String(kind)) => add(kind),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).for_each(add),
        _ => {
            let options = schema.get("enum").and_then(Value::as_array);
            let fixed = options.into_iter().flatten().chain(schema.get("const"));
            fixed.for_each(|value| add(kind_of(value)));
        }
    }
    let target = schema
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|reference| root.pointer(reference.strip_prefix('#')?));
    let alternatives = ["anyOf", "oneOf", "allOf"]
        .into_iter()
        .filter_map(|word| schema.get(word)?.as_array())
        .flatten();
    for schema in target.into_iter().chain(alternatives) {
        collect_kinds(schema, root, deeper, found);
    }
}

/// Reads `text` as the first of `kinds` that it can be; the error names what it should be.
fn typed(text: &str, kinds: &[String]) -> Result<Value, String> {
    let allows = |kind: &str| kinds.iter().any(|allowed| allowed == kind);
    let parsed: Option<Value> = serde_json::from_str(text).ok();
    if kinds.is_empty() {
        return Ok(parsed.unwrap_or_else(|| Value::String(text.to_owned())));
    }
    if let Some(value) = parsed {
        let kind = kind_of(&value);
        let is_number = matches!(value, Value::Number(_)) && allows("number");
        // `name=null` to a text argument that may be null is rather the text.
        let is_text = kind == "string" || (kind == "null" && allows("string"));
        if !is_text && (allows(kind) || is_number) {
            return Ok(value);
        }
    }
    if allows("string") {
        return Ok(Value::String(text.to_owned()));
    }
    if allows("array") {
        return Ok(Value::Array(vec![
            serde_json::from_str(text).unwrap_or(text.into()),
        ]));
    }
    Err(kinds
        .iter()
        .map(|kind| text::name(describe(kind)))
        .collect::<Vec<_>>()
        .join(" or "))
}

fn describe(kind: &str) -> &str {
    match kind {
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "object" => "a JSON object",
        other => other,
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "name": { "type": "string" },
                "count": { "type": "integer" },
                "ratio": { "type": "number" },
                "deep": { "type": "boolean" },
                "note": { "type": ["string", "null"] },
                "tags": { "type": "array", "items": { "type": "string" } },
                "mode": { "$ref": "#/$defs/Mode" },
                "filter": { "anyOf": [{ "$ref": "#/$defs/Filter" }, { "type": "null" }] },
            },
            "additionalProperties": false,
            "$defs": {
                "Mode": { "enum": ["fast", "full"] },
                "Filter": { "type": "object" },
                "Loop": { "$ref": "#/$defs/Loop" },
            },
        })
    }

    fn build(words: &[&str]) -> Result<Value, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        from_words(&words, &schema()).map(Value::Object)
    }

    #[test]
    fn a_value_gets_the_type_of_its_property() {
        let table = [
            (&["name=42"][..], json!({ "name": "42" })),
            (&["name=\"quoted\""], json!({ "name": "\"quoted\"" })),
            (&["name=a=b"], json!({ "name": "a=b" })),
            (&["name="], json!({ "name": "" })),
            (&["count=42"], json!({ "count": 42 })),
            (&["ratio=2"], json!({ "ratio": 2 })),
            (&["ratio=0.5"], json!({ "ratio": 0.5 })),
            (&["deep=true"], json!({ "deep": true })),
            (&["note=null"], json!({ "note": "null" })),
            (&["tags=[\"a\",\"b\"]"], json!({ "tags": ["a", "b"] })),
            (&["tags=a", "tags=b"], json!({ "tags": ["a", "b"] })),
            (&["mode=fast"], json!({ "mode": "fast" })),
            (&["filter={\"a\":1}"], json!({ "filter": { "a": 1 } })),
            (&["filter=null"], json!({ "filter": null })),
        ];
        for (words, expected) in table {
            assert_eq!(build(words), Ok(expected), "{words:?}");
        }
    }

    #[test]
    fn a_value_of_another_type_is_refused_with_what_would_fit() {
        assert_snapshot!(build(&["count=many"]).unwrap_err(), @"`count` takes a whole number, and `many` is none");
        assert_snapshot!(build(&["count=1.5"]).unwrap_err(), @"`count` takes a whole number, and `1.5` is none");
        assert_snapshot!(build(&["deep=yes"]).unwrap_err(), @"`deep` takes true or false, and `yes` is none");
        assert_snapshot!(build(&["filter=x"]).unwrap_err(), @"`filter` takes a JSON object or null, and `x` is none");
        assert_snapshot!(build(&["nam=x"]).unwrap_err(), @"the tool has no argument `nam`; it has count, deep, filter, mode, name, note, ratio, tags");
        assert_snapshot!(build(&["name"]).unwrap_err(), @"`name` is not KEY=VALUE");
        assert_snapshot!(build(&["name=a", "name=b"]).unwrap_err(), @"`name` is given twice");
    }

    #[test]
    fn what_a_tool_needs_is_told_before_it_is_called() {
        let schema = json!({
            "properties": { "deep": {}, "from": {}, "to": {} }, "required": ["from", "to"],
        });
        let error = from_words(&["to=b".to_owned()], &schema).unwrap_err();
        assert_snapshot!(error, @"the tool needs `from`; it takes from= to= [deep=]");
        let error = from_words(&[], &schema).unwrap_err();
        assert_snapshot!(error, @"the tool needs `from` and `to`; it takes from= to= [deep=]");
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let root = schema();
        assert!(kinds(&json!({ "$ref": "#/$defs/Loop" }), &root).is_empty());
    }

    #[test]
    fn a_tool_that_declares_nothing_takes_what_it_gets() {
        let words = ["a=1".to_owned(), "b=x".to_owned()];
        let arguments = from_words(&words, &json!({ "type": "object" })).unwrap();
        assert_eq!(Value::Object(arguments), json!({ "a": 1, "b": "x" }));
    }
}
