//! The plugins that a host with this configuration serves or would, and what the running one says.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use super::describe::{prompts_json, resources_json, row_json, templates_json};
use super::{Admin, Serving};
use crate::catalog::grants::{Effect, Kind, Row, compare_with_host};
use crate::catalog::known::load_all;
use crate::catalog::load::LoadedPlugin;

/// A plugin with what it asks for and what it is given.
pub type Listed = (LoadedPlugin, Vec<Row>);

pub struct Listing {
    pub plugins: Vec<Listed>,
    /// Why others can't be served.
    pub failures: BTreeMap<String, String>,
    pub host: Option<Serving>,
}

impl Admin {
    pub async fn list(&self) -> Listing {
        // Who asks is told what fails; the log has told it when it began to.
        let loading = load_all(&self.sandbox, &self.sources, &self.given);
        let loaded = loading.with_subscriber(NoSubscriber::new()).await;
        let host = self.running.find().await;
        let plugins = loaded.plugins.into_iter().map(|plugin| {
            let given = self.given(&plugin.manifest.name);
            let mut rows = compare_with_host(&plugin.manifest.grants, &given);
            if let Some(host) = &host {
                mark_unset(&mut rows, &plugin, host);
            }
            (plugin, rows)
        });
        Listing {
            plugins: plugins.collect(),
            failures: loaded.failures,
            host,
        }
    }
}

impl Listing {
    pub fn to_json(&self) -> Value {
        let plugins = self.plugins.iter();
        json!({
            "plugins": plugins
                .map(|listed| plugin_json(listed, self.host.as_ref()))
                .collect::<Vec<_>>(),
            "failures": self.failures,
            "host": self.host,
        })
    }
}

/// Marks the secrets whose variables the running host does not have. This process may have its own.
fn mark_unset(rows: &mut [Row], plugin: &LoadedPlugin, host: &Serving) {
    let served = host.plugins.get(&plugin.manifest.name);
    let Some(served) = served.filter(|served| served.has_grants_of(plugin)) else {
        return;
    };
    let secrets = rows.iter_mut().filter(|row| row.kind == Kind::Secret);
    for row in secrets.filter(|row| served.unset_secrets.contains(&row.name)) {
        row.effect = Effect::Missing;
    }
}

fn plugin_json((plugin, grants): &Listed, host: Option<&Serving>) -> Value {
    let served = host.and_then(|host| host.plugins.get(&plugin.manifest.name));
    let tools: Vec<&str> = plugin
        .tools
        .iter()
        .map(|tool| tool.declaration.name.as_str())
        .collect();
    json!({
        "name": plugin.manifest.name,
        "version": plugin.manifest.version,
        "sizeBytes": plugin.plugin.component.size_bytes(),
        "sha256": plugin.plugin.digest.to_string(),
        "tools": tools,
        "resources": resources_json(&plugin.offers),
        "resourceTemplates": templates_json(&plugin.offers),
        "prompts": prompts_json(&plugin.offers),
        "grants": grants.iter().map(row_json).collect::<Vec<_>>(),
        // Null where no host serves it.
        "grantsNeedRestart": served.map(|served| !served.has_grants_of(plugin)),
    })
}
