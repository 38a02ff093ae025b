//! `resources/read`, `prompts/get` and `completion/complete` in a handshake revision: answered while
//! the client waits, told and asked as a tool's call is.

use rmcp::model::{
    CompleteRequestParams, CompleteResult, GetPromptRequestParams, GetPromptResult,
    ReadResourceRequestParams, ReadResourceResult, Reference,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::call::{self, Running, Teller};
use super::server::{Offer, error_data};
use crate::mcp::error::Refusal;
use crate::mcp::notice::Notice;
use crate::mcp::tell::HEARD_MAX;
use crate::service::{AskRequest, Listener, LogLevel, Reply, Subject, Wanted};
use crate::task::TenantId;

/// Whose request it is, and how much of what is said it hears.
pub struct Asker<'a> {
    pub offer: &'a Offer,
    pub tenant: &'a TenantId,
    pub level: LogLevel,
}

impl Asker<'_> {
    pub async fn read(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResult, ErrorData> {
        let wanted = Wanted::Resource { uri: request.uri };
        self.ask(wanted, context).await
    }

    pub async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResult, ErrorData> {
        let given = request.arguments.unwrap_or_default();
        let wanted = Wanted::Prompt {
            name: request.name,
            arguments: texts(given)?,
        };
        self.ask(wanted, context).await
    }

    pub async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let chosen = request.context.and_then(|context| context.arguments);
        let subject = match request.r#ref {
            Reference::Prompt(prompt) => Subject::Prompt(prompt.name),
            Reference::Resource(template) => Subject::Template(template.uri),
            _ => {
                return Err(ErrorData::invalid_params(
                    "params.ref has to be a ref/prompt or a ref/resource",
                    None,
                ));
            }
        };
        let wanted = Wanted::Completion {
            subject,
            argument: request.argument.name,
            value: request.argument.value,
            chosen: chosen.unwrap_or_default().into_iter().collect(),
        };
        self.ask(wanted, context).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        wanted: Wanted,
        context: RequestContext<RoleServer>,
    ) -> Result<T, ErrorData> {
        let _running = Running::new(&self.offer.calls);
        let (live, questions) = mpsc::channel(1);
        let (sender, heard) = mpsc::channel(HEARD_MAX);
        let capabilities = context.client_capabilities();
        let started = self.offer.service.ask(AskRequest {
            tenant: self.tenant.clone(),
            wanted,
            abilities: capabilities
                .as_ref()
                .map(call::abilities)
                .unwrap_or_default(),
            earlier: None,
            responses: Map::new(),
            live: Some(live),
            trace: call::trace(&context),
            listener: Some(Listener {
                level: self.level,
                sender,
            }),
        });
        let ended = async {
            let mut pending = started.await?;
            let token = context.meta.get_progress_token();
            let teller = Teller::new(context.peer.clone(), token, Notice::none());
            call::follow(&mut pending, teller, questions, heard, &context.peer).await
        };
        let reply = tokio::select! {
            reply = ended => reply,
            // Nobody waits for the answer; dropping the request stops the plugin.
            () = context.ct.cancelled() => {
                return Err(ErrorData::internal_error("the request was cancelled", None));
            }
        };
        match reply {
            Ok(Reply::Result(result)) => serde_json::from_str(&result.json).map_err(|error| {
                ErrorData::internal_error(format!("the answer can't be shown: {error}"), None)
            }),
            Ok(Reply::Task(_) | Reply::InputRequired { .. }) => Err(ErrorData::internal_error(
                "the plugin went on in a way this revision of MCP does not have",
                None,
            )),
            Err(error) => Err(error_data(Refusal::Call(error))),
        }
    }
}

/// In the order of the keys.
fn texts(given: Map<String, Value>) -> Result<Vec<(String, String)>, ErrorData> {
    let mut texts = Vec::with_capacity(given.len());
    for (name, value) in given {
        match value {
            Value::String(text) => texts.push((name, text)),
            _ => {
                return Err(ErrorData::invalid_params(
                    "params.arguments has to be an object of strings",
                    None,
                ));
            }
        }
    }
    texts.sort();
    Ok(texts)
}
