//! Which plugins there are, and what they offer. Readers take a [`Snapshot`]; a change makes a new one. It
//! never runs a tool on its own account and never gives a grant the operator did not (I5).

pub mod grants;
pub mod known;
pub mod load;
pub mod manifest;
mod naming;
pub mod offers;
pub mod place;
mod runner;
mod sweep;
mod template;
mod watching;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};

pub use self::sweep::Sweeper;
pub use self::watching::{CANCEL_DIR, Watch};

use self::known::{Known, Loader};
use self::offers::{Prompt, Resource, Template};
use crate::config::{Config, Given, Limits};
use crate::task::Digest;
use crate::wasm::{Component, Declaration, Grants, Sandbox, SandboxLimits};

/// The plugins and tools of the host. Cheap to clone.
#[derive(Clone)]
pub struct Catalog {
    inner: Arc<Inner>,
}

struct Inner {
    sandbox: Sandbox,
    sources: Sources,
    given: BTreeMap<String, Given>,
    snapshot: watch::Sender<Arc<Snapshot>>,
    changes: Changes,
    /// How often the sources were looked at and something was loaded or dropped.
    looks: watch::Sender<u64>,
    /// Held over a reload: one at a time, or an older one could overwrite a newer.
    known: Mutex<Known>,
}

/// Where plugins are looked for.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Every directory in it that has a `plugin.toml`, and every component, is a plugin. It need
    /// not exist.
    pub plugins_dir: Option<PathBuf>,
    /// Plugin directories beside it; one that is missing is a failure.
    pub plugin_dirs: Vec<PathBuf>,
    /// A larger component file is not even read, bytes.
    pub component_max_bytes: u64,
}

/// A list that clients see and may keep until it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    Tools,
    Prompts,
    /// Resources and their templates.
    Resources,
}

/// How often each list changed.
#[derive(Default)]
struct Changes {
    tools: watch::Sender<u64>,
    prompts: watch::Sender<u64>,
    resources: watch::Sender<u64>,
}

impl Changes {
    fn of(&self, list: List) -> &watch::Sender<u64> {
        match list {
            List::Tools => &self.tools,
            List::Prompts => &self.prompts,
            List::Resources => &self.resources,
        }
    }
}

/// Everything that is offered at one moment.
#[derive(Clone, Default)]
pub struct Snapshot {
    /// By the name clients see, which is also the order of `tools/list`.
    pub tools: BTreeMap<String, Arc<Tool>>,
    /// As the tools.
    pub prompts: BTreeMap<String, Arc<Prompt>>,
    /// By URI.
    pub resources: BTreeMap<String, Arc<Resource>>,
    /// By the template's text.
    pub templates: BTreeMap<String, Arc<Template>>,
    pub plugins: BTreeMap<String, Arc<Plugin>>,
    /// Plugins that could not be loaded, or not in their newest version, with the reason (I8).
    pub failures: BTreeMap<String, String>,
    /// Effective grants of every plugin whose manifest could be read, loaded or not: a task of an
    /// older version runs with the grants its plugin has now, and a task of a removed plugin with
    /// those it had last.
    pub grants: BTreeMap<String, Arc<Grants>>,
}

/// A tool that passed every check.
pub struct Tool {
    /// The name clients see: the tool's own, or `plugin__tool` where two plugins have the same.
    pub name: String,
    pub plugin: Arc<Plugin>,
    pub declaration: Declaration,
    /// Input properties that travel as `Mcp-Param-*` headers: header suffix and property path.
    pub header_params: Vec<HeaderParam>,
    pub input: crate::schema::Schema,
    pub output: Option<crate::schema::Schema>,
}

/// A property marked `x-mcp-header`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderParam {
    /// What follows `Mcp-Param-`.
    pub header: String,
    /// The property's path in the arguments.
    pub path: Vec<String>,
}

/// A plugin version that serves.
pub struct Plugin {
    pub name: String,
    pub version: String,
    pub digest: Digest,
    pub component: Component,
    pub grants: Arc<Grants>,
}

impl From<&Config> for Sources {
    fn from(config: &Config) -> Sources {
        Sources {
            plugins_dir: Some(config.plugins_dir.clone()),
            plugin_dirs: config.plugin_dirs.clone(),
            component_max_bytes: config.limits.component_max_bytes,
        }
    }
}

impl Catalog {
    /// A catalog that holds nothing until [`Catalog::reload`] has looked at `sources`.
    pub fn new(sandbox: Sandbox, sources: Sources, given: BTreeMap<String, Given>) -> Catalog {
        Catalog {
            inner: Arc::new(Inner {
                sandbox,
                sources,
                given,
                snapshot: watch::Sender::new(Arc::default()),
                changes: Changes::default(),
                looks: watch::Sender::new(0),
                known: Mutex::default(),
            }),
        }
    }

    /// Looks at the sources and loads what changed. A plugin that can't be loaded is a failure in the
    /// snapshot and keeps no other from serving; its last version, if there is one, goes on (I8).
    pub async fn reload(&self) -> Arc<Snapshot> {
        self.reload_except(&BTreeSet::new()).await
    }

    /// As [`Catalog::reload`], but places in `held` stay as they are known.
    async fn reload_except(&self, held: &BTreeSet<PathBuf>) -> Arc<Snapshot> {
        let inner = &self.inner;
        let mut known = inner.known.lock().await;
        let before = self.snapshot();
        let loader = Loader {
            sandbox: &inner.sandbox,
            sources: &inner.sources,
            given: &inner.given,
        };
        let loaded = loader.load(&mut known, &before, held).await;
        let after = Arc::new(naming::assemble(loaded, &before));
        inner.snapshot.send_replace(after.clone());
        // Whoever follows a list hears only of what it would show. Before the first look nobody is shown
        // one.
        let is_first = *inner.looks.borrow() == 0;
        for list in [List::Tools, List::Prompts, List::Resources] {
            if !is_first && !naming::is_same(list, &before, &after) {
                inner.changes.of(list).send_modify(|changes| *changes += 1);
            }
        }
        inner.looks.send_modify(|looks| *looks += 1);
        after
    }

    /// The present snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.inner.snapshot.borrow().clone()
    }

    /// Instances of all plugins.
    pub fn instances(&self) -> usize {
        self.inner.sandbox.instances()
    }

    /// Resolves when the sources were looked at, whether or not anything changed.
    pub fn looks(&self) -> watch::Receiver<u64> {
        self.inner.looks.subscribe()
    }

    /// Resolves when the list changed since the receiver last looked.
    pub fn changes(&self, list: List) -> watch::Receiver<u64> {
        self.inner.changes.of(list).subscribe()
    }
}

/// The sandbox's share of the configured limits.
pub fn sandbox_limits(limits: &Limits) -> SandboxLimits {
    SandboxLimits {
        instances_max: u32::try_from(limits.instances_max()).unwrap_or(u32::MAX),
        memory_max_bytes: size(limits.memory_max_bytes),
        component_max_bytes: limits.component_max_bytes,
        compile_timeout: Duration::from_millis(limits.compile_timeout_ms),
        compile_memory_max_bytes: limits.compile_memory_max_bytes,
        result_max_bytes: size(limits.result_max_bytes),
        result_kept_max_bytes: size(limits.result_kept_max_bytes),
        log_max_bytes: size(limits.log_max_bytes),
        state_max_bytes: limits.state_max_bytes,
        state_keys_max: limits.state_keys_max,
        threads: size(limits.guest_threads),
    }
}

/// The limits' ranges fit a 64-bit address space, the only kind this host is built for.
fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
