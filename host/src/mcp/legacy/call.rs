//! `tools/call` in a handshake revision: the tool runs while the client waits, told how far it is and
//! asked what the tool asks. A cancelled or abandoned call stops the tool.

use std::time::Duration;

use futures_util::FutureExt;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ProgressNotificationParam,
    ProgressToken,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, Peer, RoleServer};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::ask::Asking;
use super::message;
use super::reading::Reading;
use super::server::{Offer, error_data};
use crate::mcp::call::{STREAM_AFTER, failure};
use crate::mcp::error::{MISSING_CAPABILITY, Refusal};
use crate::mcp::measure::Measure;
use crate::mcp::notice::{Notice, Told};
use crate::mcp::tell::{Course, HEARD_MAX, Next};
use crate::service::{
    CallError, CallRequest, Listener, LiveQuestion, LogLevel, Message, PendingCall, Reply,
};
use crate::task::{Abilities, CallResult, Progress, TenantId, Trace};

/// After this much silence the client is told that the tool is still at it. Common clients give up
/// on a silent call after 30 or 60 seconds, some after 10.
const HEARTBEAT: Duration = Duration::from_secs(4);

/// Said first, and in the result, when a tool that could be a task runs within its request (I8).
const FALLBACK_NOTICE: &str = "this call runs synchronously, because this revision of MCP has no \
    Tasks extension; closing or cancelling the call stops the tool";

/// Runs the call to its end, or until its client has no more use for it.
pub async fn call(
    offer: &Offer,
    tenant: &TenantId,
    level: LogLevel,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResult, ErrorData> {
    let _running = Running::new(&offer.calls);
    let tool = request.name.into_owned();
    // One at a time: the tool waits for each answer.
    let (live, questions) = mpsc::channel(1);
    let (sender, heard) = mpsc::channel(HEARD_MAX);
    let capabilities = context.client_capabilities();
    let started = offer.service.call(CallRequest {
        tenant: tenant.clone(),
        tool: tool.clone(),
        arguments: request.arguments.unwrap_or_default(),
        place: Reading::place(&context),
        abilities: capabilities.as_ref().map(abilities).unwrap_or_default(),
        takes_tasks: false,
        earlier: None,
        responses: Map::new(),
        live: Some(live),
        trace: trace(&context),
        listener: Some(Listener { level, sender }),
    });
    let ended = async {
        let mut pending = started.await?;
        let notice = Notice::new(&pending, FALLBACK_NOTICE);
        let token = context.meta.get_progress_token();
        let teller = Teller::new(context.peer.clone(), token, notice.clone());
        let reply = follow(&mut pending, teller, questions, heard, &context.peer).await?;
        Ok((reply, notice.of_result()))
    };
    tokio::select! {
        ended = ended => answer(&tool, ended),
        // Nobody waits for the answer; dropping the call stops the tool.
        () = context.ct.cancelled() => {
            Err(ErrorData::internal_error("the call was cancelled", None))
        }
    }
}

pub fn trace(context: &RequestContext<RoleServer>) -> Option<Trace> {
    let text = |key| context.meta.get(key).and_then(Value::as_str);
    Trace::read(text("traceparent"), text("tracestate"), text("baggage"))
}

/// What the client said at `initialize`.
pub fn abilities(capabilities: &ClientCapabilities) -> Abilities {
    let elicitation = capabilities.elicitation.as_ref();
    let url = elicitation.is_some_and(|modes| modes.url.is_some());
    Abilities {
        // An empty declaration means forms, as it did before there were modes.
        form: elicitation.is_some_and(|modes| modes.form.is_some() || !url),
        url,
        sampling: capabilities.sampling.is_some(),
        roots: capabilities.roots.is_some(),
    }
}

/// Tells and asks until the tool has its reply.
pub async fn follow(
    pending: &mut PendingCall,
    mut teller: Teller,
    mut questions: mpsc::Receiver<LiveQuestion>,
    heard: mpsc::Receiver<Message>,
    peer: &Peer<RoleServer>,
) -> Result<Reply, CallError> {
    let progress = pending.progress.clone();
    let mut course = Course::new(pending.reply().boxed(), Some(progress), Some(heard));
    let mut asking: Option<Asking> = None;
    loop {
        tokio::select! {
            // What was told before a question is told before it: its tool waits, and tells no more.
            biased;
            next = course.next() => match next {
                Next::Progress(progress) => teller.report(progress).await,
                Next::Message(message) => message::send(peer, message).await,
                Next::Reply(reply) => {
                    if let Some(asking) = asking {
                        asking.withdraw(peer).await;
                    }
                    return reply;
                }
            },
            Some(question) = questions.recv(), if asking.is_none() => {
                asking = Asking::start(peer, question).await;
            }
            () = Asking::end(&mut asking) => asking = None,
            () = sleep_until(teller.due) => teller.tell_alive().await,
        }
    }
}

fn answer(
    tool: &str,
    ended: Result<(Reply, Option<Told>), CallError>,
) -> Result<CallToolResult, ErrorData> {
    match ended {
        Ok((Reply::Result(result), told)) => shown(&result, told),
        Ok((Reply::Task(_) | Reply::InputRequired { .. }, _)) => Err(ErrorData::internal_error(
            "the tool went on in a way this revision of MCP does not have",
            None,
        )),
        // A model can mend its arguments, so it has to see what is wrong with them.
        Err(CallError::InvalidArguments(mismatch)) => shown(
            &failure(&format!(
                "the arguments do not fit the inputSchema of `{tool}`: {mismatch}"
            )),
            None,
        ),
        Err(CallError::NeedsTasks(tool)) => shown(
            &failure(&format!(
                "`{tool}` always runs as a task, and this revision of MCP has none. Call it with a \
                 client of revision 2026-07-28 that declares the io.modelcontextprotocol/tasks \
                 extension, or in a terminal with `longshore call {tool}`"
            )),
            None,
        ),
        // These revisions have no code for it, and many clients keep an error's words from the model.
        Err(CallError::Tool(error)) if error.code == MISSING_CAPABILITY => {
            shown(&failure(&error.message), None)
        }
        Err(error) => Err(error_data(Refusal::Call(error))),
    }
}

fn shown(result: &CallResult, told: Option<Told>) -> Result<CallToolResult, ErrorData> {
    let read = || -> serde_json::Result<CallToolResult> {
        let mut members: Map<String, Value> = serde_json::from_str(&result.json)?;
        if let Some(told) = told {
            let meta = members.entry("_meta").or_insert_with(|| json!({}));
            meta["longshore/synchronous"] = Value::Bool(true);
            meta["longshore/synchronousReason"] = told.reason.into();
            if let Some(task) = told.task {
                meta["longshore/task"] = task.into();
            }
        }
        serde_json::from_value(Value::Object(members))
    };
    read().map_err(|error| {
        ErrorData::internal_error(format!("the tool's result can't be shown: {error}"), None)
    })
}

/// Counts as a running call until dropped.
pub struct Running<'a>(&'a watch::Sender<usize>);

impl Running<'_> {
    pub fn new(calls: &watch::Sender<usize>) -> Running<'_> {
        calls.send_modify(|running| *running += 1);
        Running(calls)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

/// Tells a client that gave a token how far its call is.
pub struct Teller {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    measure: Measure,
    notice: Notice,
    message: String,
    /// When the client hears something in any case.
    due: Instant,
}

impl Teller {
    pub fn new(peer: Peer<RoleServer>, token: Option<ProgressToken>, notice: Notice) -> Teller {
        let silence = match notice.is_due() {
            true => STREAM_AFTER,
            false => HEARTBEAT,
        };
        Teller {
            peer,
            token,
            measure: Measure::default(),
            notice,
            message: String::new(),
            due: Instant::now() + silence,
        }
    }

    async fn report(&mut self, progress: Option<Progress>) {
        if let Some(words) = self.notice.take() {
            self.tell(None, None, words).await;
        }
        let Some(progress) = progress else {
            return;
        };
        self.message.clone_from(&progress.message);
        let message = progress.message.clone();
        self.tell(progress.done, progress.total, message).await;
    }

    async fn tell_alive(&mut self) {
        let words = self.notice.take();
        let message = words.unwrap_or_else(|| self.message.clone());
        self.tell(None, None, message).await;
    }

    async fn tell(&mut self, done: Option<f64>, total: Option<f64>, message: String) {
        self.due = Instant::now() + HEARTBEAT;
        let Some(token) = &self.token else {
            return;
        };
        let (progress, total) = self.measure.next(done, total);
        let mut told = ProgressNotificationParam::new(token.clone(), progress);
        told.total = total;
        told.message = Some(message).filter(|message| !message.is_empty());
        // A client that is gone is noticed by its call being cancelled.
        let _ = self.peer.notify_progress(told).await;
    }
}
