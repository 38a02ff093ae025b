//! `longshore call`: calls a tool as any MCP client does, and follows its task.

use std::path::Path;

use clap::Args;
use serde_json::{Map, Value};

use super::client::Client;
use super::exit::{Exit, Failure};
use super::follow::{self, Manner};
use super::progress::Display;
use super::wire::{CallReply, Progress, Round, TaskState, ToolInfo};
use super::{HostArgs, answers, arguments, render, text};

const EXAMPLES: &str = "\
Examples:
  longshore call greet name=Ada
  longshore call report-export file=sales.csv group_by=region output=by-region
  longshore call report-export --args @arguments.json --detach
  longshore call release-gate --args @release.json --yes --json

A value is typed by the tool's input schema: a number, true or false, JSON, else text.
A key given twice makes a list.

Ctrl-C asks whether to detach from the task or to cancel it.";

/// Rounds of questions a tool may ask before its task exists.
const ROUNDS_MAX: usize = 32;

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CallArgs {
    /// The tool's name
    pub tool: String,
    /// Arguments
    #[arg(value_name = "KEY=VALUE", conflicts_with = "args")]
    pub words: Vec<String>,
    /// All arguments as one JSON object, or @FILE with it (@- reads standard input)
    #[arg(long, value_name = "JSON|@FILE")]
    pub args: Option<String>,
    /// Print the task's id and leave it running; a call that ends at once prints its result
    #[arg(long)]
    pub detach: bool,
    /// Answer questions without asking: yes, the default, or the first choice
    #[arg(long, short)]
    pub yes: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub host: HostArgs,
}

pub async fn run(args: CallArgs) -> Result<Exit, Failure> {
    let client = args.host.client()?;
    let tool = find_tool(&client, &args.tool).await?;
    let arguments = match &args.args {
        Some(source) => read_json_arguments(source)?,
        None => arguments::from_words(&args.words, &tool.input_schema).map_err(Failure::usage)?,
    };
    let manner = Manner {
        yes: args.yes,
        json: args.json,
    };
    match start(&client, &tool, &arguments, manner).await? {
        Started::Ended(result) => {
            render::result(&result, args.json);
            Ok(follow::result_exit(&result))
        }
        Started::Task(task) if args.detach => {
            match args.json {
                true => render::json(&task.raw),
                false => println!("{}", task.task_id),
            }
            Ok(Exit::Done)
        }
        Started::Task(task) => {
            eprintln!("{}", text::dim(&format!("task {}", task.task_id)));
            follow::follow(&client, &task.task_id, manner).await
        }
    }
}

/// The host's description of a tool.
pub async fn find_tool(client: &Client, name: &str) -> Result<ToolInfo, Failure> {
    let tools = client.tools().await?;
    let names: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
    tools
        .into_iter()
        .find(|tool| tool.name == name)
        .ok_or_else(|| {
            let known = match names.is_empty() {
                true => "it has none; give it plugins with --plugins".to_owned(),
                false => format!("it has {}", text::plain_line(&names.join(", "), 600)),
            };
            Failure::usage(format!("the host has no tool `{name}`; {known}"))
        })
}

/// A call that was taken.
pub enum Started {
    /// Answered within the call.
    Ended(Value),
    Task(Box<TaskState>),
}

/// Calls the tool, answering what it asks before there is a task.
pub async fn start(
    client: &Client,
    tool: &ToolInfo,
    arguments: &Map<String, Value>,
    manner: Manner,
) -> Result<Started, Failure> {
    let mut display = Display::start(&format!("calling {}", tool.name));
    let mut round: Option<Round> = None;
    for _ in 0..ROUNDS_MAX {
        let on_progress = |progress: Progress| display.show(&progress);
        let reply = tokio::select! {
            reply = client.call(tool, arguments, round.as_ref(), on_progress) => reply?,
            // Hanging up is the cancel of a call without a task.
            _ = tokio::signal::ctrl_c() => {
                return Err(Failure::interrupted("interrupted; the call was given up"));
            }
        };
        let mut questions = match reply {
            CallReply::Result(result) => return Ok(Started::Ended(result)),
            CallReply::Task(task) => return Ok(Started::Task(task)),
            CallReply::InputRequired(questions) => questions,
        };
        display.hide();
        let open = answers::questions(&questions.input_requests);
        let collected = follow::collect(&open, manner).await.map_err(|why| {
            Failure::failed(format!(
                "the tool asks before it starts, and {why}:\n{}\n\
                 call it from a terminal, or confirm everything with --yes",
                follow::described(&open)
            ))
        })?;
        let Some(responses) = collected else {
            return Err(Failure::interrupted("interrupted; nothing was started"));
        };
        questions.responses = responses;
        round = Some(questions);
        display.unhide();
    }
    Err(Failure::failed(format!(
        "the tool asked {ROUNDS_MAX} times and still did not start; given up"
    )))
}

fn read_json_arguments(source: &str) -> Result<Map<String, Value>, Failure> {
    let text = match source.strip_prefix('@') {
        Some("-") => std::io::read_to_string(std::io::stdin()),
        Some(path) => std::fs::read_to_string(Path::new(path)),
        None => Ok(source.to_owned()),
    };
    let text = text.map_err(|error| Failure::usage(format!("can't read {source}: {error}")))?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format!("--args is no JSON object: {error}")))
}
