//! `longshore plugin list`: what a host with this configuration would serve, and what the one that
//! runs on the data directory does serve.

use clap::Args;

use super::describe::{effect_word, grant_cells};
use super::workshop::Workshop;
use crate::admin::{Listed, Serving};
use crate::catalog::grants::{Effect, Row};
use crate::catalog::offers::Offers;
use crate::cli::exit::{Exit, Failure};
use crate::cli::page::Page;
use crate::cli::place::ServedArgs;
use crate::cli::print::note;
use crate::cli::{render, text};

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
    let listing = Workshop::open(&config)?.admin.list().await;
    if args.json {
        render::json(&listing.to_json());
    } else {
        let mut page = Page::of_terminal();
        write_page(&mut page, &listing.plugins);
        write_grants(&mut page, &listing.plugins);
        if let Some(host) = &listing.host {
            write_host(&mut page, host, &listing.plugins);
        }
        page.print();
        for (name, reason) in &listing.failures {
            note!(
                "{} {}: {}",
                text::red("failed"),
                text::plain_line(name, 200),
                text::plain_lines(reason, 2_000, "  ")
            );
        }
        if listing.plugins.is_empty() && listing.failures.is_empty() {
            note!("no plugins in {}", config.plugins_dir.display());
        }
    }
    Ok(match listing.failures.is_empty() {
        true => Exit::Done,
        false => Exit::Failed,
    })
}

fn write_page(page: &mut Page, listed: &[Listed]) {
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

fn write_grants(page: &mut Page, listed: &[Listed]) {
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
fn write_host(page: &mut Page, host: &Serving, listed: &[Listed]) {
    let titles = ["running host", "version", "sha256", "grants"];
    let mut rows = vec![titles.map(str::to_owned)];
    for (name, plugin) in &host.plugins {
        let mut ours = listed.iter();
        let ours = ours.find(|(ours, _)| ours.manifest.name == *name);
        rows.push([
            name.clone(),
            text::plain_line(&plugin.version, 32),
            plugin.sha256.chars().take(16).collect(),
            match ours.map(|(ours, _)| plugin.has_grants_of(ours)) {
                Some(true) => "as above".to_owned(),
                Some(false) => {
                    let words = "others; restart it to give those above";
                    text::out().yellow().apply_to(words).to_string()
                }
                None => "–".to_owned(),
            },
        ]);
    }
    for (name, reason) in &host.failures {
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
