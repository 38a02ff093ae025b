//! Which requests the grants allow. Pure: no lookup, no connection.

use std::net::IpAddr;

use http::Uri;

use crate::wasm::{AskGrant, HttpGrant};

/// A request's destination, taken apart and normalised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::wasm) struct Target {
    pub is_tls: bool,
    /// A lower-case name without a final dot, or an address.
    pub host: Host,
    pub port: u16,
    pub path: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::wasm) enum Host {
    Name(String),
    Address(IpAddr),
}

/// Which addresses a granted host may stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The grant names this very address: the operator's word is enough.
    Exactly(IpAddr),
    /// The grant says `localhost`.
    Loopback,
    /// A name: it must not lead into the host's own networks.
    Public,
}

impl Target {
    /// None when the URI can't be a destination: other schemes, a user name, no host, port 0.
    pub fn parse(uri: &Uri) -> Option<Target> {
        let is_tls = match uri.scheme_str()? {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let authority = uri.authority()?;
        if authority.as_str().contains('@') {
            return None;
        }
        let default_port = if is_tls { 443 } else { 80 };
        let port = match authority.port() {
            Some(port) => port.as_str().parse().ok()?,
            // `host:` has a colon and no port; what it means is not worth guessing.
            None if authority.as_str().ends_with(':') => return None,
            None => default_port,
        };
        (port != 0).then_some(Target {
            is_tls,
            host: Host::parse(authority.host())?,
            port,
            path: uri.path().to_owned(),
        })
    }

    /// The destination as a person would write it, without its query.
    pub fn describe(&self) -> String {
        let (scheme, host) = (self.scheme(), self.host.as_text());
        let path: String = self.path.chars().take(200).collect();
        format!("{scheme}://{host}:{}{path}", self.port)
    }

    fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }

    fn default_port(&self) -> u16 {
        if self.is_tls { 443 } else { 80 }
    }
}

impl Host {
    pub fn parse(text: &str) -> Option<Host> {
        let text = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'))
            .unwrap_or(text);
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Host::Address(address));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        (!name.is_empty()).then_some(Host::Name(name))
    }

    fn as_text(&self) -> String {
        match self {
            Host::Name(name) => name.clone(),
            Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
            Host::Address(address) => address.to_string(),
        }
    }
}

/// What a person may be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::wasm) struct Asked {
    /// The rule, narrowed to the request's scheme, host and port.
    pub http: HttpGrant,
    pub remember: bool,
    pub why: String,
}

/// The first rule that covers the request.
pub(super) fn find_askable(rules: &[AskGrant], target: &Target, method: &str) -> Option<Asked> {
    rules.iter().find_map(|rule| {
        let host = match is_below(&rule.http.host, &target.host) {
            true => target.host.as_text(),
            false => rule.http.host.clone(),
        };
        let narrowed = HttpGrant {
            scheme: Some(target.scheme().to_owned()),
            host,
            port: Some(target.port),
            ..rule.http.clone()
        };
        let covers =
            fits_conditions(&rule.http, target) && reach(&narrowed, target, method).is_some();
        covers.then(|| Asked {
            // The host as the request has it, so that one place has one name.
            http: HttpGrant {
                host: target.host.as_text(),
                ..narrowed
            },
            remember: rule.remember,
            why: rule.why.clone(),
        })
    })
}

/// Whether a pattern of hosts stands for this one: never for an address, nor for the host's own.
fn is_below(pattern: &str, host: &Host) -> bool {
    let Host::Name(name) = host else {
        return false;
    };
    let Some(suffix) = pattern.strip_prefix('*') else {
        return false;
    };
    let is_local = name == "localhost" || name.ends_with(".localhost");
    !is_local && name.len() > suffix.len() && name.ends_with(&suffix.to_ascii_lowercase())
}

/// The reach of the first grant that allows `target`, or None (I5).
pub(super) fn find_reach(grants: &[HttpGrant], target: &Target, method: &str) -> Option<Reach> {
    grants.iter().find_map(|grant| reach(grant, target, method))
}

fn reach(grant: &HttpGrant, target: &Target, method: &str) -> Option<Reach> {
    let method_fits = grant
        .methods
        .as_ref()
        .is_none_or(|methods| methods.contains(method));
    let granted_host = Host::parse(&grant.host)?;
    let fits = fits_conditions(grant, target)
        && method_fits
        && granted_host == target.host
        && path_is_below(&grant.path_prefix, &target.path);
    fits.then(|| match granted_host {
        Host::Address(address) => Reach::Exactly(address),
        Host::Name(name) if name == "localhost" => Reach::Loopback,
        Host::Name(_) => Reach::Public,
    })
}

/// Scheme and port.
fn fits_conditions(grant: &HttpGrant, target: &Target) -> bool {
    let scheme_fits = grant
        .scheme
        .as_deref()
        .is_none_or(|scheme| scheme.eq_ignore_ascii_case(target.scheme()));
    scheme_fits && grant.port.unwrap_or(target.default_port()) == target.port
}

/// Whether `path` lies below `prefix`, whatever the server makes of it: a path that some servers
/// read as another one (dot segments, hidden separators) lies below no prefix but `/`.
fn path_is_below(prefix: &str, path: &str) -> bool {
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    if prefix.is_empty() {
        return true;
    }
    let Some(rest) = path.strip_prefix(prefix) else {
        return false;
    };
    (rest.is_empty() || rest.starts_with('/')) && path.split('/').all(is_plain)
}

/// Whether a segment means itself on every server.
fn is_plain(segment: &str) -> bool {
    let mut decoded = segment.as_bytes().to_vec();
    // Twice, since some servers decode what a proxy already decoded.
    for _ in 0..2 {
        decoded = percent_decode(&decoded);
        let hides_a_separator = decoded
            .iter()
            .any(|byte| matches!(byte, b'/' | b'\\' | b'\0'));
        // Some servers cut parameters off before they look at the segment.
        let name = decoded.split(|byte| *byte == b';').next().unwrap_or(&[]);
        if hides_a_separator || matches!(name, b"." | b"..") {
            return false;
        }
    }
    true
}

fn percent_decode(bytes: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, tail)) = rest.split_first() {
        let escaped = match tail {
            [high, low, ..] if byte == b'%' => hex_digit(*high).zip(hex_digit(*low)),
            _ => None,
        };
        if let Some((high, low)) = escaped {
            decoded.push(high << 4 | low);
            rest = &tail[2..];
        } else {
            decoded.push(byte);
            rest = tail;
        }
    }
    decoded
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(scheme: Option<&str>, host: &str, port: Option<u16>, prefix: &str) -> HttpGrant {
        HttpGrant {
            scheme: scheme.map(str::to_owned),
            host: host.to_owned(),
            port,
            path_prefix: prefix.to_owned(),
            methods: None,
        }
    }

    fn ask(grant: &HttpGrant, uri: &str) -> Option<Reach> {
        let target = Target::parse(&uri.parse().unwrap())?;
        find_reach(std::slice::from_ref(grant), &target, "GET")
    }

    fn askable(host: &str, port: Option<u16>, uri: &str) -> Option<String> {
        let rule = AskGrant {
            http: grant(None, host, port, "/v1/"),
            remember: false,
            why: String::new(),
        };
        let target = Target::parse(&uri.parse().unwrap())?;
        find_askable(&[rule], &target, "GET").map(|asked| asked.http.to_string())
    }

    #[test]
    fn a_rule_to_ask_is_narrowed_to_where_the_request_goes() {
        let asked = askable("*.example.com", None, "https://API.example.com./v1/x");
        assert_eq!(asked.as_deref(), Some("https://api.example.com:443/v1/"));
        let asked = askable("127.0.0.1", Some(81), "http://127.0.0.1:81/v1/x");
        assert_eq!(asked.as_deref(), Some("http://127.0.0.1:81/v1/"));
        for uri in [
            "https://example.com/v1/",
            "https://api.example.com:8443/v1/",
            "https://api.example.com/v2/",
            "https://badexample.com/v1/",
        ] {
            assert_eq!(askable("*.example.com", None, uri), None, "{uri}");
        }
    }

    #[test]
    fn a_pattern_stands_for_no_address_and_not_for_the_host_itself() {
        for uri in [
            "http://127.0.0.1/v1/",
            "http://[::1]/v1/",
            "http://169.254.169.254/v1/",
            "http://localhost/v1/",
            "http://db.localhost/v1/",
        ] {
            assert_eq!(askable("*", None, uri), None, "{uri}");
        }
        assert!(askable("*", None, "http://a.example/v1/").is_some());
    }

    #[test]
    fn a_grant_of_some_methods_allows_no_others() {
        let api = HttpGrant {
            methods: Some(["GET".to_owned()].into()),
            ..grant(None, "a.example", None, "/")
        };
        let target = Target::parse(&"http://a.example/".parse().unwrap()).unwrap();
        assert!(reach(&api, &target, "GET").is_some());
        for method in ["POST", "get", "HEAD", "DELETE"] {
            assert!(reach(&api, &target, method).is_none(), "{method}");
        }
    }

    #[test]
    fn a_grant_allows_its_scheme_host_and_port_and_nothing_else() {
        let api = grant(Some("https"), "API.example.com", None, "/");
        assert_eq!(
            ask(&api, "https://api.example.com/x?y=1"),
            Some(Reach::Public)
        );
        assert_eq!(
            ask(&api, "https://api.example.com.:443/"),
            Some(Reach::Public)
        );
        for uri in [
            "http://api.example.com/",
            "https://api.example.com:8443/",
            "https://example.com/",
            "https://api.example.com.evil.example/",
            "https://xapi.example.com/",
            "https://user@api.example.com/",
            "https://api.example.com@evil.example/",
        ] {
            assert_eq!(ask(&api, uri), None, "{uri}");
        }
    }

    #[test]
    fn a_grant_without_a_scheme_takes_the_own_port_of_each() {
        let api = grant(None, "a.example", None, "/");
        assert!(ask(&api, "http://a.example/").is_some());
        assert!(ask(&api, "https://a.example/").is_some());
        assert!(ask(&api, "http://a.example:443/").is_none());
        let local = grant(None, "localhost", Some(8080), "/");
        assert_eq!(ask(&local, "http://localhost:8080/"), Some(Reach::Loopback));
        assert!(ask(&local, "http://localhost/").is_none());
    }

    #[test]
    fn an_address_is_matched_as_an_address() {
        let local = grant(None, "127.0.0.1", Some(80), "/");
        assert!(matches!(
            ask(&local, "http://127.0.0.1/"),
            Some(Reach::Exactly(_))
        ));
        for uri in [
            "http://127.1/",
            "http://2130706433/",
            "http://[::ffff:127.0.0.1]/",
        ] {
            assert_eq!(ask(&local, uri), None, "{uri}");
        }
        let six = grant(None, "::1", None, "/");
        assert!(ask(&six, "http://[0:0:0:0:0:0:0:1]/").is_some());
    }

    #[test]
    fn a_path_prefix_ends_at_a_segment() {
        let v1 = grant(None, "a.example", None, "/v1/");
        for path in ["/v1", "/v1/", "/v1/items/7"] {
            assert!(
                ask(&v1, &format!("http://a.example{path}")).is_some(),
                "{path}"
            );
        }
        for path in ["/", "/v10", "/V1/x", "/%76%31/x"] {
            assert!(
                ask(&v1, &format!("http://a.example{path}")).is_none(),
                "{path}"
            );
        }
    }

    #[test]
    fn a_path_that_could_climb_out_of_its_prefix_is_refused() {
        let v1 = grant(None, "a.example", None, "/v1");
        for path in [
            "/v1/../admin",
            "/v1/./x",
            "/v1/%2e%2e/admin",
            "/v1/.%2E/admin",
            "/v1/%252e%252e/admin",
            "/v1/..;x=1/admin",
            "/v1/..%2fadmin",
            "/v1/x%5c..%5cadmin",
            "/v1/x%00",
        ] {
            assert!(
                ask(&v1, &format!("http://a.example{path}")).is_none(),
                "{path}"
            );
        }
        let all = grant(None, "a.example", None, "/");
        assert!(ask(&all, "http://a.example/projects/a%2Fb").is_some());
    }
}
