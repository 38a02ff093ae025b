//! `longshore plugin`: builds plugins, shows what they are before anyone trusts them, and brings
//! them into a host and out of it.

pub mod build;
mod describe;
mod grants;
mod inspect;
mod install;
mod list;
mod new;
mod offers;
mod remove;
pub mod target;
mod workshop;

use clap::Subcommand;

use super::exit::{Exit, Failure};
use super::stop::unless_stopped;

#[derive(Subcommand)]
pub enum PluginCommand {
    /// Begin a plugin: a crate with a tool and a test
    New(new::NewArgs),
    /// Build plugin crates into components
    Build(build::BuildArgs),
    /// Show a plugin's tools, what it asks for and what it may reach
    Inspect(inspect::InspectArgs),
    /// List the plugins a host would serve, and what the running one serves
    List(list::ListArgs),
    /// Bring a new plugin into the plugins directory, also of a running host
    Add(install::InstallArgs),
    /// Put another version in a plugin's place, also in a running host
    Replace(install::InstallArgs),
    /// Take a plugin out of the plugins directory; its tasks go on
    Remove(remove::RemoveArgs),
    /// Show what people allowed plugins for good while they ran, or take it back
    Grants(grants::GrantsArgs),
}

pub async fn run(command: PluginCommand) -> Result<Exit, Failure> {
    match command {
        PluginCommand::New(args) => new::run(&args),
        PluginCommand::Build(args) => build::run(&args),
        // What these compile is in a directory of their own, which goes with them.
        PluginCommand::Inspect(args) => unless_stopped(inspect::run(args)).await,
        PluginCommand::List(args) => unless_stopped(list::run(args)).await,
        PluginCommand::Add(args) => install::add(args).await,
        PluginCommand::Replace(args) => install::replace(args).await,
        PluginCommand::Remove(args) => remove::run(args).await,
        PluginCommand::Grants(args) => grants::run(&args),
    }
}
