//! What happened to each step, and what comes next. Pure: the driver does what [`next`] says and
//! tells the journal; every change is saved before and after an effect, so that a later run reads
//! here exactly how far an earlier one came.
//!
//! ```text
//!            yes            expected status
//!   NotRun ───────▶ Sending ───────────────▶ Done ──▶ Undoing ──▶ Undone | UndoFailed
//!     │ no             │ other status: Failed
//!     ▼                │ no answer: Unknown ────────▶ Undoing
//!   Declined           └ crash: stays Sending; the next run sends it again under the same key
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arguments::AfterCrash;
use crate::plan::{Plan, Step};

/// How often one request goes out when every run dies before its outcome is recorded.
pub const SENDS_MAX: u32 = 5;

/// What became of every step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    /// As many as the plan has steps, in their order.
    pub records: Vec<Record>,
}

/// What became of one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub state: State,
    /// How often the request went out, counted before it does.
    pub sends: u32,
    /// Of the newest answer to the step itself.
    pub status: Option<u16>,
    /// The beginning of that answer's body, or why there is none.
    pub note: Option<String>,
    /// What a person decided after a failure; None: not asked.
    pub undo_wanted: Option<bool>,
    pub undo_sends: u32,
    pub undo_status: Option<u16>,
    pub undo_note: Option<String>,
}

/// How a step stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nothing was sent.
    #[default]
    NotRun,
    /// It is about to be sent or was; the outcome is not recorded.
    Sending,
    /// It was sent and answered as expected.
    Done,
    /// It was answered otherwise, or could not be sent at all.
    Failed,
    /// It was sent and nobody knows what came of it.
    Unknown,
    /// A person said no; nothing was sent.
    Declined,
    /// Its undo is about to be sent or was.
    Undoing,
    /// It was done and taken back.
    Undone,
    /// It was done, and taking it back failed.
    UndoFailed,
}

/// What the driver does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask whether this step may be sent.
    Ask(usize),
    /// Send it; it needs no confirmation or has one.
    Send(usize),
    /// It cannot be known what became of it, and it may not be sent again.
    GiveUp(usize),
    /// Ask which of the steps that were done are taken back.
    AskUndo,
    Undo(usize),
    Finish,
}

impl Journal {
    pub fn new(plan: &Plan) -> Journal {
        Journal {
            records: vec![Record::default(); plan.steps.len()],
        }
    }

    /// What to do now. `cancelling`: the task is being cancelled, so nothing more is done and what
    /// was done is taken back.
    pub fn next(&self, plan: &Plan, cancelling: bool) -> Action {
        if cancelling {
            return self.next_undo(plan, |record| record.undo_wanted != Some(false));
        }
        for (index, (step, record)) in plan.steps.iter().zip(&self.records).enumerate() {
            match record.state {
                State::Done => {}
                State::NotRun if step.has_effect() => return Action::Ask(index),
                State::NotRun => return Action::Send(index),
                State::Sending if may_resend(step, record) => return Action::Send(index),
                State::Sending => return Action::GiveUp(index),
                State::Declined => return Action::Finish,
                State::Failed
                | State::Unknown
                | State::Undoing
                | State::Undone
                | State::UndoFailed => return self.after_failure(plan),
            }
        }
        Action::Finish
    }

    /// Steps that can be taken back and about which nobody was asked, newest first.
    pub fn undo_questions(&self, plan: &Plan) -> Vec<usize> {
        (0..self.records.len())
            .rev()
            .filter(|&index| {
                let record = &self.records[index];
                plan.steps[index].undo.is_some()
                    && matches!(record.state, State::Done | State::Unknown)
                    && record.undo_wanted.is_none()
            })
            .collect()
    }

    fn after_failure(&self, plan: &Plan) -> Action {
        match self.next_undo(plan, |record| record.undo_wanted == Some(true)) {
            Action::Finish if !self.undo_questions(plan).is_empty() => Action::AskUndo,
            action => action,
        }
    }

    /// Newest first: a later step may rest on an earlier one.
    fn next_undo(&self, plan: &Plan, wanted: impl Fn(&Record) -> bool) -> Action {
        for (index, record) in self.records.iter().enumerate().rev() {
            let open = match record.state {
                State::Done | State::Sending | State::Unknown => wanted(record),
                // An undo is harmless when repeated: that is asked of it in the arguments.
                State::Undoing => true,
                _ => false,
            };
            if open && plan.steps[index].undo.is_some() {
                return Action::Undo(index);
            }
        }
        Action::Finish
    }
}

impl Record {
    /// Before the request goes out.
    pub fn begin(&mut self) {
        self.state = State::Sending;
        self.sends += 1;
    }

    /// The request of [`begin`](Self::begin) did not go out after all.
    pub fn withdraw(&mut self) {
        self.sends -= 1;
        self.state = if self.sends == 0 {
            State::NotRun
        } else {
            State::Sending
        };
    }

    /// Before the undo goes out.
    pub fn begin_undo(&mut self) {
        self.state = State::Undoing;
        self.undo_sends += 1;
    }
}

fn may_resend(step: &Step, record: &Record) -> bool {
    let allowed = step.after_crash == AfterCrash::Resend || !step.has_effect();
    allowed && record.sends < SENDS_MAX
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::tests::plan;

    /// Three steps: `a` and `c` can be undone, `b` only reads.
    fn three() -> Plan {
        let undo = json!({ "method": "DELETE", "url": "http://h/a" });
        plan(json!([
            { "name": "a", "description": "a", "method": "POST", "url": "http://h/a", "undo": undo },
            { "name": "b", "description": "b", "method": "GET", "url": "http://h/b" },
            { "name": "c", "description": "c", "method": "POST", "url": "http://h/c", "undo": undo,
              "after_crash": "stop" },
        ]))
        .unwrap()
    }

    fn journal(states: [State; 3]) -> Journal {
        let record = |state| Record {
            state,
            sends: 1,
            ..Record::default()
        };
        Journal {
            records: states.map(record).to_vec(),
        }
    }

    #[test]
    fn steps_come_one_after_another() {
        use State::*;
        let table = [
            ([NotRun, NotRun, NotRun], Action::Ask(0)),
            ([Done, NotRun, NotRun], Action::Send(1)),
            ([Done, Done, NotRun], Action::Ask(2)),
            ([Done, Done, Done], Action::Finish),
            ([Declined, NotRun, NotRun], Action::Finish),
            ([Done, Done, Declined], Action::Finish),
            // A run died while it sent.
            ([Sending, NotRun, NotRun], Action::Send(0)),
            ([Done, Sending, NotRun], Action::Send(1)),
            ([Done, Done, Sending], Action::GiveUp(2)),
            // Something failed: only then is anybody asked about taking back.
            ([Failed, NotRun, NotRun], Action::Finish),
            ([Unknown, NotRun, NotRun], Action::AskUndo),
            ([Done, Failed, NotRun], Action::AskUndo),
            ([Done, Done, Failed], Action::AskUndo),
            ([Undone, Failed, NotRun], Action::Finish),
            ([UndoFailed, Failed, NotRun], Action::Finish),
            ([Undoing, Failed, NotRun], Action::Undo(0)),
        ];
        for (states, action) in table {
            assert_eq!(journal(states).next(&three(), false), action, "{states:?}");
        }
    }

    #[test]
    fn a_cancel_takes_back_what_was_done_newest_first() {
        use State::*;
        let table = [
            ([NotRun, NotRun, NotRun], Action::Finish),
            ([Done, NotRun, NotRun], Action::Undo(0)),
            ([Done, Done, Done], Action::Undo(2)),
            ([Done, Done, Undone], Action::Undo(0)),
            ([Done, Done, UndoFailed], Action::Undo(0)),
            ([Undone, Done, Undone], Action::Finish),
            ([Sending, NotRun, NotRun], Action::Undo(0)),
            ([Done, Done, Unknown], Action::Undo(2)),
            ([Done, Done, Failed], Action::Undo(0)),
            ([Undoing, Done, Undone], Action::Undo(0)),
            ([Declined, NotRun, NotRun], Action::Finish),
        ];
        for (states, action) in table {
            assert_eq!(journal(states).next(&three(), true), action, "{states:?}");
        }
    }

    #[test]
    fn only_what_a_person_wants_is_taken_back_after_a_failure() {
        let mut journal = journal([State::Done, State::Done, State::Unknown]);
        assert_eq!(journal.undo_questions(&three()), [2, 0]);
        journal.records[2].undo_wanted = Some(false);
        journal.records[0].undo_wanted = Some(true);
        assert_eq!(journal.next(&three(), false), Action::Undo(0));
        journal.records[0].state = State::Undone;
        assert_eq!(journal.next(&three(), false), Action::Finish);
        // A later cancel does not overrule the person.
        assert_eq!(journal.next(&three(), true), Action::Finish);
    }

    #[test]
    fn a_request_that_kills_every_run_is_given_up() {
        let mut journal = journal([State::Sending, State::NotRun, State::NotRun]);
        journal.records[0].sends = SENDS_MAX;
        assert_eq!(journal.next(&three(), false), Action::GiveUp(0));
    }

    #[test]
    fn a_withdrawn_request_was_never_sent() {
        let mut record = Record::default();
        record.begin();
        record.withdraw();
        assert_eq!(record, Record::default());
        record.begin();
        record.begin();
        record.withdraw();
        assert_eq!((record.state, record.sends), (State::Sending, 1));
    }
}
