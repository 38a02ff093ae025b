//! Calls without a task whose tool can't be run again: between two rounds the instance itself waits
//! in memory, few at once and not for long, and the next round of the call goes on in it.

use std::time::Duration;

use serde_json::{Map, Value};
use thiserror::Error;
use tokio::sync::oneshot;

use super::ask::InputError;
use super::drive::{CallOutcome, StartedCall};
use super::journal::{Left, Lookup};
use super::run::{Abandoned, Run};
use super::{Listener, Scheduler, StartError};
use crate::clock::Timestamp;
use crate::task::{Answer, InputRequest, TenantId};

/// Names an instance that waits for the next round of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldRound {
    /// The process it waits in.
    pub process: u64,
    pub number: u64,
    pub until: Timestamp,
}

/// Why a call can't go on with another round.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RoundError {
    #[error(
        "this requestState was used before, and the tool has recorded a step by then that must not \
         be repeated; the answer to its first use is the one that counts"
    )]
    Used,
    #[error(
        "this requestState was used before, or the tool that waited for the answers has ended; it \
         is never run again by itself"
    )]
    HeldUsed,
    #[error(
        "the answers came too late: the tool waited for them in memory, {} at most",
        humantime::format_duration(*.0)
    )]
    TooLate(Duration),
    #[error("the tool waited for the answers in memory, and the host was started again since then")]
    Restarted,
    #[error("the host no longer has what the call left with it")]
    Lost,
}

/// A run that waits, and where its answers go.
pub(super) struct Waiting {
    run: Run,
    answered: oneshot::Sender<Map<String, Value>>,
}

/// One of a tenant's places among the runs that wait; left when dropped.
pub(super) struct WaitingPlace {
    scheduler: Scheduler,
    tenant: TenantId,
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        let mut state = self.scheduler.lock();
        if let Some(count) = state.waiting_places.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                state.waiting_places.remove(&self.tenant);
            }
        }
    }
}

impl Scheduler {
    /// Goes on with a call whose instance waits.
    pub async fn resume_round(
        &self,
        tenant: &TenantId,
        held: HeldRound,
        responses: Map<String, Value>,
        listener: Option<Listener>,
    ) -> Result<StartedCall, StartError> {
        if held.process != self.0.process {
            return Err(RoundError::Restarted.into());
        }
        // A place first: without one the instance goes on waiting, and the client may come again.
        let place = self.take_call_place(tenant).await?;
        let Some(Waiting { run, answered }) = self.take_waiting(tenant, held) else {
            return Err(self.why_gone(held).into());
        };
        let (reply, outcome) = oneshot::channel();
        run.set_caller(reply, place, listener);
        // It can't be gone: whoever takes it out of the list is the one to wake it.
        let _ = answered.send(responses);
        Ok(StartedCall { run, outcome })
    }

    fn why_gone(&self, held: HeldRound) -> RoundError {
        match self.0.clock.now() >= held.until {
            true => RoundError::TooLate(self.0.limits.round_hold),
            false => RoundError::HeldUsed,
        }
    }

    fn take_waiting(&self, tenant: &TenantId, held: HeldRound) -> Option<Waiting> {
        let waiting = &mut self.lock().waiting;
        // I4, whatever the handle was bound to.
        let is_own = waiting.get(&held.number)?.run.0.submission.tenant == *tenant;
        is_own.then(|| waiting.remove(&held.number)).flatten()
    }

    fn add_waiting(&self, run: &Run) -> (HeldRound, oneshot::Receiver<Map<String, Value>>) {
        let mut state = self.lock();
        state.rounds += 1;
        let number = state.rounds;
        let (answered, answer) = oneshot::channel();
        let run = run.clone();
        state.waiting.insert(number, Waiting { run, answered });
        let until = self.0.clock.now().plus(self.0.limits.round_hold);
        let held = HeldRound {
            process: self.0.process,
            number,
            until,
        };
        (held, answer)
    }
}

impl Run {
    /// Takes one of the tenant's places among the runs that wait, until the run ends: one that
    /// waited once is not refused in a later round, which would be after it did something.
    fn take_waiting_place(&self) -> Result<(), InputError> {
        let mut place = self.waiting_place();
        if place.is_some() {
            return Ok(());
        }
        let scheduler = &self.0.scheduler;
        let tenant = self.tenant();
        let mut state = scheduler.lock();
        let count = state.waiting_places.get(tenant).copied();
        let count = count.unwrap_or_default();
        let max = scheduler.0.limits.tenant_rounds_held_max;
        if count >= max {
            return Err(InputError::Unsupported(format!(
                "{max} calls of this tenant wait for answers in memory, which is the limit; answer \
                 some, or call the tool with the Tasks extension"
            )));
        }
        state.waiting_places.insert(tenant.clone(), count + 1);
        drop(state);
        *place = Some(WaitingPlace {
            scheduler: scheduler.clone(),
            tenant: tenant.clone(),
        });
        Ok(())
    }

    /// Hands the questions to the caller and waits for the next round, with the instance in memory
    /// (I6), until all of `requests` are answered.
    pub(super) async fn ask_held(
        &self,
        requests: &[InputRequest],
        mut missing: Vec<InputRequest>,
    ) -> Result<Result<Vec<Answer>, InputError>, Abandoned> {
        let scheduler = &self.0.scheduler;
        let held = self.take_waiting_place().and_then(|()| self.hold());
        let _held = match held {
            Ok(held) => held,
            Err(error) => return Ok(Err(error)),
        };
        loop {
            let (held, answer) = scheduler.add_waiting(self);
            self.release_place();
            self.reply(CallOutcome::Asks(missing, Left::Held(held)));
            let Some(responses) = self.next_round(held, answer).await else {
                return Ok(Err(InputError::Stopped));
            };
            let mut journal = self.0.journal.lock().await;
            journal.take_responses(responses);
            match journal.look_up(requests) {
                Lookup::Answered(answers) => return Ok(Ok(answers)),
                Lookup::Hold(again) => missing = again,
                _ => return Err(Abandoned),
            }
        }
    }

    /// The responses of the next round; None when it does not come, of which the guest hears as of
    /// a cancel.
    async fn next_round(
        &self,
        held: HeldRound,
        mut answer: oneshot::Receiver<Map<String, Value>>,
    ) -> Option<Map<String, Value>> {
        let scheduler = &self.0.scheduler;
        let mut draining = scheduler.0.draining.subscribe();
        let over = async {
            tokio::select! {
                () = tokio::time::sleep(scheduler.0.limits.round_hold) => {
                    "nobody answered in time"
                }
                _ = draining.wait_for(|draining| *draining) => "the host stops",
                () = self.told_to_stop() => "the call was stopped",
            }
        };
        let reason = tokio::select! {
            responses = &mut answer => return responses.ok(),
            reason = over => reason,
        };
        let was_waiting = scheduler.lock().waiting.remove(&held.number).is_some();
        if !was_waiting {
            // The next round took it out just now and is about to answer.
            return answer.await.ok();
        }
        self.cancel(reason);
        None
    }
}

#[cfg(test)]
impl Scheduler {
    /// The runs that wait for another round.
    pub(super) fn waiting_runs(&self) -> Vec<Run> {
        let state = self.lock();
        let waiting = state.waiting.values();
        waiting.map(|waiting| waiting.run.clone()).collect()
    }

    pub(super) fn waiting_rounds(&self) -> usize {
        self.lock().waiting.len()
    }

    /// A run leaves its place just after it has answered its caller.
    pub(super) async fn until_no_call_waits(&self) {
        loop {
            let ended = self.0.run_ended.notified();
            if self.lock().waiting_places.is_empty() {
                return;
            }
            ended.await;
        }
    }
}
