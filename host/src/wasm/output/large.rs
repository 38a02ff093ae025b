//! A tool's result that is too large for one message: what is small stays in its place, the rest is
//! cut into parts that are, and links to them stand where it was.

use super::size::{BLOCK_BYTES, check_words, prefix, size_of_content};
use super::{Block, Content, Output, PART_LINKS_MAX, ResourceBody, Wire, block};
use crate::task::{LargeResult, PartBody, PartUri, ResultPart, TaskId};
use crate::wasm::json::compact;

/// A block up to this size stays in the message while half of that has room, bytes.
const SMALL_MAX_BYTES: usize = 4 << 10;

/// The type of structured content.
const JSON: &str = "application/json";

/// Links to the parts of one block.
struct Links {
    first: usize,
    count: usize,
    name: String,
    mime_type: Option<String>,
}

enum Piece<'a> {
    Small(&'a Content),
    Links(Links),
}

/// Cuts what has `size` bytes, in messages of at most `max_bytes`.
pub(in crate::wasm) fn to_large(
    output: &Output,
    size: usize,
    max_bytes: usize,
) -> Result<LargeResult, String> {
    // Every part of a block and every link to one repeats them.
    check_words(&output.content)?;
    let mut parts = Parts {
        max_bytes,
        parts: Vec::new(),
    };
    let mut room = max_bytes / 2;
    let structured = output.structured.as_deref().map(compact).transpose();
    let structured = structured.map_err(|error| {
        format!("the tool returned structured content that is not JSON: {error}")
    })?;
    let length = output.structured.as_ref().map_or(0, String::len);
    // Alone it may fill a message by itself. Its repetition as a text, for clients that know no
    // structured content, is then what is read in parts.
    let is_repeated = output.content.is_empty() && structured.is_some() && length <= max_bytes;
    let fits = length <= room / 2 || is_repeated;
    let shown = structured.as_deref().filter(|_| fits);
    room = room.saturating_sub(shown.map_or(0, |structured| structured.get().len()));
    let mut pieces = Vec::with_capacity(output.content.len());
    for content in &output.content {
        let size = size_of_content(content) + BLOCK_BYTES;
        if size <= SMALL_MAX_BYTES && size <= room || holds_nothing(content) {
            room = room.saturating_sub(size);
            pieces.push(Piece::Small(content));
        } else {
            pieces.push(Piece::Links(parts.cut(content)?));
        }
    }
    let left_out = structured.as_deref().filter(|_| !fits);
    if let Some(structured) = structured.as_deref().filter(|_| !fits || is_repeated) {
        let links = parts.cut_text(structured.get(), "structured content", Some(JSON))?;
        pieces.push(Piece::Links(links));
    }
    let mut random = [0; 16];
    getrandom::fill(&mut random).expect("the system's random generator works");
    let placeholder = TaskId::from_random(random);
    let notice = match is_repeated {
        true => notice_of_repetition(max_bytes, parts.parts.len()),
        false => notice(size, max_bytes, parts.parts.len(), left_out.is_some()),
    };
    let links = write_links(&pieces, &placeholder);
    let mut blocks = vec![Block::Text { text: &notice }];
    let mut links = links.iter();
    for piece in &pieces {
        match piece {
            Piece::Small(content) => blocks.push(block(content)),
            Piece::Links(of) => {
                blocks.extend(
                    links
                        .by_ref()
                        .take(of.count)
                        .map(|link| Block::ResourceLink {
                            uri: &link.0,
                            name: &link.1,
                            title: None,
                            description: None,
                            mime_type: of.mime_type.as_deref(),
                        }),
                )
            }
        }
    }
    let wire = Wire {
        content: blocks,
        structured: shown,
        // A client holds a result without structured content against the tool's schema, unless it
        // is an error.
        is_error: output.is_error || left_out.is_some(),
    };
    let json = serde_json::to_string(&wire)
        .map_err(|error| format!("the tool's result can't be written as JSON: {error}"))?;
    if json.len() > max_bytes.saturating_mul(2) + SMALL_MAX_BYTES * PART_LINKS_MAX {
        return Err(format!(
            "the tool returned {size} bytes, most of it links and small blocks; it must return fewer at once"
        ));
    }
    let is_error = wire.is_error;
    Ok(LargeResult::new(json, is_error, placeholder, parts.parts))
}

/// Whether a part would have nothing to keep: such a block stays where it is.
fn holds_nothing(content: &Content) -> bool {
    match content {
        Content::Text(text) => text.is_empty(),
        Content::Image(media) | Content::Audio(media) => media.data.is_empty(),
        Content::Resource(resource) => match &resource.body {
            ResourceBody::Text(text) => text.is_empty(),
            ResourceBody::Blob(bytes) => bytes.is_empty(),
        },
        Content::ResourceLink(_) => true,
    }
}

fn notice(size: usize, max_bytes: usize, parts: usize, lacks_structured: bool) -> String {
    let mut text = format!(
        "The tool returned {size} bytes, and one message may have {max_bytes}. What is larger is kept \
         with the task for as long as that lives, in {parts} parts: resources/read gets each under the \
         links that follow, in their order."
    );
    if lacks_structured {
        text.push_str(
            " The structured content is the last of them; for want of it this result counts as an \
             error, although the tool has ended well.",
        );
    }
    text
}

fn notice_of_repetition(max_bytes: usize, parts: usize) -> String {
    format!(
        "The result is structured content. As a text as well it would be more than the {max_bytes} bytes \
         that one message may have, so the text is kept with the task for as long as that lives, in \
         {parts} parts: resources/read gets each under the links that follow, in their order."
    )
}

/// URI and name of each link, in order.
fn write_links(pieces: &[Piece], task: &TaskId) -> Vec<(String, String)> {
    let links = pieces.iter().filter_map(|piece| match piece {
        Piece::Small(_) => None,
        Piece::Links(links) => Some(links),
    });
    let named = links.flat_map(|links| {
        (0..links.count).map(move |index| {
            let uri = PartUri {
                task: task.clone(),
                part: u32::try_from(links.first + index + 1).unwrap_or(u32::MAX),
            };
            let name = match links.count {
                1 => links.name.clone(),
                count => format!("{}, part {} of {count}", links.name, index + 1),
            };
            (uri.to_string(), name)
        })
    });
    named.collect()
}

/// Parts so far.
struct Parts {
    max_bytes: usize,
    parts: Vec<ResultPart>,
}

impl Parts {
    fn cut(&mut self, content: &Content) -> Result<Links, String> {
        match content {
            Content::Text(text) => self.cut_text(text, "text", None),
            Content::Image(media) => self.cut_blob(&media.data, "image", Some(&media.mime_type)),
            Content::Audio(media) => self.cut_blob(&media.data, "audio", Some(&media.mime_type)),
            Content::Resource(resource) => {
                let mime_type = resource.mime_type.as_deref();
                match &resource.body {
                    ResourceBody::Text(text) => self.cut_text(text, &resource.uri, mime_type),
                    ResourceBody::Blob(bytes) => self.cut_blob(bytes, &resource.uri, mime_type),
                }
            }
            Content::ResourceLink(link) => self.cut_text(&link.uri, "link", None),
        }
    }

    fn cut_text(
        &mut self,
        mut text: &str,
        name: &str,
        mime_type: Option<&str>,
    ) -> Result<Links, String> {
        let first = self.parts.len();
        while !text.is_empty() {
            let (part, rest) = text.split_at(prefix(text, self.max_bytes));
            self.push(PartBody::Text(part.to_owned()), mime_type)?;
            text = rest;
        }
        Ok(self.links_from(first, name, mime_type))
    }

    fn cut_blob(
        &mut self,
        bytes: &[u8],
        name: &str,
        mime_type: Option<&str>,
    ) -> Result<Links, String> {
        let first = self.parts.len();
        for part in bytes.chunks(self.max_bytes.max(1)) {
            self.push(PartBody::Blob(part.to_vec()), mime_type)?;
        }
        Ok(self.links_from(first, name, mime_type))
    }

    fn push(&mut self, body: PartBody, mime_type: Option<&str>) -> Result<(), String> {
        if self.parts.len() >= PART_LINKS_MAX {
            return Err(format!(
                "the tool returned more than {PART_LINKS_MAX} parts of at most {} bytes; it must \
                 return less, or fewer and larger blocks",
                self.max_bytes
            ));
        }
        self.parts.push(ResultPart {
            mime_type: mime_type.map(str::to_owned),
            body,
        });
        Ok(())
    }

    fn links_from(&self, first: usize, name: &str, mime_type: Option<&str>) -> Links {
        Links {
            first,
            count: self.parts.len() - first,
            name: name.to_owned(),
            mime_type: mime_type.map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wasm::bindings::longshore::plugin::types::{EmbeddedResource, Media};

    fn cut(content: Vec<Content>, structured: Option<String>, max: usize) -> LargeResult {
        let output = Output {
            content,
            structured,
            is_error: false,
        };
        let size = super::super::size_of(&output);
        let large = to_large(&output, size, max).unwrap();
        for part in &large.parts {
            assert!(part.size_bytes() <= max);
        }
        large
    }

    fn blocks(large: &LargeResult) -> Vec<serde_json::Value> {
        let shown: serde_json::Value = serde_json::from_str(large.shown().0).unwrap();
        shown["content"].as_array().unwrap().clone()
    }

    fn text_of(large: &LargeResult) -> String {
        let texts = large.parts.iter().map(|part| match &part.body {
            PartBody::Text(text) => text.as_str(),
            PartBody::Blob(_) => panic!("a blob"),
        });
        texts.collect()
    }

    #[test]
    fn what_is_large_becomes_links_in_its_place_and_comes_back_whole() {
        let text = "é".repeat(1_500);
        let data: Vec<u8> = (0..=255).cycle().take(2_500).collect();
        let large = cut(
            vec![
                Content::Text("before".into()),
                Content::Text(text.clone()),
                Content::Image(Media {
                    data: data.clone(),
                    mime_type: "image/png".into(),
                }),
                Content::Text("after".into()),
            ],
            None,
            1_001,
        );
        let blocks = blocks(&large);
        let kinds: Vec<&str> = blocks
            .iter()
            .map(|block| block["type"].as_str().unwrap())
            .collect();
        let mut expected = vec!["text", "text"];
        expected.extend(["resource_link"; 6]);
        expected.push("text");
        assert_eq!(kinds, expected);
        assert_eq!(blocks[2]["name"], "text, part 1 of 3");
        assert_eq!(blocks[7]["name"], "image, part 3 of 3");
        assert_eq!(blocks[7]["mimeType"], "image/png");
        let (mut read, mut seen) = (String::new(), Vec::new());
        for part in &large.parts {
            match &part.body {
                PartBody::Text(text) => read.push_str(text),
                PartBody::Blob(bytes) => seen.extend_from_slice(bytes),
            }
        }
        assert_eq!((read, seen), (text, data));
    }

    #[test]
    fn structured_content_stays_if_it_is_small_and_is_else_said_to_be_elsewhere() {
        let large = cut(
            vec![Content::Text("x".repeat(5_000))],
            Some("{\"n\": 1}".into()),
            2_000,
        );
        assert!(large.shown().0.contains(r#""structuredContent":{"n":1}"#));
        assert!(!large.shown().1);
        let list = format!("[{}]", vec!["1"; 5_000].join(","));
        let large = cut(vec![], Some(list.clone()), 2_000);
        assert!(large.shown().1, "no schema is broken");
        assert_eq!(text_of(&large), list);
        assert_eq!(large.parts[0].mime_type.as_deref(), Some(JSON));
    }

    #[test]
    fn structured_content_that_fills_a_message_is_whole_there_and_as_a_text_in_parts() {
        let quoted = format!("[\"{}\"]", "\\\"".repeat(450));
        let large = cut(vec![], Some(quoted.clone()), 1_000);
        let (json, is_error) = large.shown();
        assert!(!is_error);
        let shown: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(shown["structuredContent"].to_string(), quoted);
        let blocks = blocks(&large);
        assert!(blocks[0]["text"].as_str().unwrap().contains("1000 bytes"));
        let names: Vec<_> = blocks[1..].iter().map(|link| &link["name"]).collect();
        assert_eq!(
            names,
            [
                "structured content, part 1 of 2",
                "structured content, part 2 of 2"
            ]
        );
        assert_eq!(text_of(&large), quoted);
    }

    #[test]
    fn a_part_is_no_larger_in_a_message_than_a_message_may_be() {
        let large = cut(vec![Content::Text("\u{1}".repeat(1_000))], None, 1_200);
        assert_eq!(large.parts.len(), 5);
        for part in &large.parts {
            assert_eq!(part.size_bytes(), 200);
        }
    }

    #[test]
    fn an_empty_block_stays_also_where_there_is_no_room() {
        let empty = |uri: String| {
            Content::Resource(EmbeddedResource {
                uri,
                mime_type: None,
                body: ResourceBody::Blob(Vec::new()),
            })
        };
        let content = (0..3).map(|number| empty(format!("x:{number}{}", "x".repeat(1_500))));
        let large = cut(content.collect(), None, 2_000);
        let blocks = blocks(&large);
        assert_eq!(blocks.len(), 4);
        for block in &blocks[1..] {
            assert_eq!(block["resource"]["blob"], "");
        }
        assert!(large.parts.is_empty());
    }

    #[test]
    fn a_long_uri_is_not_written_into_every_part() {
        let resource = EmbeddedResource {
            uri: "x".repeat(1 << 20),
            mime_type: None,
            body: ResourceBody::Text("y".repeat(10_000)),
        };
        let output = Output {
            content: vec![Content::Resource(resource)],
            structured: None,
            is_error: false,
        };
        let error = to_large(&output, 0, 1_000).unwrap_err();
        assert!(error.contains("a URI"), "{error}");
    }

    #[test]
    fn more_parts_than_anyone_would_read_are_refused() {
        let content = Content::Text("x".repeat(1_000 * (PART_LINKS_MAX + 1)));
        let output = Output {
            content: vec![content],
            structured: None,
            is_error: false,
        };
        let error = to_large(&output, 0, 1_000).unwrap_err();
        assert!(error.contains("more than 1024 parts"), "{error}");
    }
}
