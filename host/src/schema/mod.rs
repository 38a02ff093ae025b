//! JSON Schema at the host's boundaries: tool arguments and results, forms and their answers.
//! Schemas come from guests, so what one may cost is settled before any value meets it (I6).

mod cost;
mod findings;
mod form;
mod graph;
mod headers;

use std::collections::BTreeSet;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value};
use thiserror::Error;

use self::cost::Costs;
use self::graph::Graph;

pub use self::form::{check_form, read_answer};

/// What a schema's text may be long, bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// How deep a schema's text may nest.
const DEPTH_MAX: usize = 32;

/// What one regular expression may take when compiled, bytes.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// What a regular expression may take while it is matched, bytes.
const MATCHER_BYTES_MAX: usize = 256 * 1024;

/// Keywords that let a value have members which `properties` does not name.
const OPENING: [&str; 10] = [
    "additionalProperties",
    "unevaluatedProperties",
    "patternProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "not",
    "dependentSchemas",
    "$ref",
];

/// A compiled schema with its text as the author wrote it.
pub struct Schema {
    text: String,
    validator: Validator,
    costs: Costs,
    /// The members the value may have, when the schema names some and does not say what of others.
    members: Option<BTreeSet<String>>,
    headers: Result<Vec<(String, Vec<String>)>, SchemaError>,
}

/// A schema that can't be used; the text says where and why.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct SchemaError(pub String);

/// What is wrong with a value, one line a finding: `/path/of/field: what is wrong`.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{}", .0.join("; "))]
pub struct Mismatch(pub Vec<String>);

impl Schema {
    /// Compiles a tool's schema: JSON Schema 2020-12 of an object, bounded, no network `$ref`.
    pub fn parse(text: &str) -> Result<Schema, SchemaError> {
        let value = read(text)?;
        let root = object_schema(&value)?;
        let graph = Graph::build(&value)?;
        let costs = Costs::of(&graph)?;
        Ok(Schema {
            text: text.to_owned(),
            validator: compile(&value, false)?,
            costs,
            members: closed_members(root),
            headers: headers::read(&graph),
        })
    }

    /// The schema's own text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether `value` is checked in no time.
    pub fn is_quick(value: &Value) -> bool {
        findings::is_small(value)
    }

    /// Checks a call's arguments. A schema that says nothing of further members allows none: an
    /// argument with a typing error in its name must not be passed over in silence.
    pub fn check(&self, value: &Value) -> Result<(), Mismatch> {
        self.costs.check(value)?;
        let unknown = match (&self.members, value) {
            (Some(members), Value::Object(object)) => findings::unknown(object, members),
            _ => Vec::new(),
        };
        findings::report(unknown, &self.validator, value)
    }

    /// Checks a tool's own result, which may have members its schema does not speak of.
    pub fn check_output(&self, value: &Value) -> Result<(), Mismatch> {
        self.costs.check(value)?;
        findings::report(Vec::new(), &self.validator, value)
    }
}

/// The arguments that a client of Streamable HTTP repeats in headers: `Mcp-Param-{name}` with the
/// path of the argument (MCP, transports, "Custom Headers from Tool Parameters").
pub fn header_params(schema: &Schema) -> Result<Vec<(String, Vec<String>)>, SchemaError> {
    schema.headers.clone()
}

fn read(text: &str) -> Result<Value, SchemaError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(SchemaError(format!(
            "the schema is {} bytes long, and {TEXT_BYTES_MAX} is the most",
            text.len()
        )));
    }
    let value: Value = serde_json::from_str(text)
        .map_err(|error| SchemaError(format!("the schema is not JSON: {error}")))?;
    if cost::depth(&value) > DEPTH_MAX {
        return Err(SchemaError(format!(
            "the schema nests deeper than {DEPTH_MAX} levels; move parts of it to `$defs`"
        )));
    }
    Ok(value)
}

fn object_schema(value: &Value) -> Result<&Map<String, Value>, SchemaError> {
    match value {
        Value::Object(root) if root.get("type").is_some_and(|kind| kind == "object") => Ok(root),
        _ => Err(SchemaError(
            "/: the schema must be an object with `\"type\": \"object\"`".to_owned(),
        )),
    }
}

fn compile(value: &Value, with_formats: bool) -> Result<Validator, SchemaError> {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .offline()
        .should_validate_formats(with_formats)
        // An engine that takes linear time, whatever the pattern (I6).
        .with_pattern_options(
            PatternOptions::regex()
                .size_limit(PATTERN_BYTES_MAX)
                .dfa_size_limit(MATCHER_BYTES_MAX),
        )
        .build(value)
        .map_err(|error| {
            let path = error.instance_path().as_str();
            let what = match path.ends_with("/pattern") {
                true => {
                    "is not a pattern that is taken: one without look-around, and not too large"
                        .to_owned()
                }
                false => findings::message(&error),
            };
            SchemaError(format!("{}: {what}", findings::path(path)))
        })
}

fn closed_members(root: &Map<String, Value>) -> Option<BTreeSet<String>> {
    if OPENING.iter().any(|keyword| root.contains_key(*keyword)) {
        return None;
    }
    let properties = root.get("properties").and_then(Value::as_object);
    Some(
        properties
            .into_iter()
            .flat_map(|properties| properties.keys().cloned())
            .collect(),
    )
}

#[cfg(test)]
mod tests;
