//! A contract case: what its TOML file may say, parsed into types that cannot be wrong. It sends
//! nothing and knows nothing of the host under test.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// Time a case gets when it names none, ms.
pub const TIME_LIMIT_DEFAULT_MS: u64 = 10_000;

/// The longest time a case may ask for, ms.
pub const TIME_LIMIT_MAX_MS: u64 = 120_000;

/// A case file, bytes. Its body and expectation travel whole through memory.
pub const FILE_MAX_BYTES: usize = 256 * 1024;

/// One request and what its answer must be.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    pub name: Option<String>,
    /// Must not run beside others.
    pub serial: bool,
    pub time_limit_ms: u64,
    pub request: Request,
    pub expect: Expect,
}

/// What is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub method: String,
    /// Begins with `/`; may hold a query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Option<String>,
}

/// What must come back.
#[derive(Clone, Debug, PartialEq)]
pub struct Expect {
    /// Any of these; never empty.
    pub status: Vec<u16>,
    /// Names in lower case; a value ending in `*` is a prefix.
    pub headers: Vec<(String, String)>,
    /// The body must hold at least this (see [`crate::subset`]).
    pub json: Option<Value>,
}

/// Why a file is not a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseError {
    /// Counted from 1; None when the fault has no single place.
    pub line: Option<usize>,
    pub message: String,
}

impl std::fmt::Display for CaseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl Case {
    pub fn parse(text: &str) -> Result<Case, CaseError> {
        let file: CaseFile = toml::from_str(text).map_err(|error| CaseError {
            line: error.span().map(|span| line_of(text, span.start)),
            message: error.message().to_owned(),
        })?;
        file.check()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFile {
    name: Option<String>,
    #[serde(default)]
    serial: bool,
    time_limit_ms: Option<u64>,
    request: RequestTable,
    expect: ExpectTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestTable {
    method: Option<String>,
    path: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
    json: Option<toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectTable {
    status: Status,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    json: Option<toml::Value>,
    /// JSON as text, for what TOML cannot say (`null`) or what was pasted.
    json_text: Option<String>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a status such as 200, or a list such as [200, 204]"
)]
enum Status {
    One(u16),
    Many(Vec<u16>),
}

impl CaseFile {
    fn check(self) -> Result<Case, CaseError> {
        let time_limit_ms = self.time_limit_ms.unwrap_or(TIME_LIMIT_DEFAULT_MS);
        if !(1..=TIME_LIMIT_MAX_MS).contains(&time_limit_ms) {
            return Err(fault(format!(
                "time_limit_ms must be 1 to {TIME_LIMIT_MAX_MS}, not {time_limit_ms}"
            )));
        }
        Ok(Case {
            name: self.name,
            serial: self.serial,
            time_limit_ms,
            request: self.request.check()?,
            expect: self.expect.check()?,
        })
    }
}

impl RequestTable {
    fn check(self) -> Result<Request, CaseError> {
        let method = self.method.unwrap_or_else(|| "GET".to_owned());
        if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase()) {
            return Err(fault(format!(
                "request.method must be upper-case letters such as POST, not {method:?}"
            )));
        }
        check_path(&self.path)?;
        let mut headers = check_headers("request.headers", self.headers)?;
        let body = match (self.body, self.json) {
            (Some(_), Some(_)) => {
                return Err(fault(
                    "request has both `body` and `json`; keep one".to_owned(),
                ));
            }
            (Some(body), None) => Some(body),
            (None, Some(value)) => {
                if !headers.iter().any(|(name, _)| name == "content-type") {
                    headers.push(("content-type".to_owned(), "application/json".to_owned()));
                }
                Some(to_json(value, "request.json")?.to_string())
            }
            (None, None) => None,
        };
        if body.as_ref().is_some_and(|body| body.contains('\0')) {
            return Err(fault("request.body holds a NUL character".to_owned()));
        }
        Ok(Request {
            method,
            path: self.path,
            headers,
            body,
        })
    }
}

impl ExpectTable {
    fn check(self) -> Result<Expect, CaseError> {
        let status = match self.status {
            Status::One(status) => vec![status],
            Status::Many(statuses) => statuses,
        };
        if status.is_empty() || status.iter().any(|status| !(100..=599).contains(status)) {
            return Err(fault(
                "expect.status must be one or more numbers of 100 to 599".to_owned(),
            ));
        }
        let json = match (self.json, self.json_text) {
            (Some(_), Some(_)) => {
                return Err(fault(
                    "expect has both `json` and `json_text`; keep one".to_owned(),
                ));
            }
            (Some(value), None) => Some(to_json(value, "expect.json")?),
            (None, Some(text)) => Some(
                serde_json::from_str(&text)
                    .map_err(|error| fault(format!("expect.json_text is not JSON: {error}")))?,
            ),
            (None, None) => None,
        };
        Ok(Expect {
            status,
            headers: check_headers("expect.headers", self.headers)?,
            json,
        })
    }
}

/// The path goes into the request line as it is, so only what may stand there is let through.
fn check_path(path: &str) -> Result<(), CaseError> {
    if !path.starts_with('/') {
        return Err(fault(format!(
            "request.path must begin with `/`, not {path:?}; the host comes from base_url"
        )));
    }
    match path
        .chars()
        .find(|c| !c.is_ascii_graphic() || matches!(c, '#' | '"' | '<' | '>' | '\\' | '^' | '`'))
    {
        Some(odd) => Err(fault(format!(
            "request.path holds {odd:?}; percent-encode it"
        ))),
        None => Ok(()),
    }
}

fn check_headers(
    place: &str,
    headers: BTreeMap<String, String>,
) -> Result<Vec<(String, String)>, CaseError> {
    let mut checked = Vec::with_capacity(headers.len());
    for (name, value) in headers {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) {
            return Err(fault(format!("{place} has {name:?}, not a header's name")));
        }
        if !value.chars().all(|c| c == ' ' || c.is_ascii_graphic()) || value.trim() != value {
            return Err(fault(format!(
                "{place}.{name} must be printable ASCII without spaces around it"
            )));
        }
        checked.push((name.to_ascii_lowercase(), value));
    }
    Ok(checked)
}

fn to_json(value: toml::Value, place: &str) -> Result<Value, CaseError> {
    Ok(match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => Value::from(number),
        toml::Value::Float(number) => serde_json::Number::from_f64(number)
            .map(Value::Number)
            .ok_or_else(|| fault(format!("{place} holds {number}, which JSON cannot say")))?,
        toml::Value::Boolean(flag) => Value::Bool(flag),
        toml::Value::Datetime(time) => Value::String(time.to_string()),
        toml::Value::Array(items) => Value::Array(
            items
                .into_iter()
                .map(|item| to_json(item, place))
                .collect::<Result<_, _>>()?,
        ),
        toml::Value::Table(members) => Value::Object(
            members
                .into_iter()
                .map(|(key, member)| Ok((key, to_json(member, place)?)))
                .collect::<Result<_, CaseError>>()?,
        ),
    })
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().iter().take(offset);
    before.filter(|byte| **byte == b'\n').count() + 1
}

fn fault(message: String) -> CaseError {
    CaseError {
        line: None,
        message,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_whole_case_is_read() {
        let case = Case::parse(
            r#"
            name = "an order is made"
            serial = true
            time_limit_ms = 500
            [request]
            method = "POST"
            path = "/orders?dry=1"
            headers = { Accept = "application/json" }
            json = { item = "tea", count = 2 }
            [expect]
            status = [200, 201]
            headers = { Content-Type = "application/json*" }
            json = { order = { count = 2 } }
            "#,
        )
        .unwrap();
        assert_eq!(case.name.as_deref(), Some("an order is made"));
        assert!(case.serial);
        assert_eq!(case.time_limit_ms, 500);
        assert_eq!(case.request.method, "POST");
        assert_eq!(
            case.request.headers,
            [
                ("accept".to_owned(), "application/json".to_owned()),
                ("content-type".to_owned(), "application/json".to_owned()),
            ]
        );
        let body: Value = serde_json::from_str(case.request.body.as_deref().unwrap()).unwrap();
        assert_eq!(body, json!({"item": "tea", "count": 2}));
        assert_eq!(case.expect.status, [200, 201]);
        assert_eq!(case.expect.json, Some(json!({"order": {"count": 2}})));
    }

    #[test]
    fn the_shortest_case_has_defaults() {
        let case = Case::parse("request.path = '/health'\nexpect.status = 200").unwrap();
        assert_eq!(case.request.method, "GET");
        assert_eq!(case.time_limit_ms, TIME_LIMIT_DEFAULT_MS);
        assert!(!case.serial);
        assert_eq!(case.expect.status, [200]);
    }

    #[test]
    fn json_text_can_say_null() {
        let text = "request.path = '/'\n[expect]\nstatus = 200\njson_text = '{\"a\": null}'";
        assert_eq!(
            Case::parse(text).unwrap().expect.json,
            Some(json!({"a": null}))
        );
    }

    #[test]
    fn every_fault_says_what_and_where() {
        let request = "request.path = '/'\n";
        let table: &[(&str, Option<usize>, &str)] = &[
            ("name = \n", Some(1), "value"),
            (
                "request.path = '/'\n\nexpect.stats = 1",
                Some(3),
                "unknown field `stats`",
            ),
            (
                "request.path = '/'\nexpect.status = 'ok'",
                Some(2),
                "a status such as 200",
            ),
            ("expect.status = 200", None, "missing field `request`"),
            (
                "request.path = 'x'\nexpect.status = 200",
                None,
                "begin with `/`",
            ),
            (
                "request.path = '/a b'\nexpect.status = 200",
                None,
                "percent-encode",
            ),
            (
                "request.path = '/'\nrequest.method = 'get'\nexpect.status = 200",
                None,
                "upper-case",
            ),
            ("request.path = '/'\nexpect.status = 99", None, "100 to 599"),
            (
                "request.path = '/'\nexpect.status = []",
                None,
                "one or more",
            ),
            (
                "request = { path = '/', headers = { 'a b' = 'c' } }\nexpect.status = 200",
                None,
                "not a header's name",
            ),
            (
                "request = { path = '/', headers = { a = \"b\\nc\" } }\nexpect.status = 200",
                None,
                "printable ASCII",
            ),
            (
                "request = { path = '/', body = '', json = {} }\nexpect.status = 200",
                None,
                "keep one",
            ),
            (
                "request.path = '/'\nexpect = { status = 200, json = { a = nan } }",
                None,
                "JSON cannot say",
            ),
            (
                "request.path = '/'\nexpect = { status = 200, json_text = '{' }",
                None,
                "is not JSON",
            ),
            (
                "time_limit_ms = 0\nrequest.path = '/'\nexpect.status = 200",
                None,
                "time_limit_ms must be",
            ),
        ];
        for (text, line, part) in table {
            let error = Case::parse(text).expect_err(text);
            assert!(error.message.contains(part), "{text:?} gave {error}");
            if line.is_some() {
                assert_eq!(error.line, *line, "{text:?} gave {error}");
            }
        }
        assert!(Case::parse(request).is_err());
    }
}
