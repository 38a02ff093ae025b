//! What a running host says it serves, and the file of its data directory that says it to whoever is
//! beside it and may not have a tenant's token. It decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::catalog::Snapshot;
use crate::catalog::load::LoadedPlugin;

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Serving {
    /// Where MCP is served.
    pub url: String,
    /// The directory whose plugins are served.
    pub plugins_dir: PathBuf,
    /// Grows with every look at the plugins that found a change.
    pub generation: u64,
    pub plugins: BTreeMap<String, ServingPlugin>,
    pub failures: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct ServingPlugin {
    pub version: String,
    pub sha256: String,
    /// Tells the grants it has from others; see [`crate::wasm::Grants::digest`].
    #[serde(default)]
    pub grants_sha256: String,
    /// Secrets it is given whose variables the host does not have.
    #[serde(default)]
    pub unset_secrets: BTreeSet<String>,
    /// Its tools, by the names that clients see.
    #[serde(default)]
    pub tools: BTreeSet<String>,
    /// The directories that it may write: as it sees them, and where they are on this machine.
    #[serde(default)]
    pub written: BTreeMap<String, PathBuf>,
}

impl Serving {
    /// The file in a data directory.
    pub fn file(data_dir: &Path) -> PathBuf {
        data_dir.join("serving.json")
    }

    /// What the host of a data directory says it serves; None if none has said so.
    pub fn read(data_dir: &Path) -> Option<Serving> {
        let text = std::fs::read(Serving::file(data_dir)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// What a host at `url` serves of a directory; nothing yet.
    pub fn new(url: String, plugins_dir: &Path) -> Serving {
        Serving {
            url,
            plugins_dir: absolute(plugins_dir),
            ..Serving::default()
        }
    }

    pub fn with(&self, snapshot: &Snapshot, generation: u64) -> Serving {
        let plugins = snapshot.plugins.values().map(|plugin| {
            let unset = plugin.grants.unset().into_iter();
            let tools = snapshot.tools.values();
            let own = tools.filter(|tool| tool.plugin.name == plugin.name);
            let written = plugin.grants.directories.iter().filter(|grant| grant.write);
            let serving = ServingPlugin {
                version: plugin.version.clone(),
                sha256: plugin.digest.to_string(),
                grants_sha256: plugin.grants.digest().to_string(),
                unset_secrets: unset.map(|secret| secret.name).collect(),
                tools: own.map(|tool| tool.name.clone()).collect(),
                written: written
                    .map(|grant| (grant.guest_path(), absolute(&grant.path)))
                    .collect(),
            };
            (plugin.name.clone(), serving)
        });
        Serving {
            generation,
            plugins: plugins.collect(),
            failures: snapshot.failures.clone(),
            ..self.clone()
        }
    }

    pub fn write(&self, file: &Path) -> std::io::Result<()> {
        let temporary = file.with_extension("new");
        std::fs::write(&temporary, serde_json::to_vec(self)?)?;
        std::fs::rename(&temporary, file)
    }
}

impl ServingPlugin {
    /// Whether the running host gives a plugin what the configuration says now: it is read at the
    /// host's start.
    pub fn has_grants_of(&self, ours: &LoadedPlugin) -> bool {
        self.grants_sha256 == ours.plugin.grants.digest().to_string()
    }

    pub fn is_version(&self, ours: &LoadedPlugin) -> bool {
        self.version == ours.plugin.version && self.sha256 == ours.plugin.digest.to_string()
    }
}

/// Whoever reads it may be somewhere else.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.into())
}
