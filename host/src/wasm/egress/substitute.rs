//! Puts secrets in the place of their placeholders: in headers, in the query and in the body of a
//! request that goes where the secret may go, and nowhere else.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH};
use http::{HeaderMap, HeaderValue, Request, Uri};
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use hyper::body::Frame;
use wasmtime_wasi_http::{Error, WasiBody};

use super::policy::{Target, find_reach};
use crate::wasm::log::Log;
use crate::wasm::secrets::{Secret, Secrets};

/// A larger body is sent as the guest wrote it.
const BODY_MAX_BYTES: usize = 1 << 20;

/// The request with the secrets that may go to `target`. What can't be filled in is noted in the
/// run's log.
pub(super) async fn fill_in(
    secrets: &Secrets,
    target: &Target,
    request: Request<WasiBody>,
    log: &Log,
) -> Result<Request<WasiBody>, Error> {
    let method = request.method().clone();
    let secrets: Vec<&Secret> = secrets
        .iter()
        .filter(|secret| find_reach(&secret.hosts, target, method.as_str()).is_some())
        .collect();
    if secrets.is_empty() {
        return Ok(request);
    }
    let (mut parts, body) = request.into_parts();
    fill_headers(&secrets, &mut parts.headers).map_err(|name| {
        log.note(&format!(
            "refused a request: the secret `{name}` can't stand in a header, because it holds a line \
             break or another control character; have the operator correct it"
        ));
        Error::HttpProtocolError
    })?;
    // In a compressed answer a secret that is repeated would not be found.
    parts.headers.remove(ACCEPT_ENCODING);
    parts.uri = fill_query(&secrets, parts.uri)?;
    let body = match read_body(body).await? {
        Read::Whole(bytes) => {
            let filled = match fill_bytes(&secrets, &bytes, |secret| secret.to_owned()) {
                Some(filled) => Bytes::from(filled),
                None => bytes,
            };
            if let Some(length) = parts.headers.get_mut(CONTENT_LENGTH) {
                *length = HeaderValue::from(filled.len());
            }
            let full = Full::new(filled);
            full.map_err(|never| match never {}).boxed_unsync()
        }
        Read::TooLarge(body) => body,
    };
    Ok(Request::from_parts(parts, body))
}

/// The error names the secret that no header can hold.
fn fill_headers<'a>(secrets: &[&'a Secret], headers: &mut HeaderMap) -> Result<(), &'a str> {
    for value in headers.values_mut() {
        let text = value.as_bytes();
        let Some(filled) = fill_bytes(secrets, text, |secret| secret.to_owned()) else {
            continue;
        };
        let Ok(filled) = HeaderValue::from_bytes(&filled) else {
            let unfit = secrets.iter().find(|secret| {
                find(text, secret.placeholder.as_bytes()).is_some()
                    && HeaderValue::from_str(&secret.value).is_err()
            });
            return Err(unfit.map_or("", |secret| &secret.name));
        };
        *value = filled;
        value.set_sensitive(true);
    }
    Ok(())
}

enum Read {
    Whole(Bytes),
    TooLarge(WasiBody),
}

async fn read_body(mut body: WasiBody) -> Result<Read, Error> {
    let mut frames: Vec<Frame<Bytes>> = Vec::new();
    let mut size = 0;
    let mut is_plain = true;
    while let Some(frame) = body.frame().await {
        let frame = frame?;
        size += frame.data_ref().map_or(0, Bytes::len);
        is_plain &= frame.is_data();
        frames.push(frame);
        if size > BODY_MAX_BYTES {
            is_plain = false;
            break;
        }
    }
    if is_plain {
        let data = frames
            .into_iter()
            .filter_map(|frame| frame.into_data().ok());
        return Ok(Read::Whole(data.flatten().collect()));
    }
    // Also a body with trailers, which has none of its parts moved.
    let before = stream::iter(frames.into_iter().map(Ok));
    let whole = before.chain(BodyStream::new(body));
    Ok(Read::TooLarge(StreamBody::new(whole).boxed_unsync()))
}

/// Only what follows the `?`: a path is shown in logs.
fn fill_query(secrets: &[&Secret], uri: Uri) -> Result<Uri, Error> {
    let Some(query) = uri.query() else {
        return Ok(uri);
    };
    let Some(filled) = fill_bytes(secrets, query.as_bytes(), percent_encode) else {
        return Ok(uri);
    };
    let query = String::from_utf8(filled).map_err(|_| Error::HttpRequestUriInvalid)?;
    let path = format!("{}?{query}", uri.path());
    let mut parts = uri.into_parts();
    let path = path.parse().map_err(|_| Error::HttpRequestUriInvalid)?;
    parts.path_and_query = Some(path);
    Uri::from_parts(parts).map_err(|_| Error::HttpRequestUriInvalid)
}

/// None when there is no placeholder.
fn fill_bytes(
    secrets: &[&Secret],
    text: &[u8],
    written: impl Fn(&str) -> String,
) -> Option<Vec<u8>> {
    let mut filled: Option<Vec<u8>> = None;
    for secret in secrets {
        let placeholder = secret.placeholder.as_bytes();
        let mut rest = filled.as_deref().unwrap_or(text);
        let mut out = Vec::new();
        let mut is_found = false;
        while let Some(at) = find(rest, placeholder) {
            is_found = true;
            out.extend_from_slice(&rest[..at]);
            out.extend_from_slice(written(&secret.value).as_bytes());
            rest = &rest[at + placeholder.len()..];
        }
        if is_found {
            out.extend_from_slice(rest);
            filled = Some(out);
        }
    }
    filled
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    while let Some(at) = text[from..].iter().position(|byte| *byte == first) {
        if text[from + at..].starts_with(wanted) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

pub(super) fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(placeholder: &str, value: &str) -> Secret {
        Secret {
            name: String::new(),
            placeholder: placeholder.to_owned(),
            value: value.to_owned(),
            hosts: Vec::new(),
        }
    }

    #[test]
    fn every_placeholder_is_filled_and_nothing_else() {
        let (one, two) = (secret("<1>", "a"), secret("<2>", "<1>"));
        let fill = |text: &str| {
            let filled = fill_bytes(&[&one, &two], text.as_bytes(), |value| value.to_owned());
            filled.map(|filled| String::from_utf8(filled).unwrap())
        };
        assert_eq!(fill("<<1><1> <"), Some("<aa <".to_owned()));
        // A value that looks like a placeholder is a value.
        assert_eq!(fill("<2>"), Some("<1>".to_owned()));
        assert_eq!(fill("<3"), None);
    }

    #[test]
    fn a_query_is_filled_in_its_own_spelling_and_a_path_is_not() {
        let one = secret("one", "a b&c=d");
        let uri: Uri = "https://a.example/one?key=one".parse().unwrap();
        let filled = fill_query(&[&one], uri).unwrap();
        assert_eq!(filled, "https://a.example/one?key=a%20b%26c%3Dd");
    }
    #[test]
    fn a_secret_that_no_header_can_hold_is_named() {
        let (good, mut bad) = (secret("<1>", "a b"), secret("<2>", "a\nb"));
        bad.name = "API_KEY".to_owned();
        let fill = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-key", HeaderValue::from_static(text));
            fill_headers(&[&good, &bad], &mut headers).map(|()| headers)
        };
        assert_eq!(fill("k <1>").unwrap()["x-key"], "k a b");
        assert_eq!(fill("<1> <2>").unwrap_err(), "API_KEY");
    }
}
