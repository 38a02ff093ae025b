//! A call becomes a task: because it takes long or asks, of which its caller hears at once, or because
//! what its tool returned is too large for one message.

use tracing::error;

use super::StartError;
use super::drive::CallOutcome;
use super::journal::{DurableJournal, Journal};
use super::run::Run;
use crate::store::StoreError;
use crate::task::{Recovery, Task};

impl Run {
    /// Turns the call into a task, durably, and tells the caller.
    pub(super) async fn promote(&self) -> Result<(), StartError> {
        let run = self.clone();
        let stored = self
            .0
            .scheduler
            .0
            .tracker
            .spawn(async move { run.become_task().await });
        stored.await.unwrap_or_else(|error| {
            error!(%error, "storing a task panicked");
            Err(StartError::Draining)
        })
    }

    async fn become_task(&self) -> Result<(), StartError> {
        let mut journal = self.0.journal.lock().await;
        if matches!(*journal, Journal::Memory(_)) {
            let submission = &self.0.submission;
            self.0.scheduler.check_room(&submission.tenant)?;
        }
        let recovery = self.0.submission.policy.recovery;
        if let Some(task) = self.store(&mut journal, recovery).await? {
            self.reply(CallOutcome::Task(Box::new(task)));
        }
        Ok(())
    }

    /// Stores a call whose tool has returned as a task, of which its caller hears nothing: it waits
    /// for the end. Only that is missing, so nothing may run the tool again for it. Fine when it is
    /// a task already; one that nobody waits for becomes none.
    pub(super) async fn store_returned(&self) -> Result<(), StoreError> {
        let mut journal = self.0.journal.lock().await;
        match self.is_awaited() {
            true => self.store(&mut journal, Recovery::Fail).await.map(|_| ()),
            false => Ok(()),
        }
    }

    /// The task a call has become, which is recovered in this way; None when it was one before.
    async fn store(
        &self,
        journal: &mut Journal,
        recovery: Recovery,
    ) -> Result<Option<Task>, StoreError> {
        let Journal::Memory(memory) = &*journal else {
            return Ok(None);
        };
        let scheduler = &self.0.scheduler;
        let submission = &self.0.submission;
        let mut task = submission.task(
            scheduler.new_key(&submission.tenant),
            true,
            scheduler.0.clock.now(),
        );
        task.policy.recovery = recovery;
        if let Some(progress) = self.newest_progress() {
            task.message = Some(progress.message);
            (task.done, task.total) = (progress.done, progress.total);
        }
        task.external_reference = memory.saved.external_reference.clone();
        let new = submission.born_late(task, &memory.saved, memory.asked.clone());
        let task = new.task.clone();
        scheduler.0.store.insert(new).await?;
        *journal = Journal::Durable(DurableJournal::new(scheduler.0.store.clone(), &task));
        scheduler.adopt(&task.key, self);
        Ok(Some(task))
    }
}
