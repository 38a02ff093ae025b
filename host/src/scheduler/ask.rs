//! A run's questions: asked once (I7), answered within the call, by its next round, by a client that
//! is there, by a task that waits in memory, or by one that is parked meanwhile.

use std::sync::atomic::Ordering;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::Scheduler;
use super::drive::CallOutcome;
use super::journal::{DurableJournal, Left, LiveQuestion, Lookup};
use super::run::{Abandoned, Run, Signal};
use crate::schema;
use crate::task::{Answer, Ask, InputRequest, TenantId};

/// How often a client that is there is asked the same, when its answers do not fit.
const LIVE_ATTEMPTS_MAX: usize = 3;

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputError {
    Stopped,
    /// The client did not declare this capability; MCP's name of it.
    MissingCapability(&'static str),
    /// Nobody can be asked, and why.
    Unsupported(String),
    Invalid(String),
}

/// An instance's share of what may wait in memory; given back when dropped.
pub(super) struct Held {
    scheduler: Scheduler,
    tenant: TenantId,
    _instance: OwnedSemaphorePermit,
    _memory: OwnedSemaphorePermit,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.scheduler.lock();
        if let Some(count) = state.held.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                state.held.remove(&self.tenant);
            }
        }
    }
}

const KIB: u64 = 1024;

/// The permits that stand for so many bytes, one a KiB.
pub(super) fn memory_permits(bytes: u64) -> usize {
    let permits = usize::try_from(bytes.div_ceil(KIB)).unwrap_or(usize::MAX);
    permits.min(Semaphore::MAX_PERMITS)
}

impl Run {
    /// Asks and waits. The answers come in the order of `requests`.
    pub async fn request_input(
        &self,
        requests: Vec<InputRequest>,
    ) -> Result<Result<Vec<Answer>, InputError>, Abandoned> {
        if let Err(error) = self.check_requests(&requests) {
            return Ok(Err(error));
        }
        if self.cancelled().is_some() {
            return Ok(Err(InputError::Stopped));
        }
        let lookup = self.0.journal.lock().await.look_up(&requests);
        match lookup {
            Lookup::Answered(answers) => Ok(Ok(answers)),
            Lookup::Refused(reason) => Ok(Err(InputError::Unsupported(reason))),
            Lookup::NextRound(missing, saved) => {
                self.reply(CallOutcome::Asks(missing, Left::State(saved)));
                Err(Abandoned)
            }
            Lookup::Hold(missing) => self.ask_held(&requests, missing).await,
            Lookup::AskLive(client) => self.ask_live(&client, &requests).await,
            Lookup::BecomesTask => match self.promote().await {
                Ok(()) => self.ask_as_task(requests).await,
                Err(error) => Ok(Err(InputError::Unsupported(error.to_string()))),
            },
            Lookup::AskAsTask => self.ask_as_task(requests).await,
            Lookup::Closed => Err(Abandoned),
        }
    }

    fn check_requests(&self, requests: &[InputRequest]) -> Result<(), InputError> {
        for (index, request) in requests.iter().enumerate() {
            if requests[..index]
                .iter()
                .any(|earlier| earlier.key == request.key)
            {
                let key = &request.key;
                return Err(InputError::Invalid(format!(
                    "the key `{key}` is used twice"
                )));
            }
            if let Ask::Form { schema, .. } = &request.ask {
                schema::check_form(schema).map_err(|error| {
                    InputError::Invalid(format!("the form `{}`: {error}", request.key))
                })?;
            }
            self.0
                .submission
                .abilities
                .check(&request.ask)
                .map_err(InputError::MissingCapability)?;
        }
        Ok(())
    }

    async fn ask_as_task(
        &self,
        requests: Vec<InputRequest>,
    ) -> Result<Result<Vec<Answer>, InputError>, Abandoned> {
        let Some(durable) = self.0.journal.lock().await.durable().cloned() else {
            return Err(Abandoned);
        };
        // Before anybody is asked: the question could not be waited for (I6).
        let held = match self.resumes() {
            true => None,
            false => match self.hold() {
                Ok(held) => Some(held),
                Err(error) => return Ok(Err(error)),
            },
        };
        // Whoever reads the question sees how far the tool came, however long it is parked then.
        if let Some(progress) = self.newest_progress() {
            durable.save_progress(&progress).await;
        }
        if let Err(error) = durable.ask(&requests).await? {
            return Ok(Err(error));
        }
        // The place of a run that waits is free for others; only the held instances are counted.
        let _waiting = self.0.scheduler.wait_aside(&self.0.submission.tenant);
        match held {
            None => self.wait_or_park(&durable, &requests).await,
            Some(_held) => self.wait(&durable, &requests).await,
        }
    }

    /// Waits a little in memory, then has the guest unloaded: the answer starts a new run.
    async fn wait_or_park(
        &self,
        durable: &DurableJournal,
        requests: &[InputRequest],
    ) -> Result<Result<Vec<Answer>, InputError>, Abandoned> {
        let park_after = self.0.scheduler.0.limits.park_after;
        if park_after.is_zero() {
            if let Some(answers) = durable.answers(requests)? {
                return Ok(Ok(answers));
            }
        } else if let Ok(answers) =
            tokio::time::timeout(park_after, self.wait(durable, requests)).await
        {
            return answers;
        }
        match durable.park().await? {
            true => Err(Abandoned),
            // An answer or a cancel came first.
            false => self.wait(durable, requests).await,
        }
    }

    /// Takes the instance's share of what may wait in memory at once, by count and by bytes (I6).
    pub(super) fn hold(&self) -> Result<Held, InputError> {
        let scheduler = &self.0.scheduler.0;
        let unsupported = |limit: String| {
            InputError::Unsupported(format!(
                "{limit}; a tool that declares recovery `resume` waits without memory, in a task"
            ))
        };
        let instance = scheduler.held.clone().try_acquire_owned();
        let instance = instance.map_err(|_| {
            let max = scheduler.limits.held_instances_max;
            unsupported(format!(
                "{max} tools wait for answers in memory, which is the limit"
            ))
        })?;
        let permits = memory_permits(self.0.memory_bytes.load(Ordering::Relaxed));
        let memory = u32::try_from(permits).ok().and_then(|permits| {
            let memory = scheduler.held_memory.clone();
            memory.try_acquire_many_owned(permits).ok()
        });
        let memory = memory.ok_or_else(|| {
            let max_kib = scheduler.limits.held_memory_max_bytes / KIB;
            unsupported(format!(
                "tools that wait for answers in memory may have {max_kib} KiB together, and with \
                 this one would have more"
            ))
        })?;
        let tenant = self.0.submission.tenant.clone();
        let max = scheduler.limits.tenant_held_instances_max;
        let mut state = self.0.scheduler.lock();
        let count = state.held.entry(tenant.clone()).or_default();
        if *count >= max {
            return Err(unsupported(format!(
                "{max} tools of this tenant wait for answers in memory, which is the limit"
            )));
        }
        *count += 1;
        drop(state);
        Ok(Held {
            scheduler: self.0.scheduler.clone(),
            tenant,
            _instance: instance,
            _memory: memory,
        })
    }

    /// Asks a client that is there, one question after the other, with the instance in memory (I6).
    async fn ask_live(
        &self,
        client: &mpsc::Sender<LiveQuestion>,
        requests: &[InputRequest],
    ) -> Result<Result<Vec<Answer>, InputError>, Abandoned> {
        let _held = match self.hold() {
            Ok(held) => held,
            Err(error) => return Ok(Err(error)),
        };
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests {
            let known = self.0.journal.lock().await.answer(&request.key);
            let answer = match known {
                Some(answer) => answer,
                None => match self.ask_once_live(client, request).await {
                    Ok(answer) => answer,
                    Err(error) => return Ok(Err(error)),
                },
            };
            let mut journal = self.0.journal.lock().await;
            journal.keep_answer(request.key.clone(), answer.clone());
            answers.push(answer);
        }
        Ok(Ok(answers))
    }

    async fn ask_once_live(
        &self,
        client: &mpsc::Sender<LiveQuestion>,
        request: &InputRequest,
    ) -> Result<Answer, InputError> {
        let mut wrong = String::new();
        for _ in 0..LIVE_ATTEMPTS_MAX {
            let (reply, answered) = oneshot::channel();
            let question = LiveQuestion {
                request: request.clone(),
                reply,
            };
            let response = async {
                client.send(question).await.ok()?;
                answered.await.ok()
            };
            let response = tokio::select! {
                response = response => response,
                () = self.told_to_stop() => None,
            };
            match response {
                // Whoever could answer is gone, or the call is stopped: which is the same.
                None => return Err(InputError::Stopped),
                Some(Err(reason)) => return Err(InputError::Unsupported(reason)),
                Some(Ok(response)) => match schema::read_answer(&request.ask, &response) {
                    Ok(answer) => return Ok(answer),
                    Err(mismatch) => wrong = mismatch.to_string(),
                },
            }
        }
        Err(InputError::Unsupported(format!(
            "the client's answer to `{}` does not fit: {wrong}",
            request.key
        )))
    }

    pub(super) async fn told_to_stop(&self) {
        let mut signal = self.0.signal.subscribe();
        // The guard this yields must not live on in the caller.
        let _ = signal.wait_for(|signal| signal.cancel.is_some()).await;
    }

    async fn wait(
        &self,
        durable: &DurableJournal,
        requests: &[InputRequest],
    ) -> Result<Result<Vec<Answer>, InputError>, Abandoned> {
        let mut signal = self.0.signal.subscribe();
        loop {
            if let Some(answers) = durable.answers(requests)? {
                return Ok(Ok(answers));
            }
            let stop = async {
                let told = |signal: &Signal| {
                    signal.cancel.is_some() || (signal.draining && self.resumes())
                };
                // The guard this yields must not live on into the branch below.
                let _ = signal.wait_for(told).await;
            };
            tokio::select! {
                // An answer that came with a cancel is not lost: the next pause point has the cancel.
                biased;
                () = self.0.answered.notified() => {}
                () = stop => {
                    return match self.cancelled() {
                        Some(_) => Ok(Err(InputError::Stopped)),
                        // The host stops: park now, the answer finds the task queued again.
                        None => durable.park().await.and(Err(Abandoned)),
                    };
                }
            }
        }
    }
}
