//! What a request has to be before it is read: addressed to this host, sent by no foreign web page,
//! of the right type, and not too large or too slow.

use std::net::IpAddr;

use axum::body::Body;
use bytes::Bytes;
use http::header::{
    ACCEPT, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, ORIGIN, TRANSFER_ENCODING,
};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use super::{HttpOptions, TurnedAway};

/// What the client can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepts {
    pub json: bool,
    pub events: bool,
}

/// A web page can make a browser send a request to this machine under the page's own name (DNS
/// rebinding); so only names that are known to be this host's are served.
pub fn check_host(headers: &HeaderMap, uri: &Uri, options: &HttpOptions) -> Result<(), TurnedAway> {
    if headers.get_all(HOST).iter().count() > 1 {
        return Err(TurnedAway::new(
            StatusCode::BAD_REQUEST,
            "a request has one Host header",
        ));
    }
    let named = uri
        .authority()
        .map(Authority::as_str)
        .or_else(|| headers.get(HOST).and_then(|host| host.to_str().ok()))
        .unwrap_or_default();
    let is_allowed = authority(named).is_some_and(|authority| {
        is_loopback(authority.host())
            || options.allowed_hosts.iter().any(|allowed| {
                allowed.eq_ignore_ascii_case(authority.as_str())
                    || allowed.eq_ignore_ascii_case(authority.host())
            })
    });
    if is_allowed {
        Ok(())
    } else {
        Err(TurnedAway::new(
            StatusCode::FORBIDDEN,
            format!(
                "this host is not known as `{}`; reach it by a loopback name, or add the name to \
                 allowed_hosts in its configuration",
                shown(named)
            ),
        ))
    }
}

/// Refuses requests of web pages that are neither this machine's nor allowed
/// (basic/transports/streamable-http, "Security & Endpoint").
pub fn check_origin(headers: &HeaderMap, options: &HttpOptions) -> Result<(), TurnedAway> {
    for value in headers.get_all(ORIGIN) {
        let origin = value.to_str().unwrap_or_default();
        let is_local = origin
            .split_once("://")
            .filter(|(scheme, _)| matches!(*scheme, "http" | "https"))
            .and_then(|(_, rest)| authority(rest))
            .is_some_and(|authority| is_loopback(authority.host()));
        let is_allowed = options
            .allowed_origins
            .iter()
            .any(|allowed| allowed.eq_ignore_ascii_case(origin));
        if !is_local && !is_allowed {
            return Err(TurnedAway::new(
                StatusCode::FORBIDDEN,
                format!(
                    "web pages of origin `{}` may not call this host; add the origin to \
                     allowed_origins in its configuration if they should",
                    shown(origin)
                ),
            ));
        }
    }
    Ok(())
}

/// Where the body of a request ends is read in one way only: by its length, or in chunks. Another
/// coding before the chunks, or chunks twice, would be left in the body (RFC 9112, 6.1).
pub fn check_framing(headers: &HeaderMap) -> Result<(), TurnedAway> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if is_chunked(coding) => Ok(()),
        _ => Err(TurnedAway::new(
            StatusCode::NOT_IMPLEMENTED,
            "of all transfer codings only `Transfer-Encoding: chunked` is read, once",
        )),
    }
}

/// A body is read as it was sent: one that would have to be decoded first could grow without bound.
pub fn check_content(headers: &HeaderMap) -> Result<(), TurnedAway> {
    for value in headers.get_all(CONTENT_ENCODING) {
        let mut codings = value.to_str().unwrap_or("?").split(',').map(str::trim);
        let is_plain = |coding: &str| coding.is_empty() || coding.eq_ignore_ascii_case("identity");
        if let Some(coding) = codings.find(|coding| !is_plain(coding)) {
            return Err(TurnedAway::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                format!(
                    "a body encoded as `{}` is not read; send it as it is, without Content-Encoding",
                    shown(coding)
                ),
            ));
        }
    }
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let sent = types.next().and_then(|value| value.to_str().ok());
    if types.next().is_some() {
        return Err(TurnedAway::new(
            StatusCode::BAD_REQUEST,
            "a request has one Content-Type header",
        ));
    }
    let media_type = sent.and_then(|value| value.split(';').next());
    if media_type.is_some_and(|text| text.trim().eq_ignore_ascii_case("application/json")) {
        Ok(())
    } else {
        Err(TurnedAway::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "a message is sent as `Content-Type: application/json`",
        ))
    }
}

/// A client has to accept both JSON and event streams; one that names neither reads no answer. One
/// that names a single type, or sends no header, is served as far as that goes.
pub fn accepts(headers: &HeaderMap) -> Result<Accepts, TurnedAway> {
    let mut accepts = Accepts {
        json: false,
        events: false,
    };
    let mut is_sent = false;
    for value in headers.get_all(ACCEPT) {
        is_sent = true;
        for range in value.to_str().unwrap_or_default().split(',') {
            let media_type = range.split(';').next().unwrap_or_default().trim();
            let is = |name: &str| media_type.eq_ignore_ascii_case(name);
            accepts.json |= is("application/json") || is("application/*") || is("*/*");
            accepts.events |= is("text/event-stream") || is("text/*") || is("*/*");
        }
    }
    if !is_sent {
        accepts.json = true;
        accepts.events = true;
    }
    if accepts.json || accepts.events {
        Ok(accepts)
    } else {
        Err(TurnedAway::new(
            StatusCode::NOT_ACCEPTABLE,
            "answers come as JSON or as events; send `Accept: application/json, text/event-stream`",
        ))
    }
}

/// The handshake revisions answer with events.
pub fn check_events(accepts: Accepts) -> Result<(), TurnedAway> {
    if accepts.events {
        Ok(())
    } else {
        Err(TurnedAway::new(
            StatusCode::NOT_ACCEPTABLE,
            "a session answers with events; send `Accept: application/json, text/event-stream`",
        ))
    }
}

/// The answer to a request whose connection had to make room while its body was awaited.
pub fn too_slow() -> TurnedAway {
    TurnedAway::new(
        StatusCode::REQUEST_TIMEOUT,
        "the body was slow to arrive, and its connection is needed for another; send it in one go",
    )
}

/// What is read and dropped of a body that is too large, bytes. A client that is still sending
/// when the connection closes may never see why.
const DISCARD_MAX_BYTES: usize = 8 * 1024 * 1024;

pub async fn read_body(
    headers: &HeaderMap,
    mut body: Body,
    options: &HttpOptions,
) -> Result<Bytes, TurnedAway> {
    let max = options.body_max_bytes;
    let too_large = || {
        TurnedAway::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is larger than {max} bytes; pass large data by reference"),
        )
    };
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > max) {
        // A client that waits for leave to send needs none of it taken.
        if !headers.contains_key(EXPECT) {
            let _ = timeout(options.body_timeout, discard(body)).await;
        }
        return Err(too_large());
    }
    let collected = timeout(options.body_timeout, Limited::new(&mut body, max).collect());
    match collected.await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let _ = timeout(options.body_timeout, discard(body)).await;
            Err(too_large())
        }
        Ok(Err(_)) => Err(TurnedAway::new(
            StatusCode::BAD_REQUEST,
            "the body ended before it was whole",
        )),
        Err(_) => Err(TurnedAway::new(
            StatusCode::REQUEST_TIMEOUT,
            format!(
                "the body did not arrive within {}; send it in one go",
                humantime::format_duration(options.body_timeout)
            ),
        )),
    }
}

async fn discard(mut body: Body) {
    let mut left = DISCARD_MAX_BYTES;
    while let Some(Ok(frame)) = body.frame().await {
        let read = frame.data_ref().map_or(0, Bytes::len);
        match left.checked_sub(read) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

/// A host and perhaps its port, which all readers tell apart alike: of `a@b` some take one for the host
/// and some the other, and of `[::1]b` as well. RFC 9110, 7.2 has no user.
fn authority(text: &str) -> Option<Authority> {
    let authority: Authority = text.parse().ok()?;
    let port = text.strip_prefix(authority.host())?;
    let is_port = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
    let is_plain = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    is_plain.then_some(authority)
}

fn is_loopback(host: &str) -> bool {
    let address = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || address
            .parse::<IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback())
}

/// A client's text, short enough for a message.
fn shown(text: &str) -> String {
    text.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use std::convert::Infallible;
    use std::time::Duration;

    fn options() -> HttpOptions {
        HttpOptions {
            allowed_hosts: vec!["tools.example.com".into(), "10.0.0.5:8080".into()],
            allowed_origins: vec!["https://app.example.com".into()],
            body_max_bytes: 8,
            ..HttpOptions::default()
        }
    }

    fn with(name: http::HeaderName, value: &str) -> HeaderMap {
        [(name, value.parse().unwrap())].into_iter().collect()
    }

    #[test]
    fn only_loopback_and_configured_hosts_are_served() {
        let check = |host: &str| {
            check_host(&with(HOST, host), &Uri::from_static("/mcp"), &options()).is_ok()
        };
        for host in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:4000",
            "127.8.8.8",
            "[::1]:4000",
            "tools.example.com",
            "Tools.Example.com:443",
            "10.0.0.5:8080",
        ] {
            assert!(check(host), "{host}");
        }
        for host in [
            "",
            "evil.example.com",
            "localhost.evil.example.com",
            "10.0.0.5",
            "10.0.0.5:8081",
            "0.0.0.0",
            "user@localhost.evil",
            "user@localhost",
            "user@127.0.0.1:4000",
            "user:secret@tools.example.com",
            "localhost@evil.example.com",
            "[::1]evil",
            "[::1]evil:80",
            "[::1].evil.example.com",
            "[::1]:80evil",
            "localhost:evil",
            "a b",
        ] {
            assert!(!check(host), "{host}");
        }
        let mut twice = with(HOST, "localhost");
        twice.append(HOST, "localhost".parse().unwrap());
        let refused = check_host(&twice, &Uri::from_static("/mcp"), &options()).unwrap_err();
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        let none = HeaderMap::new();
        assert!(check_host(&none, &Uri::from_static("/mcp"), &options()).is_err());
        let absolute = Uri::from_static("http://evil.example.com/mcp");
        let spoofed = with(HOST, "localhost");
        assert!(check_host(&spoofed, &absolute, &options()).is_err());
    }

    #[test]
    fn foreign_web_pages_are_refused() {
        let check = |origin: &str| check_origin(&with(ORIGIN, origin), &options()).is_ok();
        for origin in [
            "http://localhost:3000",
            "https://127.0.0.1",
            "http://[::1]:1",
            "https://app.example.com",
        ] {
            assert!(check(origin), "{origin}");
        }
        for origin in [
            "null",
            "",
            "http://evil.example.com",
            "http://localhost.evil.example.com",
            "file://localhost",
            "http://user@localhost",
            "http://[::1]evil",
            "http://[::1].evil.example.com",
            "http://localhost:evil",
            "http://app.example.com",
            "https://app.example.com:8443",
        ] {
            assert!(!check(origin), "{origin}");
        }
        assert!(check_origin(&HeaderMap::new(), &options()).is_ok());
    }

    #[test]
    fn a_message_is_json() {
        for (value, fits) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("text/plain", false),
            ("application/jsonp", false),
            ("", false),
        ] {
            let headers = with(CONTENT_TYPE, value);
            assert_eq!(check_content(&headers).is_ok(), fits, "{value}");
        }
        assert!(check_content(&HeaderMap::new()).is_err());
        let mut twice = with(CONTENT_TYPE, "application/json");
        twice.append(CONTENT_TYPE, "text/plain".parse().unwrap());
        let refused = check_content(&twice).unwrap_err();
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    }

    #[test]
    fn a_body_comes_in_chunks_and_in_no_other_coding() {
        for (values, fits) in [
            (&[][..], true),
            (&["chunked"], true),
            (&["Chunked"], true),
            (&["gzip, chunked"], false),
            (&["chunked, chunked"], false),
            (&["chunked", "chunked"], false),
            (&["identity", "chunked"], false),
            (&["gzip"], false),
            (&[""], false),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(TRANSFER_ENCODING, value.parse().unwrap());
            }
            assert_eq!(check_framing(&headers).is_ok(), fits, "{values:?}");
        }
    }

    #[test]
    fn a_body_is_sent_without_any_coding() {
        for (value, fits) in [
            ("identity", true),
            ("Identity", true),
            ("gzip", false),
            ("identity, gzip", false),
            ("", true),
        ] {
            let mut headers = with(CONTENT_TYPE, "application/json");
            headers.insert(CONTENT_ENCODING, value.parse().unwrap());
            assert_eq!(check_content(&headers).is_ok(), fits, "{value}");
        }
    }

    #[test]
    fn what_the_client_reads_decides_the_form_of_the_answer() {
        let both = Accepts {
            json: true,
            events: true,
        };
        let json = Accepts {
            events: false,
            ..both
        };
        let events = Accepts {
            json: false,
            ..both
        };
        for (value, expected) in [
            ("application/json, text/event-stream", Some(both)),
            ("text/event-stream;q=0.5 , application/json", Some(both)),
            ("*/*", Some(both)),
            ("application/json", Some(json)),
            ("text/event-stream", Some(events)),
            ("text/html", None),
            ("", None),
        ] {
            assert_eq!(accepts(&with(ACCEPT, value)).ok(), expected, "{value}");
        }
        assert_eq!(accepts(&HeaderMap::new()), Ok(both));
    }

    #[tokio::test]
    async fn a_body_is_bounded_whether_or_not_its_size_is_announced() {
        let none = HeaderMap::new();
        let status = |result: Result<Bytes, TurnedAway>| result.map_err(|away| away.status);
        let read = |body: Body| async { status(read_body(&none, body, &options()).await) };
        let chunks = |texts: &'static [&'static str]| {
            Body::from_stream(stream::iter(
                texts.iter().map(|text| Ok::<_, Infallible>(*text)),
            ))
        };
        assert_eq!(read(chunks(&["1234", "5678"])).await, Ok("12345678".into()));
        assert_eq!(
            read(chunks(&["1234", "5678", "9"])).await,
            Err(StatusCode::PAYLOAD_TOO_LARGE)
        );
        let announced = with(CONTENT_LENGTH, "9");
        assert_eq!(
            status(read_body(&announced, Body::empty(), &options()).await),
            Err(StatusCode::PAYLOAD_TOO_LARGE)
        );
    }

    #[tokio::test]
    async fn a_body_that_never_comes_is_given_up() {
        let options = HttpOptions {
            body_timeout: Duration::from_millis(1),
            ..options()
        };
        let body = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        let away = read_body(&HeaderMap::new(), body, &options)
            .await
            .unwrap_err();
        assert_eq!(away.status, StatusCode::REQUEST_TIMEOUT);
    }
}
