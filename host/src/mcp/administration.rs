//! What an administrator asks for over the local socket: to list, inspect, add, replace and remove
//! plugins. It is reached by a connection that began as an administrator's and by no other (I5): for
//! tenants, over whatever, these methods do not exist. What they do is [`crate::admin`]'s.

use std::path::PathBuf;

use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::envelope::{self, OwnRequest, Rejection};
use super::error::Refusal;
use super::json::parse;
use super::{Endpoint, Outcome, RequestId, refused, status, wire};
use crate::admin::{AdminError, Installed};
use crate::service::CallError;

const LIST: &str = "longshore/plugins/list";
const INSPECT: &str = "longshore/plugins/inspect";
const ADD: &str = "longshore/plugins/add";
const REPLACE: &str = "longshore/plugins/replace";
const REMOVE: &str = "longshore/plugins/remove";

/// All that an administrator may ask for.
pub const METHODS: [&str; 6] = [LIST, INSPECT, ADD, REPLACE, REMOVE, status::METHOD];

/// A plugin on the host's machine.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PluginParams {
    path: PathBuf,
    /// What a component on its own is to be called.
    name: Option<String>,
    #[serde(rename = "_meta")]
    _meta: Option<IgnoredAny>,
}

/// A plugin that the host has.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RemoveParams {
    name: String,
    /// Whether its tasks are cancelled.
    #[serde(default)]
    now: bool,
    #[serde(rename = "_meta")]
    _meta: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoParams {
    #[serde(rename = "_meta")]
    _meta: Option<IgnoredAny>,
}

/// Answers one message of an administrator. Dropping it leaves what was begun either done or undone.
pub async fn answer(endpoint: &Endpoint, line: &[u8]) -> Outcome {
    let request = match envelope::read_own(line) {
        Ok(Some(request)) => request,
        Ok(None) => return Outcome::Accepted,
        Err(Rejection { id, refusal }) => return refused(id.as_ref(), &refusal),
    };
    match perform(endpoint, &request).await {
        Ok(result) => Outcome::Message {
            status: StatusCode::OK,
            json: response(&request.id, &result),
        },
        Err(refusal) => refused(Some(&request.id), &refusal),
    }
}

async fn perform(endpoint: &Endpoint, request: &OwnRequest<'_>) -> Result<Value, Refusal> {
    let (admin, params) = (&endpoint.0.admin, request.params);
    // Before the first look nothing is served, and nothing failed.
    endpoint.0.service.until_loaded().await;
    Ok(match &*request.method {
        LIST => {
            if params.is_some() {
                read::<NoParams>(params)?;
            }
            admin.list().await.to_json()
        }
        INSPECT => {
            let plugin = read_plugin(params)?;
            let name = plugin.name.as_deref();
            admin.inspect(&plugin.path, name).await?.to_json()
        }
        ADD => {
            let plugin = read_plugin(params)?;
            installed(&admin.add(&plugin.path, plugin.name.as_deref()).await?)
        }
        REPLACE => {
            let plugin = read_plugin(params)?;
            installed(&admin.replace(&plugin.path, plugin.name.as_deref()).await?)
        }
        REMOVE => {
            let plugin: RemoveParams = read(params)?;
            let removed = admin.remove(&plugin.name, plugin.now).await?;
            tracing::info!("an administrator's call: {}", removed.words());
            removed.to_json()
        }
        other => return Err(Refusal::NotAdministrators(other.to_owned())),
    })
}

fn installed(installed: &Installed) -> Value {
    tracing::info!("an administrator's call: {}", installed.words());
    installed.to_json()
}

/// A relative path would be so to the host's own directory, which its caller may not know.
fn read_plugin(params: Option<&RawValue>) -> Result<PluginParams, Refusal> {
    let plugin: PluginParams = read(params)?;
    if !plugin.path.is_absolute() {
        return Err(Refusal::InvalidParams(
            "params.path has to be absolute: it is one of the host's machine".to_owned(),
        ));
    }
    Ok(plugin)
}

fn read<'a, T: Deserialize<'a>>(params: Option<&'a RawValue>) -> Result<T, Refusal> {
    let missing = || Refusal::InvalidParams("params is missing".to_owned());
    parse(params.ok_or_else(missing)?, "params").map_err(Refusal::InvalidParams)
}

fn response(id: &RequestId, members: &Value) -> Bytes {
    wire::response(id, |result| {
        result.text("resultType", "complete");
        for (name, value) in members.as_object().into_iter().flatten() {
            result.raw(name, &value.to_string());
        }
        wire::result_meta(result, |_| {});
    })
}

impl From<AdminError> for Refusal {
    fn from(error: AdminError) -> Refusal {
        let words = error.to_string();
        match error {
            AdminError::Plugin { .. }
            | AdminError::Named
            | AdminError::Exists(_)
            | AdminError::Elsewhere(_)
            | AdminError::NothingToReplace { .. }
            | AdminError::NothingToRemove { .. }
            | AdminError::OtherDirectory { .. } => Refusal::InvalidParams(words),
            AdminError::Places(_)
            | AdminError::Copy { .. }
            | AdminError::Change { .. }
            | AdminError::Stopped => Refusal::Call(CallError::Unavailable(words)),
        }
    }
}
