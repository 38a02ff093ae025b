//! Components that published crates ship for their own tests: each is refused with the right reason.
//! They are in the crates that the guests are built with, of the versions in `plugins/Cargo.lock`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use longshore::wasm::{Compiler, LoadError, Sandbox};

use super::fixture::limits;

/// The directory of a crate's source.
fn source_of(name: &str) -> PathBuf {
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/Cargo.toml");
    let metadata = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--manifest-path",
        ])
        .arg(plugins)
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|package| package["name"] == name);
    let manifest = package.unwrap()["manifest_path"].as_str().unwrap();
    Path::new(manifest).parent().unwrap().to_owned()
}

/// Every component of a crate's tests, under the name of its directory.
fn components(crate_name: &str) -> Vec<(String, Vec<u8>)> {
    let cases = source_of(crate_name).join("tests/components");
    let mut components = Vec::new();
    for case in std::fs::read_dir(cases).unwrap() {
        let case = case.unwrap();
        let text = case.path().join("component.wat");
        if text.is_file() {
            let name = case.file_name().into_string().unwrap();
            components.push((name, wat::parse_file(text).unwrap()));
        }
    }
    components.sort();
    components
}

#[tokio::test]
async fn components_of_other_worlds_are_refused_with_the_right_reason() {
    let dir = tempfile::tempdir().unwrap();
    // They are no attackers, and a process each would take most of the time.
    let sandbox = Sandbox::with_compiler(limits(), dir.path(), Compiler::InProcess).unwrap();
    let mut no_plugins = 0;
    // What of a component is unknown here, with the names of those that have it.
    let mut unknown: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, wasm) in components("wit-component") {
        match sandbox.load(&wasm).await {
            Err(LoadError::NotAPlugin { .. }) => no_plugins += 1,
            Err(LoadError::Invalid(what)) => {
                let what = what
                    .rsplit_once(" (at offset")
                    .map_or(&*what, |(what, _)| what);
                let what = what.rsplit_once("module: ").map_or(what, |(_, what)| what);
                unknown.entry(what.to_owned()).or_default().push(name);
            }
            Err(error) => panic!("{name}: {error}"),
            Ok(_) => panic!("{name} was taken for a plugin"),
        }
    }
    assert_eq!(no_plugins, 99);
    let told: Vec<String> = unknown
        .iter()
        .map(|(what, names)| format!("{what}: {}", names.join(" ")))
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    `backpressure.inc` requires the component model async feature: async-builtins import-memory-async-builtins return-call-ref-async
    `context.get` requires the component model async feature: link-wasip3-abi link-wasip3-tls link-wasip3-tls-no-threads threading-wasm-ld-symbols threading-wasm-ld-symbols-coop threading-wasm-ld-symbols64
    `future` requires the component model async feature: async-import-only-intrinsic async-import-tricky async-streams-and-futures async-unit-builtins realloc-task-hook-async
    `stream` requires the component model async feature: return-call-ref-payloads
    `task.cancel` requires the component model async feature: async-task-return-param-string threading
    `task.return` requires the component model async feature: link-lib-with-async-export
    `thread.new-indirect` requires the component model threading feature: link-thread-new-indirect
    async component functions require the component model async feature: async-export async-export-with-callback async-import wasm-init-task
    exceptions proposal not enabled: link-tag
    the `cm-implements` feature is not active: implements
    the custom page sizes proposal must be enabled to customize a memory's page size: custom-page-sizes
    ");
}
