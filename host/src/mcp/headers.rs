//! Compares the HTTP headers that repeat parts of a message with the message itself
//! (basic/transports/streamable-http, "Request Metadata"): whoever routes by the headers must see
//! what the host executes.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use serde_json::{Map, Value};

use super::envelope::Params;
use super::error::{Refusal, shortened};
use super::json::text_of;
use super::{Method, VERSIONS};
use crate::catalog::HeaderParam;

const VERSION: &str = "MCP-Protocol-Version";
const METHOD: &str = "Mcp-Method";
const NAME: &str = "Mcp-Name";

/// Up to here every whole number is exact in every client (server/tools, "x-mcp-header").
const SAFE_INTEGER_MAX: f64 = 9_007_199_254_740_991.0;

/// Whether the header names a version of the modern era.
pub fn names_served_version(headers: &HeaderMap) -> bool {
    matches!(one(headers, VERSION), Ok(Some(version)) if VERSIONS.contains(&version))
}

/// The version the header asks for, when it is one that is not served.
pub fn foreign_version(headers: &HeaderMap) -> Option<String> {
    let version = one(headers, VERSION).ok()??;
    (!VERSIONS.contains(&version)).then(|| version.to_owned())
}

pub fn check_version(headers: &HeaderMap, body: &str) -> Result<(), Refusal> {
    let header = required(headers, VERSION, body)?;
    equal(
        VERSION,
        header,
        body,
        "_meta[\"io.modelcontextprotocol/protocolVersion\"]",
    )
}

pub fn check_method(headers: &HeaderMap, body: &str) -> Result<(), Refusal> {
    let header = required(headers, METHOD, body)?;
    equal(METHOD, header, body, "method")
}

/// Checks `Mcp-Name`. On `tools/call` it is required. On `tasks/*` a wrong one is refused and a
/// missing one accepted: a widely used client never sends it, and routes nothing by it.
pub fn check_name(headers: &HeaderMap, method: Method, params: &Params) -> Result<(), Refusal> {
    let (member, at, is_required) = match method {
        Method::ToolsCall | Method::PromptsGet => (params.name, "params.name", true),
        Method::ResourcesRead => (params.uri, "params.uri", true),
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel | Method::TasksLog => {
            (params.task_id, "params.taskId", false)
        }
        Method::Discover
        | Method::ToolsList
        | Method::PromptsList
        | Method::ResourcesList
        | Method::ResourceTemplatesList
        | Method::Complete
        | Method::TasksList
        | Method::Listen => return Ok(()),
    };
    // A body without the member is refused by its method, in better words.
    let Some(body) = member.and_then(text_of) else {
        return Ok(());
    };
    let header = if is_required {
        required(headers, NAME, &body)?
    } else {
        match one(headers, NAME)? {
            Some(header) => header,
            None => return Ok(()),
        }
    };
    equal(NAME, &decode(NAME, header)?, &body, at)
}

/// Checks the `Mcp-Param-*` headers of a tool's call.
pub fn check_params(
    headers: &HeaderMap,
    params: &[HeaderParam],
    arguments: &Map<String, Value>,
) -> Result<(), Refusal> {
    for param in params {
        let name = format!("Mcp-Param-{}", param.header);
        let at = format!("params.arguments.{}", param.path.join("."));
        let body = value_at(arguments, &param.path).filter(|value| !value.is_null());
        let header = match one(headers, &name)? {
            Some(header) => Some(decode(&name, header)?),
            None => None,
        };
        match (header, body) {
            (None, None) => {}
            (None, Some(_)) => {
                return Err(Refusal::HeaderMismatch(format!(
                    "{name} is missing, and {at} has a value"
                )));
            }
            (Some(_), None) => {
                return Err(Refusal::HeaderMismatch(format!(
                    "{name} is sent, and {at} has no value"
                )));
            }
            (Some(header), Some(body)) => {
                if !is_same(&header, body) {
                    return Err(Refusal::HeaderMismatch(format!(
                        "{name} is `{}`, but {at} is {}",
                        shortened(&header),
                        shortened(&body.to_string())
                    )));
                }
            }
        }
    }
    Ok(())
}

fn value_at<'a>(arguments: &'a Map<String, Value>, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let start = arguments.get(first)?;
    rest.iter().try_fold(start, |value, key| value.get(key))
}

/// Whether a header says what the body says. Only strings, booleans and numbers travel as headers.
fn is_same(header: &str, body: &Value) -> bool {
    match body {
        Value::String(text) => header == text,
        Value::Bool(flag) => header == if *flag { "true" } else { "false" },
        Value::Number(number) => {
            let number_text = number.to_string();
            header == number_text
                || match (header.parse::<f64>(), number.as_f64()) {
                    (Ok(header), Some(body)) => header == body && body.abs() <= SAFE_INTEGER_MAX,
                    _ => false,
                }
        }
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

fn equal(name: &str, header: &str, body: &str, at: &str) -> Result<(), Refusal> {
    if header == body {
        Ok(())
    } else {
        Err(Refusal::HeaderMismatch(format!(
            "{name} is `{}`, but {at} of the body is `{}`",
            shortened(header),
            shortened(body)
        )))
    }
}

fn required<'a>(headers: &'a HeaderMap, name: &str, body: &str) -> Result<&'a str, Refusal> {
    one(headers, name)?.ok_or_else(|| {
        Refusal::HeaderMismatch(format!(
            "{name} is missing; send `{name}: {}`",
            shortened(&encode(body))
        ))
    })
}

/// A header's one value, without the white space around it.
fn one<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        // Whoever routes may read the other one.
        return Err(Refusal::HeaderMismatch(format!("{name} is sent twice")));
    }
    match value.to_str() {
        Ok(text) => Ok(Some(text.trim_matches([' ', '\t']))),
        Err(_) => Err(Refusal::HeaderMismatch(format!(
            "{name} has characters outside visible ASCII; send it as `=?base64?…?=`"
        ))),
    }
}

/// Encodes what a header cannot carry as it is.
pub(super) fn encode(value: &str) -> Cow<'_, str> {
    let is_plain = value.bytes().all(|b| matches!(b, b' '..=b'~' | b'\t'))
        && value.trim_ascii() == value
        && !(value.starts_with("=?base64?") && value.ends_with("?="));
    if is_plain {
        Cow::Borrowed(value)
    } else {
        Cow::Owned(format!("=?base64?{}?=", STANDARD.encode(value)))
    }
}

/// Decodes `=?base64?…?=` ("Value Encoding"); anything else stands for itself.
pub(super) fn decode<'a>(name: &str, value: &'a str) -> Result<Cow<'a, str>, Refusal> {
    let encoded = value
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    let Some(encoded) = encoded else {
        return Ok(Cow::Borrowed(value));
    };
    STANDARD
        .decode(encoded)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .map(Cow::Owned)
        .ok_or_else(|| {
            Refusal::HeaderMismatch(format!(
                "{name} is not padded Base64 of UTF-8 between `=?base64?` and `?=`"
            ))
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::harm::{edited, edits};

    fn decoded(value: &str) -> Result<String, String> {
        decode("Mcp-Name", value)
            .map(Cow::into_owned)
            .map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn the_examples_of_the_specification_decode() {
        for (encoded, value) in [
            ("us-west1", "us-west1"),
            ("=?base64?SGVsbG8sIOS4lueVjA==?=", "Hello, 世界"),
            ("=?base64?IHBhZGRlZCA=?=", " padded "),
            ("=?base64?bGluZTEKbGluZTI=?=", "line1\nline2"),
            ("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "=?base64?literal?="),
            ("SGVsbG8=", "SGVsbG8="),
            ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
            ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
            ("=?base64?=", "=?base64?="),
            ("=?base64??=", ""),
        ] {
            assert_eq!(decoded(encoded).as_deref(), Ok(value), "{encoded}");
        }
    }

    fn any_scalar() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<String>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            (-9_i64..9).prop_map(Value::from),
        ]
    }

    proptest! {
        #[test]
        fn any_value_decodes_or_is_refused(value: String, inside: String, edits in edits()) {
            let _ = decoded(&value);
            let _ = decoded(&format!("=?base64?{inside}?="));
            let harmed = edited(encode(&value).as_bytes(), &edits);
            let _ = decoded(&String::from_utf8_lossy(&harmed));
        }

        /// What it is told to send, a client can send, and it arrives.
        #[test]
        fn any_value_travels_in_a_header(value: String) {
            let header = http::HeaderValue::from_str(&encode(&value)).unwrap();
            let mut headers = HeaderMap::new();
            headers.insert(NAME, header);
            prop_assert_eq!(decoded(one(&headers, NAME).unwrap().unwrap()), Ok(value));
        }

        /// A parameter's header is taken when it says what the body says, and only then.
        #[test]
        fn a_parameter_is_what_its_header_says(
            value in any_scalar(),
            other in any_scalar(),
            edits in edits(),
        ) {
            let text = |value: &Value| match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let params = [HeaderParam { header: "At".to_owned(), path: vec!["a".to_owned(), "b".to_owned()] }];
            let arguments = json!({"a": {"b": value}});
            let check = |sent: &[u8]| {
                let mut headers = HeaderMap::new();
                headers.insert("mcp-param-at", http::HeaderValue::from_bytes(sent).ok()?);
                check_params(&headers, &params, arguments.as_object()?).ok()?;
                let sent = headers["mcp-param-at"].to_str().ok()?.trim_matches([' ', '\t']);
                decoded(sent).ok()
            };
            let own = encode(&text(&value)).into_owned();
            if !value.is_null() {
                prop_assert_eq!(check(own.as_bytes()), Some(text(&value)));
            }
            for sent in [edited(own.as_bytes(), &edits), encode(&text(&other)).as_bytes().to_vec()] {
                if let Some(said) = check(&sent) {
                    let is_number = value.as_f64().is_some() && said.parse() == Ok(value.as_f64().unwrap());
                    prop_assert!(said == text(&value) || is_number, "{said} for {value}");
                }
            }
        }
    }

    #[test]
    fn a_broken_sentinel_is_refused() {
        for value in [
            "=?base64?SGVsbG8?=",
            "=?base64?SGVs!!!bG8=?=",
            "=?base64?/w==?=",
            "=?base64?SGVsbG8-_w==?=",
        ] {
            assert!(decoded(value).is_err(), "{value}");
        }
    }

    #[test]
    fn parameters_are_compared_by_type() {
        let params =
            [("Value", "value"), ("Count", "nested.count"), ("On", "on")].map(|(header, path)| {
                HeaderParam {
                    header: header.into(),
                    path: path.split('.').map(str::to_owned).collect(),
                }
            });
        let check = |sent: &[(&'static str, &str)], arguments: Value| {
            let mut headers = HeaderMap::new();
            for (name, value) in sent {
                headers.append(*name, value.parse().unwrap());
            }
            let Value::Object(arguments) = arguments else {
                panic!("arguments are an object")
            };
            check_params(&headers, &params, &arguments).is_ok()
        };
        let (value, count, on) = ("mcp-param-value", "mcp-param-count", "mcp-param-on");
        for (sent, arguments, fits) in [
            (vec![], json!({}), true),
            (vec![], json!({"value": null}), true),
            (vec![], json!({"value": "a"}), false),
            (vec![(value, "a")], json!({"value": "a"}), true),
            (vec![(value, " a ")], json!({"value": "a"}), true),
            (vec![(value, "b")], json!({"value": "a"}), false),
            (vec![(value, "a")], json!({}), false),
            (
                vec![(value, "a"), (value, "a")],
                json!({"value": "a"}),
                false,
            ),
            (
                vec![(value, "=?base64?YQ==?=")],
                json!({"value": "a"}),
                true,
            ),
            (
                vec![(count, "42.0")],
                json!({"nested": {"count": 42}}),
                true,
            ),
            (vec![(count, "43")], json!({"nested": {"count": 42}}), false),
            (vec![(on, "true")], json!({"on": true}), true),
            (vec![(on, "True")], json!({"on": true}), false),
        ] {
            assert_eq!(
                check(&sent, arguments.clone()),
                fits,
                "{sent:?} {arguments}"
            );
        }
    }
}
