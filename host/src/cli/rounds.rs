//! Sends a request that a plugin answers, and answers at the terminal what it asks first.

use serde_json::Value;

use super::client::{Client, Request};
use super::exit::Failure;
use super::follow::{self, Manner};
use super::progress::Display;
use super::stop::Interrupts;
use super::wire::{Progress, Reply, Round, TaskState};
use super::{questions, text};

/// Rounds of questions before there is an answer or a task.
const ROUNDS_MAX: usize = 32;

/// A request that the host took.
pub enum Started {
    /// Answered within the request.
    Ended(Value),
    Task(Box<TaskState>),
}

pub async fn send(
    client: &Client,
    request: &Request,
    manner: Manner,
    interrupts: &mut Interrupts,
) -> Result<Started, Failure> {
    let mut display = Display::start(&format!("{} {}", request.doing(), request.name));
    let mut round: Option<Round> = None;
    for _ in 0..ROUNDS_MAX {
        let on_progress = |progress: Progress| display.show(&progress);
        let sending = client.send(request, round.as_ref(), on_progress);
        let Some(reply) = interrupts.or(sending).await else {
            // Hanging up is the cancel of a request without a task.
            return Err(Failure::interrupted("interrupted; the call was given up"));
        };
        let mut asked = match reply? {
            Reply::Result(result) => return Ok(Started::Ended(result)),
            Reply::Task(task) => return Ok(Started::Task(task)),
            Reply::InputRequired(asked) => asked,
        };
        display.hide();
        let open = questions::questions(&asked.input_requests);
        let collected = follow::collect(&open, manner, interrupts).await;
        let collected = collected.map_err(|why| {
            Failure::failed(format!(
                "`{}` asks first, and {why}:\n{}\ngive the command from a terminal{}",
                text::plain_line(&request.name, 200),
                follow::described(&open),
                manner.or_confirm(&open)
            ))
        })?;
        let Some(responses) = collected else {
            return Err(Failure::interrupted("interrupted; nothing was started"));
        };
        asked.responses = responses;
        round = Some(asked);
        display.unhide();
    }
    Err(Failure::failed(format!(
        "it asked {ROUNDS_MAX} times and still did not begin; given up"
    )))
}

/// As [`send`], for what is never a task.
pub async fn answer(client: &Client, request: &Request, manner: Manner) -> Result<Value, Failure> {
    let mut interrupts = Interrupts::listen()?;
    match send(client, request, manner, &mut interrupts).await? {
        Started::Ended(result) => Ok(result),
        Started::Task(task) => Err(Failure::failed(format!(
            "the host made a task of it, which it should not: {}",
            text::name(&task.task_id)
        ))),
    }
}
