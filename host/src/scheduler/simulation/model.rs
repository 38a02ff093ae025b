//! What must be true after every step, given what clients and guests were told.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::Value;

use super::guest::part;
use crate::clock::Timestamp;
use crate::store::Store;
use crate::store::simulated::Medium;
use crate::task::{
    Answer, Attempt, CallResult, Ending, InputKey, InputRequest, Phase, Task, TaskKey, TenantId,
};

/// Something that was acknowledged, and therefore must stay.
pub(super) enum Fact {
    Task(TaskKey, Option<Timestamp>),
    Answer(TaskKey, InputKey),
    Cancel(TaskKey),
    Checkpoint(TaskKey, Vec<u8>),
    Step(TaskKey, String, Vec<u8>),
    /// Of a call that became a task because its result has parts.
    Result(TaskKey, String),
}

#[derive(Default)]
pub(super) struct Model {
    tasks: BTreeMap<TaskKey, Known>,
    /// The last commit whose records were compared with each other.
    checked: u64,
}

/// What is known of a task.
#[derive(Default)]
struct Known {
    is_acknowledged: bool,
    is_cancelled: bool,
    is_gone: bool,
    expires_at: Option<Timestamp>,
    answered: BTreeSet<InputKey>,
    steps: BTreeMap<String, Vec<u8>>,
    checkpoint: Option<Vec<u8>>,
    /// As the store had it last.
    newest: Option<Task>,
    questions: BTreeMap<InputKey, InputRequest>,
    answers: BTreeMap<InputKey, Answer>,
    end: Option<(Task, Option<CallResult>)>,
    /// What a call's client was told of its end.
    told: Option<String>,
}

impl Model {
    pub(super) fn learn(&mut self, facts: Vec<Fact>) {
        for fact in facts {
            match fact {
                Fact::Task(key, expires_at) => {
                    let known = self.known(key);
                    known.is_acknowledged = true;
                    known.expires_at = expires_at;
                }
                Fact::Answer(key, input) => {
                    self.known(key).answered.insert(input);
                }
                Fact::Cancel(key) => self.known(key).is_cancelled = true,
                Fact::Checkpoint(key, state) => {
                    let known = self.known(key);
                    known.checkpoint = known.checkpoint.take().max(Some(state));
                }
                Fact::Step(key, name, value) => {
                    self.known(key).steps.insert(name, value);
                }
                Fact::Result(key, json) => {
                    let known = self.known(key);
                    known.is_acknowledged = true;
                    known.told = Some(json);
                }
            }
        }
    }

    fn known(&mut self, key: TaskKey) -> &mut Known {
        self.tasks.entry(key).or_default()
    }

    pub(super) fn check(
        &mut self,
        medium: &Medium,
        store: &Store,
        now: Timestamp,
    ) -> Result<(), String> {
        for key in medium.tasks() {
            self.known(key);
        }
        let mut unfinished: BTreeMap<&TenantId, usize> = BTreeMap::new();
        for (key, known) in &mut self.tasks {
            let task = store.get(key).map_err(|error| error.to_string())?;
            known
                .check(key, task, store, now)
                .map_err(|problem| format!("task {}: {problem}", key.id))?;
            let count = unfinished.entry(&key.tenant).or_default();
            *count += usize::from(
                known
                    .newest
                    .as_ref()
                    .is_some_and(|task| !task.is_terminal()),
            );
        }
        for (tenant, count) in unfinished {
            ensure(store.unfinished(tenant) == count, || {
                format!(
                    "{} unfinished tasks are counted, {count} are there",
                    store.unfinished(tenant)
                )
            })?;
        }
        if self.checked < medium.commits() {
            let report = medium.check();
            ensure(report.is_sound(), || report.told.join("; "))?;
            self.checked = medium.commits();
        }
        store.check_counts(Ordering::Greater)
    }

    pub(super) fn have_all_ended(&self) -> bool {
        let mut newest = self
            .tasks
            .values()
            .filter_map(|known| known.newest.as_ref());
        newest.all(Task::is_terminal)
    }

    /// The state of everything, in one line.
    pub(super) fn shown(&self) -> String {
        let mut line = String::new();
        for (key, known) in &self.tasks {
            let id = key.id.as_str().trim_start_matches('0');
            let _ = match &known.newest {
                None => write!(line, "[{id} gone]"),
                Some(task) => write!(
                    line,
                    "[{id} {:?} run {} crashes {} inputs {:?} {:?}]",
                    task.phase, task.attempt.0, task.crashes, task.inputs, task.message
                ),
            };
        }
        line
    }
}

impl Known {
    fn check(
        &mut self,
        key: &TaskKey,
        task: Option<Task>,
        store: &Store,
        now: Timestamp,
    ) -> Result<(), String> {
        let Some(task) = task else {
            self.newest = None;
            self.is_gone |= self.is_acknowledged;
            // I1: it is only gone when its time is over.
            let may_be_gone = self.expires_at.is_some_and(|at| at <= now);
            return ensure(!self.is_acknowledged || may_be_gone, || {
                "it is lost".to_owned()
            });
        };
        ensure(!self.is_gone, || "it came back".to_owned())?;
        self.expires_at = task.expires_at;
        self.check_lease(&task)?;
        // I2: no other run's, and none of one that has ended otherwise.
        let kept = store.part(key, 1).map_err(|error| error.to_string())?;
        ensure(
            kept.is_none() || kept == Some(part(task.attempt.0, 1)),
            || format!("run {} has the part {kept:?}", task.attempt.0),
        )?;
        self.check_end(&task, store)?;
        self.check_inputs(key, &task, store)?;
        for (name, value) in &self.steps {
            let recorded = store.step(key, name).map_err(|error| error.to_string())?;
            ensure(recorded.as_ref() == Some(value), || {
                format!("`{name}` was recorded as {value:?} and is {recorded:?}")
            })?;
        }
        let checkpoint = store.checkpoint(key).map_err(|error| error.to_string())?;
        ensure(checkpoint >= self.checkpoint, || {
            format!("a checkpoint went back to {checkpoint:?}")
        })?;
        self.checkpoint = checkpoint;
        ensure(
            !self.is_cancelled || task.cancel.is_some() || task.is_terminal(),
            || "its cancel is lost".to_owned(),
        )?;
        self.newest = Some(task);
        Ok(())
    }

    /// I2: attempts only grow, and only a claim gives the next.
    fn check_lease(&self, task: &Task) -> Result<(), String> {
        let before = self
            .newest
            .as_ref()
            .map_or(Attempt(0), |newest| newest.attempt);
        ensure(task.attempt >= before, || {
            format!("run {} after run {}", task.attempt.0, before.0)
        })
    }

    /// I3: an end stays as it was.
    fn check_end(&mut self, task: &Task, store: &Store) -> Result<(), String> {
        if !task.is_terminal() {
            return ensure(self.end.is_none(), || "it ended and goes on".to_owned());
        }
        let result = store.result(&task.key).map_err(|error| error.to_string())?;
        let is_completed = task.phase == Phase::Ended(Ending::Completed);
        ensure(result.is_some() == is_completed, || {
            format!("it ended {:?} with the result {result:?}", task.phase)
        })?;
        match &result {
            Some(result) => check_result(task, result, self.told.as_deref(), store)?,
            None => check_parts(task, 0, store)?,
        }
        let end = (task.clone(), result);
        match &self.end {
            Some(earlier) => ensure(*earlier == end, || {
                format!("its end changed from {earlier:?} to {end:?}")
            }),
            None => {
                self.end = Some(end);
                Ok(())
            }
        }
    }

    /// I7: a key is asked once, and its first answer stays.
    fn check_inputs(&mut self, key: &TaskKey, task: &Task, store: &Store) -> Result<(), String> {
        let inputs = store.inputs(key).map_err(|error| error.to_string())?;
        ensure(inputs.len() == task.inputs.len(), || {
            format!(
                "{} questions are known and {} stored",
                task.inputs.len(),
                inputs.len()
            )
        })?;
        for input in inputs {
            let name = input.request.key.clone();
            let asked = self.questions.entry(name.clone());
            let asked = asked.or_insert_with(|| input.request.clone());
            ensure(*asked == input.request, || {
                format!("`{name}` was asked anew")
            })?;
            if let Some(answer) = input.answer {
                let first = self
                    .answers
                    .entry(name.clone())
                    .or_insert_with(|| answer.clone());
                ensure(*first == answer, || {
                    format!("`{name}` was answered anew: {answer:?}")
                })?;
            }
        }
        let lost = self
            .answered
            .iter()
            .find(|input| !self.answers.contains_key(*input));
        ensure(lost.is_none(), || format!("the answer to {lost:?} is lost"))
    }
}

/// I2: the end is of the newest run, and so are the parts it names, all of them and no others.
fn check_result(
    task: &Task,
    result: &CallResult,
    told: Option<&str>,
    store: &Store,
) -> Result<(), String> {
    ensure(told.is_none_or(|told| told == result.json), || {
        format!("its client was told {told:?}")
    })?;
    let shown: Value = serde_json::from_str(&result.json).map_err(|error| error.to_string())?;
    let run = task.attempt.0;
    ensure(shown["run"] == run, || {
        format!("{shown} is the end of run {run}")
    })?;
    check_parts(task, shown["parts"].as_u64().unwrap_or_default(), store)
}

fn check_parts(task: &Task, count: u64, store: &Store) -> Result<(), String> {
    for number in 1.. {
        let found = store.part(&task.key, number);
        let found = found.map_err(|error| error.to_string())?;
        let due = (u64::from(number) <= count).then(|| part(task.attempt.0, number));
        ensure(found == due, || {
            format!("part {number} of {count} is {found:?}")
        })?;
        if due.is_none() {
            break;
        }
    }
    Ok(())
}

fn ensure(holds: bool, problem: impl FnOnce() -> String) -> Result<(), String> {
    match holds {
        true => Ok(()),
        false => Err(problem()),
    }
}
