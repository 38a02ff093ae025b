//! Follows a task to its end at the terminal: progress, questions, Ctrl-C. The task is the host's;
//! whatever happens here, it can be followed again by its id.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::ask::{self, Asked};
use super::client::{Client, Listening};
use super::exit::{Exit, Failure};
use super::print::note;
use super::progress::Display;
use super::questions::{self, Question};
use super::stop::Interrupts;
use super::wire::{ClientError, Progress, TaskState, TaskStatus};
use super::{answers, asked, render, text};
use crate::task::TaskId;
use crate::wasm::asks_for_access;

/// Polling keeps to what the host wishes, within these bounds.
const POLL_MIN: Duration = Duration::from_millis(250);
const POLL_MAX: Duration = Duration::from_secs(30);
const POLL_DEFAULT: Duration = Duration::from_secs(2);
/// A host that restarts is waited for: the task outlives it.
const RECONNECT_FOR: Duration = Duration::from_secs(60);
const RECONNECT_EVERY: Duration = Duration::from_millis(500);
/// Questions answered of one task, many more than our host lets a tool ask, and what their keys take.
const ANSWERED_MAX: usize = 1_000;
const ANSWERED_MAX_BYTES: usize = 1 << 20;

/// How a person wants a task followed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Confirm without asking.
    pub yes: bool,
    pub json: bool,
}

impl Manner {
    /// What else can be done where the `open` questions have no answer.
    pub fn or_confirm(self, open: &[Question]) -> &'static str {
        match open.iter().any(|question| asks_for_access(&question.key)) {
            _ if self.yes => "",
            // Its default is no (I5).
            true => "; --yes allows no access",
            false => ", or confirm everything with --yes",
        }
    }
}

/// Sees a task's changes: by subscription, or by polling where there is none.
struct Watch<'a> {
    client: &'a Client,
    id: &'a str,
    stream: Option<Listening>,
    poll: Duration,
    is_open: bool,
    is_fresh: bool,
}

impl<'a> Watch<'a> {
    fn new(client: &'a Client, id: &'a str) -> Watch<'a> {
        Watch {
            client,
            id,
            stream: None,
            poll: POLL_DEFAULT,
            is_open: false,
            is_fresh: true,
        }
    }

    /// The task now, and then after each change. Safe to cancel.
    async fn next(&mut self, display: &mut Display) -> Result<TaskState, ClientError> {
        if !self.is_open {
            // Subscribing comes before the first read, so that no change falls between them.
            self.stream = self.client.listen(self.id).await.ok().flatten();
            self.is_open = true;
        }
        if !self.is_fresh {
            match &mut self.stream {
                Some(stream) => match stream.changed().await {
                    Ok(Some(state)) => return Ok(state),
                    Ok(None) | Err(_) => self.stream = None,
                },
                None => tokio::time::sleep(self.poll).await,
            }
        }
        let state = self.read(display).await?;
        let wished = state.poll_interval_ms.map(Duration::from_millis);
        self.poll = wished.unwrap_or(POLL_DEFAULT).clamp(POLL_MIN, POLL_MAX);
        self.is_fresh = false;
        Ok(state)
    }

    /// Reads the task; waits for a host that is away for a moment, and says so.
    async fn read(&mut self, display: &mut Display) -> Result<TaskState, ClientError> {
        let deadline = Instant::now() + RECONNECT_FOR;
        loop {
            match self.client.task(self.id).await {
                Err(ClientError::Unreachable { .. }) if Instant::now() < deadline => {
                    display.show(&Progress {
                        message: Some("the host can't be reached; trying again".to_owned()),
                        ..Progress::default()
                    });
                    tokio::time::sleep(RECONNECT_EVERY).await;
                }
                result => return result,
            }
        }
    }
}

/// Follows the task until it ends, and prints how it did.
pub async fn follow(
    client: &Client,
    id: &str,
    manner: Manner,
    interrupts: &mut Interrupts,
) -> Result<Exit, Failure> {
    let mut display = Display::start("waiting for the task");
    let mut watch = Watch::new(client, id);
    let mut answered = Answered::default();
    loop {
        let Some(state) = interrupts.or(watch.next(&mut display)).await else {
            display.hide();
            match on_interrupt(client, id, interrupts).await? {
                Some(exit) => return Ok(exit),
                None => display.unhide(),
            }
            continue;
        };
        let state = state.map_err(|error| lost(error, client, id))?;
        if state.is_terminal() {
            display.finish();
            return Ok(report(&state, manner));
        }
        display.show(&state.progress());
        if state.status != TaskStatus::InputRequired {
            continue;
        }
        let open: Vec<Question> = questions::questions(&state.input_requests)
            .into_iter()
            .filter(|question| !answered.keys.contains(&question.key))
            .collect();
        if open.is_empty() {
            continue;
        }
        display.hide();
        let collected = collect(&open, manner, interrupts).await;
        match collected.map_err(|why| cannot_answer(&why, client, id, &open, manner))? {
            Some(responses) => match interrupts
                .or(send(client, id, responses))
                .await
                .transpose()?
            {
                Some(true) => answered.add(open)?,
                Some(false) => watch.is_fresh = true,
                None => {
                    detached(client, id);
                    return Ok(Exit::Interrupted);
                }
            },
            None => {
                if let Some(exit) = on_interrupt(client, id, interrupts).await? {
                    return Ok(exit);
                }
                watch.is_fresh = true;
            }
        }
        display.unhide();
    }
}

/// The keys of a task's questions that were answered here: none is answered twice.
#[derive(Default)]
struct Answered {
    keys: BTreeSet<String>,
    bytes: usize,
}

impl Answered {
    fn add(&mut self, questions: Vec<Question>) -> Result<(), Failure> {
        for Question { key, .. } in questions {
            self.bytes += key.len();
            self.keys.insert(key);
        }
        match self.keys.len() > ANSWERED_MAX || self.bytes > ANSWERED_MAX_BYTES {
            true => Err(Failure::failed(format!(
                "the task has asked more than {ANSWERED_MAX} questions; given up"
            ))),
            false => Ok(()),
        }
    }
}

/// Answers to all of `questions`; None when the person interrupts. The error says why there are none.
pub async fn collect(
    questions: &[Question],
    manner: Manner,
    interrupts: &mut Interrupts,
) -> Result<Option<Map<String, Value>>, String> {
    let mut responses = Map::new();
    for question in questions {
        let answer = if manner.yes {
            let answer = answers::yes(question)?;
            tell(question, &answer);
            answer
        } else if ask::is_interactive() {
            let asked = ask::ask(question.clone(), interrupts).await;
            match asked.map_err(|error| format!("the terminal can't be used: {error}"))? {
                Asked::Answered(answer) => answer,
                Asked::Interrupted => return Ok(None),
            }
        } else {
            return Err("there is no terminal to ask on".to_owned());
        };
        responses.insert(question.key.clone(), answer);
    }
    Ok(Some(responses))
}

/// Says what was answered for a person, to a question that may have allowed an effect.
fn tell(question: &Question, answer: &Value) {
    let message = text::plain_lines(&question.message, 400, "  ");
    note!("{} {}", text::yellow("?"), text::bold(&message));
    let content = answer.get("content").map(Value::to_string);
    let content = text::plain_line(content.as_deref().unwrap_or_default(), 400);
    note!("  {}", text::dim(&format!("answered by --yes: {content}")));
}

/// Sends answers; false when the host refused them, so that they are asked again.
async fn send(client: &Client, id: &str, responses: Map<String, Value>) -> Result<bool, Failure> {
    match client.answer(id, responses).await {
        Ok(()) => Ok(true),
        Err(ClientError::Rpc(failure)) if ask::is_interactive() => {
            let message = text::plain_line(&failure.message, 400);
            note!("{} {message}", text::yellow("not taken:"));
            Ok(false)
        }
        Err(error) => Err(lost(error, client, id)),
    }
}

/// Asks whether to leave the task or stop it; None to go on.
async fn on_interrupt(
    client: &Client,
    id: &str,
    interrupts: &mut Interrupts,
) -> Result<Option<Exit>, Failure> {
    const CHOICES: &[&str] = &[
        "Go on waiting",
        "Detach: the task goes on without you",
        "Cancel the task",
    ];
    let chosen = match ask::is_interactive() {
        true => ask::choose("The task is still running", CHOICES, interrupts).await,
        false => Ok(None),
    };
    match chosen {
        Ok(Some(0)) => Ok(None),
        Ok(Some(2)) => {
            let Some(cancelled) = interrupts.or(client.cancel(id)).await else {
                detached(client, id);
                return Ok(Some(Exit::Interrupted));
            };
            cancelled?;
            note!("{}", text::dim("asked the task to stop; waiting for it"));
            Ok(None)
        }
        Ok(Some(_)) => {
            detached(client, id);
            Ok(Some(Exit::Done))
        }
        // Interrupted again, or nobody there: leave, and lose nothing.
        Ok(None) | Err(_) => {
            detached(client, id);
            Ok(Some(Exit::Interrupted))
        }
    }
}

/// Says how to come back to a task.
fn detached(client: &Client, id: &str) {
    note!("the task goes on: {}", text::name(id));
    let Some(id) = pasteable(id) else {
        return;
    };
    let flags = client.flags();
    let watch = format!("  longshore task watch {id}{flags}     to follow it");
    let cancel = format!("  longshore task cancel {id}{flags}    to stop it");
    note!("{}\n{}", text::dim(&watch), text::dim(&cancel));
}

/// An id that may stand in a command for a person to paste: a host may send anything as one.
fn pasteable(id: &str) -> Option<&str> {
    let is_ours = TaskId::parse(id).is_ok() && !id.starts_with('-');
    is_ours.then_some(id)
}

/// Prints the end of a task.
fn report(state: &TaskState, manner: Manner) -> Exit {
    if let Some(reference) = state.reference() {
        let reference = render::reference(&reference);
        note!("{}", text::dim(&format!("outside: {reference}")));
    }
    match (state.status, &state.result) {
        (TaskStatus::Completed, Some(result)) => {
            render::result(result, manner.json);
            result_exit(result)
        }
        (TaskStatus::Cancelled, _) => {
            if manner.json {
                render::json(&state.raw);
            }
            let message = state.status_message.as_deref().unwrap_or_default();
            let message = text::plain_lines(message, 2_000, "  ");
            note!("{}", text::yellow(&cancelled_line(&message)));
            Exit::Cancelled
        }
        _ => {
            if manner.json {
                render::json(&state.raw);
            }
            let message = match &state.error {
                Some(error) => error.message.as_str(),
                None => state.status_message.as_deref().unwrap_or("no reason given"),
            };
            let message = text::plain_lines(message, 2_000, "  ");
            note!("{} {message}", text::red("failed:"));
            Exit::Failed
        }
    }
}

/// A cancelled task's message, which may say by itself that it is one.
fn cancelled_line(message: &str) -> String {
    match message {
        "" => "cancelled".to_owned(),
        told if told.starts_with("cancelled") => told.to_owned(),
        words => format!("cancelled: {words}"),
    }
}

/// The exit code of a result.
pub fn result_exit(result: &Value) -> Exit {
    match render::is_error(result) {
        true => Exit::Failed,
        false => Exit::Done,
    }
}

fn lost(error: ClientError, client: &Client, id: &str) -> Failure {
    let is_away = matches!(error, ClientError::Unreachable { .. });
    let mut failure = Failure::from(error);
    if is_away && let Some(id) = pasteable(id) {
        let flags = client.flags();
        failure.message +=
            &format!("\nthe task is kept; follow it later: longshore task watch {id}{flags}");
    }
    failure
}

fn cannot_answer(
    why: &str,
    client: &Client,
    id: &str,
    open: &[Question],
    manner: Manner,
) -> Failure {
    let flags = client.flags();
    let remedy = match pasteable(id) {
        Some(id) => format!("answer with `longshore task answer {id} KEY=VALUE{flags}`"),
        None => "answer by its id".to_owned(),
    };
    Failure::failed(format!(
        "the task waits for an answer, and {why}:\n{}\n{remedy}{}",
        described(open),
        manner.or_confirm(open)
    ))
}

/// Each question with what it takes.
pub fn described(open: &[Question]) -> String {
    let mut lines = Vec::new();
    for question in open {
        lines.push(format!(
            "  {}",
            text::plain_lines(&question.message, 400, "  ")
        ));
        let takes = asked::lines(question);
        lines.extend(takes.into_iter().map(|line| format!("    {line}")));
    }
    lines.join("\n")
}
