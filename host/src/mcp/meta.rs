//! A request's `_meta`: the version, what the client can do, and what goes with every request. Of the
//! headers it knows the one that repeats the version.

use http::HeaderMap;
use serde_json::value::RawValue;

use super::client::Client;
use super::error::Refusal;
use super::json::{TOKEN_MAX_BYTES, is_string_or_integer, parse, present, text_of};
use super::{VERSIONS, headers};
use crate::service::LogLevel;
use crate::task::Trace;

/// What a request's `_meta` has to look like, for messages.
const META_EXAMPLE: &str = r#""_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}"#;

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

pub fn read(raw: Option<&RawValue>, headers: Option<&HeaderMap>) -> Result<Client, Refusal> {
    let invalid = |what: String| Refusal::InvalidMeta(format!("{what}; example: {META_EXAMPLE}"));
    let meta: Option<Meta> = match raw {
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
        return Err(invalid(if raw.is_none() {
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
