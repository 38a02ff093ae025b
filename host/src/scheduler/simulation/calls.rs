//! Clients of calls that are no tasks yet: they start them, answer in rounds what is asked, late and
//! twice too, and go away in the middle.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::Simulation;
use super::guest::{KEYS, World};
use super::model::Fact;
use crate::scheduler::{
    Asks, CallOutcome, HeldRound, Left, RoundError, RunEnd, Saved, StartError, StartedCall,
};
use crate::task::{Answer, InputKey, Recovery, TaskId, TaskKey, TenantId};

/// What the clients know.
#[derive(Default)]
pub(super) struct Desk {
    calls: u32,
    /// What calls asked, in all processes.
    rounds: Vec<Round>,
    /// Processes and numbers of the rounds that went on.
    begun: BTreeSet<(u64, u64)>,
    sent: Vec<(u32, InputKey, Answer)>,
}

#[derive(Clone)]
struct Round {
    call: u32,
    tenant: TenantId,
    held: HeldRound,
}

impl Desk {
    /// Whether the client of the call gave this answer.
    pub(super) fn sent(&self, call: u32, key: &InputKey, answer: &Answer) -> bool {
        self.sent
            .iter()
            .any(|sent| (sent.0, &sent.1, &sent.2) == (call, key, answer))
    }
}

impl Simulation {
    /// Calls a tool that is answered within the call: one whose instance waits between its rounds,
    /// or one that becomes a task when it asks or takes long.
    pub(super) fn call(&mut self) -> String {
        let call = self.world.desk(|desk| {
            desk.calls += 1;
            desk.calls
        });
        let mut submission = self.submission();
        submission.arguments = call.to_string();
        let takes_long = self.random.one_in(2);
        let asks = match self.random.one_in(3) {
            true => Asks::AsTask {
                first: BTreeSet::new(),
                always: self.random.one_in(4),
            },
            false => {
                submission.policy.recovery = Recovery::Fail;
                Asks::InHeldRounds
            }
        };
        let becomes_task = takes_long && matches!(asks, Asks::AsTask { .. });
        let what = format!("call {call}, {asks:?}, {becomes_task}");
        let (scheduler, world) = (self.host.scheduler.clone(), self.world.clone());
        let tenant = submission.tenant.clone();
        self.host.spawn_client(async move {
            let start = scheduler.start_call(submission, asks, Saved::default(), Map::new());
            let Ok(started) = start.await else { return };
            if becomes_task {
                // Refused when there are too many; the call goes on as it is.
                let _ = started.become_task().await;
            }
            follow(world, call, tenant, started).await;
        });
        what
    }

    /// Comes again with some answers, to a round that waits, or to one that is over.
    pub(super) fn next_round(&mut self) -> String {
        let rounds = self.world.desk(|desk| desk.rounds.clone());
        // The newest ones are those that wait.
        let Some(back) = rounds.len().min(4).checked_sub(1) else {
            return "no call waits".to_owned();
        };
        let round = rounds[rounds.len() - 1 - self.random.below(back + 1)].clone();
        let mut responses = Map::new();
        for _ in 0..self.random.below(4) {
            let name = KEYS[self.random.below(KEYS.len())];
            let answer = self.new_answer();
            if let Answer::Accept(Some(content)) = &answer {
                let content: Value = serde_json::from_str(content).unwrap();
                responses.insert(
                    name.to_owned(),
                    json!({"action": "accept", "content": content}),
                );
            }
            let key = InputKey::parse(name).unwrap();
            self.world
                .desk(|desk| desk.sent.push((round.call, key, answer)));
        }
        let Round { call, tenant, held } = round;
        let what = format!("round {} of call {call} with {responses:?}", held.number);
        let (scheduler, world) = (self.host.scheduler.clone(), self.world.clone());
        self.host.spawn_client(async move {
            let next = scheduler.resume_round(&tenant, held, responses, None);
            match next.await {
                Ok(started) => {
                    let name = (held.process, held.number);
                    let is_first = world.desk(|desk| desk.begun.insert(name));
                    if !is_first || held.process != scheduler.0.process {
                        world.violate(format!("round {} went on twice", held.number));
                    }
                    follow(world, call, tenant, started).await;
                }
                // Never run again by itself: it was used, it is over, or its process is gone.
                Err(StartError::Round(
                    RoundError::HeldUsed | RoundError::TooLate(_) | RoundError::Restarted,
                ))
                | Err(StartError::TooManyCalls | StartError::Draining) => {}
                Err(error) => world.violate(format!("a round was refused by `{error}`")),
            }
        });
        what
    }

    /// A client goes away while it waits.
    pub(super) fn leave(&mut self) -> String {
        let waiting = self.host.waiting_clients();
        match waiting.len() {
            0 => "no client waits".to_owned(),
            count => {
                waiting[self.random.below(count)].abort();
                "a client leaves".to_owned()
            }
        }
    }

    /// What the end of a held round's time does.
    pub(super) fn end_a_round(&mut self) -> String {
        let waiting = self.host.scheduler.waiting_runs();
        match waiting.len() {
            0 => "no round waits".to_owned(),
            count => {
                waiting[self.random.below(count)].cancel("nobody answered in time");
                "a round is over".to_owned()
            }
        }
    }
}

/// What the client of a call does with its outcome.
async fn follow(world: World, call: u32, tenant: TenantId, mut started: StartedCall) {
    match started.outcome().await {
        CallOutcome::Asks(asked, Left::Held(held)) => {
            if asked.is_empty() {
                world.violate("a call asks nothing".to_owned());
            }
            let round = Round { call, tenant, held };
            world.desk(|desk| desk.rounds.push(round));
        }
        CallOutcome::Task(task) => world.acknowledge(Fact::Task(task.key, task.expires_at)),
        CallOutcome::Ended(RunEnd::Returned(result)) => {
            let shown: Value = serde_json::from_str(&result.json).unwrap();
            // I1: what links to its parts is stored.
            if let Some(id) = shown["task"].as_str() {
                let id = TaskId::parse(id).unwrap();
                world.acknowledge(Fact::Result(TaskKey { tenant, id }, result.json));
            }
        }
        CallOutcome::Ended(RunEnd::ReturnedLarge(_)) => {
            world.violate("a large result was not kept".to_owned());
        }
        CallOutcome::Ended(_) | CallOutcome::Refused(_) => {}
        CallOutcome::Asks(_, left) => world.violate(format!("a round left {left:?}")),
    }
}
