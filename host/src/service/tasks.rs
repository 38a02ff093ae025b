//! What a tenant does with its tasks: reads, answers, cancels and follows them. No task is reached
//! without its tenant (I4).

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use thiserror::Error;
use tracing::warn;

use super::Service;
use crate::notify::Subscription;
use crate::schema::{self, Mismatch};
use crate::store::{StoreError, UpdateError};
use crate::task::{
    Answer, CallResult, InputKey, InputRequest, Progress, Status, Task, TaskId, TaskKey, TenantId,
};

/// A task with what the wire shows beside its record.
#[derive(Clone, Debug)]
pub struct TaskView {
    pub task: Task,
    /// The newest progress of a live run, newer than the record's.
    pub progress: Option<Progress>,
    /// The open questions, when input is required.
    pub requests: Vec<InputRequest>,
    /// The result, when completed.
    pub result: Option<CallResult>,
}

/// What a response says to a question, or why it does not fit.
pub(super) type ReadAnswer = (InputKey, Result<Answer, Mismatch>);

/// Why a task can't be read or changed.
#[derive(Clone, Debug, Error)]
pub enum TaskError {
    /// Unknown, expired and another tenant's: all look the same (I4).
    #[error("no such task")]
    Unknown,
    #[error("the answer to `{key}` does not fit: {mismatch}")]
    InvalidAnswer { key: String, mismatch: Mismatch },
    #[error("{0}")]
    Unavailable(String),
}

impl Service {
    /// The task as it is now.
    pub fn task(&self, tenant: &TenantId, id: &str) -> Result<TaskView, TaskError> {
        let task = self.find(tenant, id)?;
        self.view(task)
    }

    /// Takes answers; keys that are not open are ignored. All or nothing: one that does not fit
    /// refuses them all and leaves the questions open.
    pub async fn answer(
        &self,
        tenant: &TenantId,
        id: &str,
        responses: &Map<String, Value>,
    ) -> Result<(), TaskError> {
        let task = self.find(tenant, id)?;
        let read = self.read_answers(&task, responses)?;
        let answers = read.into_iter().map(|(key, answer)| match answer {
            Ok(answer) => Ok((key, answer)),
            Err(mismatch) => Err(TaskError::InvalidAnswer {
                key: key.to_string(),
                mismatch,
            }),
        });
        let answers: Result<Vec<_>, TaskError> = answers.collect();
        self.record_answers(&task, answers?).await
    }

    /// What the responses say to the task's open questions.
    pub(super) fn read_answers(
        &self,
        task: &Task,
        responses: &Map<String, Value>,
    ) -> Result<Vec<ReadAnswer>, TaskError> {
        let open = self.open_requests(task)?.into_iter();
        let answers = open.filter_map(|request| {
            let response = responses.get(request.key.as_str())?;
            let answer = schema::read_answer(&request.ask, response);
            Some((request.key, answer))
        });
        Ok(answers.collect())
    }

    pub(super) async fn record_answers(
        &self,
        task: &Task,
        answers: Vec<(InputKey, Answer)>,
    ) -> Result<(), TaskError> {
        if answers.is_empty() {
            return Ok(());
        }
        match self.0.scheduler.answer(&task.key, answers).await {
            // It ended meanwhile: the keys are not open any more.
            Ok(_) | Err(UpdateError::Rejected(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks a task to stop. Fine, and without effect, on one that has ended.
    pub async fn cancel(&self, tenant: &TenantId, id: &str, reason: &str) -> Result<(), TaskError> {
        let task = self.find(tenant, id)?;
        Ok(self.0.scheduler.cancel(&task.key, reason).await?)
    }

    /// At most `limit` of the tenant's tasks, in the order of their ids, from the one after `after`
    /// on; and the id to go on after, if there may be more.
    pub fn tasks(
        &self,
        tenant: &TenantId,
        after: Option<&TaskId>,
        limit: usize,
    ) -> Result<(Vec<Task>, Option<TaskId>), TaskError> {
        let stored = self.0.store.tasks(tenant, after, limit);
        let mut tasks = stored.map_err(unavailable)?;
        let last = tasks.last().filter(|_| tasks.len() == limit);
        let next = last.map(|task| task.key.id.clone());
        tasks.retain(|task| !self.is_expired(task));
        Ok((tasks, next))
    }

    /// What the task's tool wrote to its output, as far as it is kept and saved.
    pub fn log(&self, tenant: &TenantId, id: &str) -> Result<Vec<u8>, TaskError> {
        let task = self.find(tenant, id)?;
        self.0.store.log(&task.key).map_err(unavailable)
    }

    /// Follows those of `ids` that are tasks of the tenant.
    pub fn watch(&self, tenant: &TenantId, ids: &[String]) -> Subscription {
        let known = ids
            .iter()
            .filter_map(|id| self.find(tenant, id).ok())
            .map(|task| task.key);
        // The same id twice is one subscription.
        let keys: BTreeSet<TaskKey> = known.collect();
        self.0.notifier.subscribe(keys.into_iter().collect())
    }

    /// The view of a task a subscription named; None once it is gone.
    pub fn watched(&self, key: &TaskKey) -> Option<TaskView> {
        self.task(&key.tenant, key.id.as_str()).ok()
    }

    /// I4: malformed, unknown, expired and another tenant's ids all end here, in the same words.
    pub(super) fn find(&self, tenant: &TenantId, id: &str) -> Result<Task, TaskError> {
        let id = TaskId::parse(id).map_err(|_| TaskError::Unknown)?;
        let key = TaskKey {
            tenant: tenant.clone(),
            id,
        };
        let task = self
            .0
            .store
            .get(&key)
            .map_err(unavailable)?
            .ok_or(TaskError::Unknown)?;
        match self.is_expired(&task) {
            true => Err(TaskError::Unknown),
            false => Ok(task),
        }
    }

    /// Expired tasks are not there any more, though they may not be deleted yet.
    fn is_expired(&self, task: &Task) -> bool {
        task.expires_at.is_some_and(|at| at <= self.0.clock.now())
    }

    fn view(&self, task: Task) -> Result<TaskView, TaskError> {
        let progress = if task.is_terminal() {
            None
        } else {
            self.0.scheduler.progress(&task.key)
        };
        let requests = match task.status() {
            Status::InputRequired => self.open_requests(&task)?,
            _ => Vec::new(),
        };
        let result = match task.status() {
            Status::Completed => self.0.store.result(&task.key).map_err(unavailable)?,
            _ => None,
        };
        Ok(TaskView {
            task,
            progress,
            requests,
            result,
        })
    }

    fn open_requests(&self, task: &Task) -> Result<Vec<InputRequest>, TaskError> {
        let open: BTreeSet<&InputKey> = task.open_inputs().collect();
        if open.is_empty() {
            return Ok(Vec::new());
        }
        let inputs = self.0.store.inputs(&task.key).map_err(unavailable)?;
        let requests = inputs.into_iter().map(|input| input.request);
        Ok(requests
            .filter(|request| open.contains(&request.key))
            .collect())
    }
}

pub(super) fn unavailable(error: StoreError) -> TaskError {
    warn!(
        error = &error as &dyn std::error::Error,
        "a task could not be read or changed"
    );
    TaskError::Unavailable(match error {
        // Their own words name no path, and tell the client whether to try again.
        StoreError::Damaged { .. } | StoreError::NoRoom => error.to_string(),
        StoreError::Record(_) => "the task's record is damaged; call the tool again".to_owned(),
        _ => "the task store is not available; ask again later".to_owned(),
    })
}

impl From<UpdateError> for TaskError {
    fn from(error: UpdateError) -> TaskError {
        match error {
            UpdateError::Unknown => TaskError::Unknown,
            UpdateError::Rejected(rejected) => TaskError::Unavailable(rejected.to_string()),
            UpdateError::Store(error) => unavailable(error),
        }
    }
}
