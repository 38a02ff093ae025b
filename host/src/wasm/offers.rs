//! The resources and prompts a component says it has. Only their form is checked here; URIs, names
//! and collisions are the catalog's.

use super::LoadError;
use super::bindings::exports::longshore::plugin::{prompts, resources};
use super::declare::{
    Icon, NAME_MAX_BYTES, TEXT_MAX_BYTES, at_most, at_most_items, check_icons, read_icon,
};

/// Resources, templates and prompts of one component.
const RESOURCES_MAX: usize = 1_024;
const TEMPLATES_MAX: usize = 256;
const PROMPTS_MAX: usize = 256;

/// A URI, or a template of URIs, bytes.
pub(super) const URI_MAX_BYTES: usize = 2_048;

/// A thing to read, as its component declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceEntry {
    pub uri: String,
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub mime_type: Option<String>,
    /// Bytes, if known.
    pub size: Option<u64>,
    pub icons: Vec<Icon>,
}

/// A family of things to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateEntry {
    pub uri_template: String,
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub mime_type: Option<String>,
    pub icons: Vec<Icon>,
}

/// A text to start a conversation with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptEntry {
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub arguments: Vec<Argument>,
    pub icons: Vec<Icon>,
}

/// What a prompt wants to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub required: bool,
}

/// Takes what `list-resources` returned.
pub(super) fn read_resources(
    list: resources::ResourceList,
) -> Result<(Vec<ResourceEntry>, Vec<TemplateEntry>), LoadError> {
    not_too_many("resources", list.entries.len(), RESOURCES_MAX)?;
    not_too_many("resource templates", list.templates.len(), TEMPLATES_MAX)?;
    let entries = list.entries.into_iter().map(read_resource);
    let templates = list.templates.into_iter().map(read_template);
    Ok((
        entries.collect::<Result<_, _>>()?,
        templates.collect::<Result<_, _>>()?,
    ))
}

/// Takes what `list-prompts` returned.
pub(super) fn read_prompts(list: Vec<prompts::Prompt>) -> Result<Vec<PromptEntry>, LoadError> {
    not_too_many("prompts", list.len(), PROMPTS_MAX)?;
    list.into_iter().map(read_prompt).collect()
}

fn read_resource(entry: resources::ResourceEntry) -> Result<ResourceEntry, LoadError> {
    let check = || {
        at_most("its URI", &entry.uri, URI_MAX_BYTES)?;
        check_words(&entry.name, &entry.title, &entry.description)?;
        check_mime_type(&entry.mime_type)?;
        check_icons(&entry.icons)
    };
    check().map_err(|what| declaration("resource", &entry.uri, &what))?;
    Ok(ResourceEntry {
        uri: entry.uri,
        name: entry.name,
        title: entry.title,
        description: entry.description,
        mime_type: entry.mime_type,
        size: entry.size,
        icons: entry.icons.into_iter().map(read_icon).collect(),
    })
}

fn read_template(template: resources::ResourceTemplate) -> Result<TemplateEntry, LoadError> {
    let check = || {
        at_most("its template", &template.uri_template, URI_MAX_BYTES)?;
        check_words(&template.name, &template.title, &template.description)?;
        check_mime_type(&template.mime_type)?;
        check_icons(&template.icons)
    };
    check().map_err(|what| declaration("resource template", &template.uri_template, &what))?;
    Ok(TemplateEntry {
        uri_template: template.uri_template,
        name: template.name,
        title: template.title,
        description: template.description,
        mime_type: template.mime_type,
        icons: template.icons.into_iter().map(read_icon).collect(),
    })
}

fn read_prompt(prompt: prompts::Prompt) -> Result<PromptEntry, LoadError> {
    let check = || {
        check_words(&prompt.name, &prompt.title, &prompt.description)?;
        at_most_items("arguments", prompt.arguments.len())?;
        for argument in &prompt.arguments {
            check_words(&argument.name, &argument.title, &argument.description)?;
        }
        check_icons(&prompt.icons)
    };
    check().map_err(|what| declaration("prompt", &prompt.name, &what))?;
    let arguments = prompt.arguments.into_iter().map(|argument| Argument {
        name: argument.name,
        title: argument.title,
        description: argument.description,
        required: argument.required,
    });
    Ok(PromptEntry {
        name: prompt.name,
        title: prompt.title,
        description: prompt.description,
        arguments: arguments.collect(),
        icons: prompt.icons.into_iter().map(read_icon).collect(),
    })
}

fn check_words(
    name: &str,
    title: &Option<String>,
    description: &Option<String>,
) -> Result<(), String> {
    at_most("a name", name, NAME_MAX_BYTES)?;
    at_most("a title", title.as_deref().unwrap_or(""), NAME_MAX_BYTES)?;
    let description = description.as_deref().unwrap_or("");
    at_most("a description", description, TEXT_MAX_BYTES)
}

fn check_mime_type(mime_type: &Option<String>) -> Result<(), String> {
    let mime_type = mime_type.as_deref().unwrap_or("");
    at_most("its MIME type", mime_type, NAME_MAX_BYTES)
}

fn not_too_many(what: &str, count: usize, max: usize) -> Result<(), LoadError> {
    if count <= max {
        return Ok(());
    }
    Err(LoadError::Declaration(format!(
        "the component declares {count} {what}; {max} are allowed"
    )))
}

fn declaration(kind: &str, name: &str, what: &str) -> LoadError {
    let name: String = name.chars().take(64).collect();
    LoadError::Declaration(format!("{kind} `{}`: {what}", name.escape_debug()))
}
