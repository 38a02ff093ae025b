//! `longshore prompt`: the messages of a prompt, as any MCP client gets them.

use clap::Args;
use serde_json::Value;

use super::client::Request;
use super::exit::{Exit, Failure};
use super::follow::Manner;
use super::print::note;
use super::{HostArgs, arguments, print, render, rounds, text};

const EXAMPLES: &str = "\
Examples:
  longshore prompt explain-failure case=item-13.toml
  longshore prompt explain-failure case=item-13.toml --json

`longshore list` shows what there is and what each takes. A prompt's arguments are texts.";

/// Words of a prompt's description shown above its messages.
const DESCRIPTION_MAX_CHARS: usize = 400;

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PromptArgs {
    /// The prompt's name
    name: String,
    /// Arguments
    #[arg(value_name = "KEY=VALUE")]
    words: Vec<String>,
    /// Answer questions without asking: yes, the default, or the first choice
    #[arg(long, short)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    host: HostArgs,
}

pub async fn run(args: PromptArgs) -> Result<Exit, Failure> {
    let client = args.host.client()?;
    let arguments = arguments::texts(&args.words).map_err(Failure::usage)?;
    let manner = Manner {
        yes: args.yes,
        json: args.json,
    };
    let request = Request::prompt(&args.name, arguments);
    let told = rounds::answer(&client, &request, manner).await?;
    if args.json {
        render::json(&told);
        return Ok(Exit::Done);
    }
    if let Some(description) = told["description"].as_str() {
        let description = text::plain_lines(description, DESCRIPTION_MAX_CHARS, "  ");
        note!("{}", text::dim(&description));
    }
    print::output(&conversation(&told));
    Ok(Exit::Done)
}

/// Who says what: a message's words stand under its role.
fn conversation(told: &Value) -> String {
    let messages = told["messages"].as_array().into_iter().flatten();
    let said = messages.map(|message| {
        let role = text::plain_line(message["role"].as_str().unwrap_or("unknown"), 40);
        let role = text::out().bold().apply_to(format!("{role}:"));
        format!(
            "{role}\n{}\n",
            render::content(&message["content"]).trim_end()
        )
    });
    said.collect::<Vec<_>>().join("\n")
}
