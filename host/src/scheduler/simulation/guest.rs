//! Guests that do as they are told, and what they and the clients were told in return.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use super::model::Fact;
use crate::scheduler::{Abandoned, InputError, Run, RunEnd, StepError};
use crate::task::{
    Ask, CallResult, ExternalReference, InputKey, InputRequest, Progress, RpcError, TaskKey,
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
    Fail,
    Stop,
}

/// What the driver and the tasks of a simulation share. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct World(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    guests: Vec<Guest>,
    facts: Vec<Fact>,
    violation: Option<String>,
}

struct Guest {
    key: TaskKey,
    attempt: u32,
    orders: mpsc::UnboundedSender<Order>,
    is_busy: Arc<AtomicBool>,
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

    pub(super) fn order(&self, index: usize, order: Order) -> String {
        let shared = self.lock();
        let guest = &shared.guests[index];
        guest.is_busy.store(true, Ordering::SeqCst);
        // It may end just now.
        let _ = guest.orders.send(order);
        format!("{order:?} by run {} of {}", guest.attempt, guest.key.id)
    }

    fn violate(&self, what: String) {
        self.lock().violation.get_or_insert(what);
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run, to its end.
pub(super) async fn play(world: World, run: Run) -> RunEnd {
    let context = run.context().await;
    let Some(id) = context.task else {
        return RunEnd::Abandoned;
    };
    let key = TaskKey {
        tenant: context.tenant,
        id,
    };
    let (orders, mut told) = mpsc::unbounded_channel();
    let is_busy = Arc::new(AtomicBool::new(false));
    world.lock().guests.push(Guest {
        key: key.clone(),
        attempt: context.attempt,
        orders,
        is_busy: is_busy.clone(),
    });
    let mut player = Player {
        world,
        run,
        key,
        attempt: context.attempt,
        checkpoints: 0,
    };
    while let Some(order) = told.recv().await {
        match player.carry_out(order).await {
            Ok(None) => is_busy.store(false, Ordering::SeqCst),
            Ok(Some(end)) => return end,
            Err(Abandoned) => return RunEnd::Abandoned,
        }
    }
    RunEnd::Abandoned
}

struct Player {
    world: World,
    run: Run,
    key: TaskKey,
    attempt: u32,
    checkpoints: u32,
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
            Order::Refer => {
                let reference = format!("run {}", self.attempt);
                let url = None;
                let reference = ExternalReference { reference, url };
                self.run.set_external_reference(reference).await?;
            }
            Order::Return => {
                let json = format!(r#"{{"run":{}}}"#, self.attempt);
                let is_error = false;
                return Ok(Some(RunEnd::Returned(CallResult { json, is_error })));
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
        // A pause point that says stop has written all the same.
        let _stopped = self.run.checkpoint(Some(state.clone())).await?;
        self.world
            .acknowledge(Fact::Checkpoint(self.key.clone(), state));
        Ok(())
    }

    async fn step(&mut self, name: String) -> Result<(), Abandoned> {
        if self.run.step_result(&name).await?.is_some() {
            return Ok(());
        }
        let value = format!("run {}", self.attempt).into_bytes();
        match self.run.record_step(name.clone(), value.clone()).await {
            Ok(_stopped) => {}
            Err(StepError::Abandoned(abandoned)) => return Err(abandoned),
            Err(StepError::TooMany(words)) => panic!("a schedule has few steps: {words}"),
        }
        self.world
            .acknowledge(Fact::Step(self.key.clone(), name, value));
        Ok(())
    }

    async fn ask(&mut self, keys: &[&str]) -> Result<(), Abandoned> {
        let requests: Vec<InputRequest> = keys.iter().map(|key| question(key)).collect();
        let answers = match self.run.request_input(requests).await? {
            Ok(answers) => answers,
            Err(InputError::Stopped | InputError::Unsupported(_)) => return Ok(()),
            Err(refused @ (InputError::Invalid(_) | InputError::MissingCapability(_))) => {
                self.world
                    .violate(format!("a valid question was refused: {refused:?}"));
                return Ok(());
            }
        };
        // I7: what the guest is told is what is recorded.
        let recorded = self.run.0.scheduler.0.store.inputs(&self.key).unwrap();
        for (key, told) in keys.iter().zip(answers) {
            let found = recorded
                .iter()
                .find(|input| input.request.key.as_str() == *key);
            if found.and_then(|input| input.answer.as_ref()) != Some(&told) {
                self.world
                    .violate(format!("`{key}` was answered to the guest by {told:?}"));
            }
        }
        Ok(())
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
