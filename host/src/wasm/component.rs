//! A component that was checked: the right kind of file, of the right world, importing nothing the
//! host does not offer. It is linked once, so that a call only instantiates.

use std::path::Path;
use std::sync::Arc;

use wasmtime::Engine;
use wasmtime::component::{Component as Code, HasSelf, Linker};

use super::bindings::{Plugin, PluginPre};
use super::guest::Guest;
use super::{LoadError, configuration, files, permission};
use crate::task::Digest;

/// The interface a plugin exports, with the version this host speaks.
pub(super) const CONTRACT: &str = "longshore:plugin/tools@0.1.0";

/// The same without its version, to recognise plugins for other hosts.
const CONTRACT_NAME: &str = "longshore:plugin/tools@";

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

/// Names shown of what a component wrongly has, so that an error stays readable.
const NAMES_SHOWN_MAX: usize = 20;

/// A component that was checked and compiled. Cheap to clone.
#[derive(Clone)]
pub struct Component(pub(super) Arc<Loaded>);

pub(super) struct Loaded {
    digest: Digest,
    size_bytes: u64,
    imports: Vec<String>,
    pre: PluginPre<Guest>,
}

impl Component {
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// Names of what the component imports, sorted.
    pub fn imports(&self) -> Vec<String> {
        self.0.imports.clone()
    }

    /// The component file's size, bytes.
    pub fn size_bytes(&self) -> u64 {
        self.0.size_bytes
    }

    pub(super) fn pre(&self) -> &PluginPre<Guest> {
        &self.0.pre
    }

    /// Maps compiled code and checks its world.
    ///
    /// # Safety
    ///
    /// `code` must be a file that this host's compiler wrote, with the content it wrote, and must
    /// not change as long as the component lives.
    pub(super) unsafe fn open(
        linker: &Linker<Guest>,
        code: &Path,
        digest: Digest,
        size_bytes: u64,
    ) -> Result<Component, LoadError> {
        let engine = linker.engine();
        // SAFETY: the caller's promise is the one that is asked for.
        let code = unsafe { Code::deserialize_file(engine, code) }
            .map_err(|error| LoadError::Demands(error.root_cause().to_string()))?;
        let imports = check_world(engine, &code)?;
        let contract_error = |error: wasmtime::Error| LoadError::Contract(format!("{error:#}"));
        let pre = linker.instantiate_pre(&code).map_err(contract_error)?;
        let pre = PluginPre::new(pre).map_err(contract_error)?;
        Ok(Component(Arc::new(Loaded {
            digest,
            size_bytes,
            imports,
            pre,
        })))
    }
}

/// Everything the host offers to guests.
pub(super) fn linker(engine: &Engine) -> Result<Linker<Guest>, LoadError> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)
        .and_then(|()| wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker))
        .and_then(|()| files::add_to_linker(&mut linker))
        .and_then(|()| permission::add_to_linker(&mut linker))
        .and_then(|()| {
            configuration::add_to_linker::<_, HasSelf<Guest>>(&mut linker, |guest| guest)
        })
        .and_then(|()| Plugin::add_to_linker::<_, HasSelf<Guest>>(&mut linker, |guest| guest))
        .map_err(|error| LoadError::Engine(format!("{error:#}")))?;
    Ok(linker)
}

/// Tells components from everything else by the first eight bytes.
pub(super) fn check_kind(wasm: &[u8]) -> Result<(), LoadError> {
    let Some((b"\0asm", rest)) = wasm.split_first_chunk::<4>() else {
        return Err(LoadError::NotWasm);
    };
    match rest.first_chunk::<4>() {
        Some([0x0d, 0, 1, 0]) => Ok(()),
        Some([1, 0, 0, 0]) => Err(LoadError::CoreModule),
        Some(layer) => Err(LoadError::UnknownEncoding(*layer)),
        None => Err(LoadError::NotWasm),
    }
}

/// The names of the imports, sorted, if the component is a plugin for this host.
fn check_world(engine: &Engine, code: &Code) -> Result<Vec<String>, LoadError> {
    let world = code.component_type();
    let names = |names: Vec<&str>| {
        let mut names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        names.sort();
        names
    };
    let exports = names(world.exports(engine).map(|(name, _)| name).collect());
    if !exports.iter().any(|name| name == CONTRACT) {
        let other = exports.iter().find(|name| name.starts_with(CONTRACT_NAME));
        return Err(match other {
            Some(found) => LoadError::OtherContract {
                found: found.clone(),
            },
            None => LoadError::NotAPlugin {
                exports: shown(exports),
            },
        });
    }
    let imports = names(world.imports(engine).map(|(name, _)| name).collect());
    let unknown: Vec<String> = imports
        .iter()
        .filter(|name| !is_offered(name))
        .cloned()
        .collect();
    if unknown.is_empty() {
        Ok(imports)
    } else {
        Err(LoadError::UnknownImports(shown(unknown)))
    }
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

fn shown(mut names: Vec<String>) -> Vec<String> {
    if names.len() > NAMES_SHOWN_MAX {
        let more = names.len() - NAMES_SHOWN_MAX;
        names.truncate(NAMES_SHOWN_MAX);
        names.push(format!("and {more} more"));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_files_are_told_apart() {
        assert!(check_kind(b"\0asm\x0d\0\x01\0").is_ok());
        let kinds: [(&[u8], &str); 5] = [
            (b"", "not WebAssembly"),
            (b"\x7fELF....", "not WebAssembly"),
            (b"\0asm", "not WebAssembly"),
            (b"\0asm\x01\0\0\0", "core module"),
            (b"\0asm\x0e\0\x01\0", "does not know"),
        ];
        for (bytes, word) in kinds {
            let text = check_kind(bytes).unwrap_err().to_string();
            assert!(text.contains(word), "{bytes:?}: {text}");
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
}
