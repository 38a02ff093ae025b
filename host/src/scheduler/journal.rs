//! What a run remembers: in memory while it is a plain call, in the store once it is a task.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, error, warn};

use super::ask::InputError;
use super::held::HeldRound;
use super::run::{Abandoned, StepError};
use crate::clock::Timestamp;
use crate::schema;
use crate::store::{Store, StoreError, StoredInput, UpdateError};
use crate::task::{
    Answer, Attempt, Event, ExternalReference, InputKey, InputRequest, Progress, Rejected,
    STEPS_MAX, Task, TaskId, TaskKey,
};

/// Steps that a call keeps in memory while it is no task, bytes.
const MEMORY_STEPS_MAX_BYTES: usize = 16 << 20;

/// What a call without a task carries from one round to the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saved {
    pub checkpoint: Option<Vec<u8>>,
    pub steps: BTreeMap<String, Vec<u8>>,
    pub answers: BTreeMap<InputKey, Answer>,
    pub external_reference: Option<ExternalReference>,
}

/// What a round leaves for the next one.
#[derive(Clone, Debug, PartialEq)]
pub enum Left {
    /// All there is: the tool runs again with it.
    State(Saved),
    /// The instance, which waits in memory.
    Held(HeldRound),
    /// A task, which waits by itself.
    Task(TaskId),
}

/// A question on its way to a client that answers while the guest waits.
#[derive(Debug)]
pub struct LiveQuestion {
    pub request: InputRequest,
    /// The client's response, unchecked, or in words why there is none.
    pub reply: oneshot::Sender<Result<Value, String>>,
}

/// How a call that is not a task yet asks its questions.
#[derive(Clone, Debug)]
pub enum Asks {
    /// Round by round: the run ends, and the call comes again with answers.
    InRounds,
    /// Round by round, while the instance waits in memory: its tool can't be run again.
    InHeldRounds,
    /// As the task the call becomes, save for the keys that are asked before, in rounds. With
    /// `always` it becomes one in any case.
    AsTask {
        first: BTreeSet<String>,
        always: bool,
    },
    /// One by one, of a client that is there; the instance waits meanwhile.
    Live(mpsc::Sender<LiveQuestion>),
    /// Not at all; the text says why.
    Refused(String),
}

pub(super) enum Journal {
    Memory(MemoryJournal),
    Durable(DurableJournal),
    /// The run has ended.
    Closed,
}

/// The journal of a call.
pub(super) struct MemoryJournal {
    pub saved: Saved,
    pub asks: Asks,
    /// The client's responses of this round, unchecked.
    pub responses: Map<String, Value>,
    /// Questions with their answers, for the task this may become.
    pub asked: Vec<StoredInput>,
}

/// The journal of a task, held under one lease.
#[derive(Clone)]
pub(super) struct DurableJournal {
    pub store: Store,
    pub key: TaskKey,
    pub attempt: Attempt,
    pub expires_at: Option<Timestamp>,
    /// What the store kept and can't give back, in the words the task ends with (I8).
    pub damage: Arc<OnceLock<String>>,
}

/// Something a run writes down.
pub(super) enum Note {
    Checkpoint(Vec<u8>),
    Reference(ExternalReference),
}

impl Note {
    /// Into memory.
    pub fn keep(self, saved: &mut Saved) {
        match self {
            Note::Checkpoint(state) => saved.checkpoint = Some(state),
            Note::Reference(reference) => saved.external_reference = Some(reference),
        }
    }

    /// For the task.
    pub fn event(self, attempt: Attempt) -> Event {
        match self {
            Note::Checkpoint(state) => Event::Checkpointed {
                attempt,
                state: Some(state),
            },
            Note::Reference(reference) => Event::Referenced { attempt, reference },
        }
    }
}

/// What becomes of a question.
pub(super) enum Lookup {
    Answered(Vec<Answer>),
    NextRound(Vec<InputRequest>, Saved),
    Hold(Vec<InputRequest>),
    AskLive(mpsc::Sender<LiveQuestion>),
    BecomesTask,
    AskAsTask,
    Refused(String),
    Closed,
}

impl Journal {
    pub fn durable(&self) -> Option<&DurableJournal> {
        match self {
            Journal::Durable(durable) => Some(durable),
            Journal::Memory(_) | Journal::Closed => None,
        }
    }

    pub fn checkpoint(&self) -> Result<Option<Vec<u8>>, Abandoned> {
        match self {
            Journal::Memory(memory) => Ok(memory.saved.checkpoint.clone()),
            Journal::Durable(durable) => durable.read(durable.store.checkpoint(&durable.key)),
            Journal::Closed => Err(Abandoned),
        }
    }

    pub fn step(&self, name: &str) -> Result<Option<Vec<u8>>, Abandoned> {
        match self {
            Journal::Memory(memory) => Ok(memory.saved.steps.get(name).cloned()),
            Journal::Durable(durable) => durable.read(durable.store.step(&durable.key, name)),
            Journal::Closed => Err(Abandoned),
        }
    }

    /// The answer there is to a question already.
    pub fn answer(&self, key: &InputKey) -> Option<Answer> {
        match self {
            Journal::Memory(memory) => memory.saved.answers.get(key).cloned(),
            Journal::Durable(_) | Journal::Closed => None,
        }
    }

    /// Keeps an answer that was given live, so that it is asked for once (I7).
    pub fn keep_answer(&mut self, key: InputKey, answer: Answer) {
        if let Journal::Memory(memory) = self {
            memory.saved.answers.insert(key, answer);
        }
    }

    /// Takes the responses of another round.
    pub fn take_responses(&mut self, responses: Map<String, Value>) {
        if let Journal::Memory(memory) = self {
            memory.responses = responses;
        }
    }

    pub fn look_up(&mut self, requests: &[InputRequest]) -> Lookup {
        match self {
            Journal::Memory(memory) => memory.look_up(requests),
            Journal::Durable(_) => Lookup::AskAsTask,
            Journal::Closed => Lookup::Closed,
        }
    }
}

impl MemoryJournal {
    /// Takes the answers there are; an answer that does not fit counts as none, so that the
    /// question is asked again (multi-round-trip requests, "Error Handling").
    fn look_up(&mut self, requests: &[InputRequest]) -> Lookup {
        for request in requests {
            if self.saved.answers.contains_key(&request.key) {
                continue;
            }
            let response = self.responses.get(request.key.as_str());
            if let Some(Ok(answer)) = response.map(|given| schema::read_answer(&request.ask, given))
            {
                self.saved.answers.insert(request.key.clone(), answer);
            }
        }
        let answers: Vec<Answer> = requests
            .iter()
            .filter_map(|asked| self.saved.answers.get(&asked.key).cloned())
            .collect();
        if answers.len() == requests.len() {
            for (request, answer) in requests.iter().zip(&answers) {
                self.remember(request, answer);
            }
            return Lookup::Answered(answers);
        }
        let in_rounds = match &self.asks {
            Asks::Refused(reason) => return Lookup::Refused(reason.clone()),
            Asks::Live(client) => return Lookup::AskLive(client.clone()),
            Asks::InRounds | Asks::InHeldRounds => true,
            Asks::AsTask { first, .. } => requests
                .iter()
                .all(|request| first.contains(request.key.as_str())),
        };
        if !in_rounds {
            return Lookup::BecomesTask;
        }
        let missing = requests
            .iter()
            .filter(|request| !self.saved.answers.contains_key(&request.key))
            .cloned()
            .collect();
        match self.asks {
            Asks::InHeldRounds => Lookup::Hold(missing),
            _ => Lookup::NextRound(missing, self.saved.clone()),
        }
    }

    /// The first record of a name stays.
    pub fn record_step(&mut self, name: String, value: Vec<u8>) -> Result<(), StepError> {
        let steps = &mut self.saved.steps;
        if steps.contains_key(&name) {
            return Ok(());
        }
        if steps.len() >= STEPS_MAX as usize {
            return Err(StepError::TooMany(Rejected::TooManySteps.to_string()));
        }
        let size: usize = steps.values().map(Vec::len).sum();
        if size + value.len() > MEMORY_STEPS_MAX_BYTES {
            return Err(StepError::TooMany(format!(
                "a call may record steps of {MEMORY_STEPS_MAX_BYTES} bytes before it is a task; \
                 declare the tool's execution `task`, or record less"
            )));
        }
        steps.insert(name, value);
        Ok(())
    }

    fn remember(&mut self, request: &InputRequest, answer: &Answer) {
        if self
            .asked
            .iter()
            .all(|earlier| earlier.request.key != request.key)
        {
            let answer = Some(answer.clone());
            self.asked.push(StoredInput {
                request: request.clone(),
                answer,
            });
        }
    }
}

impl DurableJournal {
    pub fn new(store: Store, task: &Task) -> DurableJournal {
        DurableJournal {
            store,
            key: task.key.clone(),
            attempt: task.attempt,
            expires_at: task.expires_at,
            damage: Arc::default(),
        }
    }

    /// Applies an event of this run. A run that lost its lease is over (I2).
    pub async fn update(&self, event: Event) -> Result<(), Abandoned> {
        match self.store.update(&self.key, event).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.give_up(error)),
        }
    }

    /// Records a step durably; the first record of a name stays.
    pub async fn record_step(&self, name: String, value: Vec<u8>) -> Result<(), StepError> {
        let event = Event::StepRecorded {
            attempt: self.attempt,
            name,
            value,
        };
        match self.store.update(&self.key, event).await {
            Ok(_) => Ok(()),
            Err(UpdateError::Rejected(rejected @ Rejected::TooManySteps)) => {
                Err(StepError::TooMany(rejected.to_string()))
            }
            Err(error) => Err(self.give_up(error).into()),
        }
    }

    /// Saves how far the run is; without it only less is shown. False when it was not saved.
    pub async fn save_progress(&self, progress: &Progress) -> bool {
        let event = Event::Progressed {
            attempt: self.attempt,
            progress: progress.clone(),
        };
        let saved = self.store.update(&self.key, event).await;
        if let Err(error) = &saved {
            debug!(error = error as &dyn Error, "progress was not saved");
        }
        saved.is_ok()
    }

    /// Asks; a key that this run asked before must be the same question (I7).
    pub async fn ask(
        &self,
        requests: &[InputRequest],
    ) -> Result<Result<(), InputError>, Abandoned> {
        let known = self.read(self.store.inputs(&self.key))?;
        let task = self.read(self.store.get(&self.key))?.ok_or(Abandoned)?;
        for request in requests {
            let by_this_run = task
                .inputs
                .get(&request.key)
                .is_some_and(|input| input.asked_by == self.attempt);
            let other = known
                .iter()
                .any(|input| input.request.key == request.key && input.request.ask != request.ask);
            if by_this_run && other {
                return Ok(Err(InputError::Invalid(format!(
                    "the key `{}` was used for another question",
                    request.key
                ))));
            }
        }
        let event = Event::Asked {
            attempt: self.attempt,
            requests: requests.to_vec(),
        };
        match self.store.update(&self.key, event).await {
            Ok(_) => Ok(Ok(())),
            Err(UpdateError::Rejected(Rejected::Cancelling)) => Ok(Err(InputError::Stopped)),
            Err(UpdateError::Rejected(rejected @ Rejected::TooManyInputs)) => {
                Ok(Err(InputError::Invalid(rejected.to_string())))
            }
            Err(error) => Err(self.give_up(error)),
        }
    }

    /// Whether the run was parked; not when an answer or a cancel came first.
    pub async fn park(&self) -> Result<bool, Abandoned> {
        match self
            .store
            .update(
                &self.key,
                Event::Parked {
                    attempt: self.attempt,
                },
            )
            .await
        {
            Ok(_) => Ok(true),
            Err(UpdateError::Rejected(Rejected::NothingToWaitFor | Rejected::Cancelling)) => {
                Ok(false)
            }
            Err(error) => Err(self.give_up(error)),
        }
    }

    /// The answers to all of `requests`, or none while one is missing.
    pub fn answers(&self, requests: &[InputRequest]) -> Result<Option<Vec<Answer>>, Abandoned> {
        let known = self.read(self.store.inputs(&self.key))?;
        let answer_to = |request: &InputRequest| {
            let input = known
                .iter()
                .find(|input| input.request.key == request.key)?;
            input.answer.clone()
        };
        Ok(requests.iter().map(answer_to).collect())
    }

    pub async fn append_log(&self, text: Vec<u8>) {
        let journal = self.clone();
        let written =
            tokio::task::spawn_blocking(move || journal.store.append_log(&journal.key, &text));
        if let Ok(Err(error)) = written.await {
            warn!(task = %self.key.id, error = &error as &dyn Error, "guest output was not kept");
        }
    }

    fn read<T>(&self, read: Result<T, StoreError>) -> Result<T, Abandoned> {
        read.map_err(|error| self.give_up(error.into()))
    }

    fn give_up(&self, error: UpdateError) -> Abandoned {
        match error {
            UpdateError::Rejected(_) | UpdateError::Unknown => {}
            UpdateError::Store(error) => {
                error!(task = %self.key.id, error = &error as &dyn Error, "a run is given up");
                if let StoreError::Damaged { .. } = error {
                    // The first damage that is met ends the run.
                    self.damage.get_or_init(|| error.to_string());
                }
            }
        }
        Abandoned
    }
}
