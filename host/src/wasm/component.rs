//! A component that was checked: the right kind of file, of the right world, importing nothing the
//! host does not offer. It is linked once, so that a call only instantiates.

use std::path::Path;
use std::sync::Arc;

use wasmtime::Engine;
use wasmtime::component::{Component as Code, HasSelf, InstancePre, Linker};

use super::bindings::Server;
use super::bindings::exports::longshore::plugin::{completion, prompts, resources, tools};
use super::guest::Guest;
use super::{LoadError, configuration, files, permission};
use crate::task::Digest;

/// The interface a plugin exports, with the version this host speaks.
pub(super) const CONTRACT: &str = "longshore:plugin/tools@0.1.0";

/// What a plugin may export beside its tools.
const RESOURCES: &str = "longshore:plugin/resources@0.1.0";
const PROMPTS: &str = "longshore:plugin/prompts@0.1.0";
const COMPLETION: &str = "longshore:plugin/completion@0.1.0";

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

/// Names shown of what a component wrongly has, so that an error stays readable.
const NAMES_SHOWN_MAX: usize = 20;

/// A component that was checked and compiled. Cheap to clone.
#[derive(Clone)]
pub struct Component(pub(super) Arc<Loaded>);

pub(super) struct Loaded {
    digest: Digest,
    size_bytes: u64,
    imports: Vec<String>,
    pre: InstancePre<Guest>,
    exports: Exports,
}

/// Where a component has what it exports.
pub(super) struct Exports {
    pub tools: tools::GuestIndices,
    pub resources: Option<resources::GuestIndices>,
    pub prompts: Option<prompts::GuestIndices>,
    pub completion: Option<completion::GuestIndices>,
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

    /// Whether it suggests values for arguments.
    pub fn completes(&self) -> bool {
        self.0.exports.completion.is_some()
    }

    pub(super) fn pre(&self) -> &InstancePre<Guest> {
        &self.0.pre
    }

    pub(super) fn exports(&self) -> &Exports {
        &self.0.exports
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
        let (imports, exported) = check_world(engine, &code)?;
        let contract_error = |error: wasmtime::Error| LoadError::Contract(format!("{error:#}"));
        let pre = linker.instantiate_pre(&code).map_err(contract_error)?;
        let exports = Exports::find(&pre, &exported).map_err(contract_error)?;
        Ok(Component(Arc::new(Loaded {
            digest,
            size_bytes,
            imports,
            pre,
            exports,
        })))
    }
}

impl Exports {
    /// Looks for each interface on its own, so that a plugin need not have them all.
    fn find(pre: &InstancePre<Guest>, exported: &[String]) -> wasmtime::Result<Exports> {
        let has = |name: &str| exported.iter().any(|exported| exported == name);
        Ok(Exports {
            tools: tools::GuestIndices::new(pre)?,
            resources: has(RESOURCES)
                .then(|| resources::GuestIndices::new(pre))
                .transpose()?,
            prompts: has(PROMPTS)
                .then(|| prompts::GuestIndices::new(pre))
                .transpose()?,
            completion: has(COMPLETION)
                .then(|| completion::GuestIndices::new(pre))
                .transpose()?,
        })
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
        .and_then(|()| Server::add_to_linker::<_, HasSelf<Guest>>(&mut linker, |guest| guest))
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

/// The names of the imports and of the exports, sorted, if the component is a plugin for this host.
fn check_world(engine: &Engine, code: &Code) -> Result<(Vec<String>, Vec<String>), LoadError> {
    let world = code.component_type();
    let names = |names: Vec<&str>| {
        let mut names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        names.sort();
        names
    };
    let exports = names(world.exports(engine).map(|(name, _)| name).collect());
    check_exports(&exports)?;
    let imports = names(world.imports(engine).map(|(name, _)| name).collect());
    let unknown: Vec<String> = imports
        .iter()
        .filter(|name| !is_offered(name))
        .cloned()
        .collect();
    if unknown.is_empty() {
        Ok((imports, exports))
    } else {
        Err(LoadError::UnknownImports(shown(unknown)))
    }
}

fn check_exports(exports: &[String]) -> Result<(), LoadError> {
    let known = [CONTRACT, RESOURCES, PROMPTS, COMPLETION];
    let foreign = exports
        .iter()
        .find(|name| name.starts_with(PACKAGE) && !known.contains(&name.as_str()));
    if let Some(found) = foreign {
        return Err(LoadError::OtherContract {
            found: found.clone(),
        });
    }
    if exports.iter().any(|name| name == CONTRACT) {
        return Ok(());
    }
    Err(LoadError::NotAPlugin {
        exports: shown(exports.to_vec()),
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
    fn a_plugin_exports_tools_and_nothing_of_another_contract() {
        let check = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            check_exports(&names)
        };
        assert!(check(&[CONTRACT]).is_ok());
        assert!(check(&[COMPLETION, PROMPTS, RESOURCES, CONTRACT, "other:thing/x"]).is_ok());
        assert!(matches!(
            check(&[RESOURCES]),
            Err(LoadError::NotAPlugin { .. })
        ));
        for name in [
            "longshore:plugin/tools@0.2.0",
            "longshore:plugin/resources@0.2.0",
        ] {
            let error = check(&[CONTRACT, name]);
            assert!(
                matches!(error, Err(LoadError::OtherContract { found }) if found == name),
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
}
