//! Who may import whom (`ARCHITECTURE.md`), kept true.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Every module with the modules of this crate it may name.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("clock", &[]),
    ("harm", &[]),
    ("task", &["clock"]),
    ("notify", &["task"]),
    ("schema", &["harm", "plain", "task"]),
    ("store", &["clock", "harm", "notify", "task"]),
    ("scheduler", &["clock", "notify", "schema", "store", "task"]),
    ("plain", &[]),
    ("threads", &[]),
    ("paths", &[]),
    ("wasm", &["paths", "plain", "scheduler", "task", "threads"]),
    ("config", &["paths", "task"]),
    ("admin", &["catalog", "config", "task", "wasm"]),
    (
        "catalog",
        &["config", "plain", "scheduler", "schema", "task", "wasm"],
    ),
    (
        "service",
        &[
            "catalog",
            "clock",
            "notify",
            "schema",
            "scheduler",
            "store",
            "task",
            "wasm",
        ],
    ),
    (
        "mcp",
        &[
            "admin", "catalog", "clock", "harm", "notify", "schema", "service", "task", "wasm",
        ],
    ),
    ("http", &["mcp", "service", "task"]),
    ("local", &["mcp", "task"]),
    ("telemetry", &["plain"]),
    (
        "app",
        &[
            "admin",
            "catalog",
            "clock",
            "config",
            "http",
            "local",
            "mcp",
            "notify",
            "scheduler",
            "service",
            "store",
            "task",
            "wasm",
        ],
    ),
    (
        "cli",
        &[
            "admin",
            "app",
            "catalog",
            "config",
            "paths",
            "plain",
            "schema",
            "store",
            "task",
            "telemetry",
            "threads",
            "wasm",
        ],
    ),
];

/// Crates that one part of the tree keeps to itself.
const OWNERS: &[(&str, &[&str])] = &[
    ("sled", &["store"]),
    ("wasmtime", &["wasm"]),
    ("wasmtime_wasi", &["wasm"]),
    ("wasmtime_wasi_http", &["wasm"]),
    ("axum", &["http", "mcp"]),
    ("jsonschema", &["schema"]),
    ("reqwest", &["cli"]),
    ("libc", &["cli", "threads"]),
    ("notify_events", &["catalog"]),
    ("rmcp", &["mcp"]),
];

#[test]
fn modules_import_only_what_the_table_allows() {
    let allowed: BTreeMap<&str, &[&str]> = MAY_IMPORT.iter().copied().collect();
    let mut wrong = Vec::new();
    for (module, file, text) in sources() {
        let Some(allowed) = allowed.get(module.as_str()) else {
            wrong.push(format!("{module} is not in the table"));
            continue;
        };
        for other in named_after(&text, "crate::") {
            if other != module && !allowed.contains(&other.as_str()) {
                wrong.push(format!("{} names crate::{other}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn crates_are_named_by_their_owner_only() {
    let mut wrong = Vec::new();
    for (module, file, text) in sources() {
        for (name, owners) in OWNERS {
            if text.contains(&format!("{name}::")) && !owners.contains(&module.as_str()) {
                wrong.push(format!("{} names {name}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is printed passes one place, which takes out what could drive a terminal.
#[test]
fn only_one_file_of_the_command_line_prints() {
    let is_gate = |file: &Path| file == Path::new("cli/print.rs");
    let prints = |text: &str| {
        ["print!(", "println!(", "!(io::std"]
            .iter()
            .any(|word| text.contains(word))
    };
    let wrong: Vec<PathBuf> = sources()
        .into_iter()
        .filter(|(module, file, text)| module == "cli" && !is_gate(file) && prints(text))
        .map(|(_, file, _)| file)
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Every source file of the host with its top module and its code, comments left out.
fn sources() -> Vec<(String, PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    let is_root = |name: &str| name == "lib.rs" || name == "main.rs";
    files
        .into_iter()
        .filter_map(|file| {
            let inside = file.strip_prefix(&root).unwrap().to_owned();
            let first = inside.iter().next()?.to_str()?.to_owned();
            let text = std::fs::read_to_string(&file).unwrap();
            let code: String = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
                .map(|line| format!("{line}\n"))
                .collect();
            let module = first.trim_end_matches(".rs").to_owned();
            (!is_root(&first)).then_some((module, inside, code))
        })
        .collect()
}

/// The identifiers that follow `prefix`.
fn named_after(text: &str, prefix: &str) -> Vec<String> {
    text.split(prefix)
        .skip(1)
        .map(|rest| {
            let end = rest
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            rest[..end].to_owned()
        })
        .filter(|name| !name.is_empty())
        .collect()
}
