//! What a plugin offers beside tools: checks what it says, names prompts, and finds whose a URI is.
//! A URI belongs to one plugin, and whoever serves it keeps it: templates of two plugins never
//! overlap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thiserror::Error;

use super::load::LoadedPlugin;
use super::naming::{is_tool_name, seen_name, shared};
use super::template::{UriTemplate, check_uri};
use super::{Plugin, Snapshot};
use crate::plain::drives_display;
use crate::wasm::{Declared, PromptEntry, ResourceEntry, TemplateEntry};

/// Resources, templates and prompts that passed every check.
#[derive(Default)]
pub struct Offers {
    pub resources: Vec<ResourceEntry>,
    pub templates: Vec<CheckedTemplate>,
    pub prompts: Vec<PromptEntry>,
}

/// A template with its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedTemplate {
    pub template: UriTemplate,
    pub entry: TemplateEntry,
}

/// A thing to read, and whose it is.
pub struct Resource {
    pub plugin: Arc<Plugin>,
    pub entry: ResourceEntry,
}

/// A family of things to read, and whose it is.
pub struct Template {
    pub plugin: Arc<Plugin>,
    pub checked: CheckedTemplate,
}

/// A prompt under the name that clients see.
pub struct Prompt {
    pub plugin: Arc<Plugin>,
    /// With the plugin's own name of it.
    pub entry: PromptEntry,
}

/// What is wrong with an offer. A name is shown so that it breaks no terminal.
#[derive(Debug, Error)]
pub enum OfferError {
    #[error("resource `{uri}`: {problem}")]
    Uri { uri: String, problem: String },
    #[error("it lists the resource `{0}` twice")]
    DuplicateUri(String),
    #[error("resource template `{text}`: {problem}")]
    Template { text: String, problem: String },
    #[error("its resource templates `{0}` and `{1}` stand for the same URIs")]
    DuplicateTemplate(String, String),
    #[error(
        "prompt `{0}`: a prompt's name is 1 to 64 letters, digits, `.`, `-` and `_`, without `__`"
    )]
    PromptName(String),
    #[error("it has two prompts called `{0}`")]
    DuplicatePrompt(String),
    #[error("prompt `{prompt}`: {problem}")]
    Argument { prompt: String, problem: String },
}

impl Offers {
    pub fn check(declared: Declared) -> Result<Offers, OfferError> {
        check_resources(&declared.resources)?;
        check_prompts(&declared.prompts)?;
        Ok(Offers {
            resources: declared.resources,
            templates: check_templates(declared.templates)?,
            prompts: declared.prompts,
        })
    }
}

fn check_resources(resources: &[ResourceEntry]) -> Result<(), OfferError> {
    let mut seen = BTreeSet::new();
    for resource in resources {
        check_uri(&resource.uri).map_err(|problem| OfferError::Uri {
            uri: shown(&resource.uri),
            problem,
        })?;
        if !seen.insert(&resource.uri) {
            return Err(OfferError::DuplicateUri(resource.uri.clone()));
        }
    }
    Ok(())
}

fn check_templates(entries: Vec<TemplateEntry>) -> Result<Vec<CheckedTemplate>, OfferError> {
    let mut checked: Vec<CheckedTemplate> = Vec::with_capacity(entries.len());
    for entry in entries {
        let template =
            UriTemplate::parse(&entry.uri_template).map_err(|problem| OfferError::Template {
                text: shown(&entry.uri_template),
                problem,
            })?;
        let twin = checked
            .iter()
            .find(|other| other.template.is_same_family(&template));
        if let Some(twin) = twin {
            let twin = twin.entry.uri_template.clone();
            return Err(OfferError::DuplicateTemplate(twin, entry.uri_template));
        }
        checked.push(CheckedTemplate { template, entry });
    }
    Ok(checked)
}

fn check_prompts(prompts: &[PromptEntry]) -> Result<(), OfferError> {
    let mut names = BTreeSet::new();
    for prompt in prompts {
        if !is_tool_name(&prompt.name) {
            return Err(OfferError::PromptName(shown(&prompt.name)));
        }
        if !names.insert(&prompt.name) {
            return Err(OfferError::DuplicatePrompt(prompt.name.clone()));
        }
        let mut arguments = BTreeSet::new();
        for argument in &prompt.arguments {
            let problem = if argument.name.is_empty() {
                "an argument has no name"
            } else if argument.name.contains(drives_display) {
                "an argument's name has control characters"
            } else if !arguments.insert(&argument.name) {
                "two of its arguments have the same name"
            } else {
                continue;
            };
            return Err(OfferError::Argument {
                prompt: prompt.name.clone(),
                problem: problem.to_owned(),
            });
        }
    }
    Ok(())
}

fn shown(name: &str) -> String {
    name.escape_debug().take(80).collect()
}

/// A URI of `plugin` that another one serves, or a template that overlaps another one's, and which
/// plugin that is. Of the plugins of
/// `before` only those in `staying` go on serving.
pub fn find_taken(
    plugin: &LoadedPlugin,
    loaded: &[LoadedPlugin],
    before: &Snapshot,
    staying: &BTreeSet<String>,
) -> Option<(String, String)> {
    let name = &plugin.plugin.name;
    let is_new = |owner: &str| loaded.iter().any(|other| other.plugin.name == owner);
    let others = loaded
        .iter()
        .map(|other| (&other.plugin.name, &other.offers));
    let mut uris: BTreeMap<&str, &str> = BTreeMap::new();
    let mut templates: Vec<(&CheckedTemplate, &str)> = Vec::new();
    for (owner, offers) in others {
        uris.extend(offers.resources.iter().map(|one| (&*one.uri, &**owner)));
        templates.extend(offers.templates.iter().map(|one| (one, &**owner)));
    }
    let goes_on = |owner: &Plugin| {
        owner.name != *name && staying.contains(&owner.name) && !is_new(&owner.name)
    };
    for resource in before.resources.values() {
        if goes_on(&resource.plugin) {
            uris.insert(&resource.entry.uri, &resource.plugin.name);
        }
    }
    for template in before.templates.values() {
        if goes_on(&template.plugin) {
            templates.push((&template.checked, &template.plugin.name));
        }
    }
    let of_template = |uri: &str| {
        let mut serving = templates.iter();
        serving.find(|(other, _)| other.template.fits(uri))
    };
    let taken = |uri: &str| {
        let owner = uris.get(uri).copied();
        owner.or_else(|| of_template(uri).map(|(_, owner)| *owner))
    };
    let uri = plugin.offers.resources.iter().find_map(|resource| {
        let owner = taken(&resource.uri)?;
        Some((resource.uri.clone(), owner.to_owned()))
    });
    uri.or_else(|| {
        plugin.offers.templates.iter().find_map(|mine| {
            let mut serving = templates.iter();
            let (_, owner) =
                serving.find(|(other, _)| other.template.may_overlap(&mine.template))?;
            Some((mine.entry.uri_template.clone(), (*owner).to_owned()))
        })
    })
}

/// Puts the offers of a loaded plugin into a snapshot, prompts aside.
pub fn put_resources(snapshot: &mut Snapshot, plugin: &Arc<Plugin>, offers: &mut Offers) {
    for entry in std::mem::take(&mut offers.resources) {
        let resource = Resource {
            plugin: plugin.clone(),
            entry,
        };
        snapshot
            .resources
            .insert(resource.entry.uri.clone(), Arc::new(resource));
    }
    for checked in std::mem::take(&mut offers.templates) {
        let template = Template {
            plugin: plugin.clone(),
            checked,
        };
        snapshot.templates.insert(
            template.checked.entry.uri_template.clone(),
            Arc::new(template),
        );
    }
}

/// Keeps what a plugin of an earlier snapshot goes on serving.
pub fn keep_resources(snapshot: &mut Snapshot, before: &Snapshot, plugin: &str) {
    let resources = before.resources.iter();
    let kept = resources.filter(|(_, resource)| resource.plugin.name == plugin);
    snapshot
        .resources
        .extend(kept.map(|(uri, resource)| (uri.clone(), resource.clone())));
    let templates = before.templates.iter();
    let kept = templates.filter(|(_, template)| template.plugin.name == plugin);
    snapshot
        .templates
        .extend(kept.map(|(text, template)| (text.clone(), template.clone())));
}

/// Gives prompts the names that clients see, as tools get theirs.
pub fn name_prompts(prompts: Vec<(Arc<Plugin>, PromptEntry)>) -> BTreeMap<String, Arc<Prompt>> {
    let owned = prompts
        .iter()
        .map(|(plugin, entry)| (entry.name.as_str(), plugin.name.as_str()));
    let shared = shared("prompt", owned);
    let named = prompts.into_iter().map(|(plugin, entry)| {
        let name = seen_name(&entry.name, &plugin.name, shared.contains(&entry.name));
        (name, Arc::new(Prompt { plugin, entry }))
    });
    named.collect()
}

impl Snapshot {
    /// The plugin that serves a URI: the one that lists it, else the one with a template that fits
    /// it, which no other has ([`find_taken`]).
    pub fn find_reader(&self, uri: &str) -> Option<&Arc<Plugin>> {
        if let Some(resource) = self.resources.get(uri) {
            return Some(&resource.plugin);
        }
        let mut templates = self.templates.values();
        let fitting = templates.find(|template| template.checked.template.fits(uri))?;
        Some(&fitting.plugin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wasm::Argument;

    fn resource(uri: &str) -> ResourceEntry {
        ResourceEntry {
            uri: uri.to_owned(),
            name: "n".to_owned(),
            title: None,
            description: None,
            mime_type: None,
            size: None,
            icons: Vec::new(),
        }
    }

    fn template(text: &str) -> TemplateEntry {
        TemplateEntry {
            uri_template: text.to_owned(),
            name: "n".to_owned(),
            title: None,
            description: None,
            mime_type: None,
            icons: Vec::new(),
        }
    }

    fn prompt(name: &str, arguments: &[&str]) -> PromptEntry {
        let arguments = arguments.iter().map(|name| Argument {
            name: (*name).to_owned(),
            title: None,
            description: None,
            required: true,
        });
        PromptEntry {
            name: name.to_owned(),
            title: None,
            description: None,
            arguments: arguments.collect(),
            icons: Vec::new(),
        }
    }

    fn refused(declared: Declared) -> String {
        match Offers::check(declared) {
            Ok(_) => panic!("it passed"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn every_bad_offer_is_refused_in_its_own_words() {
        let resources = |uris: &[&str]| {
            refused(Declared {
                resources: uris.iter().copied().map(resource).collect(),
                ..Declared::default()
            })
        };
        let templates = |texts: &[&str]| {
            refused(Declared {
                templates: texts.iter().copied().map(template).collect(),
                ..Declared::default()
            })
        };
        let prompts = |prompts: Vec<PromptEntry>| {
            refused(Declared {
                prompts,
                ..Declared::default()
            })
        };
        let told = [
            resources(&["x:a\u{1b}b"]),
            resources(&["longshore:a"]),
            resources(&["x:a", "x:a"]),
            templates(&["x:{+a}"]),
            templates(&["x:{a}", "x:{b}"]),
            prompts(vec![prompt("a__b", &[])]),
            prompts(vec![prompt("a", &[]), prompt("a", &[])]),
            prompts(vec![prompt("a", &["b", "b"])]),
            prompts(vec![prompt("a", &[""])]),
        ];
        insta::assert_snapshot!(told.join("\n"), @r"
        resource `x:a\u{1b}b`: `\u{1b}` can't stand in a URI; write it with `%`
        resource `longshore:a`: `longshore:` is the host's own scheme; choose another
        it lists the resource `x:a` twice
        resource template `x:{+a}`: `{+a}` is no variable: a name of letters, digits and `_`, without an operator
        its resource templates `x:{a}` and `x:{b}` stand for the same URIs
        prompt `a__b`: a prompt's name is 1 to 64 letters, digits, `.`, `-` and `_`, without `__`
        it has two prompts called `a`
        prompt `a`: two of its arguments have the same name
        prompt `a`: an argument has no name
        ");
    }
}
