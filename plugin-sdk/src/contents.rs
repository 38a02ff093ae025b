//! What a resource holds.

use crate::bindings::longshore::plugin::types;
use crate::output::ResourceBody;

/// The bodies of a resource: mostly one; several for what a client reads in one go, such as the
/// files of a directory, each under a URI of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    pub bodies: Vec<Body>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    /// None is the URI that was read.
    pub uri: Option<String>,
    /// None is what the resource declares.
    pub mime_type: Option<String>,
    pub body: ResourceBody,
}

impl Contents {
    pub fn new() -> Contents {
        Contents::default()
    }

    pub fn and_text(
        self,
        uri: impl Into<String>,
        mime_type: &str,
        text: impl Into<String>,
    ) -> Contents {
        self.and(uri, mime_type, ResourceBody::Text(text.into()))
    }

    pub fn and_bytes(
        self,
        uri: impl Into<String>,
        mime_type: &str,
        data: impl Into<Vec<u8>>,
    ) -> Contents {
        self.and(uri, mime_type, ResourceBody::Bytes(data.into()))
    }

    fn and(mut self, uri: impl Into<String>, mime_type: &str, body: ResourceBody) -> Contents {
        self.bodies.push(Body {
            uri: Some(uri.into()),
            mime_type: Some(mime_type.into()),
            body,
        });
        self
    }

    /// All texts, joined by newlines.
    pub fn joined_text(&self) -> String {
        let texts: Vec<&str> = self
            .bodies
            .iter()
            .filter_map(|it| match &it.body {
                ResourceBody::Text(text) => Some(text.as_str()),
                ResourceBody::Bytes(_) => None,
            })
            .collect();
        texts.join("\n")
    }

    /// Completed by what the resource itself is known under.
    pub(crate) fn of(mut self, uri: &str, mime_type: Option<&str>) -> Contents {
        for body in &mut self.bodies {
            body.uri.get_or_insert_with(|| uri.into());
            body.mime_type = body.mime_type.take().or(mime_type.map(String::from));
        }
        self
    }

    pub(crate) fn into_wire(self) -> Vec<types::EmbeddedResource> {
        self.bodies
            .into_iter()
            .map(|it| types::EmbeddedResource {
                uri: it.uri.unwrap_or_default(),
                mime_type: it.mime_type,
                body: it.body.into_wire(),
            })
            .collect()
    }
}

impl From<ResourceBody> for Contents {
    fn from(body: ResourceBody) -> Contents {
        Contents {
            bodies: vec![Body {
                uri: None,
                mime_type: None,
                body,
            }],
        }
    }
}

/// What a function that reads a resource may return.
pub trait IntoContents {
    /// None: there is no such resource.
    fn into_contents(self) -> Option<Contents>;
}

impl IntoContents for Contents {
    fn into_contents(self) -> Option<Contents> {
        Some(self)
    }
}

impl IntoContents for String {
    fn into_contents(self) -> Option<Contents> {
        Some(ResourceBody::Text(self).into())
    }
}

impl IntoContents for &'static str {
    fn into_contents(self) -> Option<Contents> {
        String::from(self).into_contents()
    }
}

impl IntoContents for Vec<u8> {
    fn into_contents(self) -> Option<Contents> {
        Some(ResourceBody::Bytes(self).into())
    }
}

impl IntoContents for &'static [u8] {
    fn into_contents(self) -> Option<Contents> {
        self.to_vec().into_contents()
    }
}

impl<C: IntoContents> IntoContents for Option<C> {
    fn into_contents(self) -> Option<Contents> {
        self.and_then(IntoContents::into_contents)
    }
}
