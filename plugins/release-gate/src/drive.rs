//! Carries a plan out: does what the journal says comes next, and saves it before and after every
//! effect. How a request is sent is its caller's business.

use longshore_plugin::prelude::*;

use crate::journal::{Action, Journal, SENDS_MAX, State};
use crate::plan::Plan;
use crate::report::{self, Report};
use crate::request::Request;
use crate::text::one_line;

/// Of an answer that is kept, bytes.
const NOTE_MAX_BYTES: usize = 300;

/// What came of sending a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    Answered {
        status: u16,
        body: String,
    },
    /// It certainly did not reach the other side.
    NotSent(String),
    /// It may have reached the other side.
    Lost(String),
}

/// The form of every question.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
struct Approval {
    /// Yes, send this request.
    confirm: bool,
}

/// A plan being carried out.
struct Drive<'a, S> {
    ctx: &'a Context,
    plan: &'a Plan,
    journal: Journal,
    cancelling: bool,
    send: S,
}

/// Carries `plan` out from where an earlier run left off.
pub fn drive(ctx: &Context, plan: &Plan, send: impl FnMut(&Request) -> Sent) -> Result<Report> {
    if plan.has_effects() && !ctx.can_ask() {
        // Found out after the first steps, it would leave the list half done.
        return Err(Error::MissingCapability("elicitation".to_owned()));
    }
    let journal = match ctx.saved_state::<Journal>()? {
        Some(journal) if journal.records.len() == plan.steps.len() => journal,
        Some(_) => fail!("the saved state is of another list of steps; start a new task"),
        None => Journal::new(plan),
    };
    ctx.external_reference(&plan.reference, plan.reference_url.as_deref());
    let mut drive = Drive {
        ctx,
        plan,
        journal,
        cancelling: false,
        send,
    };
    drive.save()?;
    drive.run()?;
    let report = Report::new(plan, &drive.journal, drive.cancelling);
    if drive.cancelling {
        return Err(Error::cancelled(report.text()));
    }
    Ok(report)
}

impl<S: FnMut(&Request) -> Sent> Drive<'_, S> {
    fn run(&mut self) -> Result<()> {
        loop {
            match self.journal.next(self.plan, self.cancelling) {
                Action::Ask(index) => self.ask(index)?,
                Action::Send(index) => self.send(index)?,
                Action::GiveUp(index) => self.give_up(index)?,
                Action::AskUndo => self.ask_undo()?,
                Action::Undo(index) => self.undo(index)?,
                Action::Finish => {
                    self.tell("");
                    return Ok(());
                }
            }
        }
    }

    fn ask(&mut self, index: usize) -> Result<()> {
        self.progress("waits for a yes to", index);
        let key = self.plan.question_key(index);
        let question = report::question(self.plan, index);
        let note = match self.ctx.ask::<Approval>(&key, question) {
            Ok(Response::Accept(Approval { confirm: true })) => return self.send(index),
            Ok(Response::Accept(_) | Response::Decline) => "declined",
            Ok(Response::Dismiss) => "the question was closed without an answer",
            Err(error) => return self.meet(error),
        };
        let record = &mut self.journal.records[index];
        record.state = State::Declined;
        record.note = Some(note.to_owned());
        self.save()
    }

    fn send(&mut self, index: usize) -> Result<()> {
        let step = &self.plan.steps[index];
        self.journal.records[index].begin();
        self.save()?;
        if self.cancelling {
            self.journal.records[index].withdraw();
            return self.save();
        }
        self.progress("sends", index);
        let sent = (self.send)(&step.request);
        let record = &mut self.journal.records[index];
        (record.state, record.status, record.note) = match sent {
            Sent::Answered { status, body } => {
                let state = if step.expects(status) {
                    State::Done
                } else {
                    State::Failed
                };
                let body = one_line(&body, NOTE_MAX_BYTES);
                (state, Some(status), (!body.is_empty()).then_some(body))
            }
            Sent::NotSent(cause) => (State::Failed, None, Some(one_line(&cause, NOTE_MAX_BYTES))),
            Sent::Lost(cause) => {
                let state = if step.has_effect() {
                    State::Unknown
                } else {
                    State::Failed
                };
                (state, None, Some(one_line(&cause, NOTE_MAX_BYTES)))
            }
        };
        self.save()
    }

    fn give_up(&mut self, index: usize) -> Result<()> {
        let record = &mut self.journal.records[index];
        record.state = State::Unknown;
        record.note = Some(format!(
            "sent {} times, and every run ended before it had the answer; look it up by its key",
            record.sends
        ));
        self.save()
    }

    fn ask_undo(&mut self) -> Result<()> {
        let questions = self.journal.undo_questions(self.plan);
        let ask = |&index: &usize| {
            let message = report::undo_question(self.plan, &self.journal, index);
            InputRequest::form::<Approval>(self.plan.undo_key(index), message)
        };
        let answers = self
            .ctx
            .ask_all(questions.iter().map(ask).collect::<Vec<_>>());
        let answers = match answers {
            Ok(answers) => answers,
            Err(error) => return self.meet(error),
        };
        for index in questions {
            let answer = answers.form::<Approval>(&self.plan.undo_key(index))?;
            let wanted = answer.accepted().is_some_and(|approval| approval.confirm);
            self.journal.records[index].undo_wanted = Some(wanted);
        }
        self.save()
    }

    fn undo(&mut self, index: usize) -> Result<()> {
        let Some(request) = &self.plan.steps[index].undo else {
            return Ok(());
        };
        let record = &mut self.journal.records[index];
        if record.undo_sends >= SENDS_MAX {
            record.state = State::UndoFailed;
            record.undo_note = Some("every run ended before it had the answer".to_owned());
            return self.save();
        }
        record.begin_undo();
        self.save()?;
        self.progress("undoes", index);
        let sent = (self.send)(request);
        let record = &mut self.journal.records[index];
        (record.state, record.undo_status, record.undo_note) = match sent {
            Sent::Answered { status, body } => {
                let state = if undone(request, status) {
                    State::Undone
                } else {
                    State::UndoFailed
                };
                let body = one_line(&body, NOTE_MAX_BYTES);
                (state, Some(status), (!body.is_empty()).then_some(body))
            }
            Sent::NotSent(cause) | Sent::Lost(cause) => {
                let note = one_line(&cause, NOTE_MAX_BYTES);
                (State::UndoFailed, None, Some(note))
            }
        };
        self.save()
    }

    /// Makes the journal durable. That the task is being cancelled is no error here: what comes
    /// next is then another thing.
    fn save(&mut self) -> Result<()> {
        match self.ctx.checkpoint(&self.journal) {
            Ok(()) => Ok(()),
            Err(error) => self.meet(error),
        }
    }

    fn meet(&mut self, error: Error) -> Result<()> {
        if error.is_stopped() {
            self.cancelling = true;
            return Ok(());
        }
        Err(error)
    }

    fn progress(&self, doing: &str, index: usize) {
        self.tell(&format!(", {doing} {}", self.plan.steps[index].name));
    }

    fn tell(&self, doing: &str) {
        let done = self.journal.records.iter();
        let done = done.filter(|record| record.state == State::Done).count();
        let total = self.plan.steps.len();
        self.ctx.progress_of(
            done as u64,
            total as u64,
            format!("{done}/{total} done{doing}"),
        );
    }
}

/// A DELETE of what is not there has nothing left to do.
fn undone(request: &Request, status: u16) -> bool {
    let gone = request.method == crate::arguments::Method::Delete && matches!(status, 404 | 410);
    (200..=299).contains(&status) || gone
}
