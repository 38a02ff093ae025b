//! The lists of what is offered (tools, prompts, resources, templates): in the order of their names,
//! in pages, each item written once per snapshot of the catalog.

use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::Output;
use super::envelope::Request;
use super::error::Refusal;
use super::items::{write_prompt, write_resource, write_template, write_tool};
use super::json::text_of;
use super::wire::{self, Object};
use crate::catalog::Snapshot;

/// Items on one page.
const PAGE_ITEMS: usize = 100;

/// How long a client may keep a page, milliseconds; a `list_changed` ends it earlier.
const TTL_MS: i128 = 5 * 60 * 1000;

/// What a cursor of ours begins with, before the last name of the page it follows.
const CURSOR_PREFIX: &str = "after:";

/// All lists.
pub struct Lists {
    pub tools: ListCache,
    pub prompts: ListCache,
    pub resources: ListCache,
    pub templates: ListCache,
}

/// One list, as written for the newest snapshot asked for.
pub struct ListCache {
    /// The result's member.
    name: &'static str,
    write: fn(&Snapshot) -> Vec<(String, String)>,
    newest: Mutex<Option<(Arc<Snapshot>, Arc<Written>)>>,
}

/// Each item's name and JSON, in order.
struct Written(Vec<(String, String)>);

impl Default for Lists {
    fn default() -> Lists {
        Lists {
            tools: ListCache::new("tools", |snapshot| {
                let tools = snapshot.tools.iter();
                tools
                    .map(|(name, tool)| (name.clone(), write_tool(name, &tool.declaration)))
                    .collect()
            }),
            prompts: ListCache::new("prompts", |snapshot| {
                let prompts = snapshot.prompts.iter();
                prompts
                    .map(|(name, prompt)| (name.clone(), write_prompt(name, &prompt.entry)))
                    .collect()
            }),
            resources: ListCache::new("resources", |snapshot| {
                let resources = snapshot.resources.iter();
                resources
                    .map(|(uri, resource)| (uri.clone(), write_resource(&resource.entry)))
                    .collect()
            }),
            templates: ListCache::new("resourceTemplates", |snapshot| {
                let templates = snapshot.templates.iter();
                templates
                    .map(|(text, template)| (text.clone(), write_template(&template.checked.entry)))
                    .collect()
            }),
        }
    }
}

impl ListCache {
    fn new(name: &'static str, write: fn(&Snapshot) -> Vec<(String, String)>) -> ListCache {
        ListCache {
            name,
            write,
            newest: Mutex::default(),
        }
    }

    pub fn answer(&self, snapshot: Arc<Snapshot>, request: &Request) -> Result<Output, Refusal> {
        let after = read_cursor(request)?;
        let written = self.written(snapshot);
        let (page, next) = written.page(after.as_deref());
        Ok(Output::Message(wire::response(&request.id, |result| {
            result
                .text("resultType", "complete")
                .raws(self.name, page.iter().map(|(_, json)| json.as_str()));
            if let Some(next) = next {
                result.text("nextCursor", &next);
            }
            write_caching(result);
        })))
    }

    /// A page as JSON texts, and the cursor of the next.
    pub fn page(
        &self,
        snapshot: Arc<Snapshot>,
        cursor: Option<&str>,
    ) -> Result<(Vec<String>, Option<String>), Refusal> {
        let after = match cursor {
            Some(cursor) => Some(decode_cursor(cursor).ok_or_else(foreign_cursor)?),
            None => None,
        };
        let written = self.written(snapshot);
        let (page, next) = written.page(after.as_deref());
        Ok((page.iter().map(|(_, json)| json.clone()).collect(), next))
    }

    fn written(&self, snapshot: Arc<Snapshot>) -> Arc<Written> {
        // Only whole values are ever put in, so a panic elsewhere left nothing broken.
        let mut cached = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, written)) = &*cached
            && Arc::ptr_eq(of, &snapshot)
        {
            return Arc::clone(written);
        }
        let written = Arc::new(Written((self.write)(&snapshot)));
        *cached = Some((snapshot, Arc::clone(&written)));
        written
    }
}

/// What an operator serves is nobody's business but its tenants'.
fn write_caching(result: &mut Object) {
    result
        .integer("ttlMs", TTL_MS)
        .text("cacheScope", "private");
    wire::result_meta(result, |_| {});
}

impl Written {
    /// The page after a name, and the cursor of the next. It holds whether or not what has
    /// that name is still there.
    fn page(&self, after: Option<&str>) -> (&[(String, String)], Option<String>) {
        let start = match after {
            None => 0,
            Some(after) => self.0.partition_point(|(name, _)| name.as_str() <= after),
        };
        let rest = &self.0[start..];
        let page = &rest[..rest.len().min(PAGE_ITEMS)];
        let next = match page.last() {
            Some((last, _)) if page.len() < rest.len() => Some(cursor_after(last)),
            _ => None,
        };
        (page, next)
    }
}

pub(super) fn cursor_after(name: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{CURSOR_PREFIX}{name}"))
}

pub(super) fn read_cursor(request: &Request) -> Result<Option<String>, Refusal> {
    let Some(raw) = request.params.cursor else {
        return Ok(None);
    };
    text_of(raw)
        .and_then(|text| decode_cursor(&text))
        .map(Some)
        .ok_or_else(foreign_cursor)
}

fn decode_cursor(cursor: &str) -> Option<String> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    text.strip_prefix(CURSOR_PREFIX).map(str::to_owned)
}

pub(super) fn foreign_cursor() -> Refusal {
    Refusal::InvalidParams(
        "params.cursor is not a nextCursor of this host; leave it out to start at the first page"
            .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    fn written(names: impl IntoIterator<Item = usize>) -> Written {
        Written(
            names
                .into_iter()
                .map(|n| (format!("tool-{n:03}"), "{}".to_owned()))
                .collect(),
        )
    }

    /// Follows a cursor as a client would.
    fn follow(tools: &Written, cursor: Option<&str>) -> (Vec<String>, Option<String>) {
        let params = match cursor {
            None => "{}".to_owned(),
            Some(cursor) => format!(r#"{{"cursor":"{cursor}"}}"#),
        };
        let request = Request {
            id: crate::mcp::RequestId::for_tests("1"),
            method: crate::mcp::Method::ToolsList,
            client: crate::mcp::client::Client::default(),
            params: serde_json::from_str(&params).unwrap(),
        };
        let after = read_cursor(&request).unwrap();
        let (page, next) = tools.page(after.as_deref());
        (page.iter().map(|(name, _)| name.clone()).collect(), next)
    }

    #[test]
    fn pages_follow_each_other_to_the_end() {
        let tools = written(0..250);
        let (mut seen, mut next) = follow(&tools, None);
        assert_eq!(seen.len(), PAGE_ITEMS);
        while let Some(cursor) = next {
            let (page, following) = follow(&tools, Some(&cursor));
            seen.extend(page);
            next = following;
        }
        let all: Vec<_> = tools.0.iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(seen, all);
        assert_eq!(follow(&written(0..100), None).1, None, "one full page");
        assert_eq!(follow(&written(0..0), None), (vec![], None));
    }

    #[test]
    fn a_cursor_outlives_the_tool_it_names() {
        let (_, next) = follow(&written(0..250), None);
        let without = written((0..250).filter(|n| *n != 99));
        assert_eq!(follow(&without, next.as_deref()).0[0], "tool-100");
    }

    #[test]
    fn a_cursor_of_someone_else_is_refused() {
        for cursor in [
            r#""""#,
            r#""nonsense!""#,
            r#""bm9uc2Vuc2U""#,
            "7",
            "null",
            "{}",
        ] {
            let params = format!(r#"{{"cursor":{cursor}}}"#);
            let request = Request {
                id: crate::mcp::RequestId::for_tests("1"),
                method: crate::mcp::Method::ToolsList,
                client: crate::mcp::client::Client::default(),
                params: serde_json::from_str(&params).unwrap(),
            };
            assert!(
                matches!(read_cursor(&request), Err(Refusal::InvalidParams(_))),
                "{cursor}"
            );
        }
    }
}
