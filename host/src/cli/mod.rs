//! The command line: one file a command. It talks to a host as any MCP client does, or starts one
//! through `app`.

mod answers;
mod arguments;
mod ask;
mod asked;
mod call;
mod client;
mod compile;
mod demo;
mod exit;
mod follow;
mod list;
mod page;
mod place;
mod plugin;
mod print;
mod progress;
mod prompt;
mod questions;
mod read;
mod render;
mod result;
mod rounds;
mod serve;
mod sink;
mod sse;
mod status;
mod stdio;
mod stop;
mod store;
mod task;
mod tenant;
mod terminal;
mod text;
mod whole;
mod wire;
mod written;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::telemetry;
use crate::threads;
use exit::{Exit, Failure};
use print::note;

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    the tool or the task failed
  2    the command or the configuration is wrong
  3    the host can't be reached, or refused
  4    the task was cancelled
  130  interrupted";

/// Behind a command's own flags in its help.
const LAST: usize = 900;

/// A host for long-running tools: sandboxed WebAssembly components, served over MCP as durable tasks.
#[derive(Parser)]
#[command(name = "longshore", version, after_help = EXIT_CODES, propagate_version = true)]
#[command(subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    /// What to log, e.g. `debug` or `longshore::scheduler=trace` [default: RUST_LOG]
    #[arg(long, global = true, value_name = "FILTER", display_order = LAST)]
    log: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// See it work: build the example plugins, start a host, run tasks
    Demo(demo::DemoArgs),
    /// Serve plugins over MCP
    Serve(serve::ServeArgs),
    /// Serve plugins to one client over standard input and output
    Stdio(stdio::StdioArgs),
    /// Say what a running host has open and under way
    Status(status::StatusArgs),
    /// List the tools, resources and prompts that a host offers
    List(list::ListArgs),
    /// Call a tool, follow its task, answer its questions
    Call(call::CallArgs),
    /// Print what a resource holds
    Read(read::ReadArgs),
    /// Print a prompt's messages
    Prompt(prompt::PromptArgs),
    /// Look at a task and act on it
    #[command(subcommand)]
    Task(task::TaskCommand),
    /// Build and inspect plugins
    #[command(subcommand)]
    Plugin(plugin::PluginCommand),
    /// Look after a data directory
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Say who may use the host
    #[command(subcommand)]
    Tenant(tenant::TenantCommand),
}

/// The host to talk to.
#[derive(Args, Clone, Debug)]
pub struct HostArgs {
    /// The host's MCP address
    #[arg(long, env = client::URL_VARIABLE, default_value = client::DEFAULT_URL)]
    pub url: String,
    /// The tenant's token
    #[arg(long, env = "LONGSHORE_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
}

impl HostArgs {
    fn client(&self) -> Result<client::Client, Failure> {
        Ok(client::Client::new(&self.url, self.token.clone())?)
    }
}

/// Runs the command of this process's arguments.
pub fn main() -> ExitCode {
    if let Some(code) = compile::run_if_asked(std::env::args_os()) {
        return code;
    }
    terminal::outlive_the_largest_file();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version arrive here, too, and are no failures.
            let exit = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Done
            };
            let _ = error.print();
            return exit.into();
        }
    };
    match run(cli) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            note!("{} {}", text::red("error:"), failure.message);
            failure.exit.into()
        }
    }
}

fn run(cli: Cli) -> Result<Exit, Failure> {
    // A client's own output is its report; only a host's log is worth reading unasked.
    let default_filter = match cli.command {
        Command::Serve(_) => telemetry::DEFAULT_FILTER,
        _ => telemetry::COMMAND_FILTER,
    };
    let has_more_to_end = match &cli.command {
        // One of `stdio` may have other clients.
        Command::Serve(_) | Command::Stdio(_) | Command::Demo(_) => true,
        Command::Store(command) => command.writes_while_open(),
        _ => false,
    };
    if !has_more_to_end {
        terminal::end_with_a_closed_pipe();
    }
    telemetry::init(cli.log.as_deref(), default_filter).map_err(Failure::usage)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .on_thread_start(threads::answer_promptly)
        .build()
        .map_err(|error| Failure::failed(format!("can't start the runtime: {error}")))?;
    let result = runtime.block_on(async {
        match cli.command {
            Command::Demo(args) => demo::run(args).await,
            Command::Serve(args) => serve::run(args).await,
            Command::Stdio(args) => stdio::run(args).await,
            Command::Status(args) => status::run(args).await,
            Command::List(args) => list::run(args).await,
            Command::Call(args) => call::run(args).await,
            Command::Read(args) => read::run(args).await,
            Command::Prompt(args) => prompt::run(args).await,
            Command::Task(command) => task::run(command).await,
            Command::Plugin(command) => plugin::run(command).await,
            Command::Store(command) => store::run(command).await,
            Command::Tenant(command) => tenant::run(command),
        }
    });
    // A prompt that nobody answers sits in a blocking thread; it must not keep the process.
    runtime.shutdown_background();
    result
}
