//! The use cases: what a client of any protocol era can do. Each is one straight line:
//! tenant, quota, schema, then catalog, store, scheduler.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tracing::warn;

use crate::catalog::{Catalog, Snapshot, Tool};
use crate::clock::Clock;
use crate::notify::{Notifier, Subscription};
use crate::scheduler::{
    self, Asks, CallOutcome, RunEnd, Scheduler, StartError, StartedCall, Submission,
};
use crate::schema::{self, Mismatch};
use crate::store::{Store, StoreError, UpdateError};
use crate::task::{
    Abilities, CallResult, InputKey, InputRequest, Policy, Progress, Recovery, RpcError, Status,
    Task, TaskId, TaskKey, TenantId, ToolRef,
};
use crate::wasm::{Execution, Traits};

pub use crate::scheduler::{LiveQuestion, Saved};

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
    pub saved: Option<Saved>,
    /// The client's responses to the questions of that round, unchecked.
    pub responses: Map<String, Value>,
    /// Where a client that is there, and takes no tasks, is asked while the tool waits.
    pub live: Option<mpsc::Sender<LiveQuestion>>,
}

/// A call under way. Dropping it stops the tool, unless the call has become a task.
pub struct PendingCall {
    /// The newest progress, for a client that asked for it.
    pub progress: watch::Receiver<Option<Progress>>,
    /// Whether the call is answered synchronously only because the client takes no tasks (I8).
    pub is_fallback: bool,
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
}

/// What a call came to.
pub enum Reply {
    Result(CallResult),
    /// Stored before it is told (I1).
    Task(Box<Task>),
    /// The same call has to come again with answers.
    InputRequired {
        requests: Vec<InputRequest>,
        saved: Saved,
    },
}

/// What the host has under way, all tenants together: for whoever runs it.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    pub scheduler: scheduler::Counts,
    pub instances: usize,
    pub unfinished_tasks: usize,
    pub watched_tasks: usize,
}

/// Why a call can't be answered.
#[derive(Clone, Debug, Error)]
pub enum CallError {
    #[error("no tool is called `{0}`")]
    UnknownTool(String),
    #[error("the arguments do not fit: {0}")]
    InvalidArguments(Mismatch),
    /// The tool is always a task and the client takes none.
    #[error("`{0}` always runs as a task, and the client did not declare the Tasks extension")]
    NeedsTasks(String),
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
        }
    }

    /// The tools as they are now.
    pub fn tools(&self) -> Arc<Snapshot> {
        self.0.catalog.snapshot()
    }

    /// Follows changes of the tools.
    pub fn tool_changes(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.0.catalog.changes()
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
        };
        let takes_tasks = request.takes_tasks;
        if takes_tasks && self.is_stored_first(tool) {
            let task = self.0.scheduler.submit(submission).await?;
            let progress = watch::Sender::new(None).subscribe();
            return Ok(PendingCall {
                progress,
                is_fallback: false,
                state: Pending::Task(Some(Box::new(task))),
            });
        }
        let asks = match request.live {
            Some(client) if !takes_tasks => Asks::Live(client),
            _ => asks(&tool.declaration.traits, takes_tasks),
        };
        let may_become_task = matches!(asks, Asks::AsTask { .. });
        let saved = request.saved.unwrap_or_default();
        let call = self
            .0
            .scheduler
            .start_call(submission, asks, saved, request.responses)
            .await?;
        Ok(PendingCall {
            progress: call.run.watch_progress(),
            is_fallback: execution == Execution::Auto && !takes_tasks,
            state: Pending::Running {
                call,
                grace: may_become_task.then_some(self.0.limits.call_grace),
            },
        })
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
        match task.expires_at {
            Some(at) if at <= self.0.clock.now() => Err(TaskError::Unknown),
            _ => Ok(task),
        }
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
/// repeat its effects.
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
        Execution::Auto | Execution::Inline if traits.recovery == Recovery::Fail => Asks::Refused(
            "the tool declares recovery `fail`, so it can't be run again to take an answer; \
                 call it with the Tasks extension, or have its author declare `restart` or `resume`"
                .to_owned(),
        ),
        Execution::Auto | Execution::Inline => Asks::InRounds,
    }
}

impl PendingCall {
    /// Waits for the reply. Dropping this future stops the tool, as dropping the call does.
    pub async fn reply(&mut self) -> Result<Reply, CallError> {
        let (call, grace) = match &mut self.state {
            Pending::Task(task) => return task.take().map(Reply::Task).ok_or_else(told_already),
            Pending::Running { call, grace } => (call, grace.take()),
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
        CallOutcome::Asks(requests, saved) => Ok(Reply::InputRequired { requests, saved }),
        CallOutcome::Refused(error) => Err(error.into()),
        CallOutcome::Ended(RunEnd::Returned(result)) => Ok(Reply::Result(result)),
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
    warn!(%error, "a task could not be read");
    TaskError::Unavailable("the task store is not available; ask again later".to_owned())
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
            StartError::Draining | StartError::TooManyTasks(_) | StartError::TooManyCalls => {
                CallError::Busy(error.to_string())
            }
            // Its own words name no path, and tell the client whether to try again.
            StartError::Store(StoreError::DiskFull { .. }) => CallError::Busy(error.to_string()),
            StartError::Store(error) => {
                warn!(%error, "a task could not be stored");
                CallError::Unavailable(
                    "the task store is not available; call again later".to_owned(),
                )
            }
        }
    }
}
