//! What happens to tasks: clients make, answer and cancel them, guests do as they are told, and leases
//! are taken away.

use std::time::Duration;

use super::Simulation;
use super::guest::{KEYS, Order, Who};
use super::model::Fact;
use crate::scheduler::Submission;
use crate::task::{
    Abilities, Answer, Digest, Event, InputKey, Interruption, Phase, Policy, Recovery, TaskKey,
    TenantId, ToolRef,
};

impl Simulation {
    pub(super) fn submit(&mut self) -> String {
        let submission = self.submission();
        let (scheduler, world) = (self.host.scheduler.clone(), self.world.clone());
        let what = format!("submit {:?}", submission.policy.recovery);
        self.host.spawn(async move {
            if let Ok(task) = scheduler.submit(submission).await {
                world.acknowledge(Fact::Task(task.key, task.expires_at));
            }
        });
        what
    }

    pub(super) fn submission(&mut self) -> Submission {
        let recoveries = [
            Recovery::Resume,
            Recovery::Resume,
            Recovery::Restart,
            Recovery::Fail,
        ];
        let ttls = [
            None,
            Some(Duration::from_secs(100)),
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
    pub(super) fn answer(&mut self) -> String {
        let Some(key) = self.any_task() else {
            return "nobody to answer".to_owned();
        };
        let mut answers = Vec::new();
        for _ in 0..1 + self.random.below(2) {
            let input = InputKey::parse(KEYS[self.random.below(KEYS.len())]).unwrap();
            answers.push((input, self.new_answer()));
        }
        let what = format!("answer {} {answers:?}", key.id);
        self.send_answers(key, answers);
        what
    }

    /// Every answer is another, so that one written over would show.
    pub(super) fn new_answer(&mut self) -> Answer {
        self.answers += 1;
        Answer::Accept(Some(format!(r#"{{"ok":{}}}"#, self.answers)))
    }

    pub(super) fn send_answers(&self, key: TaskKey, answers: Vec<(InputKey, Answer)>) {
        let (scheduler, world) = (self.host.scheduler.clone(), self.world.clone());
        self.host.spawn(async move {
            let inputs: Vec<InputKey> = answers.iter().map(|(input, _)| input.clone()).collect();
            if let Ok(task) = scheduler.answer(&key, answers).await {
                let asked = inputs
                    .into_iter()
                    .filter(|input| task.inputs.contains_key(input));
                for input in asked {
                    world.acknowledge(Fact::Answer(key.clone(), input));
                }
            }
        });
    }

    pub(super) fn cancel(&mut self) -> String {
        let Some(key) = self.any_task() else {
            return "nobody to cancel".to_owned();
        };
        let (scheduler, world) = (self.host.scheduler.clone(), self.world.clone());
        let what = format!("cancel {}", key.id);
        self.host.spawn(async move {
            if scheduler.cancel(&key, "not needed").await.is_ok() {
                world.acknowledge(Fact::Cancel(key));
            }
        });
        what
    }

    /// Tells a guest that has nothing to do what to do next.
    pub(super) fn order(&mut self) -> String {
        let orders = [
            Order::Checkpoint,
            Order::Checkpoint,
            Order::Step(self.random.below(3)),
            Order::Step(self.random.below(3)),
            Order::Ask(self.random.below(KEYS.len())),
            Order::Ask(self.random.below(KEYS.len())),
            Order::AskAll,
            Order::Progress,
            Order::Refer,
            Order::Return,
            Order::ReturnLarge(self.random.below(4) as u32),
            Order::Fail,
            Order::Stop,
        ];
        let order = orders[self.random.below(orders.len())];
        let idle = self.world.idle_guests();
        // There are few, and they are what the fencing is for.
        let stale: Vec<usize> = match self.random.one_in(2) {
            true => idle
                .iter()
                .copied()
                .filter(|guest| !self.standing(&self.world.who(*guest)).is_empty())
                .collect(),
            false => Vec::new(),
        };
        let among = if stale.is_empty() { idle } else { stale };
        if among.is_empty() {
            return "no guest is idle".to_owned();
        }
        let who = self
            .world
            .order(among[self.random.below(among.len())], order);
        let standing = self.standing(&who);
        match who {
            Who::Call(call) => format!("{order:?} by call {call}"),
            Who::Run { key, attempt } => {
                format!("{order:?} by run {attempt} of {}{standing}", key.id)
            }
        }
    }

    /// What became of a guest's run that no longer holds its lease.
    fn standing(&self, who: &Who) -> &'static str {
        let Who::Run { key, attempt } = who else {
            return "";
        };
        match self.host.store.get(key).unwrap() {
            None => ", whose task is gone",
            Some(task) if task.is_terminal() => ", whose task has ended",
            Some(task) if task.attempt.0 > *attempt => ", overtaken by the next run",
            Some(task) if task.phase != Phase::Running => ", without a lease",
            Some(_) => "",
        }
    }

    /// Takes the lease of a run that lives, as if the run were thought dead; it is not.
    pub(super) fn take_lease(&mut self) -> String {
        let running = self.host.store.running().unwrap();
        if running.is_empty() || self.host.is_draining() {
            return "no lease to take".to_owned();
        }
        let key = running[self.random.below(running.len())].clone();
        let what = format!("take the lease of {}", key.id);
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

    /// What the end of a cancel's grace does, or of a drain's limit; and what whoever takes a lease
    /// does in the end to the run that had it.
    pub(super) fn kill(&mut self) -> String {
        let runs = self.host.scheduler.all_runs();
        let overdue = runs
            .into_iter()
            .find(|run| run.cancelled().is_some() || run.is_draining());
        let stale = self.world.stale_runs(&self.host.store);
        match overdue.or_else(|| stale.into_iter().next()) {
            Some(run) => {
                run.kill();
                "kill".to_owned()
            }
            None => "nobody to kill".to_owned(),
        }
    }

    fn any_task(&mut self) -> Option<TaskKey> {
        let tasks = self.medium.tasks();
        match tasks.len() {
            0 => None,
            count => Some(tasks[self.random.below(count)].clone()),
        }
    }
}
