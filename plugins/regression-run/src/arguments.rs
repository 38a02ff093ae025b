//! The arguments, and the host under test as it may be written.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::discover::Filter;

/// Requests under way at once, at most.
pub const CONCURRENCY_MAX: usize = 16;

/// Requests under way at once when nobody says.
const CONCURRENCY_DEFAULT: usize = 4;

/// What to run.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// The host under test, for example `https://staging.example.com/api`; the paths of the cases
    /// are appended. The plugin must be granted it.
    #[schemars(length(min = 1, max = 2000))]
    pub base_url: String,
    /// Only cases whose path contains this. With `*` (within a directory), `**` (across) or `?`, the
    /// whole path must fit.
    #[schemars(length(min = 1, max = 500))]
    pub filter: Option<String>,
    /// Requests under way at once.
    #[serde(default = "concurrency_default")]
    #[schemars(range(min = 1, max = 16))]
    pub concurrency: usize,
}

fn concurrency_default() -> usize {
    CONCURRENCY_DEFAULT
}

impl Arguments {
    pub fn filter(&self) -> Option<Filter> {
        self.filter.as_deref().map(Filter::parse)
    }

    /// What is wrong although it fits the schema.
    pub fn fault(&self) -> Option<String> {
        let url = &self.base_url;
        let fault = |what: &str| Some(format!("base_url {url:?} {what}"));
        let Some(rest) = ["http://", "https://"]
            .iter()
            .find_map(|scheme| url.strip_prefix(scheme))
        else {
            return fault("must begin with http:// or https://");
        };
        let host = rest.split('/').next().unwrap_or_default();
        if !url.bytes().all(|byte| byte.is_ascii_graphic()) || url.contains(['?', '#', '\\']) {
            return fault("must be a plain URL without `?`, `#`, `\\` or spaces");
        }
        if host.contains('@') {
            return fault("must not hold a user or password");
        }
        if host.is_empty() || host.starts_with(':') {
            return fault("has no host");
        }
        if !(1..=CONCURRENCY_MAX).contains(&self.concurrency) {
            return Some(format!("concurrency must be 1 to {CONCURRENCY_MAX}"));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(base_url: &str) -> Option<String> {
        let arguments = serde_json::json!({ "base_url": base_url });
        let arguments: Arguments = serde_json::from_value(arguments).unwrap();
        assert_eq!(arguments.concurrency, CONCURRENCY_DEFAULT);
        arguments.fault()
    }

    #[test]
    fn a_base_url_may_have_port_and_path() {
        for url in [
            "http://h",
            "https://h:8/",
            "http://127.0.0.1:1/a/b",
            "http://[::1]:1",
        ] {
            assert_eq!(fault(url), None, "{url}");
        }
    }

    #[test]
    fn a_base_url_that_cannot_be_appended_to_is_refused() {
        let table = [
            ("h", "must begin"),
            ("ftp://h", "must begin"),
            ("http://", "no host"),
            ("http:///a", "no host"),
            ("http://:80", "no host"),
            ("http://a:b@h", "user or password"),
            ("http://h?a", "without `?`"),
            ("http://h/a b", "without `?`"),
        ];
        for (url, part) in table {
            assert!(fault(url).unwrap().contains(part), "{url}");
        }
    }
}
