//! `longshore plugin remove`: takes a plugin out of the plugins directory and waits until the
//! running host has stopped serving it.

use clap::Args;

use super::running::{Taken, find_running_on, wait};
use super::stage::Shelf;
use crate::app::Serving;
use crate::cli::exit::{Exit, Failure};
use crate::cli::place::HostDirs;
use crate::cli::print::note;

const EXAMPLES: &str = "\
Examples:
  longshore plugin remove report-export
  longshore plugin remove report-export --now

New calls are refused from then on. The plugin's tasks go on to their end with the version and the
grants they have; with --now they are cancelled.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RemoveArgs {
    /// The plugin's name
    name: String,
    /// Cancel its tasks, too
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    host: HostDirs,
}

pub async fn run(args: RemoveArgs) -> Result<Exit, Failure> {
    let config = args.host.config()?;
    let before = find_running_on(&config).await?;
    let shelf = Shelf::open(&config.plugins_dir)?;
    let name = args.name;
    let Some(place) = shelf.find(&name)? else {
        return Err(Failure::failed(format!(
            "no plugin `{name}` is in {}; `longshore plugin list` shows those that are",
            config.plugins_dir.display()
        )));
    };
    shelf.remove(&place, &name, args.now)?;
    let is_over = |serving: &Serving| !serving.plugins.contains_key(&name);
    let tasks = match args.now {
        true => "its tasks are cancelled",
        false => "its tasks go on",
    };
    match wait(&config.data_dir, before.as_ref(), &name, is_over).await {
        Taken::Over { url } => {
            note!("{name} is no longer served at {url}; {tasks}");
            Ok(Exit::Done)
        }
        Taken::AtNextStart => {
            note!("{name} is removed; {tasks} at the host's next start");
            Ok(Exit::Done)
        }
        Taken::NotYet { url } => Err(Failure::failed(format!(
            "{name} is removed, but the host at {url} has not given it up yet; its log says why"
        ))),
        Taken::Refused { reason } => Err(Failure::failed(format!(
            "{name} is removed, but the host still looks for it: {reason}"
        ))),
    }
}
