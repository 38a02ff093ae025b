//! The scheduler over the real store and state machine, driven by a seeded random schedule: clients,
//! guests, commits, crashes, stale runs, late answers and expiry in any order. The invariants are
//! checked after every step, and one seed run twice gives the same trace.
//!
//! Nothing here waits for time or a thread: a single-threaded runtime is given a fixed number of
//! turns, the clock is turned by hand, and commits happen when the schedule says so.

mod guest;
mod host;
mod model;
mod random;

use std::time::Duration;

use futures_util::FutureExt;

use super::Submission;
use crate::clock::{Clock, Timestamp};
use crate::store::simulated::Medium;
use crate::task::{
    Abilities, Answer, Digest, Event, InputKey, Interruption, Phase, Policy, Recovery, TaskKey,
    TenantId, ToolRef,
};
use guest::{Order, World};
use host::Host;
use model::Model;
use random::Random;

const STEPS: usize = 60;

/// Seeds of one run of the test command, and of the long form.
const SEEDS: u64 = 2_000;
const LONG_SEEDS: u64 = 100_000;

/// Rounds after which a task that has not ended is stuck.
const LAST_ROUNDS: usize = 200;

struct Simulation {
    random: Random,
    medium: Medium,
    clock: Clock,
    world: World,
    model: Model,
    host: Host,
    answers: u32,
    park_after: Duration,
}

impl Simulation {
    fn new(seed: u64, medium: Medium) -> Simulation {
        host::restart_ids();
        let mut random = Random::new(seed);
        let clock = Clock::manual(Timestamp(1_000_000));
        let world = World::default();
        // Either every question parks at once, or none does.
        let park_after = match random.one_in(3) {
            true => Duration::from_secs(3_600),
            false => Duration::ZERO,
        };
        let host = Host::open(&medium, &clock, &world, park_after);
        Simulation {
            random,
            medium,
            clock,
            world,
            model: Model::default(),
            host,
            answers: 0,
            park_after,
        }
    }

    /// Runs the schedule and gives what happened, line by line.
    fn run(mut self, keeps_trace: bool) -> Result<Vec<String>, String> {
        let mut trace = Vec::new();
        self.boot();
        for step in 0..STEPS {
            let what = self.step();
            self.host.settle();
            self.check()
                .map_err(|problem| format!("step {step}, {what}: {problem}"))?;
            if keeps_trace {
                trace.push(format!("{what} {}", self.model.shown()));
            }
            if self.host.is_drained() {
                self.host.commit(usize::MAX);
                self.restart();
                trace.push("restarted".to_owned());
            }
        }
        self.finish()?;
        trace.push(self.model.shown());
        Ok(trace)
    }

    fn step(&mut self) -> String {
        match self.random.below(100) {
            0..9 => self.submit(),
            9..22 => self.answer(),
            22..27 => self.cancel(),
            27..59 => self.order(),
            59..82 => {
                let max = 1 + self.random.below(4);
                format!("commit {}", self.host.commit(max))
            }
            82..86 => {
                let seconds = 1 + self.random.below(400) as u64;
                self.clock.advance(Duration::from_secs(seconds));
                format!("{seconds} s pass")
            }
            86..88 => {
                let scheduler = self.host.scheduler.clone();
                // An answer would come from a closed store only.
                self.host
                    .spawn(async move { drop(scheduler.sweep().await) });
                "sweep".to_owned()
            }
            88..90 => self.lose_lease(),
            90..92 => self.kill(),
            92..93 => {
                self.host.drain();
                "drain".to_owned()
            }
            93..97 => {
                // What was decided may be durable and still unanswered.
                let committed = match self.random.one_in(2) {
                    true => self.host.commit(1 + self.random.below(3)),
                    false => 0,
                };
                self.restart();
                format!("crash after {committed}")
            }
            _ => "nothing".to_owned(),
        }
    }

    fn submit(&mut self) -> String {
        let submission = self.submission();
        let (scheduler, world) = (self.host.scheduler.clone(), self.world.clone());
        let what = format!("submit {:?}", submission.policy.recovery);
        self.host.spawn(async move {
            if let Ok(task) = scheduler.submit(submission).await {
                world.acknowledge(model::Fact::Task(task.key, task.expires_at));
            }
        });
        what
    }

    fn submission(&mut self) -> Submission {
        let recoveries = [
            Recovery::Resume,
            Recovery::Resume,
            Recovery::Restart,
            Recovery::Fail,
        ];
        let ttls = [
            None,
            Some(Duration::from_secs(300)),
            Some(Duration::from_secs(86_400)),
        ];
        Submission {
            tenant: TenantId::parse(["a", "b"][self.random.below(2)]).unwrap(),
            tool: ToolRef {
                plugin: "p".into(),
                tool: "t".into(),
                digest: Digest([1; 32]),
            },
            arguments: "{}".into(),
            policy: Policy {
                recovery: recoveries[self.random.below(4)],
                cleanup_on_cancel: self.random.one_in(2),
                // Force is a step of the schedule.
                cancel_grace: Duration::from_secs(3_600),
                poll_interval: Duration::from_secs(1),
            },
            abilities: Abilities {
                form: true,
                ..Abilities::default()
            },
            ttl: ttls[self.random.below(3)],
            trace: None,
            operation: Default::default(),
            listener: None,
        }
    }

    /// Answers one or two keys of a task, whether or not they are open, or were ever asked.
    fn answer(&mut self) -> String {
        let Some(key) = self.any_task() else {
            return "nobody to answer".to_owned();
        };
        let mut answers = Vec::new();
        for _ in 0..1 + self.random.below(2) {
            let input = InputKey::parse(guest::KEYS[self.random.below(guest::KEYS.len())]).unwrap();
            answers.push((input, self.new_answer()));
        }
        let what = format!("answer {} {answers:?}", key.id);
        self.send_answers(key, answers);
        what
    }

    /// Every answer is another, so that one written over would show.
    fn new_answer(&mut self) -> Answer {
        self.answers += 1;
        Answer::Accept(Some(format!(r#"{{"ok":{}}}"#, self.answers)))
    }

    fn send_answers(&self, key: TaskKey, answers: Vec<(InputKey, Answer)>) {
        let (scheduler, world) = (self.host.scheduler.clone(), self.world.clone());
        self.host.spawn(async move {
            let inputs: Vec<InputKey> = answers.iter().map(|(input, _)| input.clone()).collect();
            if let Ok(task) = scheduler.answer(&key, answers).await {
                let asked = inputs
                    .into_iter()
                    .filter(|input| task.inputs.contains_key(input));
                for input in asked {
                    world.acknowledge(model::Fact::Answer(key.clone(), input));
                }
            }
        });
    }

    fn cancel(&mut self) -> String {
        let Some(key) = self.any_task() else {
            return "nobody to cancel".to_owned();
        };
        let (scheduler, world) = (self.host.scheduler.clone(), self.world.clone());
        let what = format!("cancel {}", key.id);
        self.host.spawn(async move {
            if scheduler.cancel(&key, "not needed").await.is_ok() {
                world.acknowledge(model::Fact::Cancel(key));
            }
        });
        what
    }

    /// Tells a guest that has nothing to do what to do next.
    fn order(&mut self) -> String {
        let orders = [
            Order::Checkpoint,
            Order::Checkpoint,
            Order::Step(self.random.below(3)),
            Order::Step(self.random.below(3)),
            Order::Ask(self.random.below(guest::KEYS.len())),
            Order::Ask(self.random.below(guest::KEYS.len())),
            Order::AskAll,
            Order::Progress,
            Order::Refer,
            Order::Return,
            Order::Fail,
            Order::Stop,
        ];
        let order = orders[self.random.below(orders.len())];
        let idle = self.world.idle_guests();
        match idle.len() {
            0 => "no guest is idle".to_owned(),
            count => self.world.order(idle[self.random.below(count)], order),
        }
    }

    /// Another process takes the lease over, as it could if this one were thought dead.
    fn lose_lease(&mut self) -> String {
        let running = self.host.store.running().unwrap();
        if running.is_empty() || self.host.is_draining() {
            return "no lease to lose".to_owned();
        }
        let key = running[self.random.below(running.len())].clone();
        let what = format!("lose the lease of {}", key.id);
        let (scheduler, store) = (self.host.scheduler.clone(), self.host.store.clone());
        self.host.spawn(async move {
            let Ok(Some(task)) = store.get(&key) else {
                return;
            };
            let event = Event::Interrupted {
                attempt: task.attempt,
                cause: Interruption::Crash,
            };
            if let Ok(task) = store.update(&key, event).await
                && let Phase::Queued { .. } = task.phase
            {
                scheduler.enqueue(&key);
            }
        });
        what
    }

    /// What the end of a cancel's grace does, or of a drain's limit.
    fn kill(&mut self) -> String {
        let runs = self.host.scheduler.all_runs();
        let overdue = runs
            .into_iter()
            .find(|run| run.cancelled().is_some() || run.is_draining());
        match overdue {
            Some(run) => {
                run.kill();
                "kill".to_owned()
            }
            None => "nobody to kill".to_owned(),
        }
    }

    fn restart(&mut self) {
        self.reopen();
        self.boot();
    }

    fn reopen(&mut self) {
        self.world.forget_guests();
        self.host = Host::open(&self.medium, &self.clock, &self.world, self.park_after);
    }

    /// Recovers, and may crash in the middle of it.
    fn boot(&mut self) {
        self.host.start();
        self.host.settle();
        while !self.host.is_started() {
            self.host.commit(1 + self.random.below(4));
            if self.random.one_in(8) {
                self.reopen();
                self.host.start();
            }
            self.host.settle();
        }
    }

    fn any_task(&mut self) -> Option<TaskKey> {
        let tasks = self.medium.tasks();
        match tasks.len() {
            0 => None,
            count => Some(tasks[self.random.below(count)].clone()),
        }
    }

    fn check(&mut self) -> Result<(), String> {
        self.model.learn(self.world.take_facts());
        if let Some(violation) = self.world.violation() {
            return Err(violation);
        }
        self.model
            .check(&self.medium, &self.host.store, self.clock.now())
    }

    /// I8: whatever happened, every task can be brought to an end, and no place is lost.
    fn finish(&mut self) -> Result<(), String> {
        self.host.commit(usize::MAX);
        self.restart();
        for _ in 0..LAST_ROUNDS {
            for guest in self.world.idle_guests() {
                self.world.order(guest, Order::Return);
            }
            for key in self.medium.tasks() {
                let task = self.host.store.get(&key).unwrap();
                let open: Vec<InputKey> = task
                    .iter()
                    .flat_map(|task| task.open_inputs().cloned())
                    .collect();
                let answers = open
                    .into_iter()
                    .map(|input| (input, self.new_answer()))
                    .collect();
                self.send_answers(key, answers);
            }
            self.host.settle();
            self.host.commit(usize::MAX);
            self.host.settle();
            self.check()
                .map_err(|problem| format!("at the end: {problem}"))?;
            if self.model.have_all_ended() && self.host.is_idle() {
                return Ok(());
            }
        }
        Err(format!("tasks are stuck: {}", self.model.shown()))
    }
}

fn seeds() -> u64 {
    match std::env::var_os("LONGSHORE_LONG") {
        Some(_) => LONG_SEEDS,
        None => SEEDS,
    }
}

fn simulate(seed: u64, medium: &Medium, keeps_trace: bool) -> Vec<String> {
    let outcome = Simulation::new(seed, medium.fresh()).run(keeps_trace);
    outcome.unwrap_or_else(|problem| panic!("seed {seed}: {problem}"))
}

#[test]
fn the_invariants_hold_in_every_schedule() {
    let medium = Medium::new();
    for seed in 0..seeds() {
        simulate(seed, &medium, false);
    }
    println!("{} seeds of {STEPS} steps", seeds());
}

#[test]
fn one_seed_run_twice_gives_the_same_trace() {
    let medium = Medium::new();
    let mut traces = std::collections::BTreeSet::new();
    for seed in 0..100 {
        let trace = simulate(seed, &medium, true);
        assert_eq!(trace, simulate(seed, &medium, true), "seed {seed}");
        traces.insert(trace);
    }
    // The schedule follows the seed.
    assert_eq!(traces.len(), 100);
}

/// What the schedules reach; a simulation that never parks or crashes would prove nothing.
#[test]
fn the_schedules_reach_what_they_are_for() {
    let medium = Medium::new();
    let lines: Vec<String> = (0..100)
        .flat_map(|seed| simulate(seed, &medium, true))
        .collect();
    for reached in [
        "crash",
        "restarted",
        "lose the lease",
        "kill",
        "sweep",
        "Parked",
        "Queued",
        "Completed",
        "Failed",
        "Cancelled",
        "gone",
    ] {
        let count = lines.iter().filter(|line| line.contains(reached)).count();
        assert!(count >= 5, "{reached} was reached {count} times");
    }
}

/// The runner of a simulation: every run is a guest that does as it is told.
impl super::Runner for World {
    fn run(
        &self,
        _call: super::Call,
        run: super::Run,
    ) -> futures_util::future::BoxFuture<'static, super::RunEnd> {
        let world = self.clone();
        async move {
            tokio::select! {
                biased;
                () = run.killed() => super::RunEnd::Abandoned,
                end = guest::play(world, run.clone()) => end,
            }
        }
        .boxed()
    }
}
