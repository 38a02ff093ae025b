//! Makes a snapshot of loaded plugins: which versions serve, and the names clients see.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::known::Loaded;
use super::load::{CheckedTool, LoadedPlugin};
use super::{Plugin, Snapshot, Tool};

/// Grants remembered of plugins that were removed; beyond them, those kept on disk are read.
const GRANTS_MAX: usize = 2_000;

/// Puts what was loaded together with what has to go on serving from `before`.
pub fn assemble(loaded: Loaded, before: &Snapshot) -> Snapshot {
    let Loaded {
        plugins,
        unchanged,
        failures,
        grants,
    } = loaded;
    let mut snapshot = Snapshot {
        failures,
        grants,
        ..Snapshot::default()
    };
    let mut tools = Vec::new();
    for LoadedPlugin {
        plugin,
        tools: checked,
        ..
    } in plugins
    {
        tools.extend(
            checked
                .into_iter()
                .map(|tool| Candidate::new(tool, &plugin)),
        );
        snapshot.plugins.insert(plugin.name.clone(), plugin);
    }
    for (name, plugin) in &before.plugins {
        let goes_on = unchanged.contains(name) || snapshot.failures.contains_key(name);
        if goes_on && !snapshot.plugins.contains_key(name) {
            snapshot.plugins.insert(name.clone(), plugin.clone());
            let kept = before
                .tools
                .values()
                .filter(|tool| tool.plugin.name == *name);
            tools.extend(kept.cloned().map(Candidate::Kept));
        }
    }
    for (name, grants) in &before.grants {
        if snapshot.grants.len() < GRANTS_MAX && !snapshot.grants.contains_key(name) {
            snapshot.grants.insert(name.clone(), grants.clone());
        }
    }
    snapshot.tools = name_tools(tools);
    snapshot
}

/// Whether both show clients the same.
pub fn is_same(a: &Snapshot, b: &Snapshot) -> bool {
    a.tools.len() == b.tools.len()
        && a.tools.iter().zip(&b.tools).all(|((_, a), (_, b))| {
            Arc::ptr_eq(a, b) || (a.name == b.name && a.declaration == b.declaration)
        })
}

enum Candidate {
    New(Box<CheckedTool>, Arc<Plugin>),
    Kept(Arc<Tool>),
}

impl Candidate {
    fn new(tool: CheckedTool, plugin: &Arc<Plugin>) -> Candidate {
        Candidate::New(Box::new(tool), plugin.clone())
    }

    /// The tool's name inside its plugin.
    fn own_name(&self) -> &str {
        match self {
            Candidate::New(tool, _) => &tool.declaration.name,
            Candidate::Kept(tool) => &tool.declaration.name,
        }
    }

    fn plugin(&self) -> &str {
        match self {
            Candidate::New(_, plugin) => &plugin.name,
            Candidate::Kept(tool) => &tool.plugin.name,
        }
    }

    fn named(self, name: String) -> Option<Arc<Tool>> {
        match self {
            Candidate::New(tool, plugin) => Some(Arc::new(Tool {
                name,
                plugin,
                declaration: tool.declaration,
                header_params: tool.header_params,
                input: tool.input,
                output: tool.output,
            })),
            Candidate::Kept(tool) if tool.name == name => Some(tool),
            // A compiled schema can't be copied into a tool of another name: make it anew.
            Candidate::Kept(tool) => rename(&tool, name),
        }
    }
}

fn rename(tool: &Tool, name: String) -> Option<Arc<Tool>> {
    let parse = |text: &str| crate::schema::Schema::parse(text).ok();
    Some(Arc::new(Tool {
        name,
        plugin: tool.plugin.clone(),
        declaration: tool.declaration.clone(),
        header_params: tool.header_params.clone(),
        input: parse(tool.input.text())?,
        output: match &tool.output {
            Some(output) => Some(parse(output.text())?),
            None => None,
        },
    }))
}

fn name_tools(candidates: Vec<Candidate>) -> BTreeMap<String, Arc<Tool>> {
    let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for candidate in &candidates {
        owners
            .entry(candidate.own_name().to_owned())
            .or_default()
            .push(candidate.plugin().to_owned());
    }
    for (name, plugins) in owners.iter().filter(|(_, plugins)| plugins.len() > 1) {
        tracing::warn!(
            "several plugins have a tool `{name}` ({}); each is served as `plugin__{name}`",
            plugins.join(", ")
        );
    }
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let own = candidate.own_name();
            let name = seen_name(own, candidate.plugin(), owners[own].len() > 1);
            candidate.named(name.clone()).map(|tool| (name, tool))
        })
        .collect()
}

/// The name clients see. No tool has `__` in its own name, so a prefixed one can't collide.
fn seen_name(tool: &str, plugin: &str, is_shared: bool) -> String {
    match is_shared {
        true => format!("{plugin}__{tool}"),
        false => tool.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_keeps_its_name_until_another_plugin_has_it() {
        assert_eq!(seen_name("search", "wiki", false), "search");
        assert_eq!(seen_name("search", "wiki", true), "wiki__search");
    }
}
