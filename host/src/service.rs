//! The use cases: what a client of any protocol era can do. Each is one straight line:
//! tenant, quota, schema, then catalog, store, scheduler.

mod detached;
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
use crate::notify::{Notifier, Subscription};
use crate::scheduler::{
    self, Asks, CallOutcome, Operation, RunEnd, Scheduler, StartError, StartedCall, Submission,
};
use crate::schema::{self, Mismatch};
use crate::store::{Store, StoreError, UpdateError};
use crate::task::{
    Abilities, CallResult, InputKey, InputRequest, Policy, Progress, Recovery, RpcError, Status,
    Task, TaskId, TaskKey, TenantId, ToolRef, Trace,
};
use crate::wasm::{Execution, Traits, WhenLeft};

use self::detached::Detachable;
pub use self::detached::Standing;
pub use self::world::{AskRequest, Wanted};
pub use crate::scheduler::{
    HeldRound, Left, Listener, LiveQuestion, LogLevel, Message, RoundError, Saved, Subject,
};
pub use crate::store::RoundName;

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
#[derive(Clone, Debug)]
pub struct CallRequest {
    pub tenant: TenantId,
    pub tool: String,
    pub arguments: Map<String, Value>,
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

/// An earlier round, and what it left.
#[derive(Clone, Debug)]
pub struct Earlier {
    pub round: RoundName,
    pub left: Left,
}

/// A call under way. Dropping it stops the tool, unless the call has become a task.
pub struct PendingCall {
    /// The newest progress, for a client that asked for it.
    pub progress: watch::Receiver<Option<Progress>>,
    /// Whether the call is answered synchronously only because the client takes no tasks (I8).
    pub is_fallback: bool,
    /// What becomes of such a call when its client leaves.
    pub standing: watch::Receiver<Standing>,
    state: Pending,
}

enum Pending {
    /// Stored already.
    Task(Option<Box<Task>>),
    /// Runs; after the grace, if there is one, it becomes a task.
    Running {
        call: StartedCall,
        grace: Option<Duration>,
    },
    /// As the second, for a client that takes no tasks: it is answered in any case.
    Detachable(Detachable),
    /// No tool: a resource, a prompt or suggestions.
    Asked(world::Asked),
    Answered(Option<CallResult>),
}

/// What a call came to.
pub enum Reply {
    Result(CallResult),
    /// Stored before it is told (I1).
    Task(Box<Task>),
    /// The same call has to come again with answers.
    InputRequired {
        requests: Vec<InputRequest>,
        left: Left,
    },
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
    /// The tool is always a task and the client takes none.
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

/// A task with what the wire shows beside its record.
#[derive(Clone, Debug)]
pub struct TaskView {
    pub task: Task,
    /// The newest progress of a live run, newer than the record's.
    pub progress: Option<Progress>,
    /// The open questions, when input is required.
    pub requests: Vec<InputRequest>,
    /// The result, when completed.
    pub result: Option<CallResult>,
}

/// Why a task can't be read or changed.
#[derive(Clone, Debug, Error)]
pub enum TaskError {
    /// Unknown, expired and another tenant's: all look the same (I4).
    #[error("no such task")]
    Unknown,
    #[error("the answer to `{key}` does not fit: {mismatch}")]
    InvalidAnswer { key: String, mismatch: Mismatch },
    #[error("{0}")]
    Unavailable(String),
}

impl Service {
    pub fn new(
        catalog: Catalog,
        store: Store,
        scheduler: Scheduler,
        notifier: Notifier,
        clock: Clock,
        limits: ServiceLimits,
    ) -> Service {
        Service(Arc::new(Inner {
            catalog,
            store,
            scheduler,
            notifier,
            clock,
            limits,
        }))
    }

    /// Whether the host can take work.
    pub fn is_ready(&self) -> bool {
        self.0.store.is_ready()
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

    /// Checks a call and starts it.
    pub async fn call(&self, request: CallRequest) -> Result<PendingCall, CallError> {
        let snapshot = self.0.catalog.snapshot();
        let Some(tool) = snapshot.tools.get(&request.tool) else {
            return Err(CallError::UnknownTool(request.tool));
        };
        let execution = tool.declaration.traits.execution;
        if execution == Execution::Task && !request.takes_tasks {
            return Err(CallError::NeedsTasks(request.tool));
        }
        let is_fallback = execution == Execution::Auto && !request.takes_tasks;
        let (saved, round) = match request.earlier {
            None => (None, None),
            Some(Earlier { round, left }) => match left {
                Left::State(saved) => (Some(saved), Some(round)),
                Left::Held(held) => {
                    let scheduler = &self.0.scheduler;
                    let call = scheduler.resume_round(&request.tenant, held, request.responses);
                    return Ok(PendingCall::running(call.await?, None, is_fallback));
                }
                Left::Task(id) => {
                    let key = TaskKey {
                        tenant: request.tenant,
                        id,
                    };
                    self.answer_round(&key, &request.responses).await?;
                    return Ok(Detachable::follow(self, key, request.live));
                }
            },
        };
        let arguments = Value::Object(request.arguments);
        tool.input
            .check(&arguments)
            .map_err(CallError::InvalidArguments)?;

        let submission = Submission {
            tenant: request.tenant,
            tool: ToolRef {
                plugin: tool.plugin.name.clone(),
                tool: tool.declaration.name.clone(),
                digest: tool.plugin.digest,
            },
            arguments: arguments.to_string(),
            policy: self.policy(&tool.declaration.traits),
            abilities: request.abilities,
            ttl: Some(self.ttl(&tool.declaration.traits)),
            trace: request.trace,
            operation: Operation::CallTool,
            listener: request.listener,
        };
        let takes_tasks = request.takes_tasks;
        // What an earlier round left is not thrown away for want of a place.
        if takes_tasks && saved.is_none() && self.is_stored_first(tool) {
            let task = self.0.scheduler.submit(submission).await?;
            return Ok(PendingCall {
                progress: watch::Sender::new(None).subscribe(),
                is_fallback: false,
                standing: Standing::with_client(),
                state: Pending::Task(Some(Box::new(task))),
            });
        }
        let detaches = is_fallback && tool.declaration.traits.when_left == WhenLeft::Detach;
        let asks = match &request.live {
            // A client that is there needs no rounds.
            Some(_) if detaches => Asks::AsTask {
                first: BTreeSet::new(),
                always: false,
            },
            Some(client) if !takes_tasks => Asks::Live(client.clone()),
            _ => asks(&tool.declaration.traits, takes_tasks || detaches),
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

    /// Keeps what a round left and its client can't carry, until the round is over.
    pub async fn keep_round(&self, round: &RoundName, state: Vec<u8>) -> Result<(), CallError> {
        let kept = self.0.store.keep_round(round, state).await;
        kept.map_err(|error| StartError::Store(error).into())
    }

    /// What was kept; None when it is over.
    pub fn kept_round(&self, round: &RoundName) -> Result<Option<Vec<u8>>, CallError> {
        let kept = self.0.store.kept_round(round);
        kept.map_err(|error| StartError::Store(error).into())
    }

    /// The task as it is now.
    pub fn task(&self, tenant: &TenantId, id: &str) -> Result<TaskView, TaskError> {
        let task = self.find(tenant, id)?;
        self.view(task)
    }

    /// Takes answers; keys that are not open are ignored. All or nothing: one that does not fit
    /// refuses them all and leaves the questions open.
    pub async fn answer(
        &self,
        tenant: &TenantId,
        id: &str,
        responses: &Map<String, Value>,
    ) -> Result<(), TaskError> {
        let task = self.find(tenant, id)?;
        let mut answers = Vec::new();
        for request in self.open_requests(&task)? {
            let Some(response) = responses.get(request.key.as_str()) else {
                continue;
            };
            let answer = schema::read_answer(&request.ask, response).map_err(|mismatch| {
                TaskError::InvalidAnswer {
                    key: request.key.to_string(),
                    mismatch,
                }
            })?;
            answers.push((request.key, answer));
        }
        if answers.is_empty() {
            return Ok(());
        }
        match self.0.scheduler.answer(&task.key, answers).await {
            // It ended meanwhile: the keys are not open any more.
            Ok(_) | Err(UpdateError::Rejected(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks a task to stop. Fine, and without effect, on one that has ended.
    pub async fn cancel(&self, tenant: &TenantId, id: &str, reason: &str) -> Result<(), TaskError> {
        let task = self.find(tenant, id)?;
        Ok(self.0.scheduler.cancel(&task.key, reason).await?)
    }

    /// At most `limit` of the tenant's tasks, in the order of their ids, from the one after `after`
    /// on; and the id to go on after, if there may be more.
    pub fn tasks(
        &self,
        tenant: &TenantId,
        after: Option<&TaskId>,
        limit: usize,
    ) -> Result<(Vec<Task>, Option<TaskId>), TaskError> {
        let stored = self.0.store.tasks(tenant, after, limit);
        let mut tasks = stored.map_err(unavailable)?;
        let last = tasks.last().filter(|_| tasks.len() == limit);
        let next = last.map(|task| task.key.id.clone());
        tasks.retain(|task| !self.is_expired(task));
        Ok((tasks, next))
    }

    /// What the task's tool wrote to its output, as far as it is kept and saved.
    pub fn log(&self, tenant: &TenantId, id: &str) -> Result<Vec<u8>, TaskError> {
        let task = self.find(tenant, id)?;
        self.0.store.log(&task.key).map_err(unavailable)
    }

    /// Follows those of `ids` that are tasks of the tenant.
    pub fn watch(&self, tenant: &TenantId, ids: &[String]) -> Subscription {
        let known = ids
            .iter()
            .filter_map(|id| self.find(tenant, id).ok())
            .map(|task| task.key);
        // The same id twice is one subscription.
        let keys: BTreeSet<TaskKey> = known.collect();
        self.0.notifier.subscribe(keys.into_iter().collect())
    }

    /// The view of a task a subscription named; None once it is gone.
    pub fn watched(&self, key: &TaskKey) -> Option<TaskView> {
        self.task(&key.tenant, key.id.as_str()).ok()
    }

    /// I4: malformed, unknown, expired and another tenant's ids all end here, in the same words.
    fn find(&self, tenant: &TenantId, id: &str) -> Result<Task, TaskError> {
        let id = TaskId::parse(id).map_err(|_| TaskError::Unknown)?;
        let key = TaskKey {
            tenant: tenant.clone(),
            id,
        };
        let task = self
            .0
            .store
            .get(&key)
            .map_err(unavailable)?
            .ok_or(TaskError::Unknown)?;
        match self.is_expired(&task) {
            true => Err(TaskError::Unknown),
            false => Ok(task),
        }
    }

    /// Expired tasks are not there any more, though they may not be deleted yet.
    fn is_expired(&self, task: &Task) -> bool {
        task.expires_at.is_some_and(|at| at <= self.0.clock.now())
    }

    fn view(&self, task: Task) -> Result<TaskView, TaskError> {
        let progress = if task.is_terminal() {
            None
        } else {
            self.0.scheduler.progress(&task.key)
        };
        let requests = match task.status() {
            Status::InputRequired => self.open_requests(&task)?,
            _ => Vec::new(),
        };
        let result = match task.status() {
            Status::Completed => self.0.store.result(&task.key).map_err(unavailable)?,
            _ => None,
        };
        Ok(TaskView {
            task,
            progress,
            requests,
            result,
        })
    }

    fn open_requests(&self, task: &Task) -> Result<Vec<InputRequest>, TaskError> {
        let open: BTreeSet<&InputKey> = task.open_inputs().collect();
        if open.is_empty() {
            return Ok(Vec::new());
        }
        let inputs = self.0.store.inputs(&task.key).map_err(unavailable)?;
        let requests = inputs.into_iter().map(|input| input.request);
        Ok(requests
            .filter(|request| open.contains(&request.key))
            .collect())
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

impl PendingCall {
    fn running(call: StartedCall, grace: Option<Duration>, is_fallback: bool) -> PendingCall {
        PendingCall {
            progress: call.run.watch_progress(),
            is_fallback,
            standing: Standing::with_client(),
            state: Pending::Running { call, grace },
        }
    }

    /// Waits for the reply. Dropping this future stops the tool, as dropping the call does.
    pub async fn reply(&mut self) -> Result<Reply, CallError> {
        let (call, grace) = match &mut self.state {
            Pending::Task(task) => return task.take().map(Reply::Task).ok_or_else(told_already),
            Pending::Detachable(call) => return call.reply().await,
            Pending::Running { call, grace } => (call, grace.take()),
            Pending::Asked(asked) => return asked.reply().await,
            Pending::Answered(result) => {
                return result.take().map(Reply::Result).ok_or_else(told_already);
            }
        };
        let outcome = match grace {
            None => call.outcome().await,
            Some(grace) => tokio::select! {
                outcome = call.outcome() => outcome,
                () = tokio::time::sleep(grace) => {
                    if let Err(error) = call.become_task().await {
                        // The work goes on; only the client has to wait for it.
                        warn!(%error, "a slow call could not become a task");
                    }
                    call.outcome().await
                }
            },
        };
        read_outcome(outcome)
    }
}

fn read_outcome(outcome: CallOutcome) -> Result<Reply, CallError> {
    match outcome {
        CallOutcome::Task(task) => Ok(Reply::Task(task)),
        CallOutcome::Asks(requests, left) => Ok(Reply::InputRequired { requests, left }),
        CallOutcome::Refused(error) => Err(error.into()),
        CallOutcome::Ended(RunEnd::Returned(result)) => Ok(Reply::Result(result)),
        // Of no tool; a resource's URI is told by who asked for it.
        // Kept by the scheduler, which tells of it as of any other.
        CallOutcome::Ended(RunEnd::ReturnedLarge(_)) => Err(CallError::Unavailable(
            "the tool's result is too large, and was not kept".to_owned(),
        )),
        CallOutcome::Ended(RunEnd::NotFound) => Err(CallError::Unavailable(
            "the tool answered as if it were a resource".to_owned(),
        )),
        CallOutcome::Ended(RunEnd::Failed(error)) => Err(CallError::Tool(error)),
        CallOutcome::Ended(RunEnd::Cancelled(words)) => {
            Err(CallError::Unavailable(words.unwrap_or_else(|| {
                "the tool stopped without a result".to_owned()
            })))
        }
        CallOutcome::Ended(RunEnd::Abandoned) => Err(CallError::Unavailable(
            "the call was stopped before it had a result".to_owned(),
        )),
    }
}

fn told_already() -> CallError {
    CallError::Unavailable("the call was answered already".to_owned())
}

fn unavailable(error: StoreError) -> TaskError {
    warn!(%error, "a task could not be read or changed");
    TaskError::Unavailable(match error {
        // Their own words name no path, and tell the client whether to try again.
        StoreError::Damaged { .. } | StoreError::NoRoom => error.to_string(),
        StoreError::Record(_) => "the task's record is damaged; call the tool again".to_owned(),
        _ => "the task store is not available; ask again later".to_owned(),
    })
}

impl From<UpdateError> for TaskError {
    fn from(error: UpdateError) -> TaskError {
        match error {
            UpdateError::Unknown => TaskError::Unknown,
            UpdateError::Rejected(rejected) => TaskError::Unavailable(rejected.to_string()),
            UpdateError::Store(error) => unavailable(error),
        }
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
                warn!(%error, "what a call needs could not be stored or read");
                CallError::Unavailable(match error {
                    StoreError::Damaged { .. } => error.to_string(),
                    _ => "the task store is not available; call again later".to_owned(),
                })
            }
        }
    }
}
