//! From a place to an end: starts runs, watches over them, and writes how they ended.

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tracing::{Instrument, error, warn};

use super::journal::{DurableJournal, Journal, MemoryJournal};
use super::run::Run;
use super::{
    Asks, Call, Left, Operation, RoundError, RunEnd, Saved, Scheduler, StartError, Submission,
};
use crate::store::{RoundName, StoreError, UpdateError};
use crate::task::{
    Attempt, Ending, Event, InputRequest, Interruption, Phase, RpcError, Task, TaskKey, TenantId,
    Trace,
};

/// A call that runs. Whoever drops it before the outcome stops the tool, unless it is a task by then.
pub struct StartedCall {
    pub run: Run,
    pub(super) outcome: oneshot::Receiver<CallOutcome>,
}

/// What a call came to.
#[derive(Debug)]
pub enum CallOutcome {
    Ended(RunEnd),
    /// Questions; the call has to come again with the answers.
    Asks(Vec<InputRequest>, Left),
    /// Stored by now; the run goes on.
    Task(Box<Task>),
    /// The tool must be a task, and no task can be stored.
    Refused(StartError),
}

impl StartedCall {
    /// Waits for the outcome. Safe to cancel.
    pub async fn outcome(&mut self) -> CallOutcome {
        // The run answers its caller before it is dropped, whatever happens to it.
        (&mut self.outcome)
            .await
            .unwrap_or(CallOutcome::Ended(RunEnd::Abandoned))
    }

    /// Turns the call into a task; the outcome says so.
    pub async fn become_task(&self) -> Result<(), StartError> {
        self.run.promote().await
    }
}

impl Drop for StartedCall {
    fn drop(&mut self) {
        self.outcome.close();
        // A run that has become a task, or has ended, has no caller any more.
        if self.run.has_caller() {
            self.run.cancel("the client closed the call");
        }
    }
}

/// A task's place, given to others while its guest waits for an answer; taken back when dropped.
pub(super) struct Aside<'a> {
    scheduler: &'a Scheduler,
    tenant: &'a TenantId,
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        self.scheduler.lock().queue.take_place(self.tenant);
    }
}

impl Scheduler {
    /// Starts a call that is answered inline, at least at first.
    pub async fn start_call(
        &self,
        submission: Submission,
        asks: Asks,
        saved: Saved,
        responses: Map<String, Value>,
    ) -> Result<StartedCall, StartError> {
        self.start_round(submission, asks, saved, None, responses)
            .await
    }

    /// Starts another round of such a call, with what `round` left. A round that began with a step
    /// recorded may begin only once: what comes after the step must not be done twice from it.
    pub async fn start_round(
        &self,
        submission: Submission,
        asks: Asks,
        saved: Saved,
        round: Option<RoundName>,
        responses: Map<String, Value>,
    ) -> Result<StartedCall, StartError> {
        let place = self.take_call_place(&submission.tenant).await?;
        let (reply, outcome) = oneshot::channel();
        let round = round.filter(|_| !saved.steps.is_empty());
        let journal = MemoryJournal {
            saved,
            asks,
            responses,
            asked: Vec::new(),
        };
        let call = call_of(&submission);
        let caller = Some((reply, place));
        let run = Run::new(self.clone(), submission, Journal::Memory(journal), caller);
        let started = StartedCall { run, outcome };
        let Some(round) = round else {
            self.spawn_call(&started, call);
            return Ok(started);
        };
        let scheduler = self.clone();
        // A client that goes away must not leave a round marked whose run never began.
        let marked = self.0.tracker.spawn(async move {
            match scheduler.0.store.use_round(&round).await {
                Ok(()) => {}
                Err(StoreError::RoundUsed) => return Err(RoundError::Used.into()),
                Err(StoreError::RoundOver) => return Err(RoundError::Lost.into()),
                Err(error) => return Err(error.into()),
            }
            scheduler.spawn_call(&started, call);
            Ok(started)
        });
        marked.await.unwrap_or_else(|error| {
            error!(%error, "marking a round panicked");
            Err(StoreError::Closed.into())
        })
    }

    fn spawn_call(&self, started: &StartedCall, call: Call) {
        let run = started.run.clone();
        self.0.tracker.spawn(self.clone().drive(run, call));
    }

    /// Claims a queued task, which holds a place already, and drives it.
    pub(super) async fn claim(self, key: TaskKey) {
        let task = match self.0.store.update(&key, Event::Claimed).await {
            Ok(task) => task,
            // Cancelled, answered elsewhere or swept since it was queued.
            Err(UpdateError::Rejected(_) | UpdateError::Unknown) => {
                return self.leave_place(&key.tenant);
            }
            Err(UpdateError::Store(error)) => {
                error!(task = %key.id, error = &error as &dyn Error, "a task could not be claimed");
                return self.leave_place(&key.tenant);
            }
        };
        let missing = match self.0.store.arguments(&key) {
            Ok(Some(arguments)) => return self.run_task(task, arguments).await,
            Ok(None) => {
                "the call's arguments are missing from the store; call the tool again".into()
            }
            Err(error) => {
                error!(task = %key.id, error = &error as &dyn Error, "a task's arguments could not be read");
                match error {
                    StoreError::Damaged { .. } => error.to_string(),
                    _ => {
                        "the call's arguments could not be read from the store; call the tool again"
                            .to_owned()
                    }
                }
            }
        };
        // It is claimed by now, so nobody else will end it (I8).
        let event = failed(task.attempt, missing);
        if let Err(error) = self.0.store.update(&key, event).await {
            error!(task = %key.id, error = &error as &dyn Error, "a task could not be failed");
        }
        self.leave_place(&key.tenant);
    }

    /// Drives a task that was born running.
    pub(super) fn spawn_run(&self, task: Task, arguments: String) {
        let scheduler = self.clone();
        self.0
            .tracker
            .spawn(async move { scheduler.run_task(task, arguments).await });
    }

    async fn run_task(self, task: Task, arguments: String) {
        let submission = Submission {
            tenant: task.key.tenant.clone(),
            tool: task.tool.clone(),
            arguments,
            policy: task.policy.clone(),
            abilities: task.abilities,
            ttl: None,
            trace: task.trace.clone(),
            operation: Operation::CallTool,
            listener: None,
        };
        let call = call_of(&submission);
        let journal = DurableJournal::new(self.0.store.clone(), &task);
        let run = Run::new(self.clone(), submission, Journal::Durable(journal), None);
        self.lock().runs.insert(task.key.clone(), run.clone());
        // A cancel may have come between the claim and this line; the store knows.
        let newest = self.0.store.get(&task.key).ok().flatten().unwrap_or(task);
        if let Some(cancel) = &newest.cancel {
            run.cancel(&cancel.reason);
        }
        if *self.0.draining.borrow() {
            run.drain();
        }
        self.drive(run, call).await;
    }

    /// A call became a task: it moves from the calls' places to the tasks'.
    pub(super) fn adopt(&self, key: &TaskKey, run: &Run) {
        let mut state = self.lock();
        state.runs.insert(key.clone(), run.clone());
        state.queue.take_place(&key.tenant);
        drop(state);
        run.release_place();
    }

    pub(super) fn wait_aside<'a>(&'a self, tenant: &'a TenantId) -> Aside<'a> {
        self.leave_place(tenant);
        Aside {
            scheduler: self,
            tenant,
        }
    }

    pub(super) fn leave_place(&self, tenant: &TenantId) {
        self.lock().queue.leave_place(tenant);
        self.dispatch();
    }

    /// What is logged on the way names the caller's trace.
    async fn drive(self, run: Run, call: Call) {
        let span = match run.trace().and_then(Trace::id) {
            Some(trace_id) => tracing::info_span!("call", %trace_id),
            None => tracing::Span::none(),
        };
        self.watch_over(run, call).instrument(span).await;
    }

    async fn watch_over(self, run: Run, call: Call) {
        let mut progress = run.watch_progress();
        let (working, over) = oneshot::channel();
        // Beside the rest: a save that waits for the disk must not keep a cancel from its run.
        let mut saving = pin!(run.save_until(over));
        let mut work = self.0.runner.run(call, run.clone());
        let end = loop {
            tokio::select! {
                end = &mut work => break end,
                () = run.overdue() => run.kill(),
                () = run.show(&mut progress) => {}
                () = run.show_updates() => {}
                () = &mut saving => {}
            }
        };
        run.publish_updates();
        drop(working);
        saving.await;
        self.finish(&run, end).await;
    }

    /// What only few runs come to is boxed: each carries the room for all the rest.
    async fn finish(&self, run: &Run, end: RunEnd) {
        if end != RunEnd::Abandoned
            && run.must_be_task().await
            && let Err(error) = Box::pin(run.promote()).await
        {
            run.reply(CallOutcome::Refused(error));
        }
        let end = match end {
            RunEnd::ReturnedLarge(large) => Box::pin(run.keep_large(large)).await,
            end => end,
        };
        let journal = std::mem::replace(&mut *run.0.journal.lock().await, Journal::Closed);
        match journal {
            Journal::Durable(durable) => {
                let told = run.has_caller().then(|| end.clone());
                let task = Box::pin(self.write_end(run, &durable, end)).await;
                if let Some(end) = told {
                    run.reply(CallOutcome::Ended(as_stored(end, task.as_ref())));
                }
                self.forget(&durable.key, run);
                self.leave_place(&durable.key.tenant);
                if let Some(Phase::Queued { .. }) = task.map(|task| task.phase) {
                    self.enqueue(&durable.key);
                }
            }
            Journal::Memory(_) | Journal::Closed => run.reply(CallOutcome::Ended(end)),
        }
        run.release_place();
        run.waiting_place().take();
        self.0.run_ended.notify_waiters();
    }

    /// The answer to a parked task may have started its next run before this one is gone: that one
    /// has to go on hearing of cancels and answers.
    fn forget(&self, key: &TaskKey, run: &Run) {
        let mut state = self.lock();
        let live = state.runs.get(key);
        if live.is_some_and(|live| Arc::ptr_eq(&live.0, &run.0)) {
            state.runs.remove(key);
        }
    }

    async fn write_end(&self, run: &Run, durable: &DurableJournal, end: RunEnd) -> Option<Task> {
        let event = end_event(run, durable, end);
        let mut stored = self.0.store.update(&durable.key, event).await;
        if let Err(UpdateError::Store(
            error @ (StoreError::TooLarge { .. } | StoreError::File(_)),
        )) = &stored
        {
            // The store goes on, so the task must not be left without an end (I8).
            warn!(
                task = %durable.key.id,
                error = error as &dyn Error,
                "the end of a run could not be stored as it is"
            );
            let message = format!("the tool's end could not be stored: {error}");
            let event = failed(durable.attempt, message);
            stored = self.0.store.update(&durable.key, event).await;
        }
        match stored {
            Ok(task) => Some(task),
            // Parked, or superseded: the task is somebody else's by now (I2).
            Err(UpdateError::Rejected(_) | UpdateError::Unknown) => None,
            Err(UpdateError::Store(error)) => {
                error!(task = %durable.key.id, error = &error as &dyn Error, "the end of a run could not be stored");
                None
            }
        }
    }
}

/// What the caller of a call hears whose end was stored (I1).
fn as_stored(end: RunEnd, task: Option<&Task>) -> RunEnd {
    match task.map(|task| &task.phase) {
        Some(Phase::Ended(Ending::Completed)) => end,
        Some(Phase::Ended(Ending::Failed(error))) => RunEnd::Failed(error.clone()),
        _ => RunEnd::Abandoned,
    }
}

fn failed(attempt: Attempt, message: String) -> Event {
    let error = RpcError::internal(message);
    Event::Failed { attempt, error }
}

fn call_of(submission: &Submission) -> Call {
    Call {
        tenant: submission.tenant.clone(),
        tool: submission.tool.clone(),
        arguments: submission.arguments.clone(),
        operation: submission.operation.clone(),
    }
}

/// The event that says how a task's run ended. When the task is no longer this run's, the store
/// refuses it.
fn end_event(run: &Run, durable: &DurableJournal, end: RunEnd) -> Event {
    let attempt = durable.attempt;
    let cancelled = run.cancelled();
    match end {
        RunEnd::Abandoned if let Some(words) = durable.damage.get() => {
            failed(attempt, words.clone())
        }
        RunEnd::Returned(result) => Event::Returned { attempt, result },
        RunEnd::ReturnedLarge(large) => Event::Returned {
            attempt,
            result: large.of_task(&durable.key.id),
        },
        // Of no tool, and only tools' calls are tasks.
        RunEnd::NotFound => failed(attempt, "there is no such resource".to_owned()),
        RunEnd::Failed(error) => Event::Failed { attempt, error },
        RunEnd::Cancelled(words) => {
            let words = words.unwrap_or_else(|| "the tool stopped at a safe place".to_owned());
            Event::Cancelled {
                attempt,
                message: format!("cancelled: {words}"),
            }
        }
        RunEnd::Abandoned if cancelled.is_some() => {
            let grace = run.0.submission.policy.cancel_grace;
            warn!(task = %durable.key.id, tool = %run.0.submission.tool.tool, "stopped by force");
            let message = format!(
                "cancelled: the tool did not stop by itself within {} and was stopped by force",
                humantime::format_duration(grace)
            );
            Event::Cancelled { attempt, message }
        }
        RunEnd::Abandoned if run.is_draining() => Event::Interrupted {
            attempt,
            cause: Interruption::Shutdown,
        },
        // Parked or superseded, and then this is refused; or the store took a hook's write no more
        // and still takes this one (a file that found no room), and then nobody else will end it (I8).
        RunEnd::Abandoned => failed(
            attempt,
            "the host could not keep or read what the run saved, and gave it up; its log has the \
             reason. call the tool again when the host is in order"
                .to_owned(),
        ),
    }
}
