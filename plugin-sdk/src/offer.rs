//! All that a plugin offers.

use std::cmp::Reverse;

use crate::completion::{Suggestions, Typed};
use crate::contents::Contents;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::prompt::{Conversation, Prompt};
use crate::resource::{Resource, Template};
use crate::tool::Tool;

/// What [`export!`](crate::export) collects from its lines.
#[derive(Default)]
pub struct Offer {
    pub tools: Vec<Tool>,
    pub resources: Vec<Resource>,
    pub templates: Vec<Template>,
    pub prompts: Vec<Prompt>,
}

/// What an argument belongs to that is being typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    /// The prompt of this name.
    Prompt(&'a str),
    /// This URI template.
    Template(&'a str),
}

impl Offer {
    /// With one more tool, resource, template or prompt.
    pub fn with(mut self, item: impl Offered) -> Offer {
        item.add_to(&mut self);
        self
    }

    /// Reads a resource: one of the list, or of the template that fits and has most fixed text. None
    /// if there is no such one.
    pub fn read(&self, context: &Context, uri: &str) -> Result<Option<Contents>> {
        if let Some(resource) = self.resources.iter().find(|it| it.uri() == uri) {
            return resource.read(context);
        }
        let fitting = self.templates.iter().filter(|it| it.fits(uri));
        // The host prefers the same one where two plugins have templates that fit.
        match fitting.min_by_key(|it| Reverse(it.fixed_bytes())) {
            Some(template) => template.read(context, uri),
            None => Ok(None),
        }
    }

    /// Writes a prompt's conversation.
    pub fn prompt(
        &self,
        context: &Context,
        name: &str,
        arguments: &[(String, String)],
    ) -> Result<Conversation> {
        match self.prompts.iter().find(|it| it.name() == name) {
            Some(prompt) => prompt.write(context, arguments),
            None => Err(Error::defect(format!("this plugin has no prompt `{name}`"))),
        }
    }

    /// Suggests values of an argument; none where the plugin does not know any.
    pub fn complete(
        &self,
        context: &Context,
        subject: Subject,
        argument: &str,
        typed: &Typed,
    ) -> Suggestions {
        let completions = match subject {
            Subject::Prompt(name) => self
                .prompts
                .iter()
                .find(|it| it.name() == name)
                .map(Prompt::completions),
            Subject::Template(uri) => self
                .templates
                .iter()
                .find(|it| it.uri_template() == uri)
                .map(Template::completions),
        };
        completions.map_or_else(Suggestions::default, |it| {
            it.suggest(context, argument, typed)
        })
    }
}

/// A line of [`export!`](crate::export).
pub trait Offered {
    fn add_to(self, offer: &mut Offer);
}

impl Offered for Tool {
    fn add_to(self, offer: &mut Offer) {
        offer.tools.push(self);
    }
}

impl Offered for Resource {
    fn add_to(self, offer: &mut Offer) {
        offer.resources.push(self);
    }
}

impl Offered for Template {
    fn add_to(self, offer: &mut Offer) {
        offer.templates.push(self);
    }
}

impl Offered for Prompt {
    fn add_to(self, offer: &mut Offer) {
        offer.prompts.push(self);
    }
}
