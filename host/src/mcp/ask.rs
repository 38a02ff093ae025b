//! `resources/read`, `prompts/get` and `completion/complete`: reads the request and starts it; the
//! answer goes the way of a tool's call.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::call::{self, Answering};
use super::envelope::Request;
use super::error::{Refusal, shortened};
use super::json::{parse, text_of};
use super::request_state::{ArgumentsDigest, Sealer};
use super::tell::hear;
use super::{Method, Output, members, tasks};
use crate::service::{AskRequest, Service, Subject, Wanted};
use crate::task::TenantId;

pub async fn ask(
    service: &Service,
    sealer: &Arc<Sealer>,
    tenant: &TenantId,
    request: &Request<'_>,
    can_stream: bool,
) -> Result<Output, Refusal> {
    let (wanted, name, arguments) = read_wanted(request)?;
    let digest = ArgumentsDigest::of(&arguments);
    let answering = Answering::new(service, sealer, tenant, request, name, digest);
    let earlier = answering.earlier(request).await?;
    let (listener, heard) = hear(&request.client, can_stream);
    let started = service
        .ask(AskRequest {
            tenant: tenant.clone(),
            wanted,
            abilities: request.client.abilities,
            earlier,
            responses: tasks::read_responses(request)?.unwrap_or_default(),
            live: None,
            trace: request.client.trace.clone(),
            listener,
        })
        .await;
    call::respond(answering, started, &request.client, heard, can_stream).await
}

/// What is asked for, with the name and the arguments that a later round is bound to.
fn read_wanted(request: &Request) -> Result<(Wanted, String, Map<String, Value>), Refusal> {
    match request.method {
        Method::ResourcesRead => {
            let uri = read_text(
                request.params.uri,
                "params.uri",
                "<a URI of resources/list>",
            )?;
            Ok((Wanted::Resource { uri: uri.clone() }, uri, Map::new()))
        }
        Method::PromptsGet => {
            let example = "<a prompt of prompts/list>";
            let name = read_text(request.params.name, "params.name", example)?;
            let arguments = read_texts(request.params.arguments, "params.arguments")?;
            let bound = arguments.iter().map(|(name, text)| {
                let text = Value::String(text.clone());
                (name.clone(), text)
            });
            let bound = bound.collect();
            let wanted = Wanted::Prompt {
                name: name.clone(),
                arguments,
            };
            Ok((wanted, name, bound))
        }
        _ => Ok((read_completion(request)?, String::new(), Map::new())),
    }
}

#[derive(Deserialize)]
struct Reference {
    r#type: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    uri: Option<String>,
}

#[derive(Deserialize)]
struct Argument {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct Chosen<'a> {
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

fn read_completion(request: &Request) -> Result<Wanted, Refusal> {
    const EXAMPLE: &str = r#"example: "ref": {"type": "ref/prompt", "name": "<a prompt>"}, "argument": {"name": "<one of its arguments>", "value": ""}"#;
    let invalid = |what: String| Refusal::InvalidParams(format!("{what}; {EXAMPLE}"));
    let missing = |at: &str| invalid(format!("{at} is missing"));
    let params = &request.params;
    let reference = params.reference.ok_or_else(|| missing("params.ref"))?;
    let reference: Reference = parse(reference, "params.ref").map_err(invalid)?;
    let subject = match (reference.r#type.as_str(), reference.name, reference.uri) {
        ("ref/prompt", Some(name), _) => Subject::Prompt(name),
        ("ref/resource", _, Some(uri)) => Subject::Template(uri),
        _ => {
            return Err(invalid(
                "params.ref has to be a ref/prompt with a name or a ref/resource with a uri".into(),
            ));
        }
    };
    let argument = params.argument.ok_or_else(|| missing("params.argument"))?;
    let argument: Argument = parse(argument, "params.argument").map_err(invalid)?;
    let chosen = match params.context {
        None => Vec::new(),
        Some(context) => {
            let context: Chosen = parse(context, "params.context").map_err(invalid)?;
            read_texts(context.arguments, "params.context.arguments")?
        }
    };
    Ok(Wanted::Completion {
        subject,
        argument: argument.name,
        value: argument.value,
        chosen,
    })
}

fn read_text(raw: Option<&RawValue>, at: &str, example: &str) -> Result<String, Refusal> {
    let key = at.rsplit('.').next().unwrap_or(at);
    let wrong =
        |what| Refusal::InvalidParams(format!("{at} {what}; example: \"{key}\": \"{example}\""));
    let raw = raw.ok_or_else(|| wrong("is missing"))?;
    let text = text_of(raw).ok_or_else(|| wrong("has to be a string"))?;
    Ok(text.into_owned())
}

/// An object of strings, in the order of its keys.
fn read_texts(raw: Option<&RawValue>, at: &str) -> Result<Vec<(String, String)>, Refusal> {
    let Some(raw) = raw else {
        return Ok(Vec::new());
    };
    let mut texts = BTreeMap::new();
    for (key, value) in members::read(raw, at).map_err(Refusal::InvalidParams)? {
        let Value::String(text) = value else {
            return Err(Refusal::InvalidParams(format!(
                "{at} has to be an object of strings, and `{}` is none",
                shortened(&key)
            )));
        };
        texts.insert(key, text);
    }
    Ok(texts.into_iter().collect())
}
