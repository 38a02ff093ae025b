//! Brings tasks on: claims them fairly, drives their runs, cancels, sweeps and drains. It decides
//! *when* a tool runs; what a run changes is decided by `task::apply`, how it runs by a [`Runner`].

mod ask;
mod calls;
mod drain;
mod drive;
mod held;
mod journal;
mod large;
mod message;
mod places;
mod promote;
mod queue;
mod recover;
mod run;
#[cfg(test)]
mod simulation;
mod state;
mod submission;
mod sweep;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use thiserror::Error;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::task::TaskTracker;
use tracing::error;

pub use ask::InputError;
pub use drive::{CallOutcome, StartedCall};
pub use held::{HeldRound, RoundError};
pub use journal::{Asks, Left, LiveQuestion, Saved};
pub use message::{Listener, LogLevel, Message};
pub use places::{Place, Places};
pub use queue::FairQueue;
pub use run::{Abandoned, Run, RunContext, StepError, Stopped};
pub use submission::Submission;

pub use crate::store::{STATE_KEY_MAX_BYTES, STATE_VALUE_MAX_BYTES, StateChange, StateQuota};

use crate::clock::Clock;
use crate::notify::{Notifier, ResourceKey};
use crate::store::{Store, StoreError, UpdateError};
use crate::task::{
    Answer, CallResult, Event, InputKey, LargeResult, Phase, Progress, Rejected, RpcError, Task,
    TaskId, TaskKey, TenantId, ToolRef,
};
use held::Waiting;
use queue::TaskQueue;

/// Runs a tool. Two implementations: the sandbox, and a scripted one in the scheduler's tests.
pub trait Runner: Send + Sync + 'static {
    /// Runs `call` to its end, telling `run` what happens. Must return soon after `run.killed()`
    /// resolves, with nothing of the tool left running.
    fn run(&self, call: Call, run: Run) -> BoxFuture<'static, RunEnd>;
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Call {
    pub tenant: TenantId,
    pub tool: ToolRef,
    /// JSON text that fits the tool's input schema.
    pub arguments: String,
    pub operation: Operation,
}

/// What a call asks of its plugin. Only a tool's call can become a task; what the others act on
/// stands in the call's [`ToolRef`] too, for those who read logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    #[default]
    CallTool,
    ReadResource {
        uri: String,
    },
    GetPrompt {
        name: String,
        arguments: Vec<(String, String)>,
    },
    Complete {
        subject: Subject,
        argument: String,
        value: String,
        /// Arguments that are filled in already.
        chosen: Vec<(String, String)>,
    },
}

/// What an argument to complete belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Prompt(String),
    Template(String),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEnd {
    /// The tool returned, perhaps a failure of its own, or that the arguments are wrong.
    Returned(CallResult),
    /// The tool returned more than one message holds.
    ReturnedLarge(LargeResult),
    /// There is no resource of the URI that was to be read.
    NotFound,
    /// The tool stopped because it was told to; what it says was done and what not.
    Cancelled(Option<String>),
    /// The call failed: the tool said so, trapped, or broke a limit. The message is for the client.
    Failed(RpcError),
    /// A hook answered [`Abandoned`], or the run was killed; the tool has no say in what follows.
    Abandoned,
}

/// The scheduler's limits; every one is a configuration key of the same name.
#[derive(Clone, Debug)]
pub struct SchedulerLimits {
    /// Runs of tasks at once, all tenants together; waiting instances not counted.
    pub tasks_running_max: usize,
    /// Runs of tasks of one tenant at once.
    pub tenant_tasks_running_max: usize,
    /// Calls answered inline at once, all tenants together, and of one tenant.
    pub calls_running_max: usize,
    pub tenant_calls_running_max: usize,
    /// How long a call waits for its turn before it is refused, and how many of one tenant do.
    pub call_wait_max: Duration,
    pub tenant_calls_waiting_max: usize,
    /// Instances that wait for an answer and can't be parked.
    pub held_instances_max: usize,
    /// Such instances of one tenant.
    pub tenant_held_instances_max: usize,
    /// How long such an instance waits for the next round of a call without a task, and how many of
    /// one tenant do.
    pub round_hold: Duration,
    pub tenant_rounds_held_max: usize,
    /// Memory of all these instances together.
    pub held_memory_max_bytes: u64,
    /// How long a guest that can be parked waits in memory for an answer.
    pub park_after: Duration,
    /// How often a run's progress and output are saved.
    pub save_interval: Duration,
    /// How often expired tasks are looked for.
    pub sweep_interval: Duration,
}

/// What is under way, all tenants together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Live runs of tasks.
    pub runs: usize,
    /// Places they take; a run that waits for an answer takes none.
    pub places: usize,
    /// Tasks that wait for a place.
    pub queued: usize,
    /// Places of calls that are answered inline.
    pub calls: usize,
    /// Instances that wait for an answer in memory.
    pub held: usize,
}

/// Why nothing can be started.
#[derive(Clone, Debug, Error)]
pub enum StartError {
    #[error("the host is stopping; call again when it is back")]
    Draining,
    #[error("too many calls are running; try again in a moment")]
    TooManyCalls,
    #[error(transparent)]
    Round(#[from] RoundError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The scheduler. Cheap to clone.
#[derive(Clone)]
pub struct Scheduler(Arc<Inner>);

struct Inner {
    store: Store,
    notifier: Notifier,
    /// Of resources that runs say have changed.
    resources: Notifier<ResourceKey>,
    runner: Arc<dyn Runner>,
    clock: Clock,
    limits: SchedulerLimits,
    state: Mutex<State>,
    /// Calls answered inline.
    calls: Places,
    held: Arc<Semaphore>,
    /// Permits of one KiB each.
    held_memory: Arc<Semaphore>,
    /// Owns every task that is spawned here.
    tracker: TaskTracker,
    /// Set once the host stops; nothing new starts then.
    draining: watch::Sender<bool>,
    run_ended: Notify,
    /// Tells this process from others, by chance.
    process: u64,
    /// 16 bytes for a task's name; counted in simulations, whose traces have to repeat.
    new_id: fn() -> [u8; 16],
}

struct State {
    queue: TaskQueue,
    /// Live runs of tasks, in an order that repeats.
    runs: BTreeMap<TaskKey, Run>,
    /// Instances that wait for an answer in memory, by tenant.
    held: HashMap<TenantId, usize>,
    /// Runs that wait for the next round of their call, by number.
    waiting: BTreeMap<u64, Waiting>,
    /// How many runs a tenant has that wait so or did, and have not ended.
    waiting_places: HashMap<TenantId, usize>,
    /// Rounds that waited so far.
    rounds: u64,
}

impl Scheduler {
    /// A scheduler that has not started anything; see [`Scheduler::start`].
    pub fn new(
        store: Store,
        notifier: Notifier,
        runner: Arc<dyn Runner>,
        clock: Clock,
        limits: SchedulerLimits,
    ) -> Scheduler {
        Scheduler::naming(store, notifier, runner, clock, limits, random_id)
    }

    fn naming(
        store: Store,
        notifier: Notifier,
        runner: Arc<dyn Runner>,
        clock: Clock,
        limits: SchedulerLimits,
        new_id: fn() -> [u8; 16],
    ) -> Scheduler {
        let state = State {
            queue: TaskQueue::new(limits.tasks_running_max, limits.tenant_tasks_running_max),
            runs: BTreeMap::new(),
            held: HashMap::new(),
            waiting: BTreeMap::new(),
            waiting_places: HashMap::new(),
            rounds: 0,
        };
        Scheduler(Arc::new(Inner {
            store,
            notifier,
            resources: Notifier::default(),
            runner,
            clock,
            state: Mutex::new(state),
            calls: Places::new(limits.calls_running_max, limits.tenant_calls_running_max),
            held: Arc::new(Semaphore::new(limits.held_instances_max)),
            held_memory: Arc::new(Semaphore::new(ask::memory_permits(
                limits.held_memory_max_bytes,
            ))),
            tracker: TaskTracker::new(),
            draining: watch::Sender::new(false),
            run_ended: Notify::new(),
            process: getrandom::u64().expect("the system's random generator works"),
            new_id,
            limits,
        }))
    }

    /// Stores a new task and sees to it that it runs. It is durable when this returns (I1).
    pub async fn submit(&self, submission: Submission) -> Result<Task, StartError> {
        let scheduler = self.clone();
        // A client that goes away must not leave a stored task without a run, or a slot taken.
        let stored = self
            .0
            .tracker
            .spawn(async move { scheduler.store_new(submission).await });
        stored.await.unwrap_or_else(|error| {
            error!(%error, "storing a task panicked");
            Err(StartError::Store(StoreError::Closed))
        })
    }

    async fn store_new(&self, submission: Submission) -> Result<Task, StartError> {
        self.check_room(&submission.tenant)?;
        let key = self.new_key(&submission.tenant);
        // With a place free the task is born running, which saves the commit of its claim.
        let starts = self.lock().queue.try_take_place(&key.tenant);
        let task = submission.task(key.clone(), starts, self.0.clock.now());
        if let Err(error) = self.0.store.insert(submission.born(task.clone())).await {
            if starts {
                self.leave_place(&key.tenant);
            }
            return Err(error.into());
        }
        if starts {
            self.spawn_run(task.clone(), submission.arguments);
        } else {
            self.lock().queue.push(key);
            self.dispatch();
        }
        Ok(task)
    }

    /// Refuses early what the store would refuse, which decides.
    fn check_room(&self, tenant: &TenantId) -> Result<(), StartError> {
        if *self.0.draining.borrow() {
            return Err(StartError::Draining);
        }
        Ok(self.0.store.check_quota(tenant)?)
    }

    /// Whether a task submitted now would have to wait for a place.
    pub fn is_full(&self) -> bool {
        self.lock().queue.is_full()
    }

    /// Records answers and brings the task on.
    pub async fn answer(
        &self,
        key: &TaskKey,
        answers: Vec<(InputKey, Answer)>,
    ) -> Result<Task, UpdateError> {
        let task = self
            .0
            .store
            .update(key, Event::Answered { answers })
            .await?;
        match task.phase {
            Phase::Queued { .. } => self.enqueue(key),
            _ => {
                if let Some(run) = self.live(key) {
                    run.wake();
                }
            }
        }
        Ok(task)
    }

    /// Records that the task is to stop (durable), then tells its run.
    pub async fn cancel(&self, key: &TaskKey, reason: &str) -> Result<(), UpdateError> {
        let event = Event::CancelRequested {
            reason: reason.to_owned(),
        };
        let task = match self.0.store.update(key, event).await {
            Ok(task) => task,
            // A finished task acknowledges a cancel and does not change (I3).
            Err(UpdateError::Rejected(Rejected::Terminal)) => return Ok(()),
            Err(error) => return Err(error),
        };
        match task.phase {
            Phase::Queued { .. } => self.enqueue(key),
            _ => {
                if let Some(run) = self.live(key) {
                    run.cancel(reason);
                }
            }
        }
        Ok(())
    }

    /// The newest progress of a live run.
    pub fn progress(&self, key: &TaskKey) -> Option<Progress> {
        self.live(key).and_then(|run| run.newest_progress())
    }

    /// How many runs of tasks are live.
    pub fn live_runs(&self) -> usize {
        self.lock().runs.len()
    }

    pub fn counts(&self) -> Counts {
        let held_max = self.0.limits.held_instances_max;
        let state = self.lock();
        Counts {
            runs: state.runs.len(),
            places: state.queue.taken(),
            queued: state.queue.waiting(),
            calls: self.0.calls.taken(),
            held: held_max.saturating_sub(self.0.held.available_permits()),
        }
    }

    /// A new name for a task of the tenant.
    fn new_key(&self, tenant: &TenantId) -> TaskKey {
        TaskKey {
            tenant: tenant.clone(),
            id: TaskId::from_random((self.0.new_id)()),
        }
    }

    fn live(&self, key: &TaskKey) -> Option<Run> {
        self.lock().runs.get(key).cloned()
    }

    fn enqueue(&self, key: &TaskKey) {
        self.lock().queue.push(key.clone());
        self.dispatch();
    }

    /// Gives free places to waiting tasks. Called whenever a task is queued or a place is left.
    fn dispatch(&self) {
        if *self.0.draining.borrow() {
            return;
        }
        loop {
            let next = self.lock().queue.pop();
            let Some(key) = next else { return };
            let scheduler = self.clone();
            self.0
                .tracker
                .spawn(async move { scheduler.claim(key).await });
        }
    }

    /// Statements under this lock are short and leave the state consistent one by one.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// 128 bits from the system's generator.
fn random_id() -> [u8; 16] {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system's random generator works");
    bytes
}
