//! `longshore plugin`: builds plugins, and shows what they are before anyone trusts them.

pub mod build;
mod describe;
mod inspect;
mod list;
mod page;
pub mod target;

use clap::Subcommand;

use super::exit::{Exit, Failure};

#[derive(Subcommand)]
pub enum PluginCommand {
    /// Build plugin crates into components
    Build(build::BuildArgs),
    /// Show a plugin's tools, what it asks for and what it may reach
    Inspect(inspect::InspectArgs),
    /// List the plugins a host would serve
    List(list::ListArgs),
}

pub async fn run(command: PluginCommand) -> Result<Exit, Failure> {
    match command {
        PluginCommand::Build(args) => build::run(&args),
        PluginCommand::Inspect(args) => inspect::run(args).await,
        PluginCommand::List(args) => list::run(args).await,
    }
}
