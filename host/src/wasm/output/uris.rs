//! The URIs in what a guest returned: none is of the host's own scheme. It knows no others; what
//! they stand for is the client's business.

use super::{Content, Conversation, EmbeddedResource, Output};
use crate::task::{OWN_SCHEME, is_own_uri};

/// Says what is wrong with the links and resources of a tool's result, if anything is.
pub(in crate::wasm) fn check_output(output: &Output) -> Result<(), String> {
    check(output.content.iter().filter_map(uri_of))
}

pub(super) fn check_contents(bodies: &[EmbeddedResource]) -> Result<(), String> {
    check(bodies.iter().map(|body| body.uri.as_str()))
}

pub(super) fn check_conversation(told: &Conversation) -> Result<(), String> {
    let contents = told.messages.iter().map(|message| &message.content);
    check(contents.filter_map(uri_of))
}

/// Clients take such a URI for the host's word, as that of a part of a large result.
fn check<'a>(mut uris: impl Iterator<Item = &'a str>) -> Result<(), String> {
    match uris.any(is_own_uri) {
        false => Ok(()),
        true => Err(format!(
            "the plugin returned a URI of `{OWN_SCHEME}:`, the host's own scheme; it must choose \
             another"
        )),
    }
}

fn uri_of(content: &Content) -> Option<&str> {
    match content {
        Content::ResourceLink(link) => Some(&link.uri),
        Content::Resource(resource) => Some(&resource.uri),
        Content::Text(_) | Content::Image(_) | Content::Audio(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wasm::bindings::exports::longshore::plugin::prompts::{PromptMessage, Role};
    use crate::wasm::bindings::longshore::plugin::types::{ResourceBody, ResourceLink};

    #[test]
    fn no_guest_returns_a_uri_of_the_hosts_own_scheme() {
        for (uri, is_own) in [
            ("longshore://result/7/1", true),
            ("LongShore:x", true),
            ("longshores://result/7/1", false),
            ("longshore", false),
            ("", false),
        ] {
            let body = EmbeddedResource {
                uri: uri.to_owned(),
                mime_type: None,
                body: ResourceBody::Text("t".to_owned()),
            };
            let link = ResourceLink {
                uri: uri.to_owned(),
                name: "n".to_owned(),
                title: None,
                description: None,
                mime_type: None,
            };
            assert_eq!(check_contents(std::slice::from_ref(&body)).is_err(), is_own);
            for content in [Content::ResourceLink(link), Content::Resource(body)] {
                let output = Output {
                    content: vec![content.clone()],
                    structured: None,
                    is_error: false,
                };
                assert_eq!(check_output(&output).is_err(), is_own, "{uri}");
                let told = Conversation {
                    description: None,
                    messages: vec![PromptMessage {
                        role: Role::User,
                        content,
                    }],
                };
                assert_eq!(check_conversation(&told).is_err(), is_own, "{uri}");
            }
        }
    }
}
