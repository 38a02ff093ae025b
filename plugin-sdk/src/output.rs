//! What a tool returns, and a prompt says.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::bindings::longshore::plugin::types;
use crate::error::Result;
use crate::schema;

/// A tool's result: content for people and models, structured content for programs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    pub content: Vec<Content>,
    pub structured: Option<Value>,
    /// The tool ran and reports a failure of its own.
    pub is_error: bool,
}

/// One piece of content.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Text(String),
    Image {
        data: Vec<u8>,
        mime_type: String,
    },
    Audio {
        data: Vec<u8>,
        mime_type: String,
    },
    /// A resource the client may fetch.
    ResourceLink {
        uri: String,
        name: String,
        title: Option<String>,
        description: Option<String>,
        mime_type: Option<String>,
    },
    /// A resource in full.
    Resource {
        uri: String,
        mime_type: Option<String>,
        body: ResourceBody,
    },
}

/// What a resource holds.
#[derive(Clone, Debug, PartialEq)]
pub enum ResourceBody {
    Text(String),
    Bytes(Vec<u8>),
}

impl Output {
    pub fn new() -> Output {
        Output::default()
    }

    /// An output that begins with a text.
    pub fn text(text: impl Into<String>) -> Output {
        Output::new().and(Content::Text(text.into()))
    }

    pub fn and(mut self, content: Content) -> Output {
        self.content.push(content);
        self
    }

    pub fn and_text(self, text: impl Into<String>) -> Output {
        self.and(Content::Text(text.into()))
    }

    pub fn and_image(self, mime_type: &str, data: impl Into<Vec<u8>>) -> Output {
        self.and(Content::image(mime_type, data))
    }

    pub fn and_audio(self, mime_type: &str, data: impl Into<Vec<u8>>) -> Output {
        self.and(Content::audio(mime_type, data))
    }

    pub fn and_resource_text(
        self,
        uri: impl Into<String>,
        mime_type: &str,
        text: impl Into<String>,
    ) -> Output {
        self.and(Content::resource_text(uri, mime_type, text))
    }

    pub fn and_resource_bytes(
        self,
        uri: impl Into<String>,
        mime_type: &str,
        data: impl Into<Vec<u8>>,
    ) -> Output {
        self.and(Content::resource_bytes(uri, mime_type, data))
    }

    pub fn and_resource_link(self, uri: impl Into<String>, name: impl Into<String>) -> Output {
        self.and(Content::ResourceLink {
            uri: uri.into(),
            name: name.into(),
            title: None,
            description: None,
            mime_type: None,
        })
    }

    /// Adds structured content by hand; [`Structured`] also declares its schema.
    pub fn with_structured(mut self, value: &impl Serialize) -> Result<Output> {
        self.structured = Some(serde_json::to_value(value)?);
        Ok(self)
    }

    /// Marks the output as a failure the tool reports itself.
    pub fn as_error(mut self) -> Output {
        self.is_error = true;
        self
    }

    /// All text blocks, joined by newlines.
    pub fn joined_text(&self) -> String {
        let texts: Vec<&str> = self
            .content
            .iter()
            .filter_map(|content| match content {
                Content::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        texts.join("\n")
    }

    pub(crate) fn into_wire(self) -> types::Output {
        types::Output {
            content: self.content.into_iter().map(Content::into_wire).collect(),
            structured: self.structured.map(|value| value.to_string()),
            is_error: self.is_error,
        }
    }
}

impl Content {
    pub fn image(mime_type: &str, data: impl Into<Vec<u8>>) -> Content {
        Content::Image {
            data: data.into(),
            mime_type: mime_type.into(),
        }
    }

    pub fn audio(mime_type: &str, data: impl Into<Vec<u8>>) -> Content {
        Content::Audio {
            data: data.into(),
            mime_type: mime_type.into(),
        }
    }

    pub fn resource_text(
        uri: impl Into<String>,
        mime_type: &str,
        text: impl Into<String>,
    ) -> Content {
        Content::Resource {
            uri: uri.into(),
            mime_type: Some(mime_type.into()),
            body: ResourceBody::Text(text.into()),
        }
    }

    pub fn resource_bytes(
        uri: impl Into<String>,
        mime_type: &str,
        data: impl Into<Vec<u8>>,
    ) -> Content {
        Content::Resource {
            uri: uri.into(),
            mime_type: Some(mime_type.into()),
            body: ResourceBody::Bytes(data.into()),
        }
    }

    pub(crate) fn into_wire(self) -> types::Content {
        match self {
            Content::Text(text) => types::Content::Text(text),
            Content::Image { data, mime_type } => {
                types::Content::Image(types::Media { data, mime_type })
            }
            Content::Audio { data, mime_type } => {
                types::Content::Audio(types::Media { data, mime_type })
            }
            Content::ResourceLink {
                uri,
                name,
                title,
                description,
                mime_type,
            } => types::Content::ResourceLink(types::ResourceLink {
                uri,
                name,
                title,
                description,
                mime_type,
            }),
            Content::Resource {
                uri,
                mime_type,
                body,
            } => types::Content::Resource(types::EmbeddedResource {
                uri,
                mime_type,
                body: body.into_wire(),
            }),
        }
    }
}

impl From<String> for Content {
    fn from(text: String) -> Content {
        Content::Text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Content {
        Content::Text(text.into())
    }
}

impl ResourceBody {
    pub(crate) fn into_wire(self) -> types::ResourceBody {
        match self {
            ResourceBody::Text(text) => types::ResourceBody::Text(text),
            ResourceBody::Bytes(data) => types::ResourceBody::Blob(data),
        }
    }
}

/// What a tool function may return.
pub trait IntoOutput {
    /// The schema of the structured content, where there is any.
    fn output_schema() -> Option<Value> {
        None
    }

    fn into_output(self) -> Result<Output>;
}

impl IntoOutput for Output {
    fn into_output(self) -> Result<Output> {
        Ok(self)
    }
}

impl IntoOutput for String {
    fn into_output(self) -> Result<Output> {
        Ok(Output::text(self))
    }
}

impl IntoOutput for &'static str {
    fn into_output(self) -> Result<Output> {
        Ok(Output::text(self))
    }
}

/// A result for programs as well as people: `value` travels as structured content under the output
/// schema of its type, which must be a struct, beside a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Structured<T> {
    pub value: T,
    /// The text shown to people; the value's JSON when there is none.
    pub text: Option<String>,
    /// Content after the text: images, files, links.
    pub more: Vec<Content>,
}

impl<T> Structured<T> {
    /// The value, with its JSON as the text.
    pub fn new(value: T) -> Structured<T> {
        Structured {
            value,
            text: None,
            more: Vec::new(),
        }
    }

    /// The value, with words for people.
    pub fn with_text(value: T, text: impl Into<String>) -> Structured<T> {
        Structured {
            text: Some(text.into()),
            ..Structured::new(value)
        }
    }

    pub fn and(mut self, content: Content) -> Structured<T> {
        self.more.push(content);
        self
    }
}

impl<T: Serialize + JsonSchema> IntoOutput for Structured<T> {
    fn output_schema() -> Option<Value> {
        Some(schema::output::<T>())
    }

    fn into_output(self) -> Result<Output> {
        let value = serde_json::to_value(&self.value)?;
        let mut output = Output::text(self.text.unwrap_or_else(|| value.to_string()));
        output.content.extend(self.more);
        output.structured = Some(value);
        Ok(output)
    }
}
