//! `longshore plugin inspect`: one plugin, in full, without serving it or giving it anything.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::describe::Description;
use crate::catalog::grants::{compare_with_host, effective};
use crate::catalog::load::{CheckedTool, PluginError, load_component, load_plugin, read_manifest};
use crate::catalog::manifest::Manifest;
use crate::catalog::offers::Offers;
use crate::catalog::sandbox_limits;
use crate::cli::exit::{Exit, Failure};
use crate::cli::page::Page;
use crate::cli::render;
use crate::config::{Config, Given, Overrides};
use crate::wasm::{Component, Sandbox};

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
    let described = describe(&workshop, &args.plugin, &config, has_config).await;
    let description = described
        .map_err(|error| Failure::failed(format!("{}: {error}", args.plugin.display())))?;
    match args.json {
        true => render::json(&description.to_json()),
        false => {
            let mut page = Page::of_terminal();
            description.write(&mut page);
            page.print();
        }
    }
    Ok(Exit::Done)
}

async fn describe(
    workshop: &Workshop,
    path: &Path,
    config: &Config,
    has_config: bool,
) -> Result<Description, PluginError> {
    let max_bytes = config.limits.component_max_bytes;
    if path.is_dir() {
        let manifest = read_manifest(path)?;
        let none = Given::default();
        let given = config.given.get(&manifest.name).unwrap_or(&none);
        let grants = Arc::new(effective(&manifest.grants, given));
        let rows = compare_with_host(&manifest.grants, given);
        let loaded = load_plugin(&workshop.sandbox, path, manifest, grants, max_bytes).await?;
        let component = &loaded.plugin.component;
        let file = loaded.manifest.component.display().to_string();
        let mut described = bare(file, component, loaded.tools, loaded.offers);
        described.manifest = Some(loaded.manifest);
        described.grants = rows;
        described.has_config = has_config;
        return Ok(described);
    }
    let (component, tools, offers) = load_component(&workshop.sandbox, path, max_bytes).await?;
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    Ok(bare(name.unwrap_or_default(), &component, tools, offers))
}

fn bare(
    file: String,
    component: &Component,
    tools: Vec<CheckedTool>,
    offers: Offers,
) -> Description {
    Description {
        manifest: None::<Manifest>,
        file,
        size_bytes: component.size_bytes(),
        digest: component.digest(),
        imports: component.imports(),
        tools,
        offers,
        completes: component.completes(),
        grants: Vec::new(),
        has_config: false,
    }
}

/// A sandbox to look at plugins with.
pub struct Workshop {
    pub sandbox: Sandbox,
    /// Thrown away with it: looking at a plugin leaves nothing behind.
    _cache: Option<tempfile::TempDir>,
}

impl Workshop {
    pub fn open(config: &Config) -> Result<Workshop, Failure> {
        let cache = tempfile::tempdir()
            .map_err(|error| Failure::failed(format!("no temporary directory: {error}")))?;
        let sandbox = Sandbox::new(sandbox_limits(&config.limits), cache.path())
            .map_err(|error| Failure::failed(error.to_string()))?;
        Ok(Workshop {
            sandbox,
            _cache: Some(cache),
        })
    }

    /// One that shares the compiled code of the host on the data directory, so that what is checked
    /// here need not be compiled again there.
    pub fn of_host(config: &Config) -> Result<Workshop, Failure> {
        let cache = config.data_dir.join("components");
        let sandbox = Sandbox::new(sandbox_limits(&config.limits), &cache)
            .map_err(|error| Failure::failed(error.to_string()))?;
        Ok(Workshop {
            sandbox,
            _cache: None,
        })
    }
}
