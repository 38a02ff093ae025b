//! `longshore list`: what a host offers its clients. What a plugin is, and what it may reach, is
//! `longshore plugin`.

use clap::Args;
use serde_json::{Value, json};

use super::client::Client;
use super::exit::{Exit, Failure};
use super::page::{Page, accent};
use super::print::note;
use super::wire::{ClientError, METHOD_NOT_FOUND};
use super::{HostArgs, arguments, render, text};

const EXAMPLES: &str = "\
Examples:
  longshore list
  longshore list --json

What a name takes stands beside it; what is in brackets may be left out. Go on with `longshore call
TOOL`, `longshore read URI` or `longshore prompt NAME`.";

/// Words of a description.
const WHAT_MAX_CHARS: usize = 240;
const NAME_MAX_CHARS: usize = 400;

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ListArgs {
    /// Print JSON: every tool, resource, template and prompt as the host describes it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    host: HostArgs,
}

/// What a host offers, as it came.
struct Offered {
    tools: Vec<Value>,
    resources: Vec<Value>,
    templates: Vec<Value>,
    prompts: Vec<Value>,
}

pub async fn run(args: ListArgs) -> Result<Exit, Failure> {
    let client = args.host.client()?;
    let offered = Offered {
        tools: client.pages("tools/list", "tools").await?,
        resources: pages(&client, "resources/list", "resources").await?,
        templates: pages(&client, "resources/templates/list", "resourceTemplates").await?,
        prompts: pages(&client, "prompts/list", "prompts").await?,
    };
    if args.json {
        render::json(&json!({
            "tools": offered.tools,
            "resources": offered.resources,
            "resourceTemplates": offered.templates,
            "prompts": offered.prompts,
        }));
        return Ok(Exit::Done);
    }
    let mut page = Page::of_terminal();
    offered.write(&mut page);
    if page.is_empty() {
        note!("the host offers nothing; give it plugins with --plugins");
    }
    page.print();
    Ok(Exit::Done)
}

/// A host need not have any but tools.
async fn pages(
    client: &Client,
    method: &'static str,
    member: &str,
) -> Result<Vec<Value>, ClientError> {
    match client.pages(method, member).await {
        Err(ClientError::Rpc(failure)) if failure.code == METHOD_NOT_FOUND => Ok(Vec::new()),
        listed => listed,
    }
}

impl Offered {
    fn write(&self, page: &mut Page) {
        write_kind(page, "TOOLS", &self.tools, "name", tool_arguments);
        write_kind(page, "RESOURCES", &self.resources, "uri", |_| String::new());
        let none = |_: &Value| String::new();
        write_kind(page, "TEMPLATES", &self.templates, "uriTemplate", none);
        write_kind(page, "PROMPTS", &self.prompts, "name", prompt_arguments);
    }
}

fn write_kind(
    page: &mut Page,
    title: &str,
    items: &[Value],
    named_by: &str,
    arguments: impl Fn(&Value) -> String,
) {
    if items.is_empty() {
        return;
    }
    page.gap();
    page.heading(title);
    for item in items {
        let name = item[named_by].as_str().unwrap_or_default();
        let name = accent().apply_to(text::plain_line(name, NAME_MAX_CHARS));
        let arguments = arguments(item);
        page.synopsis(&format!("{name} {arguments}"));
        let what = item["description"].as_str().or(item["title"].as_str());
        if let Some(what) = what {
            page.prose(6, &text::plain_line(what, WHAT_MAX_CHARS));
        }
    }
}

fn tool_arguments(tool: &Value) -> String {
    arguments::of_schema(&tool["inputSchema"])
}

fn prompt_arguments(prompt: &Value) -> String {
    let arguments = prompt["arguments"].as_array().into_iter().flatten();
    arguments::synopsis(arguments.map(|argument| {
        let name = argument["name"].as_str().unwrap_or_default();
        (name, argument["required"] == Value::Bool(true))
    }))
}
