//! `longshore plugin inspect`: one plugin, in full, without serving it or giving it anything.

use std::path::PathBuf;

use clap::Args;

use super::describe;
use super::workshop::Workshop;
use crate::cli::exit::{Exit, Failure};
use crate::cli::page::Page;
use crate::cli::render;
use crate::config::{Config, Overrides};

const EXAMPLES: &str = "\
Examples:
  longshore plugin inspect target/plugins/report-export
  longshore plugin inspect target/plugins/report-export --config longshore.toml
  longshore plugin inspect some-component.wasm --json";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct InspectArgs {
    /// A built plugin's directory, or a component file
    #[arg(value_name = "FILE|DIR")]
    plugin: PathBuf,
    /// What a component file on its own is to be called
    #[arg(long)]
    name: Option<String>,
    /// The configuration whose grants are shown beside those asked for
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(args: InspectArgs) -> Result<Exit, Failure> {
    let config = Config::load(args.config.as_deref(), Overrides::default())?;
    let has_config = args.config.is_some() || !config.given.is_empty();
    let workshop = Workshop::open(&config)?;
    let inspecting = workshop.admin.inspect(&args.plugin, args.name.as_deref());
    let described = inspecting.await?;
    match args.json {
        true => render::json(&described.to_json()),
        false => {
            let mut page = Page::of_terminal();
            describe::write(&mut page, &described, has_config);
            page.print();
        }
    }
    Ok(Exit::Done)
}
