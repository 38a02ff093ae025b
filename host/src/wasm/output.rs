//! What a guest returned, as the members of MCP's results: of a tool's call ("Tool Result"), of a
//! resource, of a prompt, of a completion.

mod large;
mod size;
mod uris;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;

use super::bindings::exports::longshore::plugin::completion::Suggestions;
use super::bindings::exports::longshore::plugin::prompts::{Conversation, Role};
use super::bindings::longshore::plugin::types::{Content, EmbeddedResource, Output, ResourceBody};
use super::json::compact;
use crate::task::CallResult;

use size::{
    check_resource, check_words, optional, size_of_bodies, size_of_messages, written_bytes,
};

pub(super) use large::to_large;
pub(super) use size::{size_in_message, size_of};
pub(super) use uris::check_output;

/// Parts that one result may have.
const PART_LINKS_MAX: usize = 1_024;

#[derive(Serialize)]
struct Wire<'a> {
    content: Vec<Block<'a>>,
    #[serde(rename = "structuredContent", skip_serializing_if = "Option::is_none")]
    structured: Option<&'a RawValue>,
    #[serde(rename = "isError")]
    is_error: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
    },
    Image {
        data: String,
        #[serde(rename = "mimeType")]
        mime_type: &'a str,
    },
    Audio {
        data: String,
        #[serde(rename = "mimeType")]
        mime_type: &'a str,
    },
    ResourceLink {
        uri: &'a str,
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<&'a str>,
        #[serde(rename = "mimeType", skip_serializing_if = "Option::is_none")]
        mime_type: Option<&'a str>,
    },
    Resource {
        resource: Contents<'a>,
    },
}

#[derive(Serialize)]
struct Contents<'a> {
    uri: &'a str,
    #[serde(rename = "mimeType", skip_serializing_if = "Option::is_none")]
    mime_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blob: Option<String>,
}

/// Why a result that is larger than `max_bytes` is none.
pub(super) fn too_large(size: usize, max_bytes: usize) -> String {
    format!(
        "the tool returned {size} bytes, and a result may have {max_bytes}; it must write more than \
         that to a granted directory and return where it is"
    )
}

/// The result as the wire has it, or why it can't be one, in words for the client.
pub(super) fn to_result(output: &Output) -> Result<CallResult, String> {
    check_words(&output.content)?;
    let structured = output
        .structured
        .as_deref()
        .map(compact)
        .transpose()
        .map_err(|error| {
            format!("the tool returned structured content that is not JSON: {error}")
        })?;
    let mut content: Vec<Block> = output.content.iter().map(block).collect();
    if let (Some(structured), true) = (&structured, content.is_empty()) {
        // Clients that know no structured content read the text instead.
        content.push(Block::Text {
            text: structured.get(),
        });
    }
    let wire = Wire {
        content,
        structured: structured.as_deref(),
        is_error: output.is_error,
    };
    let json = serde_json::to_string(&wire)
        .map_err(|error| format!("the tool's result can't be written as JSON: {error}"))?;
    Ok(CallResult {
        json,
        is_error: output.is_error,
    })
}

/// Suggestions in one answer (server/utilities/completion).
const VALUES_MAX: usize = 100;

/// No list of suggestions that anyone could choose from is larger, bytes.
const COMPLETION_MAX_BYTES: usize = 64 << 10;

#[derive(Serialize)]
struct Read<'a> {
    contents: Vec<Contents<'a>>,
}

#[derive(Serialize)]
struct Told<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    messages: Vec<Said<'a>>,
}

#[derive(Serialize)]
struct Said<'a> {
    role: &'static str,
    content: Block<'a>,
}

#[derive(Serialize)]
struct Completed {
    completion: Completion,
}

#[derive(Serialize)]
struct Completion {
    values: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u32>,
    #[serde(rename = "hasMore")]
    has_more: bool,
}

/// A resource's contents as the wire has them, or why they can't be, in words for the client.
pub(super) fn to_contents(
    bodies: &[EmbeddedResource],
    max_bytes: usize,
) -> Result<CallResult, String> {
    fits("a resource", size_of_bodies(bodies), max_bytes)?;
    bodies.iter().try_for_each(check_resource)?;
    uris::check_contents(bodies)?;
    written(&Read {
        contents: bodies.iter().map(contents).collect(),
    })
}

/// A prompt's messages.
pub(super) fn to_conversation(told: &Conversation, max_bytes: usize) -> Result<CallResult, String> {
    let contents = told.messages.iter().map(|message| &message.content);
    let size = size_of_messages(contents.clone()) + optional(&told.description);
    fits("a prompt", size, max_bytes)?;
    check_words(contents)?;
    uris::check_conversation(told)?;
    let messages = told.messages.iter().map(|message| Said {
        role: match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        },
        content: block(&message.content),
    });
    written(&Told {
        description: told.description.as_deref(),
        messages: messages.collect(),
    })
}

/// The first suggestions; the protocol takes no more at once.
pub(super) fn to_completion(suggestions: Suggestions) -> Result<CallResult, String> {
    let Suggestions {
        mut values,
        total,
        mut has_more,
    } = suggestions;
    has_more |= values.len() > VALUES_MAX;
    values.truncate(VALUES_MAX);
    let size: usize = values.iter().map(|value| written_bytes(value)).sum();
    fits("a completion", size, COMPLETION_MAX_BYTES)?;
    written(&Completed {
        completion: Completion {
            values,
            total,
            has_more,
        },
    })
}

fn fits(what: &str, size: usize, max_bytes: usize) -> Result<(), String> {
    if size <= max_bytes {
        return Ok(());
    }
    Err(format!(
        "the plugin returned {size} bytes, and {what} may have {max_bytes}; it must return less at \
         once"
    ))
}

fn written(members: &impl Serialize) -> Result<CallResult, String> {
    let json = serde_json::to_string(members)
        .map_err(|error| format!("the plugin's answer can't be written as JSON: {error}"))?;
    Ok(CallResult {
        json,
        is_error: false,
    })
}

/// A result that says what is wrong with the arguments: whoever called can mend them, so it is no
/// protocol error (server/tools, "Error Handling"), neither within a call nor in a task.
pub(super) fn refusal(what: &str) -> CallResult {
    let wire = Wire {
        content: vec![Block::Text { text: what }],
        structured: None,
        is_error: true,
    };
    CallResult {
        json: serde_json::to_string(&wire).expect("a text and a flag have a JSON form"),
        is_error: true,
    }
}

fn block(content: &Content) -> Block<'_> {
    match content {
        Content::Text(text) => Block::Text { text },
        Content::Image(media) => Block::Image {
            data: STANDARD.encode(&media.data),
            mime_type: &media.mime_type,
        },
        Content::Audio(media) => Block::Audio {
            data: STANDARD.encode(&media.data),
            mime_type: &media.mime_type,
        },
        Content::ResourceLink(link) => Block::ResourceLink {
            uri: &link.uri,
            name: &link.name,
            title: link.title.as_deref(),
            description: link.description.as_deref(),
            mime_type: link.mime_type.as_deref(),
        },
        Content::Resource(resource) => Block::Resource {
            resource: contents(resource),
        },
    }
}

fn contents(resource: &EmbeddedResource) -> Contents<'_> {
    let (text, blob) = match &resource.body {
        ResourceBody::Text(text) => (Some(text.as_str()), None),
        ResourceBody::Blob(bytes) => (None, Some(STANDARD.encode(bytes))),
    };
    Contents {
        uri: &resource.uri,
        mime_type: resource.mime_type.as_deref(),
        text,
        blob,
    }
}

#[cfg(test)]
mod tests {
    use super::super::bindings::exports::longshore::plugin::prompts::PromptMessage;
    use super::super::bindings::longshore::plugin::types::{Media, ResourceLink};
    use super::*;

    fn output(content: Vec<Content>, structured: Option<&str>) -> Output {
        Output {
            content,
            structured: structured.map(str::to_owned),
            is_error: false,
        }
    }

    #[test]
    fn every_kind_of_block_has_its_wire_form() {
        let media = || Media {
            data: vec![1, 2, 3],
            mime_type: "image/png".to_owned(),
        };
        let resource = |body| {
            Content::Resource(EmbeddedResource {
                uri: "test://r".to_owned(),
                mime_type: Some("text/plain".to_owned()),
                body,
            })
        };
        let blocks = vec![
            Content::Text("a".to_owned()),
            Content::Image(media()),
            Content::Audio(media()),
            Content::ResourceLink(ResourceLink {
                uri: "file:///x".to_owned(),
                name: "x".to_owned(),
                title: None,
                description: None,
                mime_type: None,
            }),
            resource(ResourceBody::Text("t".to_owned())),
            resource(ResourceBody::Blob(vec![255])),
        ];
        let result = to_result(&output(blocks, Some("{ \"n\": 1 }"))).unwrap();
        insta::assert_snapshot!(result.json.replace("},{\"type\"", "},\n{\"type\""), @r#"
        {"content":[{"type":"text","text":"a"},
        {"type":"image","data":"AQID","mimeType":"image/png"},
        {"type":"audio","data":"AQID","mimeType":"image/png"},
        {"type":"resource_link","uri":"file:///x","name":"x"},
        {"type":"resource","resource":{"uri":"test://r","mimeType":"text/plain","text":"t"}},
        {"type":"resource","resource":{"uri":"test://r","mimeType":"text/plain","blob":"/w=="}}],"structuredContent":{"n":1},"isError":false}
        "#);
    }

    #[test]
    fn structured_content_alone_is_also_text() {
        let result = to_result(&output(vec![], Some("[1]"))).unwrap();
        assert_eq!(
            result.json,
            r#"{"content":[{"type":"text","text":"[1]"}],"structuredContent":[1],"isError":false}"#
        );
    }

    #[test]
    fn contents_and_conversations_have_their_wire_form() {
        let body = |body| EmbeddedResource {
            uri: "x:/a".to_owned(),
            mime_type: None,
            body,
        };
        let bodies = [
            body(ResourceBody::Text("t".to_owned())),
            body(ResourceBody::Blob(vec![255])),
        ];
        assert_eq!(
            to_contents(&bodies, 106).unwrap().json,
            r#"{"contents":[{"uri":"x:/a","text":"t"},{"uri":"x:/a","blob":"/w=="}]}"#
        );
        assert!(to_contents(&bodies, 9).unwrap_err().contains("106 bytes"));

        let message = |role, text: &str| PromptMessage {
            role,
            content: Content::Text(text.to_owned()),
        };
        let told = Conversation {
            description: Some("d".to_owned()),
            messages: vec![message(Role::User, "u"), message(Role::Assistant, "a")],
        };
        assert_eq!(
            to_conversation(&told, 131).unwrap().json,
            r#"{"description":"d","messages":[{"role":"user","content":{"type":"text","text":"u"}},{"role":"assistant","content":{"type":"text","text":"a"}}]}"#
        );
        assert!(to_conversation(&told, 2).unwrap_err().contains("131 bytes"));
    }

    #[test]
    fn a_completion_has_a_hundred_values_and_says_that_there_are_more() {
        let suggest = |count: usize, value: &str| {
            to_completion(Suggestions {
                values: vec![value.to_owned(); count],
                total: None,
                has_more: false,
            })
        };
        assert_eq!(
            suggest(2, "a").unwrap().json,
            r#"{"completion":{"values":["a","a"],"hasMore":false}}"#
        );
        let cut = suggest(101, "a").unwrap().json;
        assert_eq!(cut.matches("\"a\"").count(), 100);
        assert!(cut.contains(r#""hasMore":true"#), "{cut}");
        assert!(suggest(100, &"x".repeat(1_000)).is_err());
    }

    #[test]
    fn a_result_that_is_not_json_says_so() {
        let broken = output(vec![], Some("{"));
        assert!(to_result(&broken).unwrap_err().contains("not JSON"));
    }
}
