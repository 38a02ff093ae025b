//! What becomes a task: a checked `tools/call` and what its tool declared.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Listener, Operation};
use crate::clock::Timestamp;
use crate::store::{NewTask, StoredInput};
use crate::task::{
    Abilities, Attempt, Input, Phase, Policy, Task, TaskKey, TenantId, ToolRef, Trace,
};

/// A call that may become a task.
#[derive(Clone, Debug)]
pub struct Submission {
    pub tenant: TenantId,
    pub tool: ToolRef,
    /// JSON text that fits the tool's input schema.
    pub arguments: String,
    pub policy: Policy,
    pub abilities: Abilities,
    /// Time to live of the task from its creation.
    pub ttl: Option<Duration>,
    /// The caller's trace.
    pub trace: Option<Trace>,
    pub operation: Operation,
    /// Who hears what the call says, as long as it is no task.
    pub listener: Option<Listener>,
}

impl Submission {
    /// The task at its birth: queued, or running its first run.
    pub(super) fn task(&self, key: TaskKey, runs: bool, now: Timestamp) -> Task {
        Task {
            key,
            tool: self.tool.clone(),
            policy: self.policy.clone(),
            abilities: self.abilities,
            created_at: now,
            updated_at: now,
            expires_at: self.ttl.map(|ttl| now.plus(ttl)),
            phase: if runs {
                Phase::Running
            } else {
                Phase::Queued { ready_at: now }
            },
            attempt: Attempt(u32::from(runs)),
            crashes: 0,
            crashes_in_all: 0,
            interrupted: None,
            steps: 0,
            message: None,
            done: None,
            total: None,
            cancel: None,
            inputs: BTreeMap::new(),
            external_reference: None,
            result_is_error: false,
            trace: self.trace.clone(),
        }
    }

    /// The task with nothing but its arguments.
    pub(super) fn born(&self, task: Task) -> NewTask {
        NewTask {
            task,
            arguments: self.arguments.clone(),
            checkpoint: None,
            steps: Vec::new(),
            inputs: Vec::new(),
        }
    }

    /// The task with what its call did before it became one.
    pub(super) fn born_late(
        &self,
        mut task: Task,
        saved: &super::Saved,
        asked: Vec<StoredInput>,
    ) -> NewTask {
        for input in &asked {
            let answered = input.answer.is_some();
            task.inputs.insert(
                input.request.key.clone(),
                Input {
                    asked_by: task.attempt,
                    answered,
                },
            );
        }
        task.steps = u32::try_from(saved.steps.len()).unwrap_or(u32::MAX);
        NewTask {
            checkpoint: saved.checkpoint.clone(),
            steps: saved.steps.clone().into_iter().collect(),
            inputs: asked,
            ..self.born(task)
        }
    }
}
