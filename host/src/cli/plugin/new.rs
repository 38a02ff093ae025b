//! `longshore plugin new`: writes the crate of a plugin that works and has a test, to begin from.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::catalog::manifest::{self, MANIFEST_FILE};
use crate::cli::exit::{Exit, Failure};
use crate::cli::print::note;
use crate::cli::text;

const CARGO_TOML: &str = include_str!("template/Cargo.toml.txt");
const PLUGIN_TOML: &str = include_str!("template/plugin.toml.txt");
const LIB_RS: &str = include_str!("template/lib.rs.txt");

/// The SDK's crate, and its directory in a checkout.
const SDK_CRATE: &str = "longshore-plugin";
const SDK_DIRECTORY: &str = "plugin-sdk";

const EXAMPLES: &str = "\
Examples:
  longshore plugin new greet
  longshore plugin new tools/greet --sdk ../longshore/plugin-sdk

The last part of DIR is the plugin's name. What is there already is left alone.
Without --sdk, the SDK is looked for in `plugin-sdk` of this directory and of those above it.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct NewArgs {
    /// The directory to make
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Where `longshore-plugin`, the SDK, is: the `plugin-sdk` of a checkout of Longshore
    #[arg(
        long,
        value_name = "DIR",
        env = "LONGSHORE_SDK",
        hide_env_values = true
    )]
    sdk: Option<PathBuf>,
}

pub fn run(args: &NewArgs) -> Result<Exit, Failure> {
    let directory = &args.directory;
    let name = directory.file_name().and_then(|name| name.to_str());
    let name = name.unwrap_or_default();
    // Cargo wants a letter first; the rest is what a manifest takes.
    if !manifest::is_plugin_name(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        return Err(Failure::usage(format!(
            "the directory's name becomes the plugin's, which is 1 to 48 of a-z, 0-9 and `-` after \
             a letter; `{}` is none",
            text::plain_line(name, 60)
        )));
    }
    if directory.exists() {
        let directory = directory.display();
        return Err(Failure::usage(format!(
            "{directory} is there already; name one that is not"
        )));
    }
    let sdk = find_sdk(args.sdk.as_deref())?;
    let fill = |template: &str| {
        let file = name.replace('-', "_");
        let filled = template.replace("{name}", name).replace("{file}", &file);
        filled.replace("{sdk}", &sdk.to_string())
    };
    let write = || {
        std::fs::create_dir_all(directory.join("src"))?;
        std::fs::write(directory.join("Cargo.toml"), fill(CARGO_TOML))?;
        std::fs::write(directory.join(MANIFEST_FILE), fill(PLUGIN_TOML))?;
        std::fs::write(directory.join(".gitignore"), "/target\n")?;
        std::fs::write(directory.join("src/lib.rs"), fill(LIB_RS))
    };
    let shown = directory.display();
    write().map_err(|error| Failure::failed(format!("can't write {shown}: {error}")))?;
    note!("{} {shown}", text::green("made"));
    for line in [
        format!("longshore plugin build {shown}      into target/plugins/{name}"),
        "longshore serve --plugins target/plugins".to_owned(),
        format!("longshore call {name} up_to=100"),
    ] {
        note!("  {}", text::dim(&line));
    }
    Ok(Exit::Done)
}

/// The SDK's directory, as TOML.
fn find_sdk(given: Option<&Path>) -> Result<toml::Value, Failure> {
    let found = match given {
        Some(directory) if is_sdk(directory) => directory.to_owned(),
        Some(directory) => {
            return Err(Failure::usage(format!(
                "there is no `{SDK_CRATE}` at {}; give the `{SDK_DIRECTORY}` of a checkout of \
                 Longshore with --sdk",
                directory.display()
            )));
        }
        None => find_above().ok_or_else(|| {
            Failure::usage(format!(
                "there is no `{SDK_DIRECTORY}` with the SDK here or above; give that of a checkout \
                 of Longshore with --sdk or LONGSHORE_SDK"
            ))
        })?,
    };
    let shown = found.display();
    let whole = std::fs::canonicalize(&found)
        .map_err(|error| Failure::failed(format!("can't look at {shown}: {error}")))?;
    match whole.to_str() {
        Some(path) => Ok(path.into()),
        None => Err(Failure::usage(format!(
            "{shown} is not UTF-8, which a Cargo.toml must be; move the SDK"
        ))),
    }
}

fn find_above() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let mut places = here.ancestors().map(|above| above.join(SDK_DIRECTORY));
    places.find(|place| is_sdk(place))
}

fn is_sdk(directory: &Path) -> bool {
    let text = std::fs::read_to_string(directory.join("Cargo.toml")).unwrap_or_default();
    let package = text.parse::<toml::Table>();
    package.is_ok_and(|file| {
        let name = file.get("package").and_then(|package| package.get("name"));
        name.and_then(toml::Value::as_str) == Some(SDK_CRATE)
    })
}
