//! How large what a guest returned is in a message, and whether the words that go with it are of a
//! length that links and parts may repeat (I6).

use super::{Content, EmbeddedResource, Output, ResourceBody};
use crate::wasm::declare::{NAME_MAX_BYTES, at_most};
use crate::wasm::offers::URI_MAX_BYTES;

/// More than JSON takes for a block or a body besides what it holds, bytes.
pub(super) const BLOCK_BYTES: usize = 96;

/// Besides its block's: more than JSON takes for a prompt's message, bytes.
const MESSAGE_BYTES: usize = 32;

/// What a result has in a message. Structured content that stands alone is there twice: as itself, and
/// spelled as the text that clients read which know no structured content.
pub(in crate::wasm) fn size_in_message(output: &Output) -> usize {
    let repeated = output.structured.as_deref();
    let repeated = repeated.filter(|_| output.content.is_empty());
    size_of(output) + repeated.map_or(0, written_bytes)
}

/// What a tool returned, each thing once. Blobs count as they are, before base64 makes a third more of
/// them.
pub(in crate::wasm) fn size_of(output: &Output) -> usize {
    let blocks = output.content.iter().map(size_of_content);
    let structured = output.structured.as_ref().map_or(0, String::len);
    blocks.sum::<usize>() + frames(output.content.len(), BLOCK_BYTES) + structured
}

pub(super) fn size_of_bodies(bodies: &[EmbeddedResource]) -> usize {
    let sizes = bodies.iter().map(size_of_resource);
    sizes.sum::<usize>() + frames(bodies.len(), BLOCK_BYTES)
}

pub(super) fn size_of_messages<'a>(contents: impl ExactSizeIterator<Item = &'a Content>) -> usize {
    let frames = frames(contents.len(), BLOCK_BYTES + MESSAGE_BYTES);
    contents.map(size_of_content).sum::<usize>() + frames
}

/// What it holds, without its frame.
pub(super) fn size_of_content(content: &Content) -> usize {
    match content {
        Content::Text(text) => written_bytes(text),
        Content::Image(media) | Content::Audio(media) => {
            media.data.len() + written_bytes(&media.mime_type)
        }
        Content::ResourceLink(link) => {
            written_bytes(&link.uri)
                + written_bytes(&link.name)
                + optional(&link.title)
                + optional(&link.description)
                + optional(&link.mime_type)
        }
        Content::Resource(resource) => size_of_resource(resource),
    }
}

fn size_of_resource(resource: &EmbeddedResource) -> usize {
    let body = match &resource.body {
        ResourceBody::Text(text) => written_bytes(text),
        ResourceBody::Blob(bytes) => bytes.len(),
    };
    written_bytes(&resource.uri) + optional(&resource.mime_type) + body
}

/// The first is free: a limit is about what it holds, and only many of them come to anything.
fn frames(count: usize, each_bytes: usize) -> usize {
    count.saturating_sub(1) * each_bytes
}

pub(super) fn optional(text: &Option<String>) -> usize {
    text.as_deref().map_or(0, written_bytes)
}

/// A text as JSON spells it, without the quotes.
pub(super) fn written_bytes(text: &str) -> usize {
    text.bytes().map(spelled_bytes).sum()
}

/// The longest beginning of a text that JSON spells in `max_bytes`, in bytes of the text: at least a
/// character.
pub(super) fn prefix(text: &str, max_bytes: usize) -> usize {
    let mut room = max_bytes;
    for (at, letter) in text.char_indices() {
        let spelled = match u8::try_from(letter) {
            Ok(byte) if byte.is_ascii() => spelled_bytes(byte),
            _ => letter.len_utf8(),
        };
        if spelled > room && at > 0 {
            return at;
        }
        room = room.saturating_sub(spelled);
    }
    text.len()
}

fn spelled_bytes(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..=0x1f => 6,
        _ => 1,
    }
}

/// Whether URIs and MIME types are such that each part of a block may carry them.
pub(super) fn check_words<'a>(
    contents: impl IntoIterator<Item = &'a Content>,
) -> Result<(), String> {
    for content in contents {
        match content {
            Content::Text(_) => {}
            Content::Image(media) | Content::Audio(media) => check_mime(Some(&media.mime_type))?,
            Content::ResourceLink(link) => {
                check_uri(&link.uri)?;
                check_mime(link.mime_type.as_deref())?;
            }
            Content::Resource(resource) => check_resource(resource)?,
        }
    }
    Ok(())
}

pub(super) fn check_resource(resource: &EmbeddedResource) -> Result<(), String> {
    check_uri(&resource.uri)?;
    check_mime(resource.mime_type.as_deref())
}

fn check_uri(uri: &str) -> Result<(), String> {
    at_most("a URI that the plugin returned", uri, URI_MAX_BYTES)
}

fn check_mime(mime_type: Option<&str>) -> Result<(), String> {
    let mime_type = mime_type.unwrap_or("");
    at_most(
        "a MIME type that the plugin returned",
        mime_type,
        NAME_MAX_BYTES,
    )
}

#[cfg(test)]
mod tests {
    use super::super::{to_contents, to_result};
    use super::*;
    use crate::wasm::bindings::longshore::plugin::types::{Media, ResourceLink};

    fn output(content: Vec<Content>) -> Output {
        Output {
            content,
            structured: None,
            is_error: false,
        }
    }

    fn resource(uri: &str, mime_type: &str, text: &str) -> EmbeddedResource {
        EmbeddedResource {
            uri: uri.to_owned(),
            mime_type: Some(mime_type.to_owned()),
            body: ResourceBody::Text(text.to_owned()),
        }
    }

    #[test]
    fn a_text_has_the_size_that_json_gives_it_and_is_cut_there() {
        let nasty: String = ('\0'..='\u{100}').collect();
        let written = |text: &str| serde_json::to_string(text).unwrap().len() - 2;
        assert_eq!(written_bytes(&nasty), written(&nasty));
        for max in 6..50 {
            let end = prefix(&nasty, max);
            assert!(written(&nasty[..end]) <= max, "{max}");
            let longer = nasty[end..].chars().next().unwrap().len_utf8() + end;
            assert!(written(&nasty[..longer]) > max, "{max}");
        }
        assert_eq!(prefix("\0\0", 1), 1, "it goes on in any case");
        assert_eq!(prefix("", 1), 0);
    }

    #[test]
    fn no_message_is_larger_than_its_size_says() {
        let link = ResourceLink {
            uri: "a:".to_owned(),
            name: String::new(),
            title: Some(String::new()),
            description: Some(String::new()),
            mime_type: Some(String::new()),
        };
        let kinds = [
            Content::Text(String::new()),
            Content::Text("\u{1}\"\n".to_owned()),
            Content::Image(Media {
                data: Vec::new(),
                mime_type: String::new(),
            }),
            Content::ResourceLink(link),
            Content::Resource(resource("", "", "\u{1}")),
        ];
        for kind in kinds {
            let many = output(vec![kind; 1_000]);
            let json = to_result(&many).unwrap().json;
            assert!(json.len() <= size_of(&many), "{json:.200}");
        }
        // Nothing grows more by being repeated as a text.
        let alone = Output {
            structured: Some(format!("[\"{}\"]", "\\\"".repeat(10_000))),
            ..output(Vec::new())
        };
        let json = to_result(&alone).unwrap().json;
        assert!(json.len() > 2 * size_of(&alone), "{} bytes", json.len());
        assert!(json.len() <= size_in_message(&alone) + BLOCK_BYTES);
    }

    #[test]
    fn a_uri_or_a_mime_type_of_any_length_is_refused() {
        let uri = "x".repeat(URI_MAX_BYTES + 1);
        let mime = "x".repeat(NAME_MAX_BYTES + 1);
        let table = [
            (resource(&uri, "", ""), "a URI"),
            (resource("", &mime, ""), "a MIME type"),
        ];
        for (body, what) in table {
            let error = to_contents(std::slice::from_ref(&body), 1 << 20).unwrap_err();
            assert!(error.starts_with(what), "{error}");
            let error = to_result(&output(vec![Content::Resource(body)])).unwrap_err();
            assert!(error.starts_with(what), "{error}");
        }
    }
}
