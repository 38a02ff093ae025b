//! `longshore call`: calls a tool as any MCP client does, and follows its task.

use std::path::Path;

use clap::Args;
use serde_json::{Map, Value};

use super::client::{Client, Request};
use super::exit::{Exit, Failure};
use super::follow::{self, Manner};
use super::print::{note, say};
use super::rounds::{self, Started};
use super::stop::Interrupts;
use super::wire::ToolInfo;
use super::{HostArgs, arguments, print, render, text, written};

const EXAMPLES: &str = "\
Examples:
  longshore call greet name=Ada
  longshore call report-export file=sales.csv group_by=region output=by-region
  longshore call report-export --args @arguments.json --detach
  longshore call release-gate --args @release.json --yes --json

A value is typed by the tool's input schema: a number, true or false, JSON, else text.
A key given twice makes a list.

Ctrl-C asks whether to detach from the task or to cancel it.";

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
    /// Print the task's id and leave it running. A call that ends at once has none: without --json
    /// its result goes to standard error
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
    let request = Request::call(&tool, arguments);
    let mut interrupts = Interrupts::listen()?;
    match rounds::send(&client, &request, manner, &mut interrupts).await? {
        Started::Ended(result) if args.detach && !args.json => {
            // Standard output is for the id, which a script reads from there.
            note!("{}", text::dim("it ended at once, so there is no task:"));
            print::write_note(&render::result_text(&result));
            Ok(follow::result_exit(&result))
        }
        Started::Ended(result) => {
            render::result(&result, args.json);
            let exit = follow::result_exit(&result);
            say_where(&args, exit);
            Ok(exit)
        }
        Started::Task(task) if args.detach => {
            match args.json {
                true => render::json(&task.raw),
                false => say!("{}", text::name(&task.task_id)),
            }
            Ok(Exit::Done)
        }
        Started::Task(task) => {
            let id = text::name(&task.task_id);
            note!("{}", text::dim(&format!("task {id}")));
            let exit = follow::follow(&client, &task.task_id, manner, &mut interrupts).await?;
            say_where(&args, exit);
            Ok(exit)
        }
    }
}

/// Says where files that the result may name are to be found.
fn say_where(args: &CallArgs, exit: Exit) {
    if args.json || exit != Exit::Done {
        return;
    }
    for (seen, path) in written::directories(&args.host, &args.tool) {
        let line = format!("{seen} is {} on this machine", text::path(&path));
        note!("{}", text::dim(&line));
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
