//! The one writer: a thread that takes every command that waits, decides them in order, makes all
//! of it durable with one sync, and only then answers and publishes (I1).

use tokio::sync::{mpsc, oneshot};

use std::sync::Arc;

use super::bodies::Body;
use super::core::Core;
use super::draft::{Draft, Finished, Garbage};
use super::keys::Slot;
use super::quota::Taken;
use super::rounds::RoundChange;
use super::state::{StateCommand, StateError};
use super::{StoreError, UpdateError};
use crate::clock::{Clock, Timestamp};
use crate::notify::Notifier;
use crate::task::{Attempt, Event, Task, TaskKey};

/// How many bytes of bodies one commit gathers before it takes no further command.
const GROUP_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How many commands one commit gathers.
const GROUP_COMMANDS_MAX: usize = 1024;

/// What the committer is told to do, and who waits for it.
pub(super) enum Command {
    Insert {
        task: Box<Task>,
        bodies: Vec<(Slot, Body)>,
        reply: oneshot::Sender<Result<(), StoreError>>,
    },
    Update {
        key: TaskKey,
        event: Event,
        bodies: Vec<(Slot, Body)>,
        reply: oneshot::Sender<Result<Task, UpdateError>>,
    },
    Remove {
        key: TaskKey,
        reply: oneshot::Sender<Result<(), StoreError>>,
    },
    Parts {
        key: TaskKey,
        attempt: Attempt,
        counted: Taken,
        bodies: Vec<(Slot, Body)>,
        reply: oneshot::Sender<Result<Task, UpdateError>>,
    },
    State(Box<StateCommand>),
    Round {
        key: TaskKey,
        change: RoundChange,
        reply: oneshot::Sender<Result<(), StoreError>>,
    },
    /// Commit what is queued, take nothing more, end.
    Stop,
}

/// A decided command: the answer, and who waits for it.
enum Decided {
    Done(
        oneshot::Sender<Result<(), StoreError>>,
        Result<(), StoreError>,
    ),
    Updated(
        oneshot::Sender<Result<Task, UpdateError>>,
        Box<Result<Task, UpdateError>>,
    ),
    Stated(
        oneshot::Sender<Result<bool, StateError>>,
        Result<bool, StateError>,
    ),
}

pub(super) struct Committer {
    pub(super) core: Arc<Core>,
    pub(super) clock: Clock,
    pub(super) notifier: Notifier,
}

impl Committer {
    /// Works until it is stopped or nobody is left to command it.
    pub(super) fn run(self, mut commands: mpsc::Receiver<Command>) {
        while let Some(first) = commands.blocking_recv() {
            let group = gather(first, &mut commands);
            match self.core.failure() {
                Some(error) => group.into_iter().for_each(|command| command.fail(error)),
                // The database can't be used any more once it has met a full disk.
                None if !self.core.room.wait() => {
                    let fail = |command: Command| command.fail(&StoreError::NoRoom);
                    group.into_iter().for_each(fail);
                }
                None => self.commit(group),
            }
        }
    }

    pub(super) fn commit(&self, group: Vec<Command>) {
        let now = self.clock.now();
        let mut draft = Draft::new(&self.core);
        let mut waiting = Vec::with_capacity(group.len());
        let mut commands = group.into_iter();
        let mut failure = None;
        for command in commands.by_ref() {
            let Some((rests, decided)) = decide(&mut draft, command, now) else {
                continue;
            };
            failure = decided.failure();
            // An answer that rests on an uncommitted state waits for the commit as well.
            if failure.is_some() || rests {
                waiting.push(decided);
            } else {
                decided.send();
            }
            if failure.is_some() {
                break;
            }
        }
        let finished = draft.finish();
        let outcome = match failure {
            Some(error) => {
                finished.quota.undo();
                Err(error)
            }
            None => self.write(finished),
        };
        match outcome {
            Ok(garbage) => {
                waiting.into_iter().for_each(Decided::send);
                self.delete(garbage);
            }
            Err(error) => {
                self.core.fail(error.clone());
                waiting.into_iter().for_each(|decided| decided.fail(&error));
                commands.for_each(|command| command.fail(&error));
            }
        }
    }

    fn write(&self, finished: Finished) -> Result<Vec<Garbage>, StoreError> {
        if finished.writes.is_empty() {
            return Ok(finished.garbage);
        }
        let (writes, changes) = (finished.writes, finished.changes);
        let changed = match self.core.commit(writes, changes, finished.state) {
            Ok(changed) => changed,
            Err(error) => {
                finished.quota.undo();
                return Err(error);
            }
        };
        finished.quota.apply();
        for key in changed {
            self.notifier.publish(&key);
        }
        Ok(finished.garbage)
    }

    fn delete(&self, garbage: Vec<Garbage>) {
        for item in garbage {
            match item {
                Garbage::Body { key, value } => self.core.bodies.delete(&key, &value),
                Garbage::Task(key) => {
                    self.core.bodies.delete_all(&key);
                    self.core.logs.delete(&key);
                }
            }
        }
    }
}

impl Command {
    fn fail(self, error: &StoreError) {
        // Whoever gave up waiting needs no answer, here and below.
        match self {
            Command::Insert { reply, .. }
            | Command::Remove { reply, .. }
            | Command::Round { reply, .. } => {
                let _ = reply.send(Err(error.clone()));
            }
            Command::Update { reply, .. } | Command::Parts { reply, .. } => {
                let _ = reply.send(Err(error.clone().into()));
            }
            Command::State(command) => {
                let _ = command.reply.send(Err(error.clone().into()));
            }
            Command::Stop => {}
        }
    }

    fn weight(&self) -> usize {
        match self {
            Command::Insert { bodies, .. }
            | Command::Update { bodies, .. }
            | Command::Parts { bodies, .. } => bodies.iter().map(|(_, body)| body.weight()).sum(),
            Command::State(command) => command.change.value.as_ref().map_or(0, Vec::len),
            Command::Round { change, .. } => change.weight(),
            Command::Remove { .. } | Command::Stop => 0,
        }
    }
}

impl Decided {
    fn send(self) {
        match self {
            Decided::Done(reply, answer) => {
                let _ = reply.send(answer);
            }
            Decided::Updated(reply, answer) => {
                let _ = reply.send(*answer);
            }
            Decided::Stated(reply, answer) => {
                let _ = reply.send(answer);
            }
        }
    }

    fn fail(self, error: &StoreError) {
        match self {
            Decided::Done(reply, _) => {
                let _ = reply.send(Err(error.clone()));
            }
            Decided::Updated(reply, _) => {
                let _ = reply.send(Err(error.clone().into()));
            }
            Decided::Stated(reply, _) => {
                let _ = reply.send(Err(error.clone().into()));
            }
        }
    }

    /// The error that ends all writing, if deciding met one: the database could not be read.
    fn failure(&self) -> Option<StoreError> {
        let error = match self {
            Decided::Done(_, outcome) => outcome.as_ref().err(),
            Decided::Updated(_, outcome) => match outcome.as_ref() {
                Err(UpdateError::Store(error)) => Some(error),
                _ => None,
            },
            Decided::Stated(_, Err(StateError::Store(error))) => Some(error),
            Decided::Stated(..) => None,
        };
        error
            .filter(|error| matches!(error, StoreError::Records(_)))
            .cloned()
    }
}

/// Everything that waits, up to what one commit takes.
fn gather(first: Command, commands: &mut mpsc::Receiver<Command>) -> Vec<Command> {
    let mut group = Vec::new();
    let mut weight = 0;
    let mut next = Some(first);
    while let Some(command) = next {
        if matches!(command, Command::Stop) {
            commands.close();
        }
        weight += command.weight();
        group.push(command);
        let is_full = weight > GROUP_BYTES_MAX || group.len() >= GROUP_COMMANDS_MAX;
        next = if is_full {
            None
        } else {
            commands.try_recv().ok()
        };
    }
    group
}

/// Also tells whether the answer rests on a state that is not committed yet.
fn decide(draft: &mut Draft<'_>, command: Command, now: Timestamp) -> Option<(bool, Decided)> {
    match command {
        Command::Insert {
            task,
            bodies,
            reply,
        } => {
            let key = task.key.clone();
            let outcome = draft.insert(*task, bodies);
            Some((draft.has_written(&key), Decided::Done(reply, outcome)))
        }
        Command::Update {
            key,
            event,
            bodies,
            reply,
        } => {
            let outcome = draft.update(&key, &event, bodies, now);
            let decided = Decided::Updated(reply, Box::new(outcome));
            Some((draft.has_written(&key), decided))
        }
        Command::Remove { key, reply } => {
            let outcome = draft.remove(&key);
            Some((draft.has_written(&key), Decided::Done(reply, outcome)))
        }
        Command::State(command) => {
            let StateCommand {
                owner,
                change,
                quota,
                reply,
            } = *command;
            let outcome = draft.change_state(&owner, change, quota);
            Some((draft.has_written_state(), Decided::Stated(reply, outcome)))
        }
        Command::Parts {
            key,
            attempt,
            counted,
            bodies,
            reply,
        } => {
            let outcome = draft.parts(&key, attempt, counted, bodies);
            let decided = Decided::Updated(reply, Box::new(outcome));
            Some((draft.has_written(&key), decided))
        }
        Command::Round { key, change, reply } => {
            let outcome = draft.round(&key, change, now);
            Some((draft.has_written(&key), Decided::Done(reply, outcome)))
        }
        Command::Stop => None,
    }
}
