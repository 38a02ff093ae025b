//! Why a component can't be used, in words for its author or its operator.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::world::CONTRACT;

/// Why a component can't be used. Each says what its author can do.
#[derive(Debug, Error)]
pub enum LoadError {
    #[error(
        "the component has {size_bytes} bytes and may have {max_bytes}; strip its debug information, \
         or raise `component_max_bytes`"
    )]
    TooLarge { size_bytes: u64, max_bytes: u64 },
    #[error("this is not WebAssembly; build the plugin with `longshore plugin build`")]
    NotWasm,
    #[error(
        "this is a core module and not a component; build it for `wasm32-wasip2`, or wrap it with \
         `jco new`"
    )]
    CoreModule,
    #[error(
        "this is WebAssembly of a kind the host does not know (layer {0:02x?}); build it with a \
         released toolchain for WASI 0.2"
    )]
    UnknownEncoding([u8; 4]),
    #[error(
        "the component is not valid, or has what this host does not know: {0}; build it for WASI 0.2 \
         with a released toolchain"
    )]
    Invalid(String),
    #[error(
        "compiling the component took longer than {}; make its largest functions smaller, or raise \
         `compile_timeout_ms`",
        humantime::format_duration(*.0)
    )]
    CompileTime(Duration),
    #[error(
        "compiling the component took more than {} MiB of memory; make its largest functions \
         smaller, or raise `compile_memory_max_bytes`",
        .0 >> 20
    )]
    CompileMemory(u64),
    #[error("the compiler failed on the component: {0}")]
    Compiler(String),
    #[error(transparent)]
    World(#[from] WorldError),
    #[error("the component does not fit the contract: {0}; build it against this host's `wit/`")]
    Contract(String),
    #[error("the component needs more than a guest may have: {0}")]
    Demands(String),
    #[error("the component can't say what it has: {0}")]
    Listing(String),
    #[error(
        "the component can't say what it has: its listings did not return within {}",
        humantime::format_duration(*.0)
    )]
    ListingTime(Duration),
    #[error("{0}")]
    Declaration(String),
    #[error("the cache of compiled components failed: {what}; check the data directory")]
    Cache {
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("the sandbox can't start: {0}")]
    Engine(String),
}

/// Why a component is none of this host's plugins. The compiler's process finds it out and writes it
/// down for the host.
#[derive(Debug, Deserialize, Error, PartialEq, Eq, Serialize)]
pub enum WorldError {
    #[error(
        "the component does not export `{CONTRACT}`; {}; build it against this host's `wit/`",
        describe_exports(.exports)
    )]
    NotAPlugin { exports: Vec<String> },
    #[error(
        "the component exports `{found}`, and this host speaks `{CONTRACT}`; {}",
        "build the plugin against this host's `wit/`, or install the Longshore version it was made for"
    )]
    OtherContract { found: String },
    #[error(
        "the component imports what the host does not offer: {}; remove the imports, or build for \
         WASI 0.2",
        .0.join(", ")
    )]
    UnknownImports(Vec<String>),
}

fn describe_exports(exports: &[String]) -> String {
    if exports.is_empty() {
        "it exports nothing".to_owned()
    } else {
        format!("it exports {}", exports.join(", "))
    }
}
