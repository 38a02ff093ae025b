//! One outward request: checked so that what a person is shown is exactly what is sent.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::arguments::Method;
use crate::plan::PlanError;

/// A body, bytes.
pub const BODY_MAX_BYTES: usize = 64 * 1024;

/// Headers the plugin or HTTP itself sets.
const RESERVED_HEADERS: [&str; 8] = [
    "connection",
    "content-length",
    "host",
    "idempotency-key",
    "keep-alive",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// A request as it goes out, its idempotency key included.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub method: Method,
    pub url: String,
    /// Without scheme, path and query.
    pub host: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Option<String>,
    pub idempotency_key: String,
}

impl Request {
    /// Checks and completes a request; `place` names it in an error.
    pub fn new(
        method: Method,
        url: String,
        headers: BTreeMap<String, String>,
        body: Option<Value>,
        place: &str,
        idempotency_key: String,
    ) -> Result<Request, PlanError> {
        let host = match host_of(&url) {
            Ok(host) => host.to_owned(),
            Err(fault) => {
                let place = place.to_owned();
                return Err(PlanError::Url { place, url, fault });
            }
        };
        let mut checked = Vec::with_capacity(headers.len() + 1);
        for (name, value) in headers {
            if let Some(fault) = header_fault(&name, &value) {
                let place = place.to_owned();
                return Err(PlanError::Header { place, name, fault });
            }
            checked.push((name.to_ascii_lowercase(), value));
        }
        if method.is_safe() && body.is_some() {
            return Err(PlanError::SafeBody(place.to_owned()));
        }
        let body = match body {
            None => None,
            Some(Value::String(text)) => Some(text),
            Some(value) => {
                if !checked.iter().any(|(name, _)| name == "content-type") {
                    checked.push(("content-type".to_owned(), "application/json".to_owned()));
                }
                Some(value.to_string())
            }
        };
        if body
            .as_ref()
            .is_some_and(|body| body.len() > BODY_MAX_BYTES)
        {
            return Err(PlanError::Body(place.to_owned()));
        }
        Ok(Request {
            method,
            url,
            host,
            headers: checked,
            body,
            idempotency_key,
        })
    }
}

/// The host and port of an absolute URL. Only what a person can read unambiguously is let through:
/// what is shown in the question is exactly what is sent.
fn host_of(url: &str) -> Result<&str, &'static str> {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))
        .ok_or("must begin with http:// or https://")?;
    if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("may hold printable ASCII only; percent-encode the rest");
    }
    if url.contains(['#', '\\', '"', '<', '>', '^', '`', '{', '|', '}']) {
        return Err("holds a character that must be percent-encoded");
    }
    let host = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
    if host.contains('@') {
        return Err("must not hold a user or password");
    }
    let (name, port) = match host.rfind(':') {
        Some(colon) if !host.ends_with(']') => (&host[..colon], Some(&host[colon + 1..])),
        _ => (host, None),
    };
    if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return Err("has a port that is not a number of 0 to 65535");
    }
    let address = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let fits = match address {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
        }
    };
    if fits { Ok(host) } else { Err("has no host") }
}

fn header_fault(name: &str, value: &str) -> Option<&'static str> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        return Some("is not a header's name");
    }
    if RESERVED_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
        return Some("is set by the plugin; leave it out");
    }
    let printable = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    if value.len() > 4096 || !value.bytes().all(printable) {
        return Some("must have at most 4096 printable ASCII characters as its value");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_with_port_and_address() {
        let table = [
            ("http://h", "h"),
            ("http://h:80/a", "h:80"),
            ("https://[::1]:8443/a:b", "[::1]:8443"),
            ("https://[::1]", "[::1]"),
            ("https://h?a=b/c", "h"),
            ("https://a-b.c_d.example/x?y=z", "a-b.c_d.example"),
        ];
        for (url, host) in table {
            assert_eq!(host_of(url), Ok(host));
        }
    }
}
