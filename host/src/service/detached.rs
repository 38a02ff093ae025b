//! A call that goes on without its client, of a client that takes no tasks: after the grace it is
//! stored as a task, and the client is told its id (I1); from then on the client follows that task
//! and may leave it.

use std::pin::pin;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;
use tracing::warn;

use super::pending::{Pending, read_outcome, told_already};
use super::{CallError, LiveQuestion, PendingCall, Reply, Service, TaskError, TaskView};
use crate::notify::Subscription;
use crate::scheduler::{CallOutcome, Left, StartedCall};
use crate::task::{Ending, InputKey, InputRequest, Phase, Progress, Status, TaskId, TaskKey};

/// What becomes of a call when its client leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is stopped.
    WithClient,
    /// It is stopped, but will soon go on.
    Undecided,
    /// It goes on as this task.
    Detached(TaskId),
}

impl Standing {
    /// Of a call that never goes on by itself.
    pub(super) fn with_client() -> watch::Receiver<Standing> {
        watch::Sender::new(Standing::WithClient).subscribe()
    }
}

/// A call that becomes a task its client follows.
pub(super) struct Detachable {
    service: Service,
    call: Option<StartedCall>,
    /// Known once it is a task.
    key: Option<TaskKey>,
    grace: Duration,
    progress: watch::Sender<Option<Progress>>,
    standing: watch::Sender<Standing>,
    live: Option<mpsc::Sender<LiveQuestion>>,
}

impl Service {
    /// Answers a task's questions from a round, each for itself: what does not fit is asked again
    /// (multi-round-trip requests, "Error Handling").
    pub(super) async fn answer_round(
        &self,
        key: &TaskKey,
        responses: &Map<String, Value>,
    ) -> Result<(), CallError> {
        let answer = async {
            let task = self.find(&key.tenant, key.id.as_str())?;
            let answers = self.read_answers(&task, responses)?;
            let fitting = answers
                .into_iter()
                .filter_map(|(key, answer)| Some((key, answer.ok()?)));
            self.record_answers(&task, fitting.collect()).await
        };
        answer.await.map_err(|error| gone(&error))
    }
}

impl Detachable {
    /// A call that has just begun.
    pub(super) fn start(
        service: &Service,
        call: StartedCall,
        live: Option<mpsc::Sender<LiveQuestion>>,
    ) -> PendingCall {
        Detachable::pending(service, Some(call), None, live)
    }

    /// A call that is a task already: from its beginning, or since an earlier round.
    pub(super) fn follow(
        service: &Service,
        key: TaskKey,
        live: Option<mpsc::Sender<LiveQuestion>>,
    ) -> PendingCall {
        Detachable::pending(service, None, Some(key), live)
    }

    fn pending(
        service: &Service,
        call: Option<StartedCall>,
        key: Option<TaskKey>,
        live: Option<mpsc::Sender<LiveQuestion>>,
    ) -> PendingCall {
        let (progress, shown) = watch::channel(None);
        let (standing, told) = watch::channel(match &key {
            Some(key) => Standing::Detached(key.id.clone()),
            None => Standing::Undecided,
        });
        PendingCall {
            progress: shown,
            is_fallback: true,
            standing: told,
            state: Pending::Detachable(Detachable {
                service: service.clone(),
                call,
                key,
                grace: service.0.limits.call_grace,
                progress,
                standing,
                live,
            }),
        }
    }

    pub(super) async fn reply(&mut self) -> Result<Reply, CallError> {
        if let Some(mut call) = self.call.take() {
            match self.until_task(&mut call).await {
                CallOutcome::Task(task) => {
                    let id = task.key.id.clone();
                    self.key = Some(task.key);
                    // The id before any progress: whoever hears of that reads this first.
                    self.standing.send_replace(Standing::Detached(id));
                    self.progress.send_replace(call.run.newest_progress());
                }
                outcome => return read_outcome(outcome),
            }
        }
        match self.key.clone() {
            Some(key) => self.until_ended(&key).await,
            None => Err(told_already()),
        }
    }

    /// What the call came to, which is a task if it outlives the grace. Until then its progress
    /// waits: the first message names the task.
    async fn until_task(&self, call: &mut StartedCall) -> CallOutcome {
        tokio::select! {
            outcome = call.outcome() => return outcome,
            () = sleep(self.grace) => {}
        }
        let Err(error) = call.become_task().await else {
            return call.outcome().await;
        };
        // The work goes on, but not without its client.
        warn!(
            error = &error as &dyn std::error::Error,
            "a slow call could not become a task"
        );
        self.standing.send_replace(Standing::WithClient);
        let mut progress = call.run.watch_progress();
        progress.mark_changed();
        loop {
            tokio::select! {
                outcome = call.outcome() => return outcome,
                Ok(()) = progress.changed() => {
                    let newest = progress.borrow_and_update().clone();
                    self.progress.send_replace(newest);
                }
            }
        }
    }

    async fn until_ended(&self, key: &TaskKey) -> Result<Reply, CallError> {
        let service = &self.service;
        let mut changes = service.0.notifier.subscribe(vec![key.clone()]);
        loop {
            let view = service.task(&key.tenant, key.id.as_str());
            let view = view.map_err(|error| gone(&error))?;
            match view.task.status() {
                Status::Working => self.show(view),
                // Answered while they were read; the change is told.
                Status::InputRequired if view.requests.is_empty() => {}
                Status::InputRequired => match &self.live {
                    None => {
                        let left = Left::Task(key.id.clone());
                        let requests = view.requests;
                        return Ok(Reply::InputRequired { requests, left });
                    }
                    Some(client) => {
                        self.ask(client, key, &view.requests, &mut changes).await?;
                        continue;
                    }
                },
                Status::Completed | Status::Failed | Status::Cancelled => return ended(view),
            }
            changes.changed().await;
        }
    }

    fn show(&self, view: TaskView) {
        let newest = view.progress.or_else(|| {
            let (done, total) = (view.task.done, view.task.total);
            let message = view.task.message?;
            Some(Progress {
                message,
                done,
                total,
            })
        });
        self.progress.send_if_modified(|shown| {
            let is_new = newest.is_some() && *shown != newest;
            if is_new {
                *shown = newest;
            }
            is_new
        });
    }

    /// Asks a client that is there, one question after the other, while nobody else answers.
    async fn ask(
        &self,
        client: &mpsc::Sender<LiveQuestion>,
        key: &TaskKey,
        requests: &[InputRequest],
        changes: &mut Subscription,
    ) -> Result<(), CallError> {
        let Some(request) = requests.first() else {
            return Ok(());
        };
        let (reply, answered) = oneshot::channel();
        let question = LiveQuestion {
            request: request.clone(),
            reply,
        };
        let response = async {
            client.send(question).await.ok()?;
            answered.await.ok()
        };
        let mut response = pin!(response);
        let response = loop {
            tokio::select! {
                response = &mut response => break response,
                _ = changes.changed() => {
                    // Parking is a change, too, and the same question must not be shown twice.
                    if !self.is_open(key, &request.key) {
                        return Ok(());
                    }
                }
            }
        };
        let id = &key.id;
        let open = |reason: String| {
            CallError::Unavailable(format!(
                "the question `{}` is still open: {reason}; the call goes on as task {id}, and \
                 `longshore task answer {id}` answers it",
                request.key
            ))
        };
        let response = match response {
            Some(Ok(response)) => response,
            Some(Err(reason)) => return Err(open(reason)),
            None => return Err(open("the client is gone".to_owned())),
        };
        let one = Map::from_iter([(request.key.as_str().to_owned(), response)]);
        let answered = self.service.answer(&key.tenant, id.as_str(), &one).await;
        answered.map_err(|error| open(error.to_string()))
    }

    fn is_open(&self, key: &TaskKey, question: &InputKey) -> bool {
        let view = self.service.watched(key);
        view.is_some_and(|view| view.requests.iter().any(|asked| asked.key == *question))
    }
}

fn ended(view: TaskView) -> Result<Reply, CallError> {
    let message = view.task.message.unwrap_or_default();
    match (view.task.phase, view.result) {
        (Phase::Ended(Ending::Failed(error)), _) => Err(CallError::Tool(error)),
        (Phase::Ended(Ending::Completed), Some(result)) => Ok(Reply::Result(result)),
        (Phase::Ended(Ending::Completed), None) => Err(CallError::Unavailable(
            "the task has completed, and its result is gone".to_owned(),
        )),
        _ => Err(CallError::Unavailable(message)),
    }
}

fn gone(error: &TaskError) -> CallError {
    CallError::Unavailable(format!(
        "the call went on as a task, which can't be read now: {error}"
    ))
}
