//! `longshore plugin add` and `replace`: check a plugin, put it into the plugins directory at once,
//! and wait for the running host to serve it.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::inspect::Workshop;
use super::running::{Taken, find_running, find_running_on, wait};
use super::stage::Shelf;
use crate::app::{Serving, ServingPlugin};
use crate::catalog::grants::{Effect, Row, compare_with_host, effective};
use crate::catalog::load::load_plugin;
use crate::cli::exit::{Exit, Failure};
use crate::cli::place::HostDirs;
use crate::cli::print::note;
use crate::cli::{render, text};
use crate::config::{Config, Given};

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
    find_running_on(&config).await?;
    let shelf = Shelf::open(&config.plugins_dir)?;
    let (staged, manifest) = shelf.stage(&args.plugin, args.name.as_deref())?;
    let name = manifest.name.clone();
    let place = shelf.find(&name)?;
    match (&place, replaces) {
        (Some(_), false) => {
            return Err(Failure::failed(format!(
                "a plugin `{name}` is there already; `longshore plugin replace` puts another version \
                 in its place"
            )));
        }
        (None, true) => {
            return Err(Failure::failed(format!(
                "no plugin `{name}` is in {}; `longshore plugin add` brings a new one",
                config.plugins_dir.display()
            )));
        }
        _ => {}
    }

    let none = Given::default();
    let given = config.given.get(&name).unwrap_or(&none);
    let rows = compare_with_host(&manifest.grants, given);
    let grants = Arc::new(effective(&manifest.grants, given));
    let max_bytes = config.limits.component_max_bytes;
    let workshop = Workshop::of_host(&config)?;
    let loaded = load_plugin(
        &workshop.sandbox,
        staged.path(),
        manifest,
        grants,
        max_bytes,
    )
    .await
    .map_err(|error| Failure::failed(format!("{}: {error}", args.plugin.display())))?;
    let expected = ServingPlugin {
        version: loaded.plugin.version.clone(),
        sha256: loaded.plugin.digest.to_string(),
        grants_sha256: loaded.plugin.grants.digest().to_string(),
        ..ServingPlugin::default()
    };

    // Only what the host says after this moment is about the change.
    let before = find_running(&config.data_dir).await;
    match &place {
        Some(place) => shelf.replace(&staged, place, &name)?,
        None => shelf.add(&staged, &name)?,
    }
    drop(staged);
    // The grants may be others: the host read its configuration when it started.
    let is_over = |serving: &Serving| {
        let served = serving.plugins.get(&name);
        served.is_some_and(|served| {
            (&served.version, &served.sha256) == (&expected.version, &expected.sha256)
        })
    };
    let taken = wait(&config.data_dir, before.as_ref(), &name, is_over).await;

    if !args.json {
        write_shortfall(&name, &rows);
        if matches!(taken, Taken::Over { .. }) && has_other_grants(&config, &name, &expected) {
            note!(
                "{} the running host gives it other grants than this configuration; restart the host \
                 to give these",
                text::yellow("grants")
            );
        }
    }
    let (exit, state, words) = outcome(&name, &expected.version, taken);
    if args.json {
        render::json(&json!({
            "name": name,
            "version": expected.version,
            "sha256": expected.sha256,
            "state": state,
        }));
    }
    note!("{words}");
    Ok(exit)
}

/// What the plugin asked for and will not find, and who changes that.
fn write_shortfall(plugin: &str, rows: &[Row]) {
    for row in rows {
        let remedy = match row.effect {
            Effect::NotGiven | Effect::Narrowed => "the operator gives it under",
            Effect::Missing => "create it, or correct it under",
            Effect::Granted | Effect::Asks | Effect::NotAsked => continue,
        };
        note!(
            "{} {} {}: {}; {remedy} [plugin.{plugin}.grants]",
            text::yellow(row.effect.as_str()),
            row.kind.as_str(),
            text::plain_line(&row.name, 64),
            text::plain_line(row.why.as_deref().unwrap_or_default(), 120),
        );
    }
}

/// Whether the host that took the plugin over has another configuration than this command.
fn has_other_grants(config: &Config, plugin: &str, expected: &ServingPlugin) -> bool {
    let serving = Serving::read(&config.data_dir);
    let served = serving
        .as_ref()
        .and_then(|serving| serving.plugins.get(plugin));
    served.is_some_and(|served| served.grants_sha256 != expected.grants_sha256)
}

fn outcome(name: &str, version: &str, taken: Taken) -> (Exit, &'static str, String) {
    let version = text::plain_line(version, 32);
    match taken {
        Taken::Over { url } => {
            let words = format!("{name} {version} is served at {url}");
            (Exit::Done, "served", words)
        }
        Taken::AtNextStart => {
            let words =
                format!("{name} {version} is in place; the host serves it from its next start");
            (Exit::Done, "stored", words)
        }
        Taken::NotYet { url } => {
            let words = format!(
                "{name} {version} is in place, but the host at {url} has not taken it over yet; its \
                 log says why, and `longshore plugin list` what it serves"
            );
            (Exit::Failed, "waiting", words)
        }
        Taken::Refused { reason } => {
            let reason = text::plain_lines(&reason, 2_000, "  ");
            let words =
                format!("{name} {version} is in place, but the host can't serve it: {reason}");
            (Exit::Failed, "refused", words)
        }
    }
}
