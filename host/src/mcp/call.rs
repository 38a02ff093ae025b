//! `tools/call`: reads the call, starts it, and answers with a result, a task or questions, after
//! progress and messages on the call's own stream when the client asked for them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use http::HeaderMap;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::client::Client;
use super::envelope::Request;
use super::error::Refusal;
use super::json::{has_few_parts, text_of};
use super::notice::{Notice, Told};
use super::request_state::{ArgumentsDigest, Binding, Sealer};
use super::tell::{Course, Meter, Next, hear, write_message};
use super::wire::{self, Object};
use super::{Method, Output, RequestId, headers as mirrored, members, tasks};
use crate::service::{
    CallError, CallRequest, Earlier, Message, PendingCall, Place, Reply, Service,
};
use crate::task::{CallResult, Progress, TenantId};

/// How long a call with a progress token may stay silent before its stream begins. A call that is
/// answered sooner gets a plain response, and an error its HTTP status.
pub const STREAM_AFTER: Duration = Duration::from_millis(500);

/// Said first, and in the result, when a call runs within its request for want of Tasks (I8).
const FALLBACK_NOTICE: &str = "this call runs within its request, because the client did not \
    declare the io.modelcontextprotocol/tasks extension; closing the request stops the tool";

/// What it takes to answer once the reply is there.
pub struct Answering {
    service: Service,
    sealer: Arc<Sealer>,
    id: RequestId,
    method: Method,
    notice: Notice,
    /// The tool, the prompt or the resource.
    tool: String,
    arguments: ArgumentsDigest,
    tenant: TenantId,
}

pub async fn call(
    service: &Service,
    sealer: &Arc<Sealer>,
    tenant: &TenantId,
    request: &Request<'_>,
    headers: Option<&HeaderMap>,
    can_stream: bool,
) -> Result<Output, Refusal> {
    let tool = read_name(request)?;
    let Given {
        arguments,
        digest,
        place,
    } = read_arguments(service, tenant, request).await?;
    if let Some(headers) = headers
        && let Some(tool) = service.tools().tools.get(&tool)
    {
        mirrored::check_params(headers, &tool.header_params, &arguments)?;
    }
    let answering = Answering::new(service, sealer, tenant, request, tool, digest);
    let earlier = answering.earlier(request).await?;
    let (listener, heard) = hear(&request.client, can_stream);
    let started = service
        .call(CallRequest {
            tenant: tenant.clone(),
            tool: answering.tool.clone(),
            arguments,
            place,
            abilities: request.client.abilities,
            takes_tasks: request.client.takes_tasks,
            earlier,
            responses: tasks::read_responses(request)?.unwrap_or_default(),
            live: None,
            trace: request.client.trace.clone(),
            listener,
        })
        .await;
    respond(answering, started, &request.client, heard, can_stream).await
}

/// Answers what was started: with a stream when the client wants to hear how it goes.
pub async fn respond(
    mut answering: Answering,
    started: Result<PendingCall, CallError>,
    client: &Client,
    heard: Option<mpsc::Receiver<Message>>,
    can_stream: bool,
) -> Result<Output, Refusal> {
    let pending = match started {
        Ok(pending) => pending,
        Err(error) => return answering.message(Err(error)).await.map(Output::Message),
    };
    answering.notice = Notice::new(&pending, FALLBACK_NOTICE);
    let token = client.progress_token.clone().filter(|_| can_stream);
    if token.is_some() || heard.is_some() {
        return answer_with_progress(answering, pending, token, heard).await;
    }
    let mut pending = pending;
    let reply = pending.reply().await;
    answering.message(reply).await.map(Output::Message)
}

fn read_name(request: &Request) -> Result<String, Refusal> {
    let missing = |what| {
        Refusal::InvalidParams(format!(
            "params.name {what}; example: \"name\": \"<a tool of tools/list>\""
        ))
    };
    let raw = request.params.name.ok_or_else(|| missing("is missing"))?;
    let name = text_of(raw).ok_or_else(|| missing("has to be a string"))?;
    Ok(name.into_owned())
}

/// A call's arguments as they are read.
struct Given {
    arguments: Map<String, Value>,
    digest: ArgumentsDigest,
    /// Where they have many parts.
    place: Option<Place>,
}

impl Given {
    fn read(raw: Option<&RawValue>, place: Option<Place>) -> Result<Given, Refusal> {
        let arguments = match raw {
            Some(raw) => members::read(raw, "params.arguments").map_err(Refusal::InvalidParams)?,
            None => Map::new(),
        };
        Ok(Given {
            digest: ArgumentsDigest::of(&arguments),
            arguments,
            place,
        })
    }
}

/// Reads arguments of many parts away from the threads that answer, in their tenant's turn (I4, I6).
async fn read_arguments(
    service: &Service,
    tenant: &TenantId,
    request: &Request<'_>,
) -> Result<Given, Refusal> {
    let many = request.params.arguments;
    let Some(raw) = many.filter(|raw| !has_few_parts(raw.get().as_bytes())) else {
        return Given::read(request.params.arguments, None);
    };
    let place = service.place_to_read(tenant).await;
    let raw = raw.to_owned();
    // The place is kept also when the client has gone meanwhile.
    let read = spawn_blocking(move || Given::read(Some(&raw), Some(place)));
    read.await.unwrap_or_else(|error| {
        tracing::warn!(%error, "arguments could not be read");
        Err(CallError::unreadable().into())
    })
}

impl Answering {
    /// Of a request for `tool`, with the arguments that a later round is bound to.
    pub fn new(
        service: &Service,
        sealer: &Arc<Sealer>,
        tenant: &TenantId,
        request: &Request,
        tool: String,
        arguments: ArgumentsDigest,
    ) -> Answering {
        Answering {
            service: service.clone(),
            sealer: Arc::clone(sealer),
            id: request.id.clone(),
            method: request.method,
            notice: Notice::none(),
            tool,
            arguments,
            tenant: tenant.clone(),
        }
    }

    /// What an earlier round left, if the request comes from one.
    pub async fn earlier(&self, request: &Request<'_>) -> Result<Option<Earlier>, Refusal> {
        let Some(raw) = request.params.request_state else {
            return Ok(None);
        };
        let state = text_of(raw).ok_or_else(|| {
            Refusal::InvalidParams("params.requestState has to be a string".into())
        })?;
        let binding = self.binding();
        let left = self.sealer.open(&self.service, &binding, &state).await?;
        Ok(Some(left))
    }

    /// The response to the call.
    async fn message(&self, reply: Result<Reply, CallError>) -> Result<Bytes, Refusal> {
        Ok(match reply {
            Ok(Reply::Result(result)) => self.completed(&result),
            Ok(Reply::Task(task)) => wire::response(&self.id, |out| {
                tasks::write_created(out, &task);
            }),
            Ok(Reply::InputRequired { requests, left }) => {
                let binding = self.binding();
                let state = self.sealer.seal(&self.service, &binding, left).await?;
                wire::response(&self.id, |out| {
                    out.text("resultType", "input_required");
                    tasks::write_input_requests(out, &requests);
                    out.text("requestState", &state);
                    wire::result_meta(out, |_| {});
                })
            }
            // A model can mend its arguments, so it has to see what is wrong with them: a result,
            // not a protocol error (server/tools, "Error Handling").
            Err(CallError::InvalidArguments(mismatch)) => self.completed(&failure(&format!(
                "the arguments do not fit the inputSchema of `{}`: {mismatch}",
                self.tool
            ))),
            Err(error) => return Err(error.into()),
        })
    }

    fn binding(&self) -> Binding<'_> {
        Binding {
            tenant: &self.tenant,
            method: self.method.as_str(),
            tool: &self.tool,
            arguments: &self.arguments,
        }
    }

    fn completed(&self, result: &CallResult) -> Bytes {
        wire::response(&self.id, |out| {
            write_completed(out, result, self.notice.of_result());
            if self.method == Method::ResourcesRead {
                // How long contents stay true is its plugin's secret.
                out.integer("ttlMs", 0).text("cacheScope", "private");
            }
        })
    }
}

fn write_completed(out: &mut Object, result: &CallResult, told: Option<Told>) {
    out.text("resultType", "complete").members(&result.json);
    wire::result_meta(out, |meta| {
        if let Some(told) = told {
            meta.flag("longshore/synchronous", true)
                .text("longshore/synchronousReason", &told.reason);
            if let Some(task) = told.task {
                meta.text("longshore/task", &task);
            }
        }
    });
}

/// A result that says what went wrong.
pub fn failure(text: &str) -> CallResult {
    let mut json = Vec::new();
    wire::object(&mut json, |out| {
        out.objects("content", [text], |block, text| {
            block.text("type", "text").text("text", text);
        })
        .flag("isError", true);
    });
    CallResult {
        json: String::from_utf8_lossy(&json).into_owned(),
        is_error: true,
    }
}

/// Answers plainly if the reply is there soon, else with a stream.
async fn answer_with_progress(
    mut answering: Answering,
    mut pending: PendingCall,
    token: Option<String>,
    heard: Option<mpsc::Receiver<Message>>,
) -> Result<Output, Refusal> {
    // Without a token there is no way to tell of progress.
    if token.is_none() {
        answering.notice.only_in_result();
    }
    let progress = token.as_ref().map(|_| pending.progress.clone());
    let waiting = async move { pending.reply().await };
    let mut course = Course::new(waiting.boxed(), progress, heard);
    let first = tokio::select! {
        first = course.next() => Some(first),
        () = sleep(STREAM_AFTER) => None,
    };
    if let Some(Next::Reply(reply)) = first {
        return answering.message(reply).await.map(Output::Message);
    }
    let stream = CallStream {
        answering,
        course,
        first,
        meter: Meter::new(token.unwrap_or_default()),
        is_over: false,
    };
    Ok(Output::Stream(
        stream::unfold(stream, CallStream::next).boxed(),
    ))
}

/// A call's stream under way.
struct CallStream {
    answering: Answering,
    course: Course<'static, Result<Reply, CallError>>,
    /// What came before the stream began, until it is told.
    first: Option<Next<Result<Reply, CallError>>>,
    meter: Meter,
    is_over: bool,
}

impl CallStream {
    async fn next(mut self) -> Option<(Bytes, CallStream)> {
        if self.is_over {
            return None;
        }
        let message = loop {
            if let Some(words) = self.answering.notice.take() {
                break self.meter.tell(None, None, &words);
            }
            let next = match self.first.take() {
                Some(first) => first,
                None => self.course.next().await,
            };
            match next {
                Next::Progress(None) => {}
                Next::Progress(Some(Progress {
                    message,
                    done,
                    total,
                })) => break self.meter.tell(done, total, &message),
                Next::Message(message) => break write_message(&message),
                Next::Reply(reply) => {
                    self.is_over = true;
                    break match self.answering.message(reply).await {
                        Ok(message) => message,
                        Err(refusal) => wire::failure(Some(&self.answering.id), &refusal.face()),
                    };
                }
            }
        };
        Some((message, self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &Bytes) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_synchronous_result_says_so() {
        let result = failure("no \"such\" file");
        let message = wire::response(&RequestId::for_tests("1"), |out| {
            let told = Told {
                reason: FALLBACK_NOTICE.to_owned(),
                task: None,
            };
            write_completed(out, &result, Some(told));
        });
        insta::assert_snapshot!(text(&message), @r###"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"no \"such\" file"}],"isError":true,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"longshore","title":"Longshore","version":"0.1.0"},"longshore/synchronous":true,"longshore/synchronousReason":"this call runs within its request, because the client did not declare the io.modelcontextprotocol/tasks extension; closing the request stops the tool"}}}"###);
    }
}
