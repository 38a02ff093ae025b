//! JSON Schemas from Rust types: arguments and results in JSON Schema 2020-12, forms in the flat
//! subset that MCP lets a client show.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, RestrictFormats};
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};

/// The schema of a tool's arguments. Unknown arguments are refused unless the type allows them
/// itself, so that a misspelt one is never ignored.
pub(crate) fn input<T: JsonSchema>() -> Value {
    let mut schema = of::<T>(SchemaSettings::draft2020_12().for_deserialize());
    if let Some(object) = schema.as_object_mut() {
        let is_open = object.contains_key("$ref") || object.contains_key("unevaluatedProperties");
        if !is_open && !object.contains_key("additionalProperties") {
            object.insert("additionalProperties".into(), Value::Bool(false));
        }
    }
    schema
}

/// The schema of a tool's structured result.
pub(crate) fn output<T: JsonSchema>() -> Value {
    of::<T>(SchemaSettings::draft2020_12().for_serialize())
}

fn of<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let mut schema = settings
        .with_transform(RecursiveTransform(bound_integers))
        .with_transform(RestrictFormats::default())
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    // The name of a Rust type says nothing to a caller.
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
    }
    schema
}

/// Writes an integer type's range into its schema, which otherwise only names its width.
fn bound_integers(schema: &mut schemars::Schema) {
    let (minimum, maximum) = match schema.get("format").and_then(Value::as_str) {
        Some("int8") => (json!(i8::MIN), json!(i8::MAX)),
        Some("int16") => (json!(i16::MIN), json!(i16::MAX)),
        Some("int32") => (json!(i32::MIN), json!(i32::MAX)),
        Some("int64" | "int") => (json!(i64::MIN), json!(i64::MAX)),
        Some("uint8") => (json!(0), json!(u8::MAX)),
        Some("uint16") => (json!(0), json!(u16::MAX)),
        Some("uint32") => (json!(0), json!(u32::MAX)),
        Some("uint64" | "uint") => (json!(0), json!(u64::MAX)),
        _ => return,
    };
    for (keyword, exclusive, bound) in [
        ("minimum", "exclusiveMinimum", minimum),
        ("maximum", "exclusiveMaximum", maximum),
    ] {
        if schema.get(keyword).is_none() && schema.get(exclusive).is_none() {
            schema.insert(keyword.into(), bound);
        }
    }
    schema.remove("format");
}

/// The schema of a form with the fields of `F`, for tests and for schemas sent by other ways.
///
/// MCP lets a form hold strings, numbers, booleans, enums and lists of enums, and nothing nested;
/// a type with anything else is an error that names the field.
pub fn form<F: JsonSchema>() -> Result<Value> {
    let derived = of::<F>(
        SchemaSettings::draft2020_12()
            .for_deserialize()
            .with(|settings| {
                settings.inline_subschemas = true;
            }),
    );
    let fields = derived["properties"]
        .as_object()
        .filter(|_| derived["type"] == "object")
        .ok_or_else(|| not_a_form::<F>("it is no struct with named fields"))?;
    let mut properties = Map::new();
    for (name, field) in fields {
        let property =
            property(field).map_err(|why| not_a_form::<F>(&format!("its field `{name}` {why}")))?;
        properties.insert(name.clone(), property);
    }
    let mut schema = json!({ "type": "object", "properties": properties });
    if let Some(required) = derived.get("required") {
        schema["required"] = required.clone();
    }
    Ok(schema)
}

fn not_a_form<F: JsonSchema>(why: &str) -> Error {
    Error::defect(format!(
        "`{}` cannot be shown as a form: {why}",
        F::schema_name()
    ))
}

/// Keywords of a form's property that pass as they are, by the property's type.
const COMMON: &[&str] = &["title", "description", "default"];
const OF_STRINGS: &[&str] = &["minLength", "maxLength", "format"];
const OF_NUMBERS: &[&str] = &["minimum", "maximum"];
const OF_LISTS: &[&str] = &["minItems", "maxItems"];
/// The formats MCP knows.
const FORMATS: &[&str] = &["email", "uri", "date", "date-time"];

fn property(field: &Value) -> std::result::Result<Value, String> {
    let field = without_null(field);
    if let Some(choices) = choices(&field) {
        let mut property = json!({ "type": "string" });
        choices.write(&mut property, "oneOf");
        copy(&field, &mut property, COMMON);
        return Ok(property);
    }
    let kind = field["type"].as_str().unwrap_or_default();
    let mut property = json!({ "type": kind });
    copy(&field, &mut property, COMMON);
    match kind {
        "boolean" => {}
        "integer" | "number" => copy(&field, &mut property, OF_NUMBERS),
        "string" => {
            copy(&field, &mut property, OF_STRINGS);
            let is_known = property["format"]
                .as_str()
                .is_none_or(|it| FORMATS.contains(&it));
            if !is_known {
                return Err("has a format other than email, uri, date and date-time".into());
            }
        }
        "array" => {
            let choices = choices(&without_null(&field["items"]))
                .ok_or("is a list of something else than an enum")?;
            choices.write_items(&mut property);
            copy(&field, &mut property, OF_LISTS);
        }
        _ => return Err("is neither a string, a number, a boolean nor an enum".into()),
    }
    Ok(property)
}

fn copy(from: &Value, to: &mut Value, keywords: &[&str]) {
    for keyword in keywords {
        match from.get(keyword) {
            // The default of an optional field: nothing to show.
            None | Some(Value::Null) => {}
            Some(value) => to[*keyword] = value.clone(),
        }
    }
}

/// The schema of `T` where `Option<T>` allows null too: a form leaves the field out instead.
fn without_null(field: &Value) -> Value {
    let mut field = field.clone();
    if let Some(kinds) = field["type"].as_array() {
        let mut kinds = kinds.iter().filter(|kind| *kind != "null");
        if let (Some(only), None) = (kinds.next(), kinds.next()) {
            field["type"] = only.clone();
        }
    }
    if let Some(values) = field.get_mut("enum").and_then(Value::as_array_mut) {
        values.retain(|value| !value.is_null());
    }
    let Some(branches) = field.get("anyOf").and_then(Value::as_array) else {
        return field;
    };
    let mut branches = branches.iter().filter(|it| it["type"] != "null");
    if let (Some(only), None) = (branches.next(), branches.next()) {
        let mut inner = only.clone();
        // What the field says of itself goes before what its type says.
        copy(&field, &mut inner, COMMON);
        return inner;
    }
    field
}

/// The values of a unit-only enum, with a title for each that has one.
struct Choices(Vec<(String, Option<String>)>);

impl Choices {
    fn write(&self, property: &mut Value, titled_keyword: &str) {
        if self.0.iter().all(|(_, title)| title.is_none()) {
            let values: Vec<&String> = self.0.iter().map(|(value, _)| value).collect();
            property["enum"] = json!(values);
        } else {
            property[titled_keyword] = self
                .0
                .iter()
                .map(|(value, title)| json!({ "const": value, "title": title.as_ref().unwrap_or(value) }))
                .collect();
        }
    }

    fn write_items(&self, property: &mut Value) {
        let mut items = json!({});
        self.write(&mut items, "anyOf");
        if items.get("enum").is_some() {
            items["type"] = json!("string");
        }
        property["items"] = items;
    }
}

/// Reads an enum as schemars writes it: `enum`, `const`, or a `oneOf` of those where some variant
/// has a title or a doc comment.
fn choices(field: &Value) -> Option<Choices> {
    let branches = match field.get("oneOf") {
        Some(branches) => branches.as_array()?.as_slice(),
        None => std::slice::from_ref(field),
    };
    let mut found = Vec::new();
    for branch in branches {
        let label = || {
            // On the field itself they describe the field.
            let of_branch = |keyword| branch.get(keyword).filter(|_| !std::ptr::eq(branch, field));
            let text = of_branch("title").or_else(|| of_branch("description"))?;
            text.as_str().map(String::from)
        };
        match (branch.get("const"), branch.get("enum")) {
            (Some(value), _) => found.push((value.as_str()?.to_string(), label())),
            (None, Some(values)) => {
                for value in values.as_array()? {
                    found.push((value.as_str()?.to_string(), None));
                }
            }
            (None, None) => return None,
        }
    }
    Some(Choices(found))
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde_json::json;

    use super::*;

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only the schema is read")]
    struct Arguments {
        /// How many.
        count: u16,
        size: Option<u64>,
    }

    #[test]
    fn integers_carry_their_range_and_unknown_arguments_are_refused() {
        assert_eq!(
            input::<Arguments>(),
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {
                    "count": {
                        "type": "integer", "description": "How many.", "minimum": 0, "maximum": 65535
                    },
                    "size": {
                        "type": ["integer", "null"], "minimum": 0, "maximum": 18446744073709551615u64
                    }
                },
                "required": ["count"],
                "additionalProperties": false
            })
        );
    }

    #[derive(JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    #[allow(dead_code, reason = "only the schema is read")]
    enum Channel {
        Stable,
        EarlyAccess,
    }

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only the schema is read")]
    enum Speed {
        /// Takes a minute.
        Fast,
        Slow,
    }

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only the schema is read")]
    struct Form {
        /// Where it goes.
        channel: Channel,
        speed: Option<Speed>,
        #[schemars(email)]
        mail: String,
        #[schemars(range(min = 1, max = 9))]
        copies: Option<u8>,
        channels: Vec<Channel>,
        urgent: bool,
    }

    #[test]
    fn a_form_is_flat_and_uses_only_what_a_client_can_show() {
        let schema = form::<Form>().expect("the form is flat");
        assert_eq!(
            schema,
            json!({
                "type": "object",
                "properties": {
                    "channel": {
                        "type": "string",
                        "enum": ["stable", "early-access"],
                        "description": "Where it goes."
                    },
                    "speed": {
                        "type": "string",
                        "oneOf": [
                            { "const": "Slow", "title": "Slow" },
                            { "const": "Fast", "title": "Takes a minute." }
                        ]
                    },
                    "mail": { "type": "string", "format": "email" },
                    "copies": { "type": "integer", "minimum": 1, "maximum": 9 },
                    "channels": {
                        "type": "array",
                        "items": { "type": "string", "enum": ["stable", "early-access"] }
                    },
                    "urgent": { "type": "boolean" }
                },
                "required": ["channel", "mail", "channels", "urgent"]
            })
        );
    }

    #[test]
    fn a_nested_form_is_refused_by_the_name_of_its_field() {
        #[derive(JsonSchema)]
        #[allow(dead_code, reason = "only the schema is read")]
        struct Nested {
            inner: Arguments,
        }
        let error = form::<Nested>().expect_err("a form cannot nest");
        assert!(error.to_string().contains("field `inner`"), "{error}");
    }
}
