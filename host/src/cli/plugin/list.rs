//! `longshore plugin list`: what a host with this configuration would serve, and what the one that
//! runs on the data directory does serve.

use clap::Args;
use serde_json::{Value, json};

use super::describe::{effect_word, grant_cells, row_json};
use super::inspect::Workshop;
use super::offers::{prompts_json, resources_json, templates_json};
use super::running::find_running;
use crate::app::{Serving, ServingPlugin};
use crate::catalog::Sources;
use crate::catalog::grants::{Effect, Kind, Row, compare_with_host};
use crate::catalog::known::load_all;
use crate::catalog::load::LoadedPlugin;
use crate::catalog::offers::Offers;
use crate::cli::exit::{Exit, Failure};
use crate::cli::page::Page;
use crate::cli::place::ServedArgs;
use crate::cli::print::note;
use crate::cli::{render, text};
use crate::config::Given;

const EXAMPLES: &str = "\
Examples:
  longshore plugin list
  longshore plugin list --plugins target/plugins --config longshore.toml --json";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ListArgs {
    #[command(flatten)]
    served: ServedArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(args: ListArgs) -> Result<Exit, Failure> {
    let config = args.served.config(None)?;
    let workshop = Workshop::open(&config)?;
    let loaded = load_all(&workshop.sandbox, &Sources::from(&config), &config.given).await;
    let running = find_running(&config.data_dir).await;
    let listed: Vec<(LoadedPlugin, Vec<Row>)> = loaded
        .plugins
        .into_iter()
        .map(|plugin| {
            let none = Given::default();
            let given = config.given.get(&plugin.manifest.name).unwrap_or(&none);
            let mut rows = compare_with_host(&plugin.manifest.grants, given);
            if let Some(running) = &running {
                mark_unset(&mut rows, &plugin, running);
            }
            (plugin, rows)
        })
        .collect();
    if args.json {
        render::json(&json!({
            "plugins": listed
                .iter()
                .map(|listed| plugin_json(listed, running.as_ref()))
                .collect::<Vec<_>>(),
            "failures": loaded.failures,
            "host": running,
        }));
    } else {
        let mut page = Page::of_terminal();
        write_page(&mut page, &listed);
        write_grants(&mut page, &listed);
        if let Some(running) = &running {
            write_running(&mut page, running, &listed);
        }
        page.print();
        for (name, reason) in &loaded.failures {
            note!(
                "{} {}: {}",
                text::red("failed"),
                text::plain_line(name, 200),
                text::plain_lines(reason, 2_000, "  ")
            );
        }
        if listed.is_empty() && loaded.failures.is_empty() {
            note!("no plugins in {}", config.plugins_dir.display());
        }
    }
    Ok(match loaded.failures.is_empty() {
        true => Exit::Done,
        false => Exit::Failed,
    })
}

fn write_page(page: &mut Page, listed: &[(LoadedPlugin, Vec<Row>)]) {
    if listed.is_empty() {
        return;
    }
    let mut rows = vec![["plugin", "version", "size", "grants", "tools"].map(str::to_owned)];
    for (plugin, grants) in listed {
        let tools: Vec<&str> = plugin
            .tools
            .iter()
            .map(|tool| tool.declaration.name.as_str())
            .collect();
        rows.push([
            plugin.manifest.name.clone(),
            text::plain_line(&plugin.manifest.version, 32),
            text::size(plugin.plugin.component.size_bytes()),
            grants_words(grants),
            offered(&text::plain_line(&tools.join(", "), 400), &plugin.offers),
        ]);
    }
    page.table(&rows);
}

fn write_grants(page: &mut Page, listed: &[(LoadedPlugin, Vec<Row>)]) {
    let titles = ["plugin", "grant", "", "", "asked", "given"].map(str::to_owned);
    let mut rows = vec![titles];
    for (plugin, grants) in listed {
        for grant in grants {
            let [kind, name, asked, given] = grant_cells(grant);
            let effect = effect_word(grant.effect, true);
            let plugin = plugin.manifest.name.clone();
            rows.push([plugin, kind, name, effect, asked, given]);
        }
    }
    if rows.len() > 1 {
        page.gap();
        page.table(&rows);
    }
}

/// The host's own word: it may have been started with other flags, or still be loading.
fn write_running(page: &mut Page, running: &Serving, listed: &[(LoadedPlugin, Vec<Row>)]) {
    let titles = ["running host", "version", "sha256", "grants"];
    let mut rows = vec![titles.map(str::to_owned)];
    for (name, plugin) in &running.plugins {
        let mut ours = listed.iter();
        let ours = ours.find(|(ours, _)| ours.manifest.name == *name);
        rows.push([
            name.clone(),
            text::plain_line(&plugin.version, 32),
            plugin.sha256.chars().take(16).collect(),
            match ours.map(|(ours, _)| has_grants_of(plugin, ours)) {
                Some(true) => "as above".to_owned(),
                Some(false) => {
                    let words = "others; restart it to give those above";
                    text::out().yellow().apply_to(words).to_string()
                }
                None => "–".to_owned(),
            },
        ]);
    }
    for (name, reason) in &running.failures {
        rows.push([
            text::plain_line(name, 64),
            "failed".to_owned(),
            String::new(),
            text::plain_line(reason, 300),
        ]);
    }
    page.gap();
    page.table(&rows);
}

/// Marks the secrets whose variables the running host does not have. This process has its own.
fn mark_unset(rows: &mut [Row], plugin: &LoadedPlugin, running: &Serving) {
    let served = running.plugins.get(&plugin.manifest.name);
    let Some(served) = served.filter(|served| has_grants_of(served, plugin)) else {
        return;
    };
    let secrets = rows.iter_mut().filter(|row| row.kind == Kind::Secret);
    for row in secrets.filter(|row| served.unset_secrets.contains(&row.name)) {
        row.effect = Effect::Missing;
    }
}

/// Whether the running host gives a plugin what the configuration says now: it is read at its start.
fn has_grants_of(running: &ServingPlugin, ours: &LoadedPlugin) -> bool {
    running.grants_sha256 == ours.plugin.grants.digest().to_string()
}

/// `2 of 3 granted`, and what else deserves a look.
fn grants_words(rows: &[Row]) -> String {
    let count = |effect: Effect| rows.iter().filter(|row| row.effect == effect).count();
    let unasked = count(Effect::NotAsked);
    let asked = rows.len() - unasked;
    let granted = count(Effect::Granted) + count(Effect::Narrowed);
    let asks = count(Effect::Asks);
    let missing = count(Effect::Missing);
    let mut words = match asked {
        0 => "asks for nothing".to_owned(),
        _ => format!("{granted} of {asked} granted"),
    };
    if asks > 0 {
        words += &format!(", {asks} asked at run time");
    }
    if missing > 0 {
        words += &format!(", {missing} missing on the host");
    }
    if unasked > 0 {
        words += &format!(", {unasked} given in vain");
    }
    words
}

/// Its tools, and how much there is beside them.
fn offered(tools: &str, offers: &Offers) -> String {
    let counts = [
        (offers.resources.len(), "resource"),
        (offers.templates.len(), "template"),
        (offers.prompts.len(), "prompt"),
    ];
    let mut words = tools.to_owned();
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        let plural = if count == 1 { "" } else { "s" };
        words += &format!(" · {count} {what}{plural}");
    }
    words
}

fn plugin_json((plugin, grants): &(LoadedPlugin, Vec<Row>), running: Option<&Serving>) -> Value {
    let served = running.and_then(|running| running.plugins.get(&plugin.manifest.name));
    let tools: Vec<&str> = plugin
        .tools
        .iter()
        .map(|tool| tool.declaration.name.as_str())
        .collect();
    json!({
        "name": plugin.manifest.name,
        "version": plugin.manifest.version,
        "sizeBytes": plugin.plugin.component.size_bytes(),
        "sha256": plugin.plugin.digest.to_string(),
        "tools": tools,
        "resources": resources_json(&plugin.offers),
        "resourceTemplates": templates_json(&plugin.offers),
        "prompts": prompts_json(&plugin.offers),
        "grants": grants.iter().map(row_json).collect::<Vec<_>>(),
        // Null where no host serves it.
        "grantsNeedRestart": served.map(|served| !has_grants_of(served, plugin)),
    })
}
