//! `longshore plugin remove`: takes a plugin out of the plugins directory and waits until the
//! running host has stopped serving it.

use clap::Args;

use super::workshop::Workshop;
use crate::cli::exit::{Exit, Failure};
use crate::cli::place::HostDirs;
use crate::cli::print::note;
use crate::cli::{render, text};

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
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(args: RemoveArgs) -> Result<Exit, Failure> {
    let config = args.host.config()?;
    let workshop = Workshop::open(&config)?;
    let removed = workshop.admin.remove(&args.name, args.now).await?;
    if args.json {
        render::json(&removed.to_json());
    }
    note!("{}", text::plain_lines(&removed.words(), 4_000, "  "));
    Ok(match removed.is_done() {
        true => Exit::Done,
        false => Exit::Failed,
    })
}
