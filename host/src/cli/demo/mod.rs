//! `longshore demo`: the main job on real input, from building the example plugins to a cancelled
//! task. It writes under `target/` only.

mod service;
mod stage;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};

use super::call;
use super::client::{Client, DEFAULT_URL, Request};
use super::exit::{Exit, Failure};
use super::follow::{self, Manner};
use super::plugin::build;
use super::rounds::{self, Started};
use super::serve;
use super::stop::{Interrupts, Stop};
use super::{ask, render, text};
use crate::cli::print::note;
use crate::config::{Config, Overrides, parse_listen};
use service::Service;
use stage::Stage;

/// Plugins of the repository that the demo uses.
const PLUGINS: [&str; 3] = ["report-export", "regression-run", "release-gate"];
const PORT: u16 = 7331;

const EXAMPLES: &str = "\
Examples:
  longshore demo                 asks its question in the terminal, then goes on serving
  longshore demo --yes --once    asks nothing and ends by itself

Run it in a checkout of Longshore. Everything it writes is in target/.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct DemoArgs {
    /// Answer the tool's questions without asking
    #[arg(long, short)]
    yes: bool,
    /// End after the demo instead of serving on
    #[arg(long)]
    once: bool,
    /// The address to listen on [default: 127.0.0.1:7331, or a free port if that is taken]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_listen)]
    listen: Option<SocketAddr>,
}

pub async fn run(args: DemoArgs) -> Result<Exit, Failure> {
    if !args.yes && !ask::is_interactive() {
        return Err(Failure::usage(
            "the demo asks a question, and there is no terminal to ask on; run it with --yes",
        ));
    }
    let root = find_checkout()?;
    heading("Building the example plugins");
    let plugins = build_plugins(&root)?;

    heading("Starting a host");
    let service = Service::start().await?;
    let stage = Stage::set(&root.join("target/demo"), service.address())?;
    let mut stop = Stop::listen()?;
    let overrides = Overrides {
        listen: Some(args.listen.unwrap_or_else(free_address)),
        plugin_dirs: plugins,
        ..Overrides::default()
    };
    let config = Config::load(Some(&stage.config), overrides)?;
    let host = serve::start(config.clone()).await?;
    serve::print_summary(&host, &config);

    let client = Client::new(&host.url(), None)?;
    let manner = Manner {
        yes: args.yes,
        json: false,
    };
    let played = tokio::select! {
        played = play(&client, manner, &stage, &service) => played,
        () = stop.wait() => Err(Failure::interrupted("interrupted")),
    };
    if played.is_ok() && args.once {
        print_connections(DEFAULT_URL, Some(&serve_command(&root, &stage.config)));
    }
    if played.is_ok() && !args.once {
        print_connections(&host.url(), None);
        note!("\n{}", text::dim("serving on; Ctrl-C ends it"));
        stop.wait().await;
    }
    serve::stop_host(host, stop).await;
    played.map(|()| Exit::Done)
}

/// The three acts: a report, a regression run, and a cancel.
async fn play(
    client: &Client,
    manner: Manner,
    stage: &Stage,
    service: &Service,
) -> Result<(), Failure> {
    let interrupts = &mut Interrupts::listen()?;
    heading("Exporting a report: a task with progress and a question in the middle");
    let arguments = stage::report_arguments("by-region", "region");
    run_tool(client, "report-export", arguments, manner, interrupts).await?;
    print_files(&stage.output);

    heading("Running HTTP contract cases, some of which fail");
    let arguments =
        json!({ "base_url": format!("http://{}", service.address()), "concurrency": 4 });
    run_tool(client, "regression-run", arguments, manner, interrupts).await?;

    heading("Cancelling a second export on its way");
    cancel_on_its_way(client, interrupts).await
}

async fn run_tool(
    client: &Client,
    name: &str,
    arguments: Value,
    manner: Manner,
    interrupts: &mut Interrupts,
) -> Result<(), Failure> {
    let flags = client.flags();
    let shown = text::dim(&format!(
        "longshore call {name} --args '{arguments}'{flags}"
    ));
    note!("{shown}");
    match start(client, name, arguments, manner, interrupts).await? {
        Started::Ended(result) => render::result(&result, false),
        Started::Task(task) => {
            note!("{}", text::dim(&format!("task {}", task.task_id)));
            follow::follow(client, &task.task_id, manner, interrupts).await?;
        }
    }
    Ok(())
}

async fn start(
    client: &Client,
    name: &str,
    arguments: Value,
    manner: Manner,
    interrupts: &mut Interrupts,
) -> Result<Started, Failure> {
    let tool = call::find_tool(client, name).await?;
    let arguments: Map<String, Value> = arguments.as_object().cloned().unwrap_or_default();
    let request = Request::call(&tool, arguments);
    rounds::send(client, &request, manner, interrupts).await
}

async fn cancel_on_its_way(client: &Client, interrupts: &mut Interrupts) -> Result<(), Failure> {
    let mut arguments = stage::report_arguments("by-product", "product");
    arguments["uneven_rows"] = json!("skip");
    let manner = Manner {
        yes: true,
        json: false,
    };
    let task = match start(client, "report-export", arguments, manner, interrupts).await? {
        Started::Task(task) => task,
        Started::Ended(result) => {
            // A very fast machine ends within the grace, before there is a task to cancel.
            render::result(&result, false);
            return Ok(());
        }
    };
    let flags = client.flags();
    let shown = format!("longshore task cancel {}{flags}", task.task_id);
    note!("{}", text::dim(&shown));
    client.cancel(&task.task_id).await?;
    follow::follow(client, &task.task_id, manner, interrupts).await?;
    Ok(())
}

/// The checkout this runs in: here or above.
fn find_checkout() -> Result<PathBuf, Failure> {
    let here = std::env::current_dir()
        .map_err(|error| Failure::failed(format!("no current directory: {error}")))?;
    let is_checkout = |directory: &&Path| {
        let plugin = directory.join("plugins").join(PLUGINS[0]);
        plugin.join("Cargo.toml").is_file()
    };
    let found = here.ancestors().find(is_checkout);
    found.map(Path::to_owned).ok_or_else(|| {
        Failure::usage(
            "the demo builds the example plugins, and there are none here; run it in a checkout \
             of Longshore",
        )
    })
}

/// Builds the plugins and returns where each lies.
fn build_plugins(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    let sources: Vec<PathBuf> = PLUGINS
        .iter()
        .map(|name| root.join("plugins").join(name))
        .collect();
    let built = root.join("target/plugins");
    build::build_all(&sources, &built, &root.join("target/guests"))?;
    Ok(PLUGINS.iter().map(|name| built.join(name)).collect())
}

/// The usual address, unless something else has it.
fn free_address() -> SocketAddr {
    let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    match TcpListener::bind(usual) {
        Ok(_) => usual,
        Err(_) => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
    }
}

fn heading(words: &str) {
    note!("\n{}", text::bold(words));
}

fn print_files(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        let size = std::fs::metadata(&file).map_or(0, |file| file.len());
        note!("  {:>10}  {}", text::size(size), text::path(&file));
    }
}

/// The command that starts the host again.
fn serve_command(root: &Path, config: &Path) -> String {
    let program = std::env::args().next().unwrap_or_default();
    let (config, plugins) = (text::path(config), text::path(&root.join("target/plugins")));
    format!("{program} serve --config {config} --plugins {plugins}")
}

/// How a client reaches the host at `url`, which may first have to be started by a command.
fn print_connections(url: &str, serve: Option<&str>) {
    heading("Connecting a client");
    if let Some(command) = serve {
        note!("This host ends here. To start it again, and then to connect:\n\n  {command}\n");
    }
    note!("  claude mcp add --transport http longshore {url}");
    note!("\nor, for clients with a configuration file:\n");
    let snippet = json!({ "mcpServers": { "longshore": { "type": "http", "url": url } } });
    for line in format!("{snippet:#}").lines() {
        note!("  {line}");
    }
}
