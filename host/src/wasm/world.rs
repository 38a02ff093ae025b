//! Which components are plugins for this host, by the names of what they import and export. That is
//! looked at before a component is compiled, which costs far more, and again in what was compiled.

use wasmparser::{Parser, Payload};

use super::WorldError;

/// The interface a plugin exports, with the version this host speaks.
pub(super) const CONTRACT: &str = "longshore:plugin/tools@0.1.0";

/// What a plugin may export beside its tools.
pub(super) const RESOURCES: &str = "longshore:plugin/resources@0.1.0";
pub(super) const PROMPTS: &str = "longshore:plugin/prompts@0.1.0";
pub(super) const COMPLETION: &str = "longshore:plugin/completion@0.1.0";

/// What all of these begin with, to recognise plugins for other hosts.
const PACKAGE: &str = "longshore:plugin/";

/// What the host offers of its own.
const HOOKS: [&str; 4] = [
    "longshore:plugin/control@0.1.0",
    "longshore:plugin/state@0.1.0",
    "longshore:plugin/types@0.1.0",
    "wasi:config/store@0.2.0-rc.1",
];

/// The WASI packages the host offers, of the 0.2 line. Sockets are there because language runtimes
/// import them; every address is denied.
const WASI_PACKAGES: [&str; 7] = [
    "wasi:cli",
    "wasi:clocks",
    "wasi:filesystem",
    "wasi:http",
    "wasi:io",
    "wasi:random",
    "wasi:sockets",
];

/// Names shown of what a component wrongly has, and characters of each, so that an error stays
/// readable.
const NAMES_SHOWN_MAX: usize = 20;
const NAME_SHOWN_MAX_CHARS: usize = 120;

/// The names of what a plugin for this host imports and exports, sorted.
pub(super) struct World {
    pub imports: Vec<String>,
    pub exports: Vec<String>,
}

impl World {
    pub fn check(mut imports: Vec<String>, mut exports: Vec<String>) -> Result<World, WorldError> {
        exports.sort();
        check_exports(&exports)?;
        imports.sort();
        let unknown = imports.iter().filter(|name| !is_offered(name));
        match shown(unknown) {
            unknown if unknown.is_empty() => Ok(World { imports, exports }),
            unknown => Err(WorldError::UnknownImports(unknown)),
        }
    }
}

/// Looks for a component's own imports and exports, in time that grows with its size only. Whether
/// the rest is valid is the compiler's to say, and so is what can't be read here.
pub(super) fn check_file(wasm: &[u8]) -> Result<(), WorldError> {
    match read_names(wasm) {
        Ok((imports, exports)) => World::check(imports, exports).map(drop),
        Err(_) => Ok(()),
    }
}

fn read_names(wasm: &[u8]) -> wasmparser::Result<(Vec<String>, Vec<String>)> {
    let (mut imports, mut exports) = (Vec::new(), Vec::new());
    // Modules and components inside have imports and exports of their own.
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(wasm) {
        match payload? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    imports.push(import?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    exports.push(export?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok((imports, exports))
}

fn check_exports(exports: &[String]) -> Result<(), WorldError> {
    let known = [CONTRACT, RESOURCES, PROMPTS, COMPLETION];
    let foreign = exports
        .iter()
        .find(|name| name.starts_with(PACKAGE) && !known.contains(&name.as_str()));
    if let Some(found) = foreign {
        return Err(WorldError::OtherContract { found: cut(found) });
    }
    if exports.iter().any(|name| name == CONTRACT) {
        return Ok(());
    }
    Err(WorldError::NotAPlugin {
        exports: shown(exports.iter()),
    })
}

fn is_offered(name: &str) -> bool {
    if HOOKS.contains(&name) {
        return true;
    }
    let package = name.split_once('/').map(|(package, _)| package);
    let version = name.split_once('@').map(|(_, version)| version);
    package.is_some_and(|package| WASI_PACKAGES.contains(&package))
        && version.is_some_and(|version| version.starts_with("0.2."))
}

fn shown<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut names = names;
    let mut shown: Vec<String> = names
        .by_ref()
        .take(NAMES_SHOWN_MAX)
        .map(|name| cut(name))
        .collect();
    match names.count() {
        0 => {}
        more => shown.push(format!("and {more} more")),
    }
    shown
}

fn cut(name: &str) -> String {
    name.chars().take(NAME_SHOWN_MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_exports_tools_and_nothing_of_another_contract() {
        let check = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            check_exports(&names)
        };
        assert!(check(&[CONTRACT]).is_ok());
        assert!(check(&[COMPLETION, PROMPTS, RESOURCES, CONTRACT, "other:thing/x"]).is_ok());
        assert!(matches!(
            check(&[RESOURCES]),
            Err(WorldError::NotAPlugin { .. })
        ));
        for name in [
            "longshore:plugin/tools@0.2.0",
            "longshore:plugin/resources@0.2.0",
        ] {
            let error = check(&[CONTRACT, name]);
            assert!(
                matches!(error, Err(WorldError::OtherContract { found }) if found == name),
                "{name}"
            );
        }
    }

    #[test]
    fn only_wasi_of_the_second_preview_and_the_hooks_are_offered() {
        for name in ["wasi:io/streams@0.2.3", "longshore:plugin/control@0.1.0"] {
            assert!(is_offered(name), "{name}");
        }
        for name in [
            "wasi:io/streams@0.3.0",
            "wasi:nn/graph@0.2.0",
            "longshore:plugin/control@0.2.0",
            "env",
        ] {
            assert!(!is_offered(name), "{name}");
        }
    }

    #[test]
    fn what_components_inside_export_is_not_the_components_own() {
        let inner = format!(r#"(component (instance $i) (export "{CONTRACT}" (instance $i)))"#);
        let check = |text: &str| check_file(&wat::parse_str(text).unwrap());
        assert_eq!(check(&inner), Ok(()));
        let outer = format!(
            r#"(component {inner} (core module (func (export "f"))) (instance $i)
                (export "a:b/c" (instance $i)))"#
        );
        let exports = vec!["a:b/c".to_owned()];
        assert_eq!(check(&outer), Err(WorldError::NotAPlugin { exports }));
    }

    #[test]
    fn an_error_shows_so_much_of_so_many_names() {
        let exports = (0..30)
            .map(|n| format!("{n:02}{}", "é".repeat(1_000)))
            .collect();
        let error = World::check(Vec::new(), exports).err().unwrap();
        let WorldError::NotAPlugin { exports } = error else {
            panic!("{error}");
        };
        assert_eq!(exports.len(), NAMES_SHOWN_MAX + 1);
        assert_eq!(exports[0].chars().count(), NAME_SHOWN_MAX_CHARS);
        assert_eq!(exports.last().unwrap(), "and 10 more");
    }
}
