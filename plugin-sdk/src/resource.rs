//! Things a client can read: what people are told of them, and the function that reads.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::bindings::longshore::plugin::types;
use crate::completion::{Completions, Suggestions, Typed};
use crate::contents::{Contents, IntoContents};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::server_bindings::exports::longshore::plugin::resources;
use crate::uri_template;

/// None: there is no such resource.
type Read = Box<dyn Fn(&Context) -> Result<Option<Contents>>>;
/// Takes the variables' values by their names.
type ReadAt = Box<dyn Fn(&Context, Map<String, Value>) -> Result<Option<Contents>>>;

/// A resource as [`export!`](crate::export) registers it.
pub struct Resource {
    uri: String,
    shown: Shown,
    size: Option<u64>,
    read: Read,
}

/// A family of resources that are too many to list, under a URI with variables.
pub struct Template {
    uri: String,
    shown: Shown,
    read: ReadAt,
    completions: Completions,
}

/// What both are shown with.
struct Shown {
    name: String,
    title: Option<String>,
    description: Option<String>,
    mime_type: Option<String>,
    icons: Vec<types::Icon>,
}

/// Declares a resource: its URI, its name, and the function that reads it, which returns a text,
/// bytes or [`Contents`].
pub fn resource<C, F>(uri: impl Into<String>, name: impl Into<String>, read: F) -> Resource
where
    C: IntoContents,
    F: Fn(&Context) -> Result<C> + 'static,
{
    Resource {
        uri: uri.into(),
        shown: Shown::named(name),
        size: None,
        read: Box::new(move |context| Ok(read(context)?.into_contents())),
    }
}

/// Declares a family of resources by a URI template of RFC 6570, level 1: `notes://{book}/{page}`.
///
/// The function's argument is a struct with a string for each variable, decoded. It returns a text,
/// bytes or [`Contents`]; or an `Option` of them, with None for a resource that does not exist.
pub fn template<A, C, F>(uri: impl Into<String>, name: impl Into<String>, read: F) -> Template
where
    A: DeserializeOwned,
    C: IntoContents,
    F: Fn(&Context, A) -> Result<C> + 'static,
{
    Template {
        uri: uri.into(),
        shown: Shown::named(name),
        read: Box::new(move |context, variables| {
            let variables = serde_json::from_value(Value::Object(variables))
                .map_err(|error| Error::defect(format!("the template's variables: {error}")))?;
            Ok(read(context, variables)?.into_contents())
        }),
        completions: Completions::default(),
    }
}

impl Shown {
    fn named(name: impl Into<String>) -> Shown {
        Shown {
            name: name.into(),
            title: None,
            description: None,
            mime_type: None,
            icons: Vec::new(),
        }
    }

    fn icon(&mut self, src: impl Into<String>, mime_type: Option<&str>) {
        self.icons.push(types::Icon {
            src: src.into(),
            mime_type: mime_type.map(String::from),
            sizes: Vec::new(),
        });
    }
}

/// How it is shown.
impl Resource {
    pub fn title(mut self, title: impl Into<String>) -> Resource {
        self.shown.title = Some(title.into());
        self
    }

    pub fn description(mut self, description: impl Into<String>) -> Resource {
        self.shown.description = Some(description.into());
        self
    }

    /// What it holds, unless what is read says otherwise.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Resource {
        self.shown.mime_type = Some(mime_type.into());
        self
    }

    /// In bytes, if that is known before it is read.
    pub fn size(mut self, bytes: u64) -> Resource {
        self.size = Some(bytes);
        self
    }

    /// An icon by its URL (`https:` or `data:`).
    pub fn icon(mut self, src: impl Into<String>, mime_type: Option<&str>) -> Resource {
        self.shown.icon(src, mime_type);
        self
    }
}

/// How it is shown.
impl Template {
    pub fn title(mut self, title: impl Into<String>) -> Template {
        self.shown.title = Some(title.into());
        self
    }

    pub fn description(mut self, description: impl Into<String>) -> Template {
        self.shown.description = Some(description.into());
        self
    }

    /// What they hold, unless what is read says otherwise.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Template {
        self.shown.mime_type = Some(mime_type.into());
        self
    }

    /// An icon by its URL (`https:` or `data:`).
    pub fn icon(mut self, src: impl Into<String>, mime_type: Option<&str>) -> Template {
        self.shown.icon(src, mime_type);
        self
    }

    /// Suggests values of a variable while a person types it.
    pub fn complete<S, F>(mut self, variable: impl Into<String>, suggest: F) -> Template
    where
        S: Into<Suggestions>,
        F: Fn(&Context, &Typed) -> S + 'static,
    {
        self.completions.add(variable.into(), suggest);
        self
    }
}

/// What the host and tests read.
impl Resource {
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// What it holds; None if it is gone.
    pub fn read(&self, context: &Context) -> Result<Option<Contents>> {
        let contents = (self.read)(context)?;
        Ok(contents.map(|it| it.of(&self.uri, self.shown.mime_type.as_deref())))
    }

    /// The resource as `resources.list-resources` tells it.
    pub fn declaration(&self) -> resources::ResourceEntry {
        let shown = &self.shown;
        resources::ResourceEntry {
            uri: self.uri.clone(),
            name: shown.name.clone(),
            title: shown.title.clone(),
            description: shown.description.clone(),
            mime_type: shown.mime_type.clone(),
            size: self.size,
            icons: shown.icons.clone(),
        }
    }
}

/// What the host and tests read.
impl Template {
    pub fn uri_template(&self) -> &str {
        &self.uri
    }

    /// Whether a URI is of this family.
    pub fn fits(&self, uri: &str) -> bool {
        uri_template::variables(&self.uri, uri).is_some()
    }

    pub(crate) fn fixed_bytes(&self) -> usize {
        uri_template::fixed_bytes(&self.uri)
    }

    /// What the resource holds; None if the URI does not fit, or there is no such resource.
    pub fn read(&self, context: &Context, uri: &str) -> Result<Option<Contents>> {
        let Some(variables) = uri_template::variables(&self.uri, uri) else {
            return Ok(None);
        };
        let variables = variables
            .into_iter()
            .map(|(name, value)| (name, Value::String(value)))
            .collect();
        let contents = (self.read)(context, variables)?;
        Ok(contents.map(|it| it.of(uri, self.shown.mime_type.as_deref())))
    }

    pub(crate) fn completions(&self) -> &Completions {
        &self.completions
    }

    /// The template as `resources.list-resources` tells it.
    pub fn declaration(&self) -> resources::ResourceTemplate {
        let shown = &self.shown;
        resources::ResourceTemplate {
            uri_template: self.uri.clone(),
            name: shown.name.clone(),
            title: shown.title.clone(),
            description: shown.description.clone(),
            mime_type: shown.mime_type.clone(),
            icons: shown.icons.clone(),
        }
    }
}
