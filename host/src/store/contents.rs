//! What new tasks and events carry: the bodies that are kept beside a task's record, and what one
//! does while the disk is full. It must not write them.

use std::mem;

use super::codec;
use super::keys::Slot;
use super::room::WhenFull;
use super::{NewTask, StoredInput};
use crate::task::{Event, Interruption, Task};

/// What an event does while the disk is full. One that a run waits for goes on when there is room
/// again; a client is better told at once, and so is whoever starts a host.
pub(super) fn when_full(event: &Event) -> WhenFull {
    match event {
        Event::Answered { .. }
        | Event::CancelRequested { .. }
        | Event::Interrupted {
            cause: Interruption::Crash,
            ..
        }
        // Whoever saves it watches over the run, and can't wait; it is saved again soon.
        | Event::Progressed { .. } => WhenFull::Refuse,
        Event::Claimed
        | Event::Checkpointed { .. }
        | Event::StepRecorded { .. }
        | Event::Referenced { .. }
        | Event::Asked { .. }
        | Event::Parked { .. }
        | Event::Returned { .. }
        | Event::Failed { .. }
        | Event::Cancelled { .. }
        | Event::Interrupted {
            cause: Interruption::Shutdown,
            ..
        } => WhenFull::Wait,
    }
}

pub(super) fn take_apart(new: NewTask) -> (Task, Vec<(Slot, Vec<u8>)>) {
    let mut contents = vec![(Slot::Arguments, new.arguments.into_bytes())];
    contents.extend(new.checkpoint.map(|state| (Slot::Checkpoint, state)));
    let steps = new.steps.into_iter();
    contents.extend(steps.map(|(name, value)| (Slot::Step(name), value)));
    for StoredInput { request, answer } in new.inputs {
        let bytes = codec::encode_ask(&request.ask);
        contents.push((Slot::Question(request.key.clone()), bytes));
        let answer = answer.map(|answer| codec::encode_answer(&answer));
        contents.extend(answer.map(|bytes| (Slot::Answer(request.key), bytes)));
    }
    (new.task, contents)
}

/// Takes out of an event what is kept beside the task's record; the state machine looks at none of
/// it. A checkpoint without state is a place to stop and leaves the saved state as it is.
pub(super) fn take_contents(event: &mut Event) -> Vec<(Slot, Vec<u8>)> {
    match event {
        Event::Checkpointed { state, .. } => {
            let state = state.take();
            state
                .map(|state| (Slot::Checkpoint, state))
                .into_iter()
                .collect()
        }
        Event::StepRecorded { name, value, .. } => {
            vec![(Slot::Step(name.clone()), mem::take(value))]
        }
        Event::Asked { requests, .. } => requests
            .iter()
            .map(|request| {
                let bytes = codec::encode_ask(&request.ask);
                (Slot::Question(request.key.clone()), bytes)
            })
            .collect(),
        Event::Answered { answers } => answers
            .iter()
            .map(|(key, answer)| (Slot::Answer(key.clone()), codec::encode_answer(answer)))
            .collect(),
        Event::Returned { result, .. } => vec![(Slot::Result, codec::encode_result(result))],
        Event::Claimed
        | Event::Progressed { .. }
        | Event::Referenced { .. }
        | Event::Parked { .. }
        | Event::CancelRequested { .. }
        | Event::Failed { .. }
        | Event::Cancelled { .. }
        | Event::Interrupted { .. } => Vec::new(),
    }
}
