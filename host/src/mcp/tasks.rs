//! The Tasks extension: `tasks/get`, `tasks/update`, `tasks/cancel`, and what a task looks like on
//! the wire wherever it appears.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::envelope::Request;
use super::error::{Refusal, write_guest_error};
use super::json::{has_parts_at_most, text_of};
use super::list;
use super::wire::{self, Object};
use super::{Output, members};
use crate::service::{Service, TaskView};
use crate::task::{Ask, Ending, InputRequest, Interruption, Phase, Status, Task, TaskId, TenantId};

/// What `tasks/cancel` gives the tool as the reason; the request has no field for one.
const CANCEL_REASON: &str = "the client asked for it";

pub fn get(service: &Service, tenant: &TenantId, request: &Request) -> Result<Output, Refusal> {
    let id = task_id(request)?;
    let view = service.task(tenant, &id)?;
    Ok(Output::Message(wire::response(&request.id, |result| {
        result.text("resultType", "complete");
        write_detailed(result, &view);
        wire::result_meta(result, |meta| write_extras(meta, &view));
    })))
}

pub async fn update(
    service: &Service,
    tenant: &TenantId,
    request: &Request<'_>,
) -> Result<Output, Refusal> {
    let id = task_id(request)?;
    let responses = read_responses(request)?.ok_or_else(|| {
        Refusal::InvalidParams(format!(
            "params.inputResponses is missing; example: {RESPONSES_EXAMPLE}"
        ))
    })?;
    service.answer(tenant, &id, &responses).await?;
    Ok(Output::Message(acknowledge(request)))
}

pub async fn cancel(
    service: &Service,
    tenant: &TenantId,
    request: &Request<'_>,
) -> Result<Output, Refusal> {
    let id = task_id(request)?;
    service.cancel(tenant, &id, CANCEL_REASON).await?;
    Ok(Output::Message(acknowledge(request)))
}

/// `longshore/tasks/log`: what the task's tool wrote to its output, for people. The protocol has no
/// such method; the host bounds what it keeps, so that the answer is one message.
pub fn log(service: &Service, tenant: &TenantId, request: &Request) -> Result<Output, Refusal> {
    let id = task_id(request)?;
    let log = service.log(tenant, &id)?;
    Ok(Output::Message(wire::response(&request.id, |result| {
        result
            .text("resultType", "complete")
            // A guest may write anything; what is no UTF-8 is shown as such.
            .text("text", &String::from_utf8_lossy(&log));
        wire::result_meta(result, |_| {});
    })))
}

/// Tasks on one page of the list.
const PAGE_TASKS: usize = 200;

/// `longshore/tasks/list`: the tenant's tasks without their results and questions, for people who
/// look for an id. The protocol has no such method: a client knows the ids that it was given.
pub fn list(service: &Service, tenant: &TenantId, request: &Request) -> Result<Output, Refusal> {
    check_takes_tasks(request)?;
    let after = list::read_cursor(request)?;
    let after = after.map(|id| TaskId::parse(&id)).transpose();
    let after = after.map_err(|_| list::foreign_cursor())?;
    let (tasks, next) = service.tasks(tenant, after.as_ref(), PAGE_TASKS)?;
    Ok(Output::Message(wire::response(&request.id, |result| {
        result
            .text("resultType", "complete")
            .objects("tasks", &tasks, |out, task| {
                write_task(out, task, task.message.as_deref());
                out.object("_meta", |meta| {
                    meta.object("longshore/tool", |tool| {
                        tool.text("plugin", &task.tool.plugin)
                            .text("name", &task.tool.tool);
                    });
                    if task.result_is_error {
                        meta.raw("longshore/isError", "true");
                    }
                });
            });
        if let Some(next) = &next {
            result.text("nextCursor", &list::cursor_after(next.as_str()));
        }
        wire::result_meta(result, |_| {});
    })))
}

/// Values of all the answers together: far more than a page of forms has.
const RESPONSES_PARTS_MAX: usize = 5_000;

const RESPONSES_EXAMPLE: &str =
    r#""inputResponses": {"<key>": {"action": "accept", "content": {}}}"#;

/// The client's answers to questions; their content is checked against the questions later.
pub fn read_responses(request: &Request) -> Result<Option<Map<String, Value>>, Refusal> {
    let Some(raw) = request.params.input_responses else {
        return Ok(None);
    };
    if !has_parts_at_most(raw.get().as_bytes(), RESPONSES_PARTS_MAX) {
        return Err(Refusal::InvalidParams(format!(
            "params.inputResponses has more than {RESPONSES_PARTS_MAX} values; answer what was asked \
             and nothing else"
        )));
    }
    members::read(raw, "params.inputResponses")
        .map(Some)
        .map_err(|what| Refusal::InvalidParams(format!("{what}; example: {RESPONSES_EXAMPLE}")))
}

/// The id the client sent. What cannot be an id of ours is an unknown task, for the service to say.
fn task_id(request: &Request) -> Result<String, Refusal> {
    check_takes_tasks(request)?;
    let missing = |what| {
        Refusal::InvalidParams(format!(
            "params.taskId {what}; example: \"taskId\": \"<the taskId that tools/call answered>\""
        ))
    };
    let raw = request
        .params
        .task_id
        .ok_or_else(|| missing("is missing"))?;
    let id = text_of(raw).ok_or_else(|| missing("has to be a string"))?;
    Ok(id.into_owned())
}

fn check_takes_tasks(request: &Request) -> Result<(), Refusal> {
    let method = request.method.as_str();
    match request.client.takes_tasks {
        true => Ok(()),
        false => Err(Refusal::NeedsTasks { method }),
    }
}

fn acknowledge(request: &Request) -> Bytes {
    wire::response(&request.id, |result| {
        result.text("resultType", "complete");
        wire::result_meta(result, |_| {});
    })
}

/// The answer to a call that became a task (`CreateTaskResult`): the bare task, without what only
/// `tasks/get` carries.
pub fn write_created(result: &mut Object, task: &Task) {
    result.text("resultType", "task");
    write_task(result, task, task.message.as_deref());
    wire::result_meta(result, |_| {});
}

/// A `DetailedTask`, in answers and notifications alike.
pub fn write_detailed(out: &mut Object, view: &TaskView) {
    let status = view.task.status();
    // While it works, the newest words are the live run's; later the record has the last word.
    let live = view
        .progress
        .as_ref()
        .filter(|_| status == Status::Working)
        .map(|progress| progress.message.as_str())
        .filter(|message| !message.is_empty());
    write_task(out, &view.task, live.or(view.task.message.as_deref()));
    if status == Status::InputRequired {
        write_input_requests(out, &view.requests);
    }
    match &view.task.phase {
        Phase::Ended(Ending::Completed) => {
            out.object("result", |result| {
                result.text("resultType", "complete");
                if let Some(call) = &view.result {
                    result.members(&call.json);
                }
            });
        }
        Phase::Ended(Ending::Failed(error)) => {
            out.object("error", |out| write_guest_error(out, error));
        }
        Phase::Ended(Ending::Cancelled) | Phase::Queued { .. } | Phase::Running | Phase::Parked => {
        }
    }
}

/// What we know beyond the extension's fields, as members of `_meta`.
pub fn write_extras(meta: &mut Object, view: &TaskView) {
    let (done, total) = match &view.progress {
        Some(progress) => (progress.done, progress.total),
        None => (view.task.done, view.task.total),
    };
    if done.is_some() || total.is_some() {
        meta.object("longshore/progress", |progress| {
            if let Some(done) = done {
                progress.number("done", done);
            }
            if let Some(total) = total {
                progress.number("total", total);
            }
        });
    }
    write_runs(meta, &view.task);
    if let Some(external) = &view.task.external_reference {
        meta.object("longshore/externalReference", |out| {
            out.text("reference", &external.reference);
            if let Some(url) = &external.url {
                out.text("url", url);
            }
        });
    }
}

/// What happened to a task's runs, of one that has more to tell than that it runs.
fn write_runs(meta: &mut Object, task: &Task) {
    if task.attempt.0 <= 1 && task.interrupted.is_none() {
        return;
    }
    meta.object("longshore/runs", |runs| {
        runs.integer("count", task.attempt.0.into());
        if task.crashes_in_all > 0 {
            runs.integer("hostDeaths", task.crashes_in_all.into());
        }
        if let Some(interrupted) = &task.interrupted {
            runs.object("lastInterruption", |last| {
                let cause = match interrupted.cause {
                    Interruption::Crash => "crash",
                    Interruption::Shutdown => "shutdown",
                };
                last.integer("run", interrupted.attempt.0.into())
                    .text("cause", cause)
                    .text("at", &interrupted.at.to_string());
            });
        }
    });
}

fn write_task(out: &mut Object, task: &Task, message: Option<&str>) {
    out.text("taskId", task.key.id.as_str())
        .text("status", task.status().as_str());
    if let Some(message) = message {
        out.text("statusMessage", message);
    }
    out.text("createdAt", &task.created_at.to_string())
        .text("lastUpdatedAt", &task.updated_at.to_string());
    match task.expires_at {
        // Present even when there is no end, and never 0 (Tasks extension, "Tasks").
        None => out.raw("ttlMs", "null"),
        Some(at) => out.integer("ttlMs", millis_of(at.since(task.created_at))),
    };
    out.integer("pollIntervalMs", millis_of(task.policy.poll_interval));
}

/// Whole milliseconds, at least one: a client takes 0 for a mistake.
fn millis_of(duration: std::time::Duration) -> i128 {
    i128::try_from(duration.as_millis())
        .unwrap_or(i128::MAX)
        .max(1)
}

/// The questions as `inputRequests`: the request objects of MCP's client features, by key.
pub fn write_input_requests(out: &mut Object, requests: &[InputRequest]) {
    out.object("inputRequests", |out| {
        for request in requests {
            out.object(request.key.as_str(), |out| write_ask(out, &request.ask));
        }
    });
}

fn write_ask(out: &mut Object, ask: &Ask) {
    match ask {
        Ask::Form { message, schema } => {
            out.text("method", "elicitation/create")
                .object("params", |params| {
                    params
                        .text("mode", "form")
                        .text("message", message)
                        .raw("requestedSchema", schema);
                });
        }
        Ask::Url { message, url } => {
            out.text("method", "elicitation/create")
                .object("params", |params| {
                    params
                        .text("mode", "url")
                        .text("message", message)
                        .text("url", url);
                });
        }
        Ask::Sampling(params) => {
            out.text("method", "sampling/createMessage")
                .raw("params", params);
        }
        Ask::Roots => {
            out.text("method", "roots/list");
        }
    }
}

#[cfg(test)]
#[path = "tasks_tests.rs"]
mod tests;
