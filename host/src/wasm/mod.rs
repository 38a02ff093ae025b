//! The sandbox: compiles components, runs them within limits, and gives them exactly what their
//! grants name. The only module that names wasmtime.
//!
//! | once per process | once per plugin | once per call |
//! |---|---|---|
//! | `engine`, `sandbox`, `decisions` | `compile`, `cache`, `world`, `component`, `declare`, `offers` | `runner`, `operation`, `guest`, `grants`, `secrets`, `limits`, `control`, `pace`, `state`, `configuration`, `files`, `quota`, `permission`, `reasons`, `egress`, `log`, `output`, `failure` |

mod bindings;
mod cache;
mod compile;
mod component;
mod configuration;
mod control;
mod decisions;
mod declare;
mod egress;
mod engine;
mod error;
mod failure;
mod files;
mod grants;
mod guest;
mod json;
mod limits;
mod log;
mod offers;
mod operation;
mod output;
mod pace;
mod permission;
mod quota;
mod reasons;
mod runner;
mod sandbox;
mod secrets;
mod state;
mod turns;
mod world;

use std::time::Duration;

pub use compile::{COMPILE_COMMAND, Compiler, compile_worker};
pub use component::Component;
pub use decisions::{Decided, Decision, Decisions};
pub use declare::{
    Annotations, Declaration, Declared, Execution, Icon, Question, Traits, WhenLeft,
};
pub use error::{LoadError, WorldError};
pub use grants::{
    AskDirectory, AskGrant, DirectoryGrant, GrantError, Grants, HttpGrant, SecretGrant,
    SecretPlace, StateGrant,
};
pub use offers::{Argument, PromptEntry, ResourceEntry, TemplateEntry};
pub use permission::{asks_for_access, is_reserved};
pub use sandbox::Sandbox;

/// Limits of the sandbox; every one is a configuration key of the same name.
#[derive(Clone, Debug)]
pub struct SandboxLimits {
    /// Instances alive at once, all tenants together.
    pub instances_max: u32,
    /// Linear memory of one instance, all its memories together, bytes.
    pub memory_max_bytes: usize,
    /// A component file, bytes.
    pub component_max_bytes: u64,
    /// Time a compilation may take, and the memory its process may use, bytes.
    pub compile_timeout: Duration,
    pub compile_memory_max_bytes: u64,
    /// Text and bytes a tool may return in one result, bytes.
    pub result_max_bytes: usize,
    /// What a tool may return in one result that is kept in parts, where it is larger than that.
    pub result_kept_max_bytes: usize,
    /// Output (stdout and stderr) kept of one run, bytes.
    pub log_max_bytes: usize,
    /// What a plugin may keep in its state for one tenant, if its grant says nothing: bytes, keys.
    pub state_max_bytes: u64,
    pub state_keys_max: u64,
    /// Threads that run guests.
    pub threads: usize,
}
