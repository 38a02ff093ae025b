//! What the host calls (the exports of `wit/`), behind the code of [`export!`](crate::export).

use crate::Tool;
use crate::bindings::longshore::plugin::types;
use crate::completion::Typed;
use crate::context::Context;
use crate::error::{self, Error};
use crate::offer::{Offer, Subject};
use crate::prompt::Prompt;
use crate::resource::{Resource, Template};
use crate::server_bindings::exports::longshore::plugin::{completion, prompts, resources};

/// The hooks of the host that runs this component.
#[cfg(target_arch = "wasm32")]
pub fn context() -> Context {
    Context::new(crate::imports::Hooks)
}

/// `tools.list-tools`.
pub fn list_tools(tools: &[Tool]) -> Vec<types::Tool> {
    tools.iter().map(Tool::declaration).collect()
}

/// `tools.call-tool`.
pub fn call_tool(
    tools: &[Tool],
    context: &Context,
    name: &str,
    arguments: &str,
) -> Result<types::Output, types::ToolError> {
    let called = tools.iter().find(|tool| tool.name() == name);
    error::into_wire(match called {
        Some(tool) => tool.call(context, arguments),
        None => Err(Error::defect(format!("this plugin has no tool `{name}`"))),
    })
}

/// `resources.list-resources`.
pub fn list_resources(offer: &Offer) -> resources::ResourceList {
    resources::ResourceList {
        entries: offer.resources.iter().map(Resource::declaration).collect(),
        templates: offer.templates.iter().map(Template::declaration).collect(),
    }
}

/// `resources.read-resource`.
pub fn read_resource(
    offer: &Offer,
    context: &Context,
    uri: &str,
) -> Result<Vec<types::EmbeddedResource>, resources::ResourceError> {
    match offer.read(context, uri) {
        Ok(Some(contents)) => Ok(contents.into_wire()),
        Ok(None) => Err(resources::ResourceError::Unknown),
        Err(error) => Err(resources::ResourceError::Failed(error::into_rpc(error))),
    }
}

/// `prompts.list-prompts`.
pub fn list_prompts(offer: &Offer) -> Vec<prompts::Prompt> {
    offer.prompts.iter().map(Prompt::declaration).collect()
}

/// `prompts.get-prompt`.
pub fn get_prompt(
    offer: &Offer,
    context: &Context,
    name: &str,
    arguments: &[(String, String)],
) -> Result<prompts::Conversation, prompts::PromptError> {
    match offer.prompt(context, name, arguments) {
        Ok(conversation) => Ok(conversation.into_wire()),
        Err(Error::InvalidArguments(text)) => Err(prompts::PromptError::InvalidArguments(text)),
        Err(error) => Err(prompts::PromptError::Failed(error::into_rpc(error))),
    }
}

/// `completion.complete`.
pub fn complete(
    offer: &Offer,
    context: &Context,
    subject: &completion::Subject,
    argument: &str,
    value: &str,
    chosen: &[(String, String)],
) -> completion::Suggestions {
    let subject = match subject {
        completion::Subject::Prompt(name) => Subject::Prompt(name),
        completion::Subject::Template(uri) => Subject::Template(uri),
    };
    let typed = Typed::new(value, chosen);
    offer
        .complete(context, subject, argument, &typed)
        .into_wire()
}
