//! `longshore plugin new`: writes the crate of a plugin that works and has a test, to begin from.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::catalog::manifest::{self, MANIFEST_FILE};
use crate::cli::exit::{Exit, Failure};
use crate::cli::text;

const CARGO_TOML: &str = include_str!("template/Cargo.toml.txt");
const PLUGIN_TOML: &str = include_str!("template/plugin.toml.txt");
const LIB_RS: &str = include_str!("template/lib.rs.txt");

/// Where the SDK was when this program was built.
const SDK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin-sdk");

const EXAMPLES: &str = "\
Examples:
  longshore plugin new greet
  longshore plugin new tools/greet --sdk ../longshore/plugin-sdk

The last part of DIR is the plugin's name. What is there already is left alone.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct NewArgs {
    /// The directory to make
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Where `longshore-plugin`, the SDK, is [default: in the checkout this program was built from]
    #[arg(long, value_name = "DIR", default_value = SDK, hide_default_value = true)]
    sdk: PathBuf,
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
    let sdk = std::fs::canonicalize(&args.sdk)
        .ok()
        .filter(|sdk| sdk.join("Cargo.toml").is_file());
    let sdk = sdk.as_deref().and_then(Path::to_str).ok_or_else(|| {
        Failure::usage(format!(
            "there is no SDK at {}; give the `plugin-sdk` of a checkout of Longshore with --sdk",
            args.sdk.display()
        ))
    })?;
    let fill = |template: &str| {
        let file = name.replace('-', "_");
        let filled = template.replace("{name}", name).replace("{file}", &file);
        filled.replace("{sdk}", &sdk.escape_default().to_string())
    };
    let write = || {
        std::fs::create_dir_all(directory.join("src"))?;
        std::fs::write(directory.join("Cargo.toml"), fill(CARGO_TOML))?;
        std::fs::write(directory.join(MANIFEST_FILE), fill(PLUGIN_TOML))?;
        std::fs::write(directory.join("src/lib.rs"), fill(LIB_RS))
    };
    let shown = directory.display();
    write().map_err(|error| Failure::failed(format!("can't write {shown}: {error}")))?;
    eprintln!("{} {shown}", text::green("made"));
    for line in [
        format!("longshore plugin build {shown}      into target/plugins/{name}"),
        "longshore serve --plugins target/plugins".to_owned(),
        format!("longshore call {name} up_to=100"),
    ] {
        eprintln!("  {}", text::dim(&line));
    }
    Ok(Exit::Done)
}
