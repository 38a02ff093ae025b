//! A schema as a graph of subschemas. What cannot be followed within the schema is refused here; what
//! a keyword means is left to the validator.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::SchemaError;

/// Subschemas of one schema.
const NODES_MAX: usize = 2_000;

/// Regular expressions of one schema; each takes memory for as long as its plugin is served.
const PATTERNS_MAX: usize = 32;

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// A schema taken apart.
pub(super) struct Graph<'a> {
    pub(super) nodes: Vec<Node<'a>>,
    by_pointer: HashMap<String, usize>,
    by_anchor: HashMap<&'a str, usize>,
    patterns: usize,
}

/// One subschema.
pub(super) struct Node<'a> {
    pub(super) pointer: String,
    /// Its keywords; none for `true` and `false`.
    pub(super) keywords: Option<&'a Map<String, Value>>,
    /// The way to it when it consists of `properties` only.
    pub(super) path: Option<Vec<&'a str>>,
    /// Subschemas for the same place of the value.
    pub(super) same: Vec<usize>,
    /// Subschemas for members, of which each member meets one.
    pub(super) members: Vec<usize>,
    /// Subschemas that any member or element may meet.
    pub(super) any: Vec<usize>,
}

impl<'a> Graph<'a> {
    pub(super) fn build(root: &'a Value) -> Result<Graph<'a>, SchemaError> {
        let mut graph = Graph {
            nodes: Vec::new(),
            by_pointer: HashMap::new(),
            by_anchor: HashMap::new(),
            patterns: 0,
        };
        graph.add(root, String::new(), Some(Vec::new()))?;
        for index in 0..graph.nodes.len() {
            if let Some(target) = graph.reference(index)? {
                graph.nodes[index].same.push(target);
            }
        }
        Ok(graph)
    }

    fn add(
        &mut self,
        schema: &'a Value,
        pointer: String,
        path: Option<Vec<&'a str>>,
    ) -> Result<usize, SchemaError> {
        if self.nodes.len() >= NODES_MAX {
            return Err(SchemaError(format!(
                "{}: the schema has more than {NODES_MAX} subschemas",
                shown(&pointer)
            )));
        }
        let index = self.nodes.len();
        let keywords = schema.as_object();
        self.by_pointer.insert(pointer.clone(), index);
        self.nodes.push(Node {
            pointer: pointer.clone(),
            keywords,
            path: path.clone(),
            same: Vec::new(),
            members: Vec::new(),
            any: Vec::new(),
        });
        let Some(keywords) = keywords else {
            return Ok(index);
        };
        self.check_keywords(index, keywords, &pointer)?;
        for (keyword, value) in keywords {
            let Some(place) = place(keyword) else {
                continue;
            };
            for child in children(value, place.shape) {
                let pointer = format!("{pointer}/{}{}", escape(keyword), child.at);
                let path = match (keyword.as_str(), &path, child.name) {
                    ("properties", Some(path), Some(name)) => {
                        Some(path.iter().copied().chain([name]).collect())
                    }
                    _ => None,
                };
                let child = self.add(child.schema, pointer, path)?;
                let node = &mut self.nodes[index];
                match place.applies {
                    Applies::Same => node.same.push(child),
                    Applies::Member => node.members.push(child),
                    Applies::Any => node.any.push(child),
                    Applies::Nowhere => {}
                }
            }
        }
        Ok(index)
    }

    fn check_keywords(
        &mut self,
        index: usize,
        keywords: &'a Map<String, Value>,
        pointer: &str,
    ) -> Result<(), SchemaError> {
        let refuse = |what: &str| Err(SchemaError(format!("{}: {what}", shown(pointer))));
        if let Some(dialect) = keywords.get("$schema") {
            let dialect = dialect.as_str().unwrap_or_default();
            if dialect.trim_end_matches('#') != DIALECT {
                return refuse(&format!("`$schema` must be {DIALECT} or left out"));
            }
        }
        if index > 0 && keywords.contains_key("$id") {
            return refuse("`$id` may stand only at the root");
        }
        if keywords.contains_key("$dynamicRef") || keywords.contains_key("$recursiveRef") {
            return refuse("`$dynamicRef` and `$recursiveRef` are not taken; use `$ref`");
        }
        let named = keywords.get("patternProperties").and_then(Value::as_object);
        self.patterns += named.map_or(0, Map::len);
        self.patterns += usize::from(keywords.contains_key("pattern"));
        if self.patterns > PATTERNS_MAX {
            return refuse(&format!("the schema has more than {PATTERNS_MAX} patterns"));
        }
        for keyword in ["$anchor", "$dynamicAnchor"] {
            let anchor = keywords.get(keyword).and_then(Value::as_str);
            if let Some(anchor) = anchor
                && self.by_anchor.insert(anchor, index).is_some()
            {
                return refuse("two subschemas have the same anchor");
            }
        }
        Ok(())
    }

    /// What a subschema's `$ref` names.
    fn reference(&self, index: usize) -> Result<Option<usize>, SchemaError> {
        let node = &self.nodes[index];
        let Some(value) = node.keywords.and_then(|keywords| keywords.get("$ref")) else {
            return Ok(None);
        };
        let refuse = |what: &str| Err(SchemaError(format!("{}/$ref: {what}", node.pointer)));
        let Some(fragment) = value.as_str().and_then(|text| text.strip_prefix('#')) else {
            return refuse("only references within the schema are taken (`#/$defs/name`)");
        };
        let fragment = percent_decode(fragment);
        let found = match fragment.is_empty() || fragment.starts_with('/') {
            true => self.by_pointer.get(&fragment),
            false => self.by_anchor.get(fragment.as_str()),
        };
        match found {
            Some(target) => Ok(Some(*target)),
            None => refuse("no subschema is there"),
        }
    }
}

/// How a keyword holds subschemas, and what they apply to.
struct Place {
    shape: Shape,
    applies: Applies,
}

#[derive(Clone, Copy)]
enum Shape {
    One,
    List,
    Named,
}

enum Applies {
    Same,
    Member,
    Any,
    /// They apply only where a `$ref` names them.
    Nowhere,
}

fn place(keyword: &str) -> Option<Place> {
    let (shape, applies) = match keyword {
        "not" | "if" | "then" | "else" => (Shape::One, Applies::Same),
        "allOf" | "anyOf" | "oneOf" => (Shape::List, Applies::Same),
        "dependentSchemas" | "dependencies" => (Shape::Named, Applies::Same),
        "properties" => (Shape::Named, Applies::Member),
        "patternProperties" => (Shape::Named, Applies::Any),
        "prefixItems" => (Shape::List, Applies::Member),
        "items"
        | "contains"
        | "additionalProperties"
        | "propertyNames"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "contentSchema" => (Shape::One, Applies::Any),
        "$defs" | "definitions" => (Shape::Named, Applies::Nowhere),
        _ => return None,
    };
    Some(Place { shape, applies })
}

/// A subschema as its keyword holds it.
struct Child<'a> {
    /// What follows the keyword in its pointer.
    at: String,
    /// Its name, where it has one.
    name: Option<&'a str>,
    schema: &'a Value,
}

/// The subschemas a keyword holds. What has another shape is the validator's to refuse.
fn children(value: &Value, shape: Shape) -> Vec<Child<'_>> {
    match (shape, value) {
        (Shape::One, schema) => vec![Child {
            at: String::new(),
            name: None,
            schema,
        }],
        (Shape::List, Value::Array(items)) => items
            .iter()
            .enumerate()
            .map(|(index, schema)| Child {
                at: format!("/{index}"),
                name: None,
                schema,
            })
            .collect(),
        (Shape::Named, Value::Object(members)) => members
            .iter()
            .map(|(name, schema)| Child {
                at: format!("/{}", escape(name)),
                name: Some(name),
                schema,
            })
            .collect(),
        _ => Vec::new(),
    }
}

pub(super) fn shown(pointer: &str) -> &str {
    match pointer {
        "" => "/",
        pointer => pointer,
    }
}

fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// RFC 3986's `%41` for `A`; what is no such escape stays.
fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = after.get(..2).filter(|_| first == b'%');
        let digits = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
