//! Guests that do as they are told, and what they and the clients were told in return.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::mpsc;

use super::calls::Desk;
use super::model::Fact;
use crate::scheduler::run::Shared;
use crate::scheduler::{Abandoned, Call, InputError, Run, RunEnd, StepError};
use crate::store::Store;
use crate::task::{
    Answer, Ask, CallResult, ExternalReference, InputKey, InputRequest, LargeResult, PartBody,
    Phase, Progress, ResultPart, RpcError, TaskId, TaskKey,
};

/// What a guest may ask.
pub(super) const KEYS: [&str; 3] = ["go", "sure", "why"];

const FORM: &str = r#"{"type":"object","properties":{"ok":{"type":"integer"}},"required":["ok"]}"#;

/// What a guest can be told to do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    Checkpoint,
    Step(usize),
    Ask(usize),
    AskAll,
    Progress,
    Refer,
    Return,
    /// With so many parts.
    ReturnLarge(u32),
    Fail,
    Stop,
}

/// What the driver and the tasks of a simulation share. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct World(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    guests: Vec<Guest>,
    facts: Vec<Fact>,
    violation: Option<String>,
    desk: Desk,
}

struct Guest {
    who: Who,
    /// Weak, because a run holds its runner, which is the world.
    run: Weak<Shared>,
    orders: mpsc::UnboundedSender<Order>,
    is_busy: Arc<AtomicBool>,
}

/// Whose guest it is.
#[derive(Clone)]
pub(super) enum Who {
    Run { key: TaskKey, attempt: u32 },
    Call(u32),
}

impl World {
    pub(super) fn acknowledge(&self, fact: Fact) {
        self.lock().facts.push(fact);
    }

    pub(super) fn take_facts(&self) -> Vec<Fact> {
        std::mem::take(&mut self.lock().facts)
    }

    pub(super) fn violation(&self) -> Option<String> {
        self.lock().violation.clone()
    }

    /// Guests of a process that is gone.
    pub(super) fn forget_guests(&self) {
        self.lock().guests.clear();
    }

    pub(super) fn idle_guests(&self) -> Vec<usize> {
        let shared = self.lock();
        let guests = shared.guests.iter().enumerate();
        guests
            .filter(|(_, guest)| !guest.orders.is_closed() && !guest.is_busy.load(Ordering::SeqCst))
            .map(|(index, _)| index)
            .collect()
    }

    /// Runs that live without their lease.
    pub(super) fn stale_runs(&self, store: &Store) -> Vec<Run> {
        let shared = self.lock();
        let runs = shared.guests.iter().filter_map(|guest| guest.run.upgrade());
        let is_stale = |run: &Arc<Shared>| {
            // A hook that has it at this moment is about to hear of it by itself.
            let journal = run.journal.try_lock().ok();
            let durable = journal.as_ref().and_then(|journal| journal.durable());
            durable.is_some_and(|it| !holds_lease(store, &it.key, it.attempt.0))
        };
        runs.filter(is_stale).map(Run).collect()
    }

    pub(super) fn who(&self, index: usize) -> Who {
        self.lock().guests[index].who.clone()
    }

    pub(super) fn order(&self, index: usize, order: Order) -> Who {
        let shared = self.lock();
        let guest = &shared.guests[index];
        guest.is_busy.store(true, Ordering::SeqCst);
        // It may end just now.
        let _ = guest.orders.send(order);
        guest.who.clone()
    }

    pub(super) fn violate(&self, what: String) {
        self.lock().violation.get_or_insert(what);
    }

    /// What the clients of calls know.
    pub(super) fn desk<T>(&self, act: impl FnOnce(&mut Desk) -> T) -> T {
        act(&mut self.lock().desk)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run, to its end. Every other guest does not end when its run is over: it goes on calling hooks,
/// after the next run has begun, and after the task has ended or is gone (I2).
pub(super) async fn play(world: World, call: Call, run: Run) -> RunEnd {
    let context = run.context().await;
    let who = match context.task {
        Some(id) => Who::Run {
            key: TaskKey {
                tenant: context.tenant,
                id,
            },
            attempt: context.attempt,
        },
        None => Who::Call(call.arguments.parse().unwrap()),
    };
    let (orders, mut told) = mpsc::unbounded_channel();
    let is_busy = Arc::new(AtomicBool::new(false));
    world.lock().guests.push(Guest {
        who: who.clone(),
        run: Arc::downgrade(&run.0),
        orders,
        is_busy: is_busy.clone(),
    });
    let mut player = Player {
        world,
        run,
        who,
        attempt: context.attempt,
        checkpoints: 0,
        told: BTreeMap::new(),
    };
    while let Some(order) = told.recv().await {
        match player.carry_out(order).await {
            Ok(None) => is_busy.store(false, Ordering::SeqCst),
            Ok(Some(end)) => return end,
            Err(Abandoned) if player.goes_on() => is_busy.store(false, Ordering::SeqCst),
            Err(Abandoned) => return RunEnd::Abandoned,
        }
    }
    RunEnd::Abandoned
}

struct Player {
    world: World,
    run: Run,
    who: Who,
    attempt: u32,
    checkpoints: u32,
    /// The answers it had.
    told: BTreeMap<InputKey, Answer>,
}

impl Player {
    async fn carry_out(&mut self, order: Order) -> Result<Option<RunEnd>, Abandoned> {
        match order {
            Order::Checkpoint => self.checkpoint().await?,
            Order::Step(index) => self.step(format!("step-{index}")).await?,
            Order::Ask(index) => self.ask(&KEYS[index..=index]).await?,
            Order::AskAll => self.ask(&KEYS).await?,
            Order::Progress => self.run.progress(Progress {
                message: format!("run {}", self.attempt),
                done: Some(f64::from(self.checkpoints)),
                total: None,
            }),
            Order::Refer => self.refer().await?,
            Order::Return => {
                let json = format!(r#"{{"run":{}}}"#, self.attempt);
                let is_error = false;
                return Ok(Some(RunEnd::Returned(CallResult { json, is_error })));
            }
            Order::ReturnLarge(parts) => {
                return Ok(Some(RunEnd::ReturnedLarge(large(self.attempt, parts))));
            }
            Order::Fail => {
                return Ok(Some(RunEnd::Failed(RpcError {
                    code: -32603,
                    message: "as told".to_owned(),
                    data: None,
                })));
            }
            Order::Stop if self.run.cancelled().is_some() => {
                return Ok(Some(RunEnd::Cancelled(None)));
            }
            Order::Stop => {}
        }
        Ok(None)
    }

    /// States grow from run to run and within one, so that a lost or a late one shows.
    async fn checkpoint(&mut self) -> Result<(), Abandoned> {
        self.checkpoints += 1;
        let state = format!("{:04}.{:04}", self.attempt, self.checkpoints).into_bytes();
        let lease = self.lease().await;
        // A pause point that says stop has written all the same.
        let _stopped = self.run.checkpoint(Some(state.clone())).await?;
        if let Some(key) = self.wrote("a checkpoint", lease) {
            self.world.acknowledge(Fact::Checkpoint(key, state));
        }
        Ok(())
    }

    async fn step(&mut self, name: String) -> Result<(), Abandoned> {
        if self.run.step_result(&name).await?.is_some() {
            return Ok(());
        }
        let value = format!("run {}", self.attempt).into_bytes();
        let lease = self.lease().await;
        match self.run.record_step(name.clone(), value.clone()).await {
            Ok(_stopped) => {}
            Err(StepError::Abandoned(abandoned)) => return Err(abandoned),
            Err(StepError::TooMany(words)) => panic!("a schedule has few steps: {words}"),
        }
        if let Some(key) = self.wrote("a step", lease) {
            self.world.acknowledge(Fact::Step(key, name, value));
        }
        Ok(())
    }

    async fn refer(&mut self) -> Result<(), Abandoned> {
        let reference = ExternalReference {
            reference: format!("run {}", self.attempt),
            url: None,
        };
        let lease = self.lease().await;
        self.run.set_external_reference(reference).await?;
        self.wrote("a reference", lease);
        Ok(())
    }

    async fn ask(&mut self, keys: &[&str]) -> Result<(), Abandoned> {
        let requests: Vec<InputRequest> = keys.iter().map(|key| question(key)).collect();
        let lease = self.lease().await;
        let answers = match self.run.request_input(requests).await? {
            Ok(answers) => answers,
            Err(InputError::Stopped | InputError::Unsupported(_)) => return Ok(()),
            Err(refused @ (InputError::Invalid(_) | InputError::MissingCapability(_))) => {
                let what = format!("a valid question was refused: {refused:?}");
                self.world.violate(what);
                return Ok(());
            }
        };
        self.wrote("a question", lease);
        for (key, answer) in keys.iter().zip(answers) {
            self.check_answer(InputKey::parse(key).unwrap(), answer)
                .await;
        }
        Ok(())
    }

    /// I7: what the guest is told is what is recorded, or what the call's client sent, and stays.
    async fn check_answer(&mut self, key: InputKey, told: Answer) {
        let is_known = match (self.lease().await, &self.who) {
            (Some((task, _)), _) => {
                let recorded = self.run.0.scheduler.0.store.inputs(&task).unwrap();
                let found = recorded.iter().find(|input| input.request.key == key);
                found.and_then(|input| input.answer.as_ref()) == Some(&told)
            }
            (None, Who::Call(call)) => self.world.desk(|desk| desk.sent(*call, &key, &told)),
            (None, Who::Run { .. }) => false,
        };
        let before = self.told.entry(key.clone()).or_insert_with(|| told.clone());
        if !is_known || *before != told {
            self.world
                .violate(format!("`{key}` was answered to the guest by {told:?}"));
        }
    }

    /// The task, and whether the run still holds its lease; None while the call is no task.
    async fn lease(&self) -> Option<(TaskKey, bool)> {
        let context = self.run.context().await;
        let key = match (&self.who, context.task) {
            // The journal of a run that is over knows no task.
            (Who::Run { key, .. }, _) => key.clone(),
            (Who::Call(_), Some(id)) => TaskKey {
                tenant: context.tenant,
                id,
            },
            (Who::Call(_), None) => return None,
        };
        let holds = self.holds_lease(&key);
        Some((key, holds))
    }

    fn holds_lease(&self, key: &TaskKey) -> bool {
        holds_lease(&self.run.0.scheduler.0.store, key, self.attempt)
    }

    /// I2: a run that had lost its lease before it wrote must have been refused.
    fn wrote(&self, what: &str, before: Option<(TaskKey, bool)>) -> Option<TaskKey> {
        let (key, held) = before?;
        if !held {
            let run = self.attempt;
            self.world.violate(format!(
                "run {run} of {} wrote {what} without a lease",
                key.id
            ));
        }
        Some(key)
    }

    /// Whether it calls hooks although its run is over.
    fn goes_on(&self) -> bool {
        match &self.who {
            Who::Run { key, attempt } => {
                let last = key.id.as_str().bytes().last().unwrap_or_default();
                (u32::from(last) + attempt).is_multiple_of(2) && !self.holds_lease(key)
            }
            Who::Call(_) => false,
        }
    }
}

fn holds_lease(store: &Store, key: &TaskKey, attempt: u32) -> bool {
    let task = store.get(key).unwrap();
    task.is_some_and(|task| task.phase == Phase::Running && task.attempt.0 == attempt)
}

/// A result whose parts say which run returned them.
fn large(attempt: u32, parts: u32) -> LargeResult {
    let placeholder = TaskId::from_random([0xff; 16]);
    let json = format!(r#"{{"run":{attempt},"parts":{parts},"task":"{placeholder}"}}"#);
    let parts = (1..=parts).map(|number| part(attempt, number)).collect();
    LargeResult::new(json, false, placeholder, parts)
}

pub(super) fn part(attempt: u32, number: u32) -> ResultPart {
    ResultPart {
        mime_type: None,
        body: PartBody::Text(format!("run {attempt}, part {number}")),
    }
}

fn question(key: &str) -> InputRequest {
    InputRequest {
        key: InputKey::parse(key).unwrap(),
        ask: Ask::Form {
            message: format!("{key}?"),
            schema: FORM.to_owned(),
        },
    }
}
