//! Makes a snapshot of loaded plugins: which versions serve, and the names clients see.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::known::Loaded;
use super::load::{CheckedTool, LoadedPlugin};
use super::offers::{keep_resources, name_prompts, put_resources};
use super::{List, Plugin, Snapshot, Tool};

/// MCP allows 128; a prefix of the plugin's name must fit, too.
pub const TOOL_NAME_MAX: usize = 64;

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
    let mut prompts = Vec::new();
    for LoadedPlugin {
        plugin,
        tools: checked,
        mut offers,
        ..
    } in plugins
    {
        put_resources(&mut snapshot, &plugin, &mut offers);
        let own = offers.prompts.into_iter();
        prompts.extend(own.map(|prompt| (plugin.clone(), prompt)));
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
            let own = before.prompts.values();
            let kept = own.filter(|prompt| prompt.plugin.name == *name);
            prompts.extend(kept.map(|prompt| (prompt.plugin.clone(), prompt.entry.clone())));
            keep_resources(&mut snapshot, before, name);
        }
    }
    for (name, grants) in &before.grants {
        if snapshot.grants.len() < GRANTS_MAX && !snapshot.grants.contains_key(name) {
            snapshot.grants.insert(name.clone(), grants.clone());
        }
    }
    snapshot.tools = name_tools(tools);
    snapshot.prompts = name_prompts(prompts);
    snapshot
}

/// Whether a list shows clients the same in both.
pub fn is_same(list: List, a: &Snapshot, b: &Snapshot) -> bool {
    match list {
        List::Tools => equal(&a.tools, &b.tools, |a, b| a.declaration == b.declaration),
        List::Prompts => equal(&a.prompts, &b.prompts, |a, b| a.entry == b.entry),
        List::Resources => {
            equal(&a.resources, &b.resources, |a, b| a.entry == b.entry)
                && equal(&a.templates, &b.templates, |a, b| a.checked == b.checked)
        }
    }
}

fn equal<T>(
    a: &BTreeMap<String, Arc<T>>,
    b: &BTreeMap<String, Arc<T>>,
    is_same: impl Fn(&T, &T) -> bool,
) -> bool {
    let mut pairs = a.iter().zip(b);
    a.len() == b.len()
        && pairs
            .all(|((name, a), (other, b))| name == other && (Arc::ptr_eq(a, b) || is_same(a, b)))
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
    let owned = candidates
        .iter()
        .map(|candidate| (candidate.own_name(), candidate.plugin()));
    let shared = shared("tool", owned);
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let own = candidate.own_name();
            let name = seen_name(own, candidate.plugin(), shared.contains(own));
            candidate.named(name.clone()).map(|tool| (name, tool))
        })
        .collect()
}

/// The names that several plugins have.
pub fn shared<'a>(kind: &str, owned: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeSet<String> {
    let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, plugin) in owned {
        owners.entry(name).or_default().push(plugin);
    }
    owners.retain(|_, plugins| plugins.len() > 1);
    for (name, plugins) in &owners {
        tracing::warn!(
            "several plugins have a {kind} `{name}` ({}); each is served as `plugin__{name}`",
            plugins.join(", ")
        );
    }
    owners.into_keys().map(str::to_owned).collect()
}

/// `__` is what stands between the plugin and the tool where two plugins have the same name.
pub fn is_tool_name(name: &str) -> bool {
    (1..=TOOL_NAME_MAX).contains(&name.len())
        && !name.contains("__")
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
}

/// The name clients see. No tool has `__` in its own name, so a prefixed one can't collide.
pub fn seen_name(tool: &str, plugin: &str, is_shared: bool) -> String {
    match is_shared {
        true => format!("{plugin}__{tool}"),
        false => tool.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_names_are_those_every_client_takes() {
        for name in ["greet", "getUser", "admin.tools-list_2", "a_b_"] {
            assert!(is_tool_name(name), "{name}");
        }
        for name in ["", "a b", "a__b", "ü", "a/b", &"x".repeat(65)] {
            assert!(!is_tool_name(name), "{name}");
        }
    }

    #[test]
    fn a_tool_keeps_its_name_until_another_plugin_has_it() {
        assert_eq!(seen_name("search", "wiki", false), "search");
        assert_eq!(seen_name("search", "wiki", true), "wiki__search");
    }
}
