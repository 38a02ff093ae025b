//! What is asked of an instance, and its answer as the wire has it: a tool's call, a resource's
//! contents, a prompt's messages, suggestions.

use wasmtime::Store;
use wasmtime::component::Instance;

use super::bindings::exports::longshore::plugin::completion;
use super::bindings::exports::longshore::plugin::prompts::PromptError;
use super::bindings::exports::longshore::plugin::resources::ResourceError;
use super::bindings::longshore::plugin::types::{self, ToolError};
use super::control::Broken;
use super::failure::{failed, invalid_params};
use super::guest::Guest;
use super::json::compact;
use super::log::Log;
use super::output::{
    check_output, refusal, size_in_message, size_of, to_completion, to_contents, to_conversation,
    to_large, to_result, too_large,
};
use super::{Component, SandboxLimits};
use crate::scheduler::{Call, Operation, RunEnd, Subject};
use crate::task::{CallResult, RpcError};

/// What a tool may say when it refuses, stops or fails, characters.
const MESSAGE_MAX_CHARS: usize = 4_000;

/// The data of a JSON-RPC error, bytes. It is part of the task's record, which is bounded.
const DATA_MAX_BYTES: usize = 64 << 10;

/// Calls the export that the operation names. The error is the engine's; what the guest itself
/// answers is the end.
pub(super) async fn perform(
    store: &mut Store<Guest>,
    component: &Component,
    call: &Call,
    limits: &SandboxLimits,
) -> wasmtime::Result<RunEnd> {
    let instance = component.pre().instantiate_async(&mut *store).await?;
    let exports = component.exports();
    let result_max_bytes = limits.result_max_bytes;
    Ok(match &call.operation {
        Operation::CallTool => {
            let tools = exports.tools.load(&mut *store, &instance)?;
            let answer = tools
                .call_call_tool(&mut *store, &call.tool.tool, &call.arguments)
                .await?;
            let log = &store.data().log;
            match answer {
                Ok(output) => tool_returned(&output, limits, log),
                Err(error) => refused(error, log),
            }
        }
        Operation::ReadResource { uri } => {
            let resources = present(exports.resources.as_ref())?.load(&mut *store, &instance)?;
            let answer = resources.call_read_resource(&mut *store, uri).await?;
            let log = &store.data().log;
            match answer {
                Ok(bodies) => returned(to_contents(&bodies, result_max_bytes), log),
                Err(ResourceError::Unknown) => RunEnd::NotFound,
                Err(ResourceError::Failed(error)) => RunEnd::Failed(rpc_error(error, log)),
            }
        }
        Operation::GetPrompt { name, arguments } => {
            let prompts = present(exports.prompts.as_ref())?.load(&mut *store, &instance)?;
            let answer = prompts
                .call_get_prompt(&mut *store, name, arguments)
                .await?;
            let log = &store.data().log;
            match answer {
                Ok(told) => returned(to_conversation(&told, result_max_bytes), log),
                Err(PromptError::InvalidArguments(what)) => {
                    RunEnd::Failed(invalid_params(bounded(what)))
                }
                Err(PromptError::Failed(error)) => RunEnd::Failed(rpc_error(error, log)),
            }
        }
        Operation::Complete { .. } => {
            complete(store, component, &instance, &call.operation).await?
        }
    })
}

async fn complete(
    store: &mut Store<Guest>,
    component: &Component,
    instance: &Instance,
    operation: &Operation,
) -> wasmtime::Result<RunEnd> {
    let Operation::Complete {
        subject,
        argument,
        value,
        chosen,
    } = operation
    else {
        return Err(absent().into());
    };
    let subject = match subject {
        Subject::Prompt(name) => completion::Subject::Prompt(name.clone()),
        Subject::Template(template) => completion::Subject::Template(template.clone()),
    };
    let completion = present(component.exports().completion.as_ref())?;
    let suggestions = completion
        .load(&mut *store, instance)?
        .call_complete(&mut *store, &subject, argument, value, chosen)
        .await?;
    Ok(returned(to_completion(suggestions), &store.data().log))
}

/// The catalog asks a component only for what it exports.
fn present<T>(interface: Option<&T>) -> Result<&T, Broken> {
    interface.ok_or_else(absent)
}

fn absent() -> Broken {
    Broken("it does not export what it is asked for".to_owned())
}

fn returned(result: Result<CallResult, String>, log: &Log) -> RunEnd {
    match result {
        Ok(result) => RunEnd::Returned(result),
        Err(message) => {
            log.note(&message);
            failed(message)
        }
    }
}

/// A result that is too large for one message is cut into parts, as long as it can be kept.
fn tool_returned(output: &types::Output, limits: &SandboxLimits, log: &Log) -> RunEnd {
    if let Err(message) = check_output(output) {
        return returned(Err(message), log);
    }
    if size_in_message(output) <= limits.result_max_bytes {
        return returned(to_result(output), log);
    }
    let size = size_of(output);
    let kept_max_bytes = limits.result_kept_max_bytes.max(limits.result_max_bytes);
    let large = match size <= kept_max_bytes {
        true => to_large(output, size, limits.result_max_bytes),
        false => Err(too_large(size, kept_max_bytes)),
    };
    match large {
        Ok(large) => RunEnd::ReturnedLarge(large),
        Err(message) => returned(Err(message), log),
    }
}

/// What a tool answered instead of a result.
fn refused(error: ToolError, log: &Log) -> RunEnd {
    match error {
        ToolError::InvalidArguments(what) => RunEnd::Returned(refusal(&bounded(what))),
        ToolError::Cancelled(what) => RunEnd::Cancelled(what.map(bounded)),
        ToolError::Failed(error) => RunEnd::Failed(rpc_error(error, log)),
    }
}

fn rpc_error(error: types::RpcError, log: &Log) -> RpcError {
    let data = error.data.and_then(|data| match compact(&data) {
        Ok(data) if data.get().len() > DATA_MAX_BYTES => {
            log.note(&format!(
                "the error's data is left out: it has {} bytes, and {DATA_MAX_BYTES} are allowed",
                data.get().len()
            ));
            None
        }
        Ok(data) => Some(data.get().to_owned()),
        Err(cause) => {
            log.note(&format!(
                "the error's data is left out: it is not JSON: {cause}"
            ));
            None
        }
    });
    RpcError {
        code: error.code,
        message: bounded(error.message),
        data,
    }
}

fn bounded(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MESSAGE_MAX_CHARS) {
        text.truncate(end);
    }
    text
}
