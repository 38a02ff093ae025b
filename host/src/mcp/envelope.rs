//! Reads one JSON-RPC message: its frame, its `_meta`, its version, its method. The body is parsed
//! once into borrowed pieces; what a method needs of its `params` it takes from there.

use std::borrow::Cow;

use http::HeaderMap;
use serde::de::{Deserialize, Deserializer, IgnoredAny};
use serde_json::value::RawValue;

use super::client::Client;
use super::error::Refusal;
use super::headers;
use super::{Method, VERSIONS};
use crate::service::LogLevel;
use crate::task::Trace;

/// How deep a message may nest. serde_json gives up at 128, but only where it builds values.
const DEPTH_MAX: usize = 100;

/// Ids and progress tokens are sent back with every message of a stream.
const TOKEN_MAX_BYTES: usize = 1024;

/// What a request's `_meta` has to look like, for messages.
const META_EXAMPLE: &str = r#""_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}"#;

/// A request's id as the client wrote it, so that it goes back letter for letter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(String);

impl RequestId {
    pub fn as_json(&self) -> &str {
        &self.0
    }

    #[cfg(test)]
    pub fn for_tests(json: &str) -> RequestId {
        RequestId(json.to_owned())
    }
}

/// A request of the modern era whose envelope holds.
#[derive(Debug)]
pub struct Request<'a> {
    pub id: RequestId,
    pub method: Method,
    pub client: Client,
    pub params: Params<'a>,
}

/// The parameters that some method of ours knows, unread.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Params<'a> {
    #[serde(borrow, default, rename = "_meta", deserialize_with = "present")]
    meta: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub name: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub arguments: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub input_responses: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub request_state: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub task_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub uri: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub cursor: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub notifications: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "ref", deserialize_with = "present")]
    pub reference: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub argument: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub context: Option<&'a RawValue>,
    /// Of a legacy `initialize`.
    #[serde(borrow, default, deserialize_with = "present")]
    protocol_version: Option<&'a RawValue>,
}

/// A refusal with the id to answer under, if it could be read.
#[derive(Debug)]
pub struct Rejection {
    pub id: Option<RequestId>,
    pub refusal: Refusal,
}

#[derive(serde::Deserialize)]
struct Frame<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

#[derive(serde::Deserialize)]
struct Meta<'a> {
    #[serde(
        borrow,
        default,
        rename = "io.modelcontextprotocol/protocolVersion",
        deserialize_with = "present"
    )]
    version: Option<&'a RawValue>,
    #[serde(
        borrow,
        default,
        rename = "io.modelcontextprotocol/clientCapabilities",
        deserialize_with = "present"
    )]
    capabilities: Option<&'a RawValue>,
    #[serde(
        borrow,
        default,
        rename = "io.modelcontextprotocol/logLevel",
        deserialize_with = "present"
    )]
    log_level: Option<&'a RawValue>,
    #[serde(
        borrow,
        default,
        rename = "progressToken",
        deserialize_with = "present"
    )]
    progress_token: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    traceparent: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    tracestate: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    baggage: Option<&'a RawValue>,
}

/// Reads a message; None is a notification, of which this revision has none that asks anything of
/// an HTTP server. `headers` are those of its HTTP request, which repeat parts of it.
pub fn read<'a>(
    body: &'a [u8],
    headers: Option<&HeaderMap>,
) -> Result<Option<Request<'a>>, Rejection> {
    let frame = read_frame(body).map_err(|refusal| Rejection { id: None, refusal })?;
    let id = read_id(&frame).map_err(|refusal| Rejection { id: None, refusal })?;
    match read_request(frame, id.clone(), headers) {
        Ok(message) => Ok(message),
        Err(refusal) => Err(Rejection { id, refusal }),
    }
}

/// What a stream of messages has to know of one before it is read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub id: Option<RequestId>,
    pub method: String,
    /// The request that this message cancels.
    pub cancels: Option<RequestId>,
}

impl Head {
    /// Reads what can be read; what is wrong is found when the message is.
    pub fn read(body: &[u8]) -> Head {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled<'a> {
            #[serde(borrow)]
            request_id: &'a RawValue,
        }
        let Ok(frame) = read_frame(body) else {
            return Head::default();
        };
        let method = frame.method.and_then(text_of).unwrap_or_default();
        let cancels = match (&*method, frame.params) {
            ("notifications/cancelled", Some(params)) => parse::<Cancelled>(params, "params")
                .ok()
                .map(|cancelled| RequestId(cancelled.request_id.get().to_owned())),
            _ => None,
        };
        Head {
            id: read_id(&frame).ok().flatten(),
            method: method.into_owned(),
            cancels,
        }
    }

    /// Whether a client of either era may send this before it decides: it may ask which there are.
    pub fn is_of_both_eras(&self) -> bool {
        self.id.is_none() || self.method == "server/discover"
    }

    pub fn asks_for_status(&self) -> bool {
        self.method == super::status::METHOD
    }

    pub fn is_subscription(&self) -> bool {
        self.method == "subscriptions/listen"
    }
}

/// Whether a message opens a session of the handshake revisions.
pub fn is_handshake(body: &[u8]) -> bool {
    let opens = || {
        let frame = read_frame(body).ok()?;
        let method = text_of(frame.method?)?;
        let params: Params = parse(frame.params?, "params").ok()?;
        legacy_version(&method, &params)
    };
    opens().is_some()
}

/// What keeps a body from being one message of any era; what the message says is not looked at.
pub fn unreadable(body: &[u8]) -> Option<Refusal> {
    read_frame(body).err()
}

/// A body as text that is not empty and nests no deeper than a message may.
pub fn read_text(body: &[u8]) -> Result<&str, Refusal> {
    let text = std::str::from_utf8(body)
        .map_err(|error| Refusal::NotJson(format!("it is not UTF-8 ({error})")))?
        .trim_ascii();
    if text.is_empty() {
        return Err(Refusal::NotJson("it is empty".into()));
    }
    if is_deeper_than(text.as_bytes(), DEPTH_MAX) {
        return Err(Refusal::NotJson(format!(
            "it nests deeper than {DEPTH_MAX} levels"
        )));
    }
    Ok(text)
}

fn read_frame(body: &[u8]) -> Result<Frame<'_>, Refusal> {
    let text = read_text(body)?;
    if !text.starts_with('{') {
        serde_json::from_str::<IgnoredAny>(text)
            .map_err(|error| Refusal::NotJson(error.to_string()))?;
        let what = if text.starts_with('[') {
            "only revision 2025-03-26 has batches, within a session; send each message on its own"
        } else {
            "it has to be an object"
        };
        return Err(Refusal::NotARequest(what.into()));
    }
    serde_json::from_str(text).map_err(misfit)
}

/// JSON of another shape, or no JSON.
pub fn misfit(error: serde_json::Error) -> Refusal {
    if error.is_data() {
        Refusal::NotARequest(error.to_string())
    } else {
        Refusal::NotJson(error.to_string())
    }
}

/// Reads the id first, so that every later refusal can be answered under it.
fn read_id(frame: &Frame) -> Result<Option<RequestId>, Refusal> {
    let Some(raw) = frame.id else {
        return Ok(None);
    };
    let json = raw.get();
    if json.len() > TOKEN_MAX_BYTES {
        return Err(Refusal::NotARequest(format!(
            "`id` is longer than {TOKEN_MAX_BYTES} bytes"
        )));
    }
    if is_string_or_integer(json) {
        Ok(Some(RequestId(json.to_owned())))
    } else {
        Err(Refusal::NotARequest(
            "`id` has to be a string or an integer".into(),
        ))
    }
}

fn read_request<'a>(
    frame: Frame<'a>,
    id: Option<RequestId>,
    headers: Option<&HeaderMap>,
) -> Result<Option<Request<'a>>, Refusal> {
    let not = |what: &str| Refusal::NotARequest(what.into());
    if frame.jsonrpc.map(RawValue::get) != Some(r#""2.0""#) {
        return Err(not("`jsonrpc` has to be \"2.0\""));
    }
    let Some(method) = frame.method else {
        return Err(not(if frame.result.is_some() || frame.error.is_some() {
            "a client sends no responses; answers to a tool's questions go into inputResponses"
        } else {
            "`method` is missing"
        }));
    };
    let method = text_of(method).ok_or_else(|| not("`method` has to be a string"))?;
    let Some(id) = id else {
        return if method.starts_with("notifications/") {
            Ok(None)
        } else {
            Err(Refusal::NotARequest(format!("`{method}` needs an `id`")))
        };
    };
    let params: Params = match frame.params {
        Some(raw) => parse(raw, "params").map_err(Refusal::InvalidMeta)?,
        None => Params::default(),
    };
    if let Some(requested) = legacy_version(&method, &params) {
        return Err(Refusal::UnsupportedVersion { requested });
    }
    let client = read_meta(&params, headers)?;
    if let Some(headers) = headers {
        headers::check_method(headers, &method)?;
    }
    let method = Method::parse(&method).ok_or_else(|| Refusal::UnknownMethod(method.into()))?;
    if let Some(headers) = headers {
        headers::check_name(headers, method, &params)?;
    }
    Ok(Some(Request {
        id,
        method,
        client,
        params,
    }))
}

/// The version a handshake of the legacy era asks for. Without one it is not a handshake, but a
/// method that this era does not have.
fn legacy_version(method: &str, params: &Params) -> Option<String> {
    if method != "initialize" {
        return None;
    }
    Some(text_of(params.protocol_version?)?.into_owned())
}

fn read_meta(params: &Params, headers: Option<&HeaderMap>) -> Result<Client, Refusal> {
    let invalid = |what: String| Refusal::InvalidMeta(format!("{what}; example: {META_EXAMPLE}"));
    let meta: Option<Meta> = match params.meta {
        Some(raw) => Some(parse(raw, "params._meta").map_err(invalid)?),
        None => None,
    };
    let version = meta.as_ref().and_then(|meta| meta.version);
    let Some(version) = version else {
        // A client of an older revision says so in the header alone; it is helped best by hearing
        // which versions there are.
        if let Some(requested) = headers.and_then(headers::foreign_version) {
            return Err(Refusal::UnsupportedVersion { requested });
        }
        return Err(invalid(if params.meta.is_none() {
            "params._meta is missing".into()
        } else {
            "params._meta[\"io.modelcontextprotocol/protocolVersion\"] is missing".into()
        }));
    };
    let version = text_of(version).ok_or_else(|| {
        invalid(
            "params._meta[\"io.modelcontextprotocol/protocolVersion\"] has to be a string".into(),
        )
    })?;
    if let Some(headers) = headers {
        headers::check_version(headers, &version)?;
    }
    if !VERSIONS.contains(&&*version) {
        let requested = version.into_owned();
        return Err(Refusal::UnsupportedVersion { requested });
    }
    let Some(meta) = meta else {
        return Err(invalid("params._meta is missing".into()));
    };
    let Some(capabilities) = meta.capabilities else {
        return Err(invalid(
            "params._meta[\"io.modelcontextprotocol/clientCapabilities\"] is missing".into(),
        ));
    };
    let mut client = Client::read(capabilities).map_err(invalid)?;
    client.log_level = read_log_level(meta.log_level).map_err(Refusal::InvalidMeta)?;
    client.progress_token = read_token(meta.progress_token).map_err(Refusal::InvalidMeta)?;
    client.trace = read_trace(&meta);
    Ok(client)
}

/// The least that the client wants to hear; an unknown word is refused (server/utilities/logging,
/// "Error Handling").
fn read_log_level(raw: Option<&RawValue>) -> Result<Option<LogLevel>, String> {
    let Some(raw) = raw else {
        return Ok(None);
    };
    let word = text_of(raw);
    let level = LogLevel::ALL
        .into_iter()
        .find(|level| word.as_deref() == Some(level.as_str()));
    match level {
        Some(level) => Ok(Some(level)),
        None => Err(format!(
            "params._meta[\"io.modelcontextprotocol/logLevel\"] has to be one of {}",
            LogLevel::ALL.map(LogLevel::as_str).join(", ")
        )),
    }
}

/// What is wrong with a trace is no reason to refuse a request (Trace Context, 3.2.2.5).
fn read_trace(meta: &Meta) -> Option<Trace> {
    let parent = meta.traceparent.and_then(text_of);
    let state = meta.tracestate.and_then(text_of);
    let baggage = meta.baggage.and_then(text_of);
    Trace::read(parent.as_deref(), state.as_deref(), baggage.as_deref())
}

fn read_token(raw: Option<&RawValue>) -> Result<Option<String>, String> {
    let Some(json) = raw.map(RawValue::get) else {
        return Ok(None);
    };
    if is_string_or_integer(json) && json.len() <= TOKEN_MAX_BYTES {
        Ok(Some(json.to_owned()))
    } else {
        Err(format!(
            "params._meta.progressToken has to be a string or an integer of at most \
             {TOKEN_MAX_BYTES} bytes"
        ))
    }
}

/// Reads an object; `at` says in an error where it stands.
pub fn parse<'a, T: Deserialize<'a>>(raw: &'a RawValue, at: &str) -> Result<T, String> {
    // serde would take an array for a struct, field by field.
    if !is_object(raw) {
        return Err(format!("{at} has to be an object"));
    }
    serde_json::from_str(raw.get()).map_err(|error| format!("{at}: {error}"))
}

/// The text of a JSON string; borrowed when nothing in it is escaped. None when it is no string.
pub fn text_of(raw: &RawValue) -> Option<Cow<'_, str>> {
    let json = raw.get();
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(json).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

pub fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

fn is_string_or_integer(json: &str) -> bool {
    match json.as_bytes() {
        [b'"', ..] => true,
        [b'-' | b'0'..=b'9', ..] => !json.contains(['.', 'e', 'E']),
        _ => false,
    }
}

/// Keeps `null` apart from a member that is not there.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

fn is_deeper_than(json: &[u8], max: usize) -> bool {
    let mut depth = 0usize;
    let mut is_string = false;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if is_string => {
                bytes.next();
            }
            b'"' => is_string = !is_string,
            b'{' | b'[' if !is_string => {
                depth += 1;
                if depth > max {
                    return true;
                }
            }
            b'}' | b']' if !is_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
#[path = "envelope_tests.rs"]
mod tests;
