//! Grants that a person gives while a tool runs. The host asks, not the guest: a request that no
//! grant covers, and that the operator's rule lets the plugin ask for, waits inside the guest's call
//! for a form that the host wrote. It is a question of the task like any other, so a tool that
//! resumes is unloaded meanwhile, and nobody is asked twice (I7). Whatever is answered, nothing goes
//! further than the operator's rule (I5).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use http::{Method, Uri};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::p2::bindings::http::outgoing_handler;
use wasmtime_wasi_http::p2::bindings::http::types::{self, ErrorCode, Scheme};
use wasmtime_wasi_http::p2::types::{HostFutureIncomingResponse, HostOutgoingRequest};
use wasmtime_wasi_http::{RequestOptions, WasiHttpView};

use super::egress::{Asked, Egress, Target};
use super::guest::Guest;
use super::{Decision, Decisions};
use crate::scheduler::{Abandoned, InputError, Run, StepError};
use crate::task::{Answer, Ask, Digest, InputKey, InputRequest};

/// As wasmtime 48 names it; older guests' versions are found by it, too.
const HANDLER: &str = "wasi:http/outgoing-handler@0.2.12";

/// What keys and steps of the host's own begin with. No guest may use it.
const RESERVED_PREFIX: &str = "longshore.";

/// Characters of a target's digest that make a key.
const TARGET_CHARS: usize = 32;

/// An author's reason as it is shown, characters.
const WHY_MAX_CHARS: usize = 300;

/// What runs as it is shown, characters: it may be the address of a resource.
const TOOL_MAX_CHARS: usize = 128;

/// What the step of an answer holds that is used up: for the one request that it allowed, or for all
/// of a call that is no task, whose later rounds find it here.
const USED: &[u8] = b"used";
const USED_BY_CALL: &[u8] = b"call";

/// Single requests that can be allowed one by one; a task has no more questions anyway.
const ASKED_MAX: usize = 64;

/// What asking takes, for one run.
pub(super) struct Permission {
    plugin: String,
    tool: String,
    decisions: Option<Arc<Decisions>>,
    /// What holds for the rest of the run, by target.
    settled: BTreeMap<String, bool>,
}

/// What a person chose.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Once,
    Task,
    Always,
    No,
}

impl Permission {
    /// `tool` is what runs: a tool, or what else the plugin has.
    pub fn new(plugin: &str, tool: &str, decisions: Option<Arc<Decisions>>) -> Permission {
        Permission {
            plugin: plugin.to_owned(),
            tool: plain(tool, TOOL_MAX_CHARS),
            decisions,
            settled: BTreeMap::new(),
        }
    }
}

/// Asks before wasmtime's own `handle` sends. The guest waits in its call: its time limits have not
/// begun, and it can do nothing else meanwhile.
pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    type Parameters = (
        Resource<HostOutgoingRequest>,
        Option<Resource<RequestOptions>>,
    );
    type Handled = Result<Resource<HostFutureIncomingResponse>, ErrorCode>;
    linker.allow_shadowing(true);
    linker.instance(HANDLER)?.func_wrap_async(
        "handle",
        |mut store, (request, options): Parameters| {
            Box::new(async move {
                let guest = store.data_mut();
                guest.ask_for(&request).await?;
                let handled = outgoing_handler::Host::handle(&mut guest.http(), request, options);
                let handled: Handled = match handled {
                    Ok(future) => Ok(future),
                    Err(error) => Err(error.downcast()?),
                };
                Ok((handled,))
            })
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

impl Guest {
    /// Asks for the request if it can be asked for; the egress is told what came of it.
    async fn ask_for(&mut self, request: &Resource<HostOutgoingRequest>) -> wasmtime::Result<()> {
        self.egress.forget_permission();
        if !self.egress.may_ask() {
            return Ok(());
        }
        let Some((target, method)) = read_request(self.http().table.get(request)?) else {
            return Ok(());
        };
        let Some(asked) = self.egress.asked(&target, &method) else {
            return Ok(());
        };
        let Some(run) = self.run.clone() else {
            return Ok(());
        };
        let words = format!("{method} {}", target.describe());
        let verdict = decide(&mut self.permission, &run, &asked, &words).await?;
        apply(&mut self.egress, asked, verdict);
        Ok(())
    }
}

/// Why a request that could be asked for is not sent.
type Verdict = Result<(), String>;

fn apply(egress: &mut Egress, asked: Asked, verdict: Verdict) {
    match verdict {
        Ok(()) => egress.permit(asked.http),
        Err(why) => egress.deny(why),
    }
}

async fn decide(
    permission: &mut Permission,
    run: &Run,
    asked: &Asked,
    words: &str,
) -> Result<Verdict, Abandoned> {
    let target = asked.http.to_string();
    // Looked at every time, so that taking it back takes effect.
    if asked.remember && permission.is_kept(run, &target).await {
        return Ok(Ok(()));
    }
    match permission.settled.get(&target) {
        Some(true) => return Ok(Ok(())),
        Some(false) => return Ok(Err(refused(&target))),
        None => {}
    }
    let is_task = run.asks_as_task().await;
    let (key, used) = match open_key(run, &target, is_task).await? {
        Open::Key(key, used) => (key, used),
        Open::Allowed => {
            permission.settled.insert(target, true);
            return Ok(Ok(()));
        }
        Open::Nothing => {
            return Ok(Err(format!(
                "{ASKED_MAX} requests to {target} were asked for one by one, which is the limit"
            )));
        }
    };
    let request = InputRequest {
        key,
        ask: form(permission, asked, &target, words, is_task),
    };
    let answer = match run.request_input(vec![request]).await? {
        Ok(answers) => answers.into_iter().next(),
        Err(error) => return Ok(Err(unasked(error, &target))),
    };
    let choice = answer.map_or(Choice::No, |answer| read_answer(&answer));
    match choice {
        // Used up before it is sent: a run that starts again must not take it for another.
        Choice::Once if is_task => return use_up(run, used, USED).await,
        // The next round may be that of a client that takes tasks, for which it is used up.
        Choice::Once => {
            if let Err(why) = use_up(run, used, USED_BY_CALL).await? {
                return Ok(Err(why));
            }
        }
        // The file speaks from now on; the answer must not bring it back when it is taken away.
        Choice::Always if asked.remember && permission.keep(run, &target).await => {
            return use_up(run, used, USED).await;
        }
        // One that could not be kept, or may not be any more, holds for the task.
        Choice::Task | Choice::Always | Choice::No => {}
    }
    let is_allowed = choice != Choice::No;
    permission.settled.insert(target.clone(), is_allowed);
    Ok(match is_allowed {
        true => Ok(()),
        false => Err(refused(&target)),
    })
}

/// Marks an answer as used.
async fn use_up(run: &Run, used: String, by: &[u8]) -> Result<Verdict, Abandoned> {
    match run.record_step(used, by.to_vec()).await {
        Ok(Ok(())) => Ok(Ok(())),
        Ok(Err(_)) => Ok(Err("the task is being cancelled".to_owned())),
        Err(StepError::Abandoned(abandoned)) => Err(abandoned),
        Err(StepError::TooMany(why)) => Ok(Err(why)),
    }
}

/// What can be asked.
enum Open {
    /// The first key of the target that was not used up, and the step that will say so.
    Key(InputKey, String),
    /// Nothing: an earlier round of the call was allowed.
    Allowed,
    /// Nothing: all are used up.
    Nothing,
}

async fn open_key(run: &Run, target: &str, is_task: bool) -> Result<Open, Abandoned> {
    let digest = Digest(Sha256::digest(target.as_bytes()).into()).to_string();
    for number in 1..=ASKED_MAX {
        let name = format!(
            "{RESERVED_PREFIX}grant/{}/{number}",
            &digest[..TARGET_CHARS]
        );
        match run.step_result(&name).await? {
            None => {
                let key = InputKey::parse(&name).expect("it is short and has no spaces");
                return Ok(Open::Key(key, name));
            }
            Some(by) if !is_task && by == USED_BY_CALL => return Ok(Open::Allowed),
            Some(_) => {}
        }
    }
    Ok(Open::Nothing)
}

impl Permission {
    async fn is_kept(&self, run: &Run, target: &str) -> bool {
        let Some(decisions) = self.decisions.clone() else {
            return false;
        };
        let (tenant, plugin) = (run.tenant().clone(), self.plugin.clone());
        let target = target.to_owned();
        let kept =
            tokio::task::spawn_blocking(move || decisions.is_allowed(&tenant, &plugin, &target));
        kept.await.unwrap_or(false)
    }

    /// Whether it is kept now.
    async fn keep(&self, run: &Run, target: &str) -> bool {
        let Some(decisions) = self.decisions.clone() else {
            return false;
        };
        let (tenant, plugin) = (run.tenant().clone(), self.plugin.clone());
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let decision = Decision {
            target: target.to_owned(),
            tool: self.tool.clone(),
            decided_at: now.unwrap_or_default().as_secs(),
        };
        tracing::info!(%tenant, plugin, target, "a person granted http for good");
        let kept =
            tokio::task::spawn_blocking(move || decisions.keep(&tenant, &plugin, &decision)).await;
        match kept {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::warn!(%error, "a grant was not remembered and holds for its task only");
                false
            }
            Err(_) => false,
        }
    }
}

fn form(permission: &Permission, asked: &Asked, target: &str, words: &str, is_task: bool) -> Ask {
    let why = plain(&asked.why, WHY_MAX_CHARS);
    let message = format!(
        "The plugin `{}` asks for access to {target}, which its `{}` is about to use: {words}. Its \
         author's reason: \"{why}\"",
        permission.plugin, permission.tool
    );
    let mut choices = match is_task {
        true => vec![
            json!({ "const": "once", "title": "Allow one request" }),
            json!({ "const": "task", "title": "Allow for this task" }),
        ],
        false => vec![json!({ "const": "once", "title": "Allow for this call" })],
    };
    if asked.remember {
        choices.push(json!({ "const": "always", "title": "Always allow" }));
    }
    choices.push(json!({ "const": "no", "title": "No" }));
    let schema = json!({
        "type": "object",
        "properties": {
            // Nobody allows anything by a careless return, or by a client's `--yes` (I5).
            "access": { "type": "string", "title": "Access", "oneOf": choices, "default": "no" },
        },
        "required": ["access"],
    });
    Ask::Form {
        message,
        schema: schema.to_string(),
    }
}

/// Words of others as a part of the host's own.
fn plain(text: &str, max_chars: usize) -> String {
    let printable = text.chars().filter(|c| !c.is_control());
    printable.take(max_chars).collect()
}

/// Declining and dismissing are a no, and so is whatever is not a choice.
fn read_answer(answer: &Answer) -> Choice {
    let Answer::Accept(Some(content)) = answer else {
        return Choice::No;
    };
    let content: Value = serde_json::from_str(content).unwrap_or_default();
    match content["access"].as_str() {
        Some("once") => Choice::Once,
        Some("task") => Choice::Task,
        Some("always") => Choice::Always,
        _ => Choice::No,
    }
}

fn refused(target: &str) -> String {
    format!("it was asked for, and access to {target} was not given")
}

fn unasked(error: InputError, target: &str) -> String {
    let why = match error {
        InputError::Stopped => return "the task is being cancelled".to_owned(),
        InputError::MissingCapability(capability) => {
            format!("the client did not declare `{capability}`, so nobody can be asked")
        }
        InputError::Unsupported(why) | InputError::Invalid(why) => why,
    };
    format!(
        "access to {target} has to be asked for: {why}. Call with a client that shows forms, or have \
         the operator grant it"
    )
}

/// Where a request goes. None for what will be refused as it is.
fn read_request(request: &HostOutgoingRequest) -> Option<(Target, Method)> {
    let scheme = match &request.scheme {
        Some(Scheme::Http) => "http",
        Some(Scheme::Https) | None => "https",
        Some(Scheme::Other(_)) => return None,
    };
    let uri = Uri::builder()
        .scheme(scheme)
        .authority(request.authority.as_deref()?)
        .path_and_query(request.path_with_query.as_deref().unwrap_or("/"))
        .build()
        .ok()?;
    let method = match &request.method {
        types::Method::Get => Method::GET,
        types::Method::Head => Method::HEAD,
        types::Method::Post => Method::POST,
        types::Method::Put => Method::PUT,
        types::Method::Delete => Method::DELETE,
        types::Method::Options => Method::OPTIONS,
        types::Method::Trace => Method::TRACE,
        types::Method::Patch => Method::PATCH,
        types::Method::Connect => return None,
        types::Method::Other(name) => Method::from_bytes(name.as_bytes()).ok()?,
    };
    Some((Target::parse(&uri)?, method))
}

/// Whether a guest tries to use a name that is the host's own.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with(RESERVED_PREFIX)
}
