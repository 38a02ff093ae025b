//! What an administrator does with a host's plugins: look at them, bring them in, take them out. The
//! command line and the call over the local socket do it here, so that they can't differ. It knows no
//! wire and no terminal, and gives no grant (I5): those are the configuration's.

mod describe;
mod error;
mod install;
mod list;
mod remove;
mod running;
mod serving;
mod shelf;

use std::collections::BTreeMap;
use std::path::PathBuf;

use tokio::sync::Mutex;

pub use self::describe::Description;
pub use self::error::AdminError;
pub use self::install::Installed;
pub use self::list::{Listed, Listing};
pub use self::remove::Removed;
pub use self::running::{Running, Taken};
pub use self::serving::{Serving, ServingPlugin};

use self::shelf::Shelf;
use crate::catalog::Sources;
use crate::config::{Config, Given};
use crate::wasm::Sandbox;

/// The plugins of one host, which may be running.
pub struct Admin {
    /// What plugins are checked and compiled with.
    sandbox: Sandbox,
    plugins_dir: PathBuf,
    sources: Sources,
    given: BTreeMap<String, Given>,
    running: Running,
    /// Held from the first look at the directory until a change is served: what is said of one is
    /// about no other.
    changing: Mutex<()>,
}

impl Admin {
    pub fn new(sandbox: Sandbox, config: &Config, running: Running) -> Admin {
        Admin {
            sandbox,
            plugins_dir: config.plugins_dir.clone(),
            sources: Sources::from(config),
            given: config.given.clone(),
            running,
            changing: Mutex::default(),
        }
    }

    /// What the operator gives a plugin.
    fn given(&self, plugin: &str) -> Given {
        self.given.get(plugin).cloned().unwrap_or_default()
    }

    /// Does what waits for the disk where nobody waits for it.
    async fn shelf<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shelf) -> Result<T, AdminError> + Send + 'static,
    ) -> Result<T, AdminError> {
        let root = self.plugins_dir.clone();
        let max_bytes = self.sources.component_max_bytes;
        let working = tokio::task::spawn_blocking(move || work(&Shelf::open(&root, max_bytes)?));
        // It fails only when the runtime shuts down.
        working.await.unwrap_or(Err(AdminError::Stopped))
    }
}
