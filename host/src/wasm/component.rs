//! A component that was checked: the right kind of file, of the right world (`world`), linked to what
//! the host offers. That is done once, so that a call only instantiates.

use std::path::Path;
use std::sync::Arc;

use wasmtime::Engine;
use wasmtime::component::{Component as Code, HasSelf, InstancePre, Linker};

use super::bindings::Server;
use super::bindings::exports::longshore::plugin::{completion, prompts, resources, tools};
use super::guest::Guest;
use super::world::{COMPLETION, PROMPTS, RESOURCES, World};
use super::{LoadError, WorldError, configuration, files, permission, reasons};
use crate::task::Digest;

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
        let World {
            imports,
            exports: exported,
        } = check_world(engine, &code)?;
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
        .and_then(|()| reasons::add_to_linker(&mut linker))
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
fn check_world(engine: &Engine, code: &Code) -> Result<World, WorldError> {
    let found = code.component_type();
    let names = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    World::check(
        names(found.imports(engine).map(|(name, _)| name).collect()),
        names(found.exports(engine).map(|(name, _)| name).collect()),
    )
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
}
