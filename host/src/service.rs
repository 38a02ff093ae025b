//! The use cases: what a client of any protocol era can do. Each is one straight line:
//! tenant, quota, schema, then catalog, store, scheduler.

mod detached;
mod pending;
mod tasks;
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tracing::warn;

use crate::catalog::{Catalog, List, Snapshot, Tool};
use crate::clock::Clock;
use crate::notify::Notifier;
use crate::scheduler::{self, Asks, Operation, Places, Scheduler, StartError, Submission};
use crate::schema::{Mismatch, Schema};
use crate::store::{Store, StoreError};
use crate::task::{
    Abilities, Policy, Recovery, RpcError, TaskId, TaskKey, TenantId, ToolRef, Trace,
};
use crate::wasm::{Execution, Traits, WhenLeft};

use self::detached::Detachable;

pub use self::detached::Standing;
pub use self::pending::{PendingCall, Reply};
pub use self::tasks::{TaskError, TaskView};
pub use self::world::{AskRequest, Wanted};
pub use crate::scheduler::{
    HeldRound, Left, Listener, LiveQuestion, LogLevel, Message, Place, RoundError, Saved, Subject,
};
pub use crate::store::RoundName;

/// How many messages of many parts are read and checked at once, each of another tenant.
const READING_MAX: usize = 2;

/// What the host does for its clients. Cheap to clone.
#[derive(Clone)]
pub struct Service(Arc<Inner>);

struct Inner {
    catalog: Catalog,
    store: Store,
    scheduler: Scheduler,
    notifier: Notifier,
    clock: Clock,
    limits: ServiceLimits,
    loaded: watch::Receiver<bool>,
    /// Of messages with many parts, while they are read and checked.
    reading: Places,
}

/// What holds where a tool says nothing; every one is a configuration key of the same name.
#[derive(Clone, Debug)]
pub struct ServiceLimits {
    /// How long an `auto` tool may take before its call becomes a task.
    pub call_grace: Duration,
    /// How long a resource, a prompt or suggestions may take.
    pub read_timeout: Duration,
    pub task_ttl_default: Duration,
    pub task_ttl_max: Duration,
    pub poll_interval_default: Duration,
    /// How long a run may go on after a cancel.
    pub cancel_grace_default: Duration,
    pub cancel_grace_max: Duration,
}

/// A `tools/call`.
pub struct CallRequest {
    pub tenant: TenantId,
    pub tool: String,
    pub arguments: Map<String, Value>,
    /// Of arguments with many parts: kept until they are checked.
    pub place: Option<Place>,
    pub abilities: Abilities,
    /// Whether this very request declared the Tasks extension.
    pub takes_tasks: bool,
    /// What an earlier round of the same call left; verified by the caller.
    pub earlier: Option<Earlier>,
    /// The client's responses to the questions of that round, unchecked.
    pub responses: Map<String, Value>,
    /// Where a client that is there, and takes no tasks, is asked while the tool waits.
    pub live: Option<mpsc::Sender<LiveQuestion>>,
    /// The trace the client's call belongs to.
    pub trace: Option<Trace>,
    /// Who hears what the tool says, as long as the call is no task.
    pub listener: Option<Listener>,
}

impl CallRequest {
    /// For a call that has them from an earlier round.
    fn without_arguments(mut self) -> CallRequest {
        self.arguments = Map::new();
        self.place = None;
        self
    }
}

/// An earlier round, and what it left.
#[derive(Clone, Debug)]
pub struct Earlier {
    pub round: RoundName,
    pub left: Left,
}

/// What the host has under way, all tenants together: for whoever runs it.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    pub scheduler: scheduler::Counts,
    pub instances: usize,
    pub unfinished_tasks: usize,
    pub watched_tasks: usize,
    pub watched_resources: usize,
}

/// Why a call can't be answered.
#[derive(Clone, Debug, Error)]
pub enum CallError {
    #[error("no tool is called `{0}`")]
    UnknownTool(String),
    #[error("the arguments do not fit: {0}")]
    InvalidArguments(Mismatch),
    /// Unknown to the host, or to the plugin whose template it fits.
    #[error("no resource `{0}`")]
    UnknownResource(String),
    #[error("no prompt is called `{0}`")]
    UnknownPrompt(String),
    #[error("the arguments of the prompt `{prompt}` do not fit: {problem}")]
    InvalidPromptArguments { prompt: String, problem: String },
    #[error("no resource template `{0}`")]
    UnknownTemplate(String),
    #[error("`{subject}` has no argument `{argument}`")]
    UnknownArgument { subject: String, argument: String },
    #[error("`{what}` did not answer within {}", humantime::format_duration(*.limit))]
    TooSlow { what: String, limit: Duration },
    /// The tool is always a task, and the client neither takes one nor may follow it.
    #[error("`{0}` always runs as a task, and the client did not declare the Tasks extension")]
    NeedsTasks(String),
    #[error(transparent)]
    Round(#[from] RoundError),
    #[error("{0}")]
    Busy(String),
    #[error("{0}")]
    Unavailable(String),
    /// The tool's own JSON-RPC error.
    #[error("{}", .0.message)]
    Tool(RpcError),
}

impl CallError {
    /// Of arguments whose check was cut short by a fault of the host.
    pub fn unreadable() -> CallError {
        CallError::Unavailable(
            "the arguments could not be checked; the host's log has the reason".to_owned(),
        )
    }
}

impl Service {
    /// `loaded` becomes true when the plugins are there and the tasks of an earlier process are taken up.
    pub fn new(
        catalog: Catalog,
        store: Store,
        scheduler: Scheduler,
        notifier: Notifier,
        clock: Clock,
        limits: ServiceLimits,
        loaded: watch::Receiver<bool>,
    ) -> Service {
        Service(Arc::new(Inner {
            catalog,
            store,
            scheduler,
            notifier,
            clock,
            limits,
            loaded,
            reading: Places::new(READING_MAX, 1),
        }))
    }

    /// Whether the host can take work.
    pub fn is_ready(&self) -> bool {
        self.0.store.is_ready()
    }

    /// Resolves when there is something to offer, after the first look at the plugins; each of them is
    /// compiled within a limit. What a host that starts is asked for waits here.
    pub async fn until_loaded(&self) {
        let mut loaded = self.0.loaded.clone();
        // An error means that loading was given up, and with it the host.
        let _ = loaded.wait_for(|is_loaded| *is_loaded).await;
    }

    pub fn counts(&self) -> Counts {
        Counts {
            scheduler: self.0.scheduler.counts(),
            instances: self.0.catalog.instances(),
            unfinished_tasks: self.0.store.unfinished_of_all(),
            watched_tasks: self.0.notifier.watched(),
            watched_resources: self.0.scheduler.watched_resources(),
        }
    }

    /// What is offered now.
    pub fn tools(&self) -> Arc<Snapshot> {
        self.0.catalog.snapshot()
    }

    /// Follows changes of a list.
    pub fn changes(&self, list: List) -> watch::Receiver<u64> {
        self.0.catalog.changes(list)
    }

    /// Checks a call and starts it, or goes on with it in another round.
    pub async fn call(&self, mut request: CallRequest) -> Result<PendingCall, CallError> {
        let (saved, round) = match request.earlier.take() {
            None => (None, None),
            Some(Earlier { left, round }) => match left {
                Left::State(saved) => (Some(saved), Some(round)),
                // What waits goes on whether or not its plugin still serves.
                Left::Held(held) => {
                    return self.go_on_held(request.without_arguments(), held).await;
                }
                Left::Task(id) => return self.go_on_as_task(request.without_arguments(), id).await,
            },
        };
        let snapshot = self.0.catalog.snapshot();
        let Some(tool) = snapshot.tools.get(&request.tool) else {
            return Err(CallError::UnknownTool(request.tool));
        };
        let traits = &tool.declaration.traits;
        let takes_tasks = request.takes_tasks;
        let is_fallback = traits.execution != Execution::Inline && !takes_tasks;
        let detaches = is_fallback && traits.when_left == WhenLeft::Detach;
        let must_be_task = traits.execution == Execution::Task;
        if must_be_task && is_fallback && !detaches {
            return Err(CallError::NeedsTasks(request.tool));
        }
        let arguments = self.checked(tool, &mut request).await?;
        let submission = self.submission(tool, &mut request, arguments);
        // What an earlier round left is not thrown away for want of a place.
        if (takes_tasks || detaches) && saved.is_none() && self.is_stored_first(tool) {
            let task = self.0.scheduler.submit(submission).await?;
            return Ok(match detaches {
                true => Detachable::follow(self, task.key, request.live),
                false => PendingCall::stored(task),
            });
        }
        let asks = match &request.live {
            // A client that is there needs no rounds.
            Some(_) if detaches => Asks::AsTask {
                first: BTreeSet::new(),
                always: must_be_task,
            },
            Some(client) if !takes_tasks => Asks::Live(client.clone()),
            _ => asks(traits, takes_tasks || detaches),
        };
        let may_become_task = matches!(asks, Asks::AsTask { .. });
        let saved = saved.unwrap_or_default();
        let scheduler = &self.0.scheduler;
        let call = scheduler
            .start_round(submission, asks, saved, round, request.responses)
            .await?;
        if detaches {
            return Ok(Detachable::start(self, call, request.live));
        }
        let grace = may_become_task.then_some(self.0.limits.call_grace);
        Ok(PendingCall::running(call, grace, is_fallback))
    }

    async fn go_on_held(
        &self,
        request: CallRequest,
        held: HeldRound,
    ) -> Result<PendingCall, CallError> {
        let snapshot = self.0.catalog.snapshot();
        let tool = snapshot.tools.get(&request.tool);
        let is_inline =
            tool.is_some_and(|tool| tool.declaration.traits.execution == Execution::Inline);
        let (responses, listener) = (request.responses, request.listener);
        let scheduler = &self.0.scheduler;
        let call = scheduler.resume_round(&request.tenant, held, responses, listener);
        let is_fallback = !is_inline && !request.takes_tasks;
        Ok(PendingCall::running(call.await?, None, is_fallback))
    }

    async fn go_on_as_task(
        &self,
        request: CallRequest,
        id: TaskId,
    ) -> Result<PendingCall, CallError> {
        let tenant = request.tenant;
        let key = TaskKey { tenant, id };
        self.answer_round(&key, &request.responses).await?;
        Ok(Detachable::follow(self, key, request.live))
    }

    fn submission(&self, tool: &Tool, request: &mut CallRequest, arguments: String) -> Submission {
        let traits = &tool.declaration.traits;
        Submission {
            tenant: request.tenant.clone(),
            tool: ToolRef {
                plugin: tool.plugin.name.clone(),
                tool: tool.declaration.name.clone(),
                digest: tool.plugin.digest,
            },
            arguments,
            policy: self.policy(traits),
            abilities: request.abilities,
            ttl: Some(self.ttl(traits)),
            trace: request.trace.take(),
            operation: Operation::CallTool,
            listener: request.listener.take(),
        }
    }

    /// A place to read and check a message of many parts in. Read, it takes up to a hundred times its
    /// bytes, so that only few are at once; tenants take turns (I4, I6).
    pub async fn place_to_read(&self, tenant: &TenantId) -> Place {
        self.0.reading.take(tenant).await
    }

    /// The text of arguments that fit. What takes time to check is checked away from the threads that
    /// answer.
    async fn checked(
        &self,
        tool: &Arc<Tool>,
        request: &mut CallRequest,
    ) -> Result<String, CallError> {
        let arguments = Value::Object(std::mem::take(&mut request.arguments));
        let check = |tool: &Tool, arguments: Value| match tool.input.check(&arguments) {
            Ok(()) => Ok(arguments.to_string()),
            Err(mismatch) => Err(CallError::InvalidArguments(mismatch)),
        };
        let place = match request.place.take() {
            Some(place) => place,
            None if Schema::is_quick(&arguments) => return check(tool, arguments),
            None => self.place_to_read(&request.tenant).await,
        };
        let tool = Arc::clone(tool);
        let checked = tokio::task::spawn_blocking(move || {
            // Kept also when the client has gone meanwhile.
            let _place = place;
            check(&tool, arguments)
        });
        checked.await.unwrap_or_else(|error| {
            warn!(%error, "arguments could not be checked");
            Err(CallError::unreadable())
        })
    }

    /// Keeps what a round left and its client can't carry, until the round is over.
    pub async fn keep_round(&self, round: &RoundName, state: Vec<u8>) -> Result<(), CallError> {
        let kept = self.0.store.keep_round(round, state).await;
        kept.map_err(|error| StartError::Store(error).into())
    }

    /// What was kept; None when it is over.
    pub async fn kept_round(&self, round: &RoundName) -> Result<Option<Vec<u8>>, CallError> {
        let round = round.clone();
        let kept = self.read_file(move |store| store.kept_round(&round)).await;
        kept.map_err(|error| StartError::Store(error).into())
    }

    /// Reads what may be many megabytes, and is compared with what was written, without keeping a
    /// thread from serving.
    async fn read_file<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = self.0.store.clone();
        let read = tokio::task::spawn_blocking(move || read(&store));
        // It fails only when the runtime shuts down.
        read.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Whether a call of this tool is a task from the start: always one and nothing to ask before,
    /// or one that would have to wait anyway.
    fn is_stored_first(&self, tool: &Tool) -> bool {
        let traits = &tool.declaration.traits;
        match traits.execution {
            Execution::Inline => false,
            Execution::Task => !traits.questions.iter().any(|question| question.before_task),
            Execution::Auto => self.0.scheduler.is_full(),
        }
    }

    fn policy(&self, traits: &Traits) -> Policy {
        let limits = &self.0.limits;
        let cancel_grace = traits.cancel_grace.unwrap_or(limits.cancel_grace_default);
        Policy {
            recovery: traits.recovery,
            cleanup_on_cancel: traits.cleanup_on_cancel,
            cancel_grace: cancel_grace.min(limits.cancel_grace_max),
            poll_interval: traits.poll_interval.unwrap_or(limits.poll_interval_default),
        }
    }

    fn ttl(&self, traits: &Traits) -> Duration {
        traits
            .ttl
            .unwrap_or(self.0.limits.task_ttl_default)
            .min(self.0.limits.task_ttl_max)
    }
}

/// How a call asks while it is no task. Running a `fail` tool again, which a round does, would
/// repeat its effects: its instance waits instead.
fn asks(traits: &Traits, takes_tasks: bool) -> Asks {
    let keys = traits
        .questions
        .iter()
        .filter(|question| question.before_task);
    let first = keys.map(|question| question.key.clone()).collect();
    match traits.execution {
        Execution::Task => Asks::AsTask {
            first,
            always: true,
        },
        Execution::Auto if takes_tasks => Asks::AsTask {
            first,
            always: false,
        },
        Execution::Auto | Execution::Inline if traits.recovery == Recovery::Fail => {
            Asks::InHeldRounds
        }
        Execution::Auto | Execution::Inline => Asks::InRounds,
    }
}

impl From<StartError> for CallError {
    fn from(error: StartError) -> CallError {
        match error {
            StartError::Draining | StartError::TooManyCalls => CallError::Busy(error.to_string()),
            StartError::Round(error) => CallError::Round(error),
            // Their own words name no path, and tell the client whether to try again.
            StartError::Store(
                StoreError::DiskFull { .. }
                | StoreError::NoRoom
                | StoreError::TooManyTasks(_)
                | StoreError::TooManyRounds { .. },
            ) => CallError::Busy(error.to_string()),
            StartError::Store(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "what a call needs could not be stored or read"
                );
                CallError::Unavailable(match error {
                    StoreError::Damaged { .. } => error.to_string(),
                    _ => "the task store is not available; call again later".to_owned(),
                })
            }
        }
    }
}
