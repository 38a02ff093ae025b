//! A prompt: what people are told of it, and the function that writes the conversation it begins.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::bindings::longshore::plugin::types;
use crate::completion::{Completions, Suggestions, Typed};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::output::Content;
use crate::schema;
use crate::server_bindings::exports::longshore::plugin::prompts;
pub use crate::server_bindings::exports::longshore::plugin::prompts::Role;

/// A prompt as [`export!`](crate::export) registers it.
pub struct Prompt {
    name: String,
    title: Option<String>,
    description: String,
    icons: Vec<types::Icon>,
    /// A schema is derived only when the prompts are listed.
    arguments: fn() -> Value,
    completions: Completions,
    write: Write,
}

/// Takes the arguments by their names.
type Write = Box<dyn Fn(&Context, Map<String, Value>) -> Result<Conversation>>;

/// Declares a prompt: its name, what it is for, and the function that writes it.
///
/// The function's argument is a struct of strings, optional ones as `Option<String>`; an enum
/// without fields will do as well. The doc comments become the descriptions that people see. It
/// returns a text or a [`Conversation`].
pub fn prompt<A, C, F>(name: impl Into<String>, description: impl Into<String>, write: F) -> Prompt
where
    A: DeserializeOwned + JsonSchema,
    C: Into<Conversation>,
    F: Fn(&Context, A) -> Result<C> + 'static,
{
    Prompt {
        name: name.into(),
        title: None,
        description: description.into(),
        icons: Vec::new(),
        arguments: schema::input::<A>,
        completions: Completions::default(),
        write: Box::new(move |context, arguments| {
            let arguments = serde_json::from_value(Value::Object(arguments))
                .map_err(Error::invalid_arguments)?;
            Ok(write(context, arguments)?.into())
        }),
    }
}

/// How it is shown.
impl Prompt {
    pub fn title(mut self, title: impl Into<String>) -> Prompt {
        self.title = Some(title.into());
        self
    }

    /// An icon by its URL (`https:` or `data:`).
    pub fn icon(mut self, src: impl Into<String>, mime_type: Option<&str>) -> Prompt {
        self.icons.push(types::Icon {
            src: src.into(),
            mime_type: mime_type.map(String::from),
            sizes: Vec::new(),
        });
        self
    }

    /// Suggests values of an argument while a person types it.
    pub fn complete<S, F>(mut self, argument: impl Into<String>, suggest: F) -> Prompt
    where
        S: Into<Suggestions>,
        F: Fn(&Context, &Typed) -> S + 'static,
    {
        self.completions.add(argument.into(), suggest);
        self
    }
}

/// What the host and tests read.
impl Prompt {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Writes the conversation.
    pub fn write(&self, context: &Context, arguments: &[(String, String)]) -> Result<Conversation> {
        let arguments = arguments
            .iter()
            .map(|(name, value)| (name.clone(), Value::String(value.clone())))
            .collect();
        (self.write)(context, arguments)
    }

    pub(crate) fn completions(&self) -> &Completions {
        &self.completions
    }

    /// The prompt as `prompts.list-prompts` tells it.
    pub fn declaration(&self) -> prompts::Prompt {
        prompts::Prompt {
            name: self.name.clone(),
            title: self.title.clone(),
            description: Some(self.description.clone()),
            arguments: arguments(&(self.arguments)()),
            icons: self.icons.clone(),
        }
    }
}

fn arguments(schema: &Value) -> Vec<prompts::PromptArgument> {
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|it| it.iter().any(|it| it == name));
    let text = |it: &Value| it.as_str().map(String::from);
    let properties = schema["properties"].as_object();
    properties
        .into_iter()
        .flatten()
        .map(|(name, property)| prompts::PromptArgument {
            name: name.clone(),
            title: text(&property["title"]),
            description: text(&property["description"]),
            required: is_required(name),
        })
        .collect()
}

/// What a prompt puts into the client's conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    pub description: Option<String>,
    pub messages: Vec<Message>,
}

/// One message of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub role: Role,
    pub content: Content,
}

impl Conversation {
    pub fn new() -> Conversation {
        Conversation::default()
    }

    /// What this conversation is about, where the prompt's own description does not say it.
    pub fn about(mut self, description: impl Into<String>) -> Conversation {
        self.description = Some(description.into());
        self
    }

    /// The user says this next.
    pub fn user(self, content: impl Into<Content>) -> Conversation {
        self.and(Role::User, content)
    }

    /// The model says this next.
    pub fn assistant(self, content: impl Into<Content>) -> Conversation {
        self.and(Role::Assistant, content)
    }

    fn and(mut self, role: Role, content: impl Into<Content>) -> Conversation {
        self.messages.push(Message {
            role,
            content: content.into(),
        });
        self
    }

    /// All text blocks, joined by newlines.
    pub fn joined_text(&self) -> String {
        let texts: Vec<&str> = self
            .messages
            .iter()
            .filter_map(|message| match &message.content {
                Content::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        texts.join("\n")
    }

    pub(crate) fn into_wire(self) -> prompts::Conversation {
        prompts::Conversation {
            description: self.description,
            messages: self
                .messages
                .into_iter()
                .map(|message| prompts::PromptMessage {
                    role: message.role,
                    content: message.content.into_wire(),
                })
                .collect(),
        }
    }
}

/// The user says it.
impl From<String> for Conversation {
    fn from(text: String) -> Conversation {
        Conversation::new().user(text)
    }
}

/// The user says it.
impl From<&str> for Conversation {
    fn from(text: &str) -> Conversation {
        Conversation::new().user(text)
    }
}
