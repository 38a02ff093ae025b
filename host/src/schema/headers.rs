//! `x-mcp-header`: arguments that clients of Streamable HTTP repeat in headers (MCP 2026-07-28,
//! transports, "Custom Headers from Tool Parameters").

use std::collections::BTreeSet;

use serde_json::Value;

use super::SchemaError;
use super::graph::{Graph, Node};

const KEYWORD: &str = "x-mcp-header";

/// The header names (what follows `Mcp-Param-`) with the paths of their arguments.
pub(super) fn read(graph: &Graph<'_>) -> Result<Vec<(String, Vec<String>)>, SchemaError> {
    let mut names = BTreeSet::new();
    let mut headers = Vec::new();
    for node in &graph.nodes {
        let Some(value) = node.keywords.and_then(|keywords| keywords.get(KEYWORD)) else {
            continue;
        };
        let refuse = |what: &str| Err(SchemaError(format!("{}/{KEYWORD}: {what}", node.pointer)));
        let name = value.as_str().unwrap_or_default();
        if name.is_empty() || !name.bytes().all(is_token) {
            return refuse("must be a header's name: letters, digits and !#$%&'*+-.^_`|~");
        }
        if !names.insert(name.to_ascii_lowercase()) {
            return refuse("another argument has the same header; capitals make no difference");
        }
        if !is_plain(node) {
            return refuse("only an argument of type string, integer or boolean has a header");
        }
        match &node.path {
            Some(path) if !path.is_empty() => {
                let path = path.iter().map(|step| (*step).to_owned()).collect();
                headers.push((name.to_owned(), path));
            }
            _ => return refuse("only what is reached by `properties` alone has a header"),
        }
    }
    Ok(headers)
}

fn is_plain(node: &Node<'_>) -> bool {
    let kind = node.keywords.and_then(|keywords| keywords.get("type"));
    let kind = kind.and_then(Value::as_str);
    matches!(kind, Some("string" | "integer" | "boolean"))
}

/// RFC 9110's `tchar`.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
