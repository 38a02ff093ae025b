//! Reads one JSON-RPC message: its frame, its method, and with `meta` what every request says of its
//! client. The body is parsed once into borrowed pieces; what a method needs of its `params` it takes
//! from there.

use std::borrow::Cow;

use http::HeaderMap;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::client::Client;
use super::error::Refusal;
use super::json::{
    TOKEN_MAX_BYTES, is_string_or_integer, misfit, parse, present, read_text, text_of,
};
use super::{Method, headers, meta};

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

/// A request of this host's own methods, which says nothing of its client.
#[derive(Debug)]
pub struct OwnRequest<'a> {
    pub id: RequestId,
    pub method: Cow<'a, str>,
    pub params: Option<&'a RawValue>,
}

/// Reads a message that is a request of this host's own methods; None is a notification.
pub fn read_own(body: &[u8]) -> Result<Option<OwnRequest<'_>>, Rejection> {
    let frame = read_frame(body).map_err(|refusal| Rejection { id: None, refusal })?;
    let id = read_id(&frame).map_err(|refusal| Rejection { id: None, refusal })?;
    let params = frame.params;
    match read_method(&frame, id.clone()) {
        Ok(read) => Ok(read.map(|(id, method)| OwnRequest { id, method, params })),
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

/// The id and the method of a request; None is a notification.
fn read_method<'a>(
    frame: &Frame<'a>,
    id: Option<RequestId>,
) -> Result<Option<(RequestId, Cow<'a, str>)>, Refusal> {
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
    match id {
        Some(id) => Ok(Some((id, method))),
        None if method.starts_with("notifications/") => Ok(None),
        None => Err(Refusal::NotARequest(format!("`{method}` needs an `id`"))),
    }
}

fn read_request<'a>(
    frame: Frame<'a>,
    id: Option<RequestId>,
    headers: Option<&HeaderMap>,
) -> Result<Option<Request<'a>>, Refusal> {
    let Some((id, method)) = read_method(&frame, id)? else {
        return Ok(None);
    };
    let params: Params = match frame.params {
        Some(raw) => parse(raw, "params").map_err(Refusal::InvalidMeta)?,
        None => Params::default(),
    };
    if let Some(requested) = legacy_version(&method, &params) {
        return Err(Refusal::UnsupportedVersion { requested });
    }
    let client = meta::read(params.meta, headers)?;
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

#[cfg(test)]
#[path = "envelope_tests.rs"]
mod tests;
