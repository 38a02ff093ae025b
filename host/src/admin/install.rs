//! A plugin that is brought in: checked first, put in place at once, and served when this says so.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::describe::row_json;
use super::{Admin, AdminError, Serving, Taken};
use crate::catalog::grants::{Row, compare_with_host, effective};
use crate::catalog::load::{LoadedPlugin, load_plugin, read_manifest};

/// What became of a plugin that was added or replaced.
pub struct Installed {
    pub name: String,
    pub version: String,
    pub sha256: String,
    /// What it asks for and what it is given.
    pub grants: Vec<Row>,
    pub taken: Taken,
    /// The running host has another configuration, which it read at its start.
    pub has_other_grants: bool,
    /// Of all plugins.
    pub failures: BTreeMap<String, String>,
}

impl Admin {
    pub async fn add(&self, plugin: &Path, name: Option<&str>) -> Result<Installed, AdminError> {
        self.install(plugin, name, false).await
    }

    pub async fn replace(
        &self,
        plugin: &Path,
        name: Option<&str>,
    ) -> Result<Installed, AdminError> {
        self.install(plugin, name, true).await
    }

    async fn install(
        &self,
        plugin: &Path,
        name: Option<&str>,
        replaces: bool,
    ) -> Result<Installed, AdminError> {
        let _changing = self.changing.lock().await;
        self.running.find_on(&self.plugins_dir).await?;
        let (source, called) = (plugin.to_owned(), name.map(str::to_owned));
        let (staged, manifest, place) = self
            .shelf(move |shelf| {
                let (staged, manifest) = shelf.stage(&source, called.as_deref())?;
                let place = shelf.find(&manifest.name)?;
                Ok((staged, manifest, place))
            })
            .await?;
        let name = manifest.name.clone();
        match (&place, replaces) {
            (Some(_), false) => return Err(AdminError::Exists(name)),
            (None, true) => {
                let directory = self.plugins_dir.clone();
                return Err(AdminError::NothingToReplace { name, directory });
            }
            (None, false) if self.is_elsewhere(&name) => return Err(AdminError::Elsewhere(name)),
            _ => {}
        }
        let given = self.given(&name);
        let rows = compare_with_host(&manifest.grants, &given);
        let grants = Arc::new(effective(&manifest.grants, &given));
        let max_bytes = self.sources.component_max_bytes;
        let loaded = load_plugin(&self.sandbox, staged.path(), manifest, grants, max_bytes)
            .await
            .map_err(|source| AdminError::Plugin {
                path: plugin.to_owned(),
                source,
            })?;

        // Only what the host says after this moment is about the change.
        let before = self.running.find().await;
        let called = name.clone();
        self.shelf(move |shelf| match &place {
            Some(place) => shelf.replace(&staged, place, &called),
            None => shelf.add(&staged, &called),
        })
        .await?;
        // The grants may be others: the host read its configuration when it started.
        let is_over = |serving: &Serving| {
            let served = serving.plugins.get(&name);
            served.is_some_and(|served| served.is_version(&loaded))
        };
        let taken = self.running.wait(before.as_ref(), &name, is_over).await;
        Ok(self.installed(&loaded, rows, taken).await)
    }

    async fn installed(&self, loaded: &LoadedPlugin, grants: Vec<Row>, taken: Taken) -> Installed {
        let plugin = &loaded.plugin;
        let serving = match taken {
            Taken::AtNextStart => None,
            _ => self.running.find().await,
        };
        let served = serving
            .as_ref()
            .and_then(|serving| serving.plugins.get(&plugin.name))
            .filter(|served| served.is_version(loaded));
        Installed {
            name: plugin.name.clone(),
            version: plugin.version.clone(),
            sha256: plugin.digest.to_string(),
            grants,
            taken,
            has_other_grants: served.is_some_and(|served| !served.has_grants_of(loaded)),
            failures: serving.map(|serving| serving.failures).unwrap_or_default(),
        }
    }

    /// Whether a plugin of the name comes from a directory beside the plugins directory.
    fn is_elsewhere(&self, name: &str) -> bool {
        let mut beside = self.sources.plugin_dirs.iter();
        beside.any(|place| read_manifest(place).is_ok_and(|manifest| manifest.name == name))
    }
}

impl Installed {
    /// Whether it is served, or will be.
    pub fn is_done(&self) -> bool {
        matches!(self.taken, Taken::Over { .. } | Taken::AtNextStart)
    }

    pub fn words(&self) -> String {
        let (name, version) = (&self.name, &self.version);
        match &self.taken {
            Taken::Over { url } => format!("{name} {version} is served at {url}"),
            Taken::AtNextStart => {
                format!("{name} {version} is in place; the host serves it from its next start")
            }
            Taken::NotYet { url } => format!(
                "{name} {version} is in place, but the host at {url} has not taken it over yet; its \
                 log says why, and `longshore plugin list` what it serves"
            ),
            Taken::Refused { reason } => {
                format!("{name} {version} is in place, but the host can't serve it: {reason}")
            }
        }
    }

    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "version": self.version,
            "sha256": self.sha256,
            "state": match self.taken {
                Taken::Over { .. } => "served",
                Taken::AtNextStart => "stored",
                Taken::NotYet { .. } => "waiting",
                Taken::Refused { .. } => "refused",
            },
            "message": self.words(),
            "grants": self.grants.iter().map(row_json).collect::<Vec<_>>(),
            "grantsNeedRestart": self.has_other_grants,
            "failures": self.failures,
        })
    }
}
