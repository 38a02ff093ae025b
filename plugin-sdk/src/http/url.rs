//! Takes a URL apart as far as `wasi:http` wants it; the host checks the parts.

use super::HttpError;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    pub is_https: bool,
    pub authority: &'a str,
    pub path_with_query: String,
}

pub(super) fn split(url: &str) -> Result<Parts<'_>, HttpError> {
    let invalid = |why: &str| HttpError::InvalidRequest(format!("`{url}` {why}"));
    let (scheme, rest) = url
        .split_once("://")
        .ok_or_else(|| invalid("is no absolute URL"))?;
    let is_https = match scheme.to_ascii_lowercase().as_str() {
        "https" => true,
        "http" => false,
        _ => return Err(invalid("is neither http nor https")),
    };
    // A fragment is the client's own and never sent.
    let rest = rest.split('#').next().unwrap_or_default();
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.is_empty() {
        return Err(invalid("names no host"));
    }
    if authority.contains('@') {
        return Err(invalid("holds credentials: send them in a header"));
    }
    let path_with_query = match path.starts_with('/') {
        true => path.to_string(),
        false => format!("/{path}"),
    };
    Ok(Parts {
        is_https,
        authority,
        path_with_query,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let cases = [
            ("http://a", false, "a", "/"),
            ("HTTPS://a.b:8443/c/d?e=f#g", true, "a.b:8443", "/c/d?e=f"),
            ("http://[::1]:80?x=/", false, "[::1]:80", "/?x=/"),
        ];
        for (url, is_https, authority, path) in cases {
            let expected = Parts {
                is_https,
                authority,
                path_with_query: path.into(),
            };
            assert_eq!(split(url), Ok(expected), "{url}");
        }
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        for url in [
            "/path",
            "ftp://a/",
            "http://",
            "http:///path",
            "http://user:secret@a/",
        ] {
            assert!(
                matches!(split(url), Err(HttpError::InvalidRequest(_))),
                "{url}"
            );
        }
    }
}
