//! `longshore plugin build`: a plugin crate becomes a directory that a host can serve.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Deserialize;
use serde_json::json;

use super::target::{self, TARGET};
use crate::catalog::load::read_manifest;
use crate::catalog::manifest::{MANIFEST_FILE, Manifest};
use crate::cli::exit::{Exit, Failure};
use crate::cli::print::note;
use crate::cli::whole::{Readers, Whole};
use crate::cli::{render, text};

/// Under the directory the command runs in.
const OUT_DIR: &str = "target/plugins";
/// Apart from the host's own, so that neither build throws away the other's work.
const GUEST_TARGET_DIR: &str = "target/guests";

const EXAMPLES: &str = "\
Examples:
  longshore plugin build plugins/report-export
  longshore plugin build plugins/report-export plugins/release-gate
  longshore serve --plugins target/plugins

Each DIR is a crate with a plugin.toml. The component and its plugin.toml go to
target/plugins/NAME. A missing wasm32-wasip2 target is fetched with rustup.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct BuildArgs {
    /// Plugin crates
    #[arg(required = true, value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// Where the built plugins go
    #[arg(long, value_name = "DIR", default_value = OUT_DIR)]
    pub out: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A plugin that was built.
pub struct Built {
    pub name: String,
    pub version: String,
    pub directory: PathBuf,
    pub size_bytes: u64,
    pub took: Duration,
}

pub fn run(args: &BuildArgs) -> Result<Exit, Failure> {
    let built = build_all(&args.directories, &args.out, Path::new(GUEST_TARGET_DIR))?;
    if args.json {
        let plugins = built.iter().map(|built| {
            json!({
                "name": built.name,
                "version": built.version,
                "directory": built.directory,
                "sizeBytes": built.size_bytes,
            })
        });
        render::json(&json!({ "plugins": plugins.collect::<Vec<_>>() }));
    }
    Ok(Exit::Done)
}

/// Builds every plugin and says so; the first that fails ends it.
pub fn build_all(
    directories: &[PathBuf],
    out: &Path,
    target_dir: &Path,
) -> Result<Vec<Built>, Failure> {
    let target_dir = std::path::absolute(target_dir)
        .map_err(|error| Failure::usage(format!("{}: {error}", target_dir.display())))?;
    // Mistakes come to light before the first long build.
    let manifests = directories
        .iter()
        .map(|directory| check_crate(directory))
        .collect::<Result<Vec<_>, _>>()?;
    let mut built = Vec::new();
    for (directory, manifest) in directories.iter().zip(manifests) {
        target::ensure(directory)?;
        let plugin = build(directory, &manifest, out, &target_dir)?;
        note!(
            "{} {:<18} {:<8} {:>10}  {:>7}  {}",
            text::green("built"),
            plugin.name,
            text::plain_line(&plugin.version, 16),
            text::size(plugin.size_bytes),
            text::duration(plugin.took),
            text::dim(&text::path(&plugin.directory)),
        );
        built.push(plugin);
    }
    Ok(built)
}

fn check_crate(directory: &Path) -> Result<Manifest, Failure> {
    let cargo_toml = directory.join("Cargo.toml");
    if !cargo_toml.is_file() {
        return Err(Failure::usage(format!(
            "{} is no crate: it has no Cargo.toml",
            directory.display()
        )));
    }
    if !directory.join(MANIFEST_FILE).is_file() {
        return Err(Failure::usage(format!(
            "{} is no plugin: it has no {MANIFEST_FILE}, which says its name, version, component \
             and what it asks for",
            directory.display()
        )));
    }
    read_manifest(directory).map_err(|error| Failure::usage(error.to_string()))
}

fn build(
    directory: &Path,
    manifest: &Manifest,
    out: &Path,
    target_dir: &Path,
) -> Result<Built, Failure> {
    let start = Instant::now();
    let component = compile(directory, target_dir)?;
    let place = out.join(&manifest.name);
    let failed = |error: std::io::Error| Failure::failed(format!("{}: {error}", place.display()));
    std::fs::create_dir_all(&place).map_err(failed)?;
    // The manifest comes last: a host that watches takes it as the sign that all is there.
    copy_whole(&component, &place.join(&manifest.component)).map_err(failed)?;
    copy_whole(&directory.join(MANIFEST_FILE), &place.join(MANIFEST_FILE)).map_err(failed)?;
    let size_bytes = std::fs::metadata(&component).map_err(failed)?.len();
    Ok(Built {
        name: manifest.name.clone(),
        version: manifest.version.clone(),
        directory: place,
        size_bytes,
        took: start.elapsed(),
    })
}

/// A line of cargo's `--message-format=json`, as far as it matters here.
#[derive(Deserialize)]
struct CargoMessage {
    reason: String,
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

/// Runs cargo, whose own words go to standard error, and finds the component it made.
fn compile(directory: &Path, target_dir: &Path) -> Result<PathBuf, Failure> {
    let mut cargo = Command::new("cargo");
    target::without_surrounding_build(&mut cargo);
    cargo
        .args(["build", "--release", "--lib", "--target", TARGET])
        .args(["--message-format", "json-render-diagnostics"])
        .arg("--target-dir")
        .arg(target_dir)
        // From the crate's own directory, so that its toolchain file and cargo configuration count.
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let cannot_run = |error: std::io::Error| {
        Failure::usage(format!(
            "can't run cargo ({error}); install Rust with rustup: https://rustup.rs"
        ))
    };
    let mut child = cargo.spawn().map_err(cannot_run)?;
    let own_manifest = std::fs::canonicalize(directory.join("Cargo.toml")).map_err(cannot_run)?;
    let mut component = None;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line.map_err(cannot_run)?;
            component = component_of(&line, &own_manifest).or(component);
        }
    }
    let status = child.wait().map_err(cannot_run)?;
    if !status.success() {
        return Err(Failure::failed(format!(
            "{} does not build; cargo's messages above say why",
            directory.display()
        )));
    }
    component.ok_or_else(|| {
        Failure::usage(format!(
            "{} made no component; its Cargo.toml needs [lib] crate-type = [\"cdylib\"]",
            directory.display()
        ))
    })
}

fn component_of(line: &str, own_manifest: &Path) -> Option<PathBuf> {
    let message: CargoMessage = serde_json::from_str(line).ok()?;
    if message.reason != "compiler-artifact" || message.manifest_path != own_manifest {
        return None;
    }
    message.filenames.into_iter().find(|file| {
        file.extension()
            .is_some_and(|extension| extension == "wasm")
    })
}

/// Nobody sees half a file.
fn copy_whole(from: &Path, to: &Path) -> std::io::Result<()> {
    let mut file = Whole::create(to, Readers::Usual)?;
    std::io::copy(&mut File::open(from)?, &mut file)?;
    file.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_component_is_the_one_of_the_plugins_own_crate() {
        let line = |manifest: &str, file: &str| {
            json!({
                "reason": "compiler-artifact", "manifest_path": manifest, "filenames": [file],
            })
            .to_string()
        };
        let own = Path::new("/a/Cargo.toml");
        assert_eq!(
            component_of(&line("/a/Cargo.toml", "/t/a.wasm"), own),
            Some("/t/a.wasm".into())
        );
        assert_eq!(component_of(&line("/b/Cargo.toml", "/t/b.wasm"), own), None);
        assert_eq!(
            component_of(&line("/a/Cargo.toml", "/t/liba.rlib"), own),
            None
        );
        assert_eq!(component_of("not JSON", own), None);
    }

    #[test]
    fn a_directory_that_is_no_plugin_is_refused_before_anything_is_built() {
        let directory = tempfile::tempdir().unwrap();
        let failure = check_crate(directory.path()).unwrap_err();
        assert!(
            failure.message.contains("no Cargo.toml"),
            "{}",
            failure.message
        );
        std::fs::write(directory.path().join("Cargo.toml"), "").unwrap();
        let failure = check_crate(directory.path()).unwrap_err();
        assert!(
            failure.message.contains("no plugin.toml"),
            "{}",
            failure.message
        );
    }
}
