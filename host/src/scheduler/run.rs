//! One run of a tool, as the sandbox sees it: the other side of the hooks in `wit/plugin.wit`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use super::drive::CallOutcome;
use super::held::WaitingPlace;
use super::journal::{Journal, Note};
use super::places::Place;
use super::{Asks, Listener, Scheduler, Submission};
use crate::task::{
    Abilities, ExternalReference, Progress, Recovery, TaskId, TenantId, ToolRef, Trace,
};

/// Guest output kept in memory between two saves, bytes; more is dropped and said to be.
const LOG_BUFFER_MAX: usize = 64 * 1024;

/// How often watchers hear of new progress at most.
const SHOW_INTERVAL: Duration = Duration::from_millis(100);

/// A run's hooks. Cheap to clone; all clones are the same run.
#[derive(Clone)]
pub struct Run(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub(super) scheduler: Scheduler,
    pub(super) submission: Submission,
    /// Held across the commit that turns a call into a task, so that no hook falls between the two.
    pub(super) journal: tokio::sync::Mutex<Journal>,
    progress: watch::Sender<Option<Progress>>,
    pub(super) signal: watch::Sender<Signal>,
    pub(super) answered: Notify,
    log: Mutex<Vec<u8>>,
    /// Resources that changed and that nobody was told of yet.
    updated: Mutex<BTreeSet<String>>,
    pub(super) updates: Notify,
    /// What the instance had of memory when it was last told.
    pub(super) memory_bytes: AtomicU64,
    /// Who hears what the run says; another with each round.
    listener: Mutex<Option<Listener>>,
    /// Where the call's caller waits, until it has its answer.
    caller: Mutex<Option<oneshot::Sender<CallOutcome>>>,
    /// Held while the call is answered inline.
    place: Mutex<Option<Place>>,
    /// Held from the first time it waits for another round on.
    waiting_place: Mutex<Option<WaitingPlace>>,
}

/// What the run has been told from outside.
#[derive(Clone, Debug, Default)]
pub(super) struct Signal {
    pub(super) cancel: Option<(Instant, String)>,
    pub(super) draining: bool,
    killed: bool,
}

/// What the guest may know of its call (`control.context`).
#[derive(Clone, Debug)]
pub struct RunContext {
    /// None while the call is answered inline.
    pub task: Option<TaskId>,
    pub tenant: TenantId,
    pub attempt: u32,
    pub abilities: Abilities,
    pub expires_in_ms: Option<u64>,
}

/// The task is being cancelled; the guest may clean up and return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    pub reason: String,
}

/// The run is over whatever the guest does (parked, superseded, or the store failed): the sandbox
/// drops the instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the run was abandoned")]
pub struct Abandoned;

/// Why a step was not recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    #[error(transparent)]
    Abandoned(#[from] Abandoned),
    /// The words are for the tool's author.
    #[error("{0}")]
    TooMany(String),
}

/// The hooks, called by the sandbox.
impl Run {
    pub async fn context(&self) -> RunContext {
        let journal = self.0.journal.lock().await;
        let durable = journal.durable();
        let now = self.0.scheduler.0.clock.now();
        RunContext {
            task: durable.map(|durable| durable.key.id.clone()),
            tenant: self.0.submission.tenant.clone(),
            attempt: durable.map_or(1, |durable| durable.attempt.0),
            abilities: self.0.submission.abilities,
            expires_in_ms: durable
                .and_then(|durable| durable.expires_at)
                .map(|at| u64::try_from(at.since(now).as_millis()).unwrap_or(u64::MAX)),
        }
    }

    /// Shows progress to whoever watches; on disk it comes with the next save.
    pub fn progress(&self, progress: Progress) {
        self.0.progress.send_replace(Some(progress));
    }

    /// Saves `state` durably; the guest can stop here.
    pub async fn checkpoint(
        &self,
        state: Option<Vec<u8>>,
    ) -> Result<Result<(), Stopped>, Abandoned> {
        if let Some(state) = state {
            self.write(Note::Checkpoint(state)).await?;
        }
        self.pause_point().await
    }

    /// What the last checkpoint of an earlier run saved, for a tool that resumes.
    pub async fn saved_state(&self) -> Result<Option<Vec<u8>>, Abandoned> {
        if !self.resumes() {
            return Ok(None);
        }
        self.0.journal.lock().await.checkpoint()
    }

    /// A step recorded by an earlier run, or earlier in this one.
    pub async fn step_result(&self, name: &str) -> Result<Option<Vec<u8>>, Abandoned> {
        self.0.journal.lock().await.step(name)
    }

    /// Records a step durably; the first record of a name stays. The guest can stop here.
    pub async fn record_step(
        &self,
        name: String,
        value: Vec<u8>,
    ) -> Result<Result<(), Stopped>, StepError> {
        let mut journal = self.0.journal.lock().await;
        match &mut *journal {
            Journal::Memory(memory) => {
                memory.record_step(name, value)?;
                drop(journal);
            }
            Journal::Durable(durable) => {
                let durable = durable.clone();
                drop(journal);
                durable.record_step(name, value).await?;
            }
            Journal::Closed => return Err(Abandoned.into()),
        }
        Ok(self.pause_point().await?)
    }

    pub async fn set_external_reference(
        &self,
        reference: ExternalReference,
    ) -> Result<(), Abandoned> {
        self.write(Note::Reference(reference)).await
    }

    /// Whose call it is.
    pub fn tenant(&self) -> &TenantId {
        &self.0.submission.tenant
    }

    pub fn tool(&self) -> &ToolRef {
        &self.0.submission.tool
    }

    /// Whether a question would be asked by a task, which remembers its answer for good.
    pub async fn asks_as_task(&self) -> bool {
        match &*self.0.journal.lock().await {
            Journal::Memory(memory) => matches!(memory.asks, Asks::AsTask { .. }),
            Journal::Durable(_) | Journal::Closed => true,
        }
    }

    /// Takes guest output (stdout and stderr). What comes faster than it is saved is cut.
    pub fn log(&self, text: &[u8]) {
        let mut log = lock(&self.0.log);
        let room = LOG_BUFFER_MAX.saturating_sub(log.len());
        log.extend_from_slice(&text[..text.len().min(room)]);
    }

    /// The trace of the call.
    pub fn trace(&self) -> Option<&Trace> {
        self.0.submission.trace.as_ref()
    }

    /// Tells how much memory the instance has, before it may have to wait with it.
    pub fn note_memory(&self, bytes: u64) {
        self.0.memory_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Resolves when the run must end at once.
    pub async fn killed(&self) {
        let mut signal = self.0.signal.subscribe();
        // The sender lives in the run itself, so it can't be gone.
        let _ = signal.wait_for(|signal| signal.killed).await;
    }
}

/// What the scheduler does with a run.
impl Run {
    pub(super) fn new(
        scheduler: Scheduler,
        mut submission: Submission,
        journal: Journal,
        caller: Option<(oneshot::Sender<CallOutcome>, Place)>,
    ) -> Run {
        let (caller, place) = caller.unzip();
        let listener = Mutex::new(submission.listener.take());
        Run(Arc::new(Shared {
            scheduler,
            submission,
            journal: tokio::sync::Mutex::new(journal),
            progress: watch::Sender::new(None),
            signal: watch::Sender::new(Signal::default()),
            answered: Notify::new(),
            log: Mutex::new(Vec::new()),
            updated: Mutex::default(),
            updates: Notify::new(),
            memory_bytes: AtomicU64::new(0),
            listener,
            caller: Mutex::new(caller),
            place: Mutex::new(place),
            waiting_place: Mutex::default(),
        }))
    }

    /// Follows the progress the guest reports.
    pub fn watch_progress(&self) -> watch::Receiver<Option<Progress>> {
        self.0.progress.subscribe()
    }

    /// What the guest reported last.
    pub fn newest_progress(&self) -> Option<Progress> {
        self.0.progress.borrow().clone()
    }

    /// Tells the guest, at its next pause point, to stop. The first reason stays.
    pub(super) fn cancel(&self, reason: &str) {
        self.0.signal.send_if_modified(|signal| {
            let first = signal.cancel.is_none();
            if first {
                signal.cancel = Some((Instant::now(), reason.to_owned()));
            }
            first
        });
    }

    /// Tells the run to leave at its next checkpoint, if it can be resumed.
    pub(super) fn drain(&self) {
        self.0.signal.send_modify(|signal| signal.draining = true);
    }

    pub(super) fn kill(&self) {
        self.0.signal.send_modify(|signal| signal.killed = true);
    }

    /// Says that an answer came.
    pub(super) fn wake(&self) {
        self.0.answered.notify_one();
    }

    pub(super) fn cancelled(&self) -> Option<Stopped> {
        let signal = self.0.signal.borrow();
        signal.cancel.as_ref().map(|(_, reason)| Stopped {
            reason: reason.clone(),
        })
    }

    pub(super) fn is_draining(&self) -> bool {
        self.0.signal.borrow().draining
    }

    /// Resolves when a cancelled run has used up its grace.
    pub(super) async fn overdue(&self) {
        let mut signal = self.0.signal.subscribe();
        let cancelled_at = match signal.wait_for(|signal| signal.cancel.is_some()).await {
            Ok(signal) => signal.cancel.as_ref().map(|(at, _)| *at),
            Err(_) => None,
        };
        let grace = self.0.submission.policy.cancel_grace;
        if let Some(at) = cancelled_at
            && !self.0.signal.borrow().killed
        {
            tokio::time::sleep_until(at + grace).await;
        } else {
            std::future::pending().await
        }
    }

    /// Gives the caller its answer; the first one counts.
    pub(super) fn reply(&self, outcome: CallOutcome) {
        let caller = lock(&self.0.caller).take();
        if let Some(caller) = caller {
            // A caller that went away has no use for it.
            let _ = caller.send(outcome);
        }
    }

    /// Another round of the call waits for the answer, and has a place.
    pub(super) fn set_caller(
        &self,
        caller: oneshot::Sender<CallOutcome>,
        place: Place,
        listener: Option<Listener>,
    ) {
        *lock(&self.0.listener) = listener;
        *lock(&self.0.caller) = Some(caller);
        *lock(&self.0.place) = Some(place);
    }

    /// Whether the call has to become a task and has not yet.
    pub(super) async fn must_be_task(&self) -> bool {
        match &*self.0.journal.lock().await {
            Journal::Memory(memory) => matches!(memory.asks, Asks::AsTask { always: true, .. }),
            Journal::Durable(_) | Journal::Closed => false,
        }
    }

    /// Whether somebody still waits for the call's answer.
    pub(super) fn has_caller(&self) -> bool {
        lock(&self.0.caller).is_some()
    }

    /// Whether there is somebody who can still hear it.
    pub(super) fn is_awaited(&self) -> bool {
        let caller = lock(&self.0.caller);
        caller.as_ref().is_some_and(|caller| !caller.is_closed())
    }

    /// Leaves the place among the calls that are answered inline.
    pub(super) fn release_place(&self) {
        let place = lock(&self.0.place).take();
        drop(place);
    }

    pub(super) fn waiting_place(&self) -> MutexGuard<'_, Option<WaitingPlace>> {
        lock(&self.0.waiting_place)
    }

    /// Tells whoever watches the task of new progress, then rests: a tool that reports without end
    /// must not keep its watchers busy.
    pub(super) async fn show(&self, progress: &mut watch::Receiver<Option<Progress>>) {
        if progress.changed().await.is_err() {
            return std::future::pending().await;
        }
        if let Some(durable) = self.0.journal.lock().await.durable() {
            self.0.scheduler.0.notifier.publish(&durable.key);
        }
        tokio::time::sleep(SHOW_INTERVAL).await;
    }

    pub(super) fn listener(&self) -> MutexGuard<'_, Option<Listener>> {
        lock(&self.0.listener)
    }

    /// Tells whoever watches them of resources that changed, then rests as [`Run::show`] does.
    pub(super) async fn show_updates(&self) {
        self.0.updates.notified().await;
        self.publish_updates();
        tokio::time::sleep(SHOW_INTERVAL).await;
    }

    pub(super) fn updated(&self) -> MutexGuard<'_, BTreeSet<String>> {
        lock(&self.0.updated)
    }

    /// Saves now and then while the tool works, and once more when `over` tells that it has ended.
    pub(super) async fn save_until(&self, mut over: oneshot::Receiver<()>) {
        let mut saved = None;
        loop {
            let interval = self.0.scheduler.0.limits.save_interval;
            let is_over = tokio::time::timeout(interval, &mut over).await.is_ok();
            self.save(&mut saved).await;
            if is_over {
                return;
            }
        }
    }

    /// Saves what is shown: progress and output. Nobody waits for it to be durable.
    async fn save(&self, saved: &mut Option<Progress>) {
        let journal = self.0.journal.lock().await;
        let Some(durable) = journal.durable().cloned() else {
            return;
        };
        drop(journal);
        let log = std::mem::take(&mut *lock(&self.0.log));
        if !log.is_empty() {
            durable.append_log(log).await;
        }
        let newest = self.newest_progress();
        if let Some(progress) = &newest
            && newest != *saved
            && durable.save_progress(progress).await
        {
            *saved = newest;
        }
    }

    pub(super) fn resumes(&self) -> bool {
        self.0.submission.policy.recovery == Recovery::Resume
    }

    /// Writes one thing: into memory while the call is no task, durably afterwards.
    async fn write(&self, note: Note) -> Result<(), Abandoned> {
        let mut journal = self.0.journal.lock().await;
        match &mut *journal {
            Journal::Memory(memory) => {
                note.keep(&mut memory.saved);
                Ok(())
            }
            Journal::Durable(durable) => {
                let durable = durable.clone();
                drop(journal);
                durable.update(note.event(durable.attempt)).await
            }
            Journal::Closed => Err(Abandoned),
        }
    }

    /// Where a guest may stop: it hears of a cancel, and a host that stops takes it from here.
    async fn pause_point(&self) -> Result<Result<(), Stopped>, Abandoned> {
        if let Some(stopped) = self.cancelled() {
            return Ok(Err(stopped));
        }
        let leaves =
            self.is_draining() && self.resumes() && self.0.journal.lock().await.durable().is_some();
        if leaves { Err(Abandoned) } else { Ok(Ok(())) }
    }
}

/// A poisoned lock means a panic elsewhere; what is kept under these is whole after every statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
