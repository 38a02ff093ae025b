//! `longshore task`: looks at a task and acts on it, from any terminal and at any later time.

use std::io::IsTerminal;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::exit::{Exit, Failure};
use super::follow::{self, Manner};
use super::print::{note, say};
use super::questions::{self, Question};
use super::result::{self, ResultArgs};
use super::stop::Interrupts;
use super::wire::TaskStatus;
use super::{HostArgs, answers, print, render, text};

const ANSWER_EXAMPLES: &str = "\
Examples:
  longshore task answer ID confirm=true
  longshore task answer ID publish.confirm=true notify.channel=ops
  longshore task answer ID --decline publish
  longshore task answer ID                   asks in the terminal

A name is a field of a question, KEY.FIELD, or the key of a question with one field.";

#[derive(Subcommand)]
pub enum TaskCommand {
    /// List your tasks, newest first
    List(ListArgs),
    /// Show a task as it is now
    Get(TaskArgs),
    /// Follow a task to its end, answering its questions
    Watch(WatchArgs),
    /// Ask a task to stop
    Cancel(CancelArgs),
    /// Answer what a task asks
    Answer(AnswerArgs),
    /// Print a task's result whole, also where it is too large for one message
    Result(ResultArgs),
    /// Print what a task's tool wrote to its output
    Log(TaskArgs),
}

#[derive(Args)]
pub struct TaskArgs {
    /// The task's id
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Args)]
pub struct ListArgs {
    /// How many to show
    #[arg(long, value_name = "COUNT", default_value_t = 30)]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Args)]
pub struct WatchArgs {
    #[command(flatten)]
    task: TaskArgs,
    /// Answer questions without asking: yes, the default, or the first choice
    #[arg(long, short)]
    yes: bool,
}

#[derive(Args)]
pub struct CancelArgs {
    #[command(flatten)]
    task: TaskArgs,
    /// Follow the task until it has stopped
    #[arg(long)]
    wait: bool,
}

#[derive(Args)]
#[command(after_help = ANSWER_EXAMPLES)]
pub struct AnswerArgs {
    #[command(flatten)]
    task: TaskArgs,
    /// Answers
    #[arg(value_name = "KEY=VALUE")]
    words: Vec<String>,
    /// Decline the question with this key
    #[arg(long, value_name = "KEY")]
    decline: Vec<String>,
    /// Dismiss the question with this key, choosing nothing
    #[arg(long, value_name = "KEY")]
    dismiss: Vec<String>,
    /// Answer the others without asking: yes, the default, or the first choice
    #[arg(long, short)]
    yes: bool,
}

pub async fn run(command: TaskCommand) -> Result<Exit, Failure> {
    match command {
        TaskCommand::List(args) => list(args).await,
        TaskCommand::Get(args) => get(args).await,
        TaskCommand::Watch(args) => watch(args).await,
        TaskCommand::Cancel(args) => cancel(args).await,
        TaskCommand::Answer(args) => answer(args).await,
        TaskCommand::Result(args) => result::run(args).await,
        TaskCommand::Log(args) => log(args).await,
    }
}

async fn list(args: ListArgs) -> Result<Exit, Failure> {
    let mut tasks = args.host.client()?.tasks().await?;
    let hidden = tasks.len().saturating_sub(args.limit);
    tasks.truncate(args.limit);
    if args.json {
        let tasks: Vec<&Value> = tasks.iter().map(|task| &task.raw).collect();
        render::json(&json!({ "tasks": tasks }));
        return Ok(Exit::Done);
    }
    if !tasks.is_empty() && std::io::stdout().is_terminal() {
        render::task_table(&tasks).print();
    } else {
        for task in &tasks {
            say!("{}", render::task_line(task));
        }
    }
    match (tasks.len(), hidden) {
        (0, 0) => note!("no tasks"),
        (_, 0) => {}
        _ => note!("{}", text::dim(&format!("{hidden} older; see --limit"))),
    }
    Ok(Exit::Done)
}

async fn get(args: TaskArgs) -> Result<Exit, Failure> {
    let state = args.host.client()?.task(&args.id).await?;
    render::task(&state, args.json);
    Ok(match state.status {
        TaskStatus::Failed => Exit::Failed,
        TaskStatus::Cancelled => Exit::Cancelled,
        TaskStatus::Completed => state
            .result
            .as_ref()
            .map_or(Exit::Done, follow::result_exit),
        TaskStatus::Working | TaskStatus::InputRequired => Exit::Done,
    })
}

async fn watch(args: WatchArgs) -> Result<Exit, Failure> {
    let manner = Manner {
        yes: args.yes,
        json: args.task.json,
    };
    let client = args.task.host.client()?;
    let mut interrupts = Interrupts::listen()?;
    follow::follow(&client, &args.task.id, manner, &mut interrupts).await
}

async fn cancel(args: CancelArgs) -> Result<Exit, Failure> {
    let client = args.task.host.client()?;
    let before = client.task(&args.task.id).await?;
    if before.is_terminal() {
        let status = before.status.as_str();
        note!("the task has ended already: {status}");
        return Ok(Exit::Done);
    }
    client.cancel(&args.task.id).await?;
    if !args.wait {
        note!("asked the task to stop");
        return Ok(Exit::Done);
    }
    let manner = Manner {
        yes: false,
        json: args.task.json,
    };
    let mut interrupts = Interrupts::listen()?;
    match follow::follow(&client, &args.task.id, manner, &mut interrupts).await? {
        Exit::Cancelled => Ok(Exit::Done),
        other => Ok(other),
    }
}

async fn answer(args: AnswerArgs) -> Result<Exit, Failure> {
    let client = args.task.host.client()?;
    let state = client.task(&args.task.id).await?;
    let open = questions::questions(&state.input_requests);
    if open.is_empty() {
        let status = state.status.as_str();
        return Err(Failure::usage(format!(
            "the task asks nothing now; it is {status}"
        )));
    }
    let mut responses = answers::from_words(&open, &args.words).map_err(Failure::usage)?;
    let refused = args.decline.iter().map(|key| (key, answers::decline()));
    let dismissed = args.dismiss.iter().map(|key| (key, answers::dismiss()));
    for (key, response) in refused.chain(dismissed) {
        if !open.iter().any(|question| question.key == *key) {
            let names = answers::open_names(&open);
            return Err(Failure::usage(format!(
                "nothing asks for `{key}`; open: {names}"
            )));
        }
        if responses.insert(key.clone(), response).is_some() {
            return Err(Failure::usage(format!("`{key}` is answered twice")));
        }
    }
    let mut interrupts = Interrupts::listen()?;
    if responses.is_empty() || args.yes {
        let rest = rest(&open, &responses, args.yes, &mut interrupts).await?;
        responses.extend(rest);
    }
    let Some(sent) = interrupts.or(client.answer(&args.task.id, responses)).await else {
        return Err(Failure::interrupted(
            "interrupted; the host has not said whether it took the answer",
        ));
    };
    sent?;
    note!("{}", text::green("answered"));
    Ok(Exit::Done)
}

/// Answers to the questions that have none yet: by `--yes`, or from the terminal.
async fn rest(
    open: &[Question],
    answered: &Map<String, Value>,
    yes: bool,
    interrupts: &mut Interrupts,
) -> Result<Map<String, Value>, Failure> {
    let left: Vec<_> = open
        .iter()
        .filter(|question| !answered.contains_key(&question.key))
        .cloned()
        .collect();
    let manner = Manner { yes, json: false };
    let collected = follow::collect(&left, manner, interrupts).await;
    let collected = collected.map_err(|why| {
        let open = follow::described(&left);
        Failure::usage(format!("{why}; answer with KEY=VALUE:\n{open}"))
    })?;
    collected.ok_or_else(|| Failure::interrupted("interrupted; nothing was answered"))
}

async fn log(args: TaskArgs) -> Result<Exit, Failure> {
    let result = args.host.client()?.log(&args.id).await?;
    match args.json {
        true => render::json(&result),
        false => print::output(&text::plain(result["text"].as_str().unwrap_or_default())),
    }
    Ok(Exit::Done)
}
