//! `longshore plugin add` and `replace`: bring a plugin into the plugins directory, and say what it
//! will not find there.

use std::path::PathBuf;

use clap::Args;

use super::workshop::Workshop;
use crate::admin::Installed;
use crate::catalog::grants::Effect;
use crate::cli::exit::{Exit, Failure};
use crate::cli::place::HostDirs;
use crate::cli::print::note;
use crate::cli::{render, text};

const EXAMPLES: &str = "\
Examples:
  longshore plugin add target/plugins/report-export
  longshore plugin replace target/plugins/report-export
  longshore plugin add some-component.wasm --name some-tool

The plugin is checked and compiled first; what fails leaves the plugins directory as it is. A
running host takes it over without a restart: calls under way and running tasks keep the version
they began with. Grants are the configuration's, which a host reads at its start.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct InstallArgs {
    /// A built plugin's directory, or a component file
    #[arg(value_name = "DIR|FILE")]
    plugin: PathBuf,
    /// What a component file on its own is to be called [default: after the file]
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    host: HostDirs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn add(args: InstallArgs) -> Result<Exit, Failure> {
    install(args, false).await
}

pub async fn replace(args: InstallArgs) -> Result<Exit, Failure> {
    install(args, true).await
}

async fn install(args: InstallArgs, replaces: bool) -> Result<Exit, Failure> {
    let config = args.host.config()?;
    let admin = Workshop::of_host(&config)?.admin;
    let (plugin, name) = (&args.plugin, args.name.as_deref());
    let installed = match replaces {
        true => admin.replace(plugin, name).await?,
        false => admin.add(plugin, name).await?,
    };
    match args.json {
        true => render::json(&installed.to_json()),
        false => write_shortfall(&installed),
    }
    note!("{}", text::plain_lines(&installed.words(), 4_000, "  "));
    Ok(match installed.is_done() {
        true => Exit::Done,
        false => Exit::Failed,
    })
}

/// What the plugin asked for and will not find, and who changes that.
fn write_shortfall(installed: &Installed) {
    for row in &installed.grants {
        let remedy = match row.effect {
            Effect::NotGiven | Effect::Narrowed => "the operator gives it under",
            Effect::Missing => "create it, or correct it under",
            Effect::Granted | Effect::Asks | Effect::NotAsked => continue,
        };
        note!(
            "{} {} {}: {}; {remedy} [plugin.{}.grants]",
            text::yellow(row.effect.as_str()),
            row.kind.as_str(),
            text::plain_line(&row.name, 64),
            text::plain_line(row.why.as_deref().unwrap_or_default(), 120),
            installed.name,
        );
    }
    if installed.has_other_grants {
        note!(
            "{} the running host gives it other grants than this configuration; restart the host to \
             give these",
            text::yellow("grants")
        );
    }
}
