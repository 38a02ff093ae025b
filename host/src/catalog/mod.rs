//! Which plugins and tools there are. Readers take a [`Snapshot`]; a change makes a new one. It
//! never runs a tool on its own account and never gives a grant the operator did not (I5).

pub mod grants;
pub mod known;
pub mod load;
pub mod manifest;
mod naming;
pub mod place;
mod runner;
mod sweep;
mod watching;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};

pub use self::sweep::Sweeper;
pub use self::watching::{CANCEL_DIR, Watch};

use self::known::{Known, Loader};
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

/// All tools at one moment.
#[derive(Clone, Default)]
pub struct Snapshot {
    /// By the name clients see, which is also the order of `tools/list`.
    pub tools: BTreeMap<String, Arc<Tool>>,
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
    /// Loads what `sources` hold. A plugin that can't be loaded is a failure in the snapshot and
    /// keeps no other from serving.
    pub async fn open(
        sandbox: Sandbox,
        sources: Sources,
        given: BTreeMap<String, Given>,
    ) -> Catalog {
        let catalog = Catalog {
            inner: Arc::new(Inner {
                sandbox,
                sources,
                given,
                snapshot: watch::Sender::new(Arc::default()),
                looks: watch::Sender::new(0),
                known: Mutex::default(),
            }),
        };
        catalog.reload().await;
        catalog
    }

    /// Looks at the sources again and loads what changed. A plugin whose newest version can't be
    /// loaded goes on serving its last one (I8).
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
        inner.snapshot.send_if_modified(|snapshot| {
            *snapshot = after.clone();
            // Whoever lists tools hears only of what a list would show.
            !naming::is_same(&before, &after)
        });
        inner.looks.send_modify(|looks| *looks += 1);
        after
    }

    /// The present snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.inner.snapshot.borrow().clone()
    }

    /// Resolves when the sources were looked at, whether or not the tools changed.
    pub fn looks(&self) -> watch::Receiver<u64> {
        self.inner.looks.subscribe()
    }

    /// Resolves when the tools changed since the receiver last looked.
    pub fn changes(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.inner.snapshot.subscribe()
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
