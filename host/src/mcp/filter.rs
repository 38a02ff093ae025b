//! The filter of `subscriptions/listen`: what a client wants to hear, and what it is told it will.

use std::collections::HashSet;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::RequestId;
use super::envelope::Request;
use super::error::Refusal;
use super::json::parse;
use super::wire::{self, Object};
use crate::catalog::List;

/// Tasks one stream may watch, and resources.
const TASK_IDS_MAX: usize = 256;
pub const RESOURCES_MAX: usize = 256;

/// What a client wants to hear; kinds that the host does not have are left out.
pub struct Filter {
    pub lists: Vec<List>,
    pub uris: Option<Vec<String>>,
    pub ids: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw<'a> {
    #[serde(default)]
    tools_list_changed: Option<bool>,
    #[serde(default)]
    prompts_list_changed: Option<bool>,
    #[serde(default)]
    resources_list_changed: Option<bool>,
    #[serde(borrow, default)]
    resource_subscriptions: Option<&'a RawValue>,
    #[serde(borrow, default)]
    task_ids: Option<&'a RawValue>,
}

impl Filter {
    pub fn read(request: &Request) -> Result<Filter, Refusal> {
        const EXAMPLE: &str =
            r#"example: "notifications": {"toolsListChanged": true, "taskIds": []}"#;
        let raw = request.params.notifications.ok_or_else(|| {
            Refusal::InvalidParams(format!("params.notifications is missing; {EXAMPLE}"))
        })?;
        let raw: Raw = parse(raw, "params.notifications")
            .map_err(|what| Refusal::InvalidParams(format!("{what}; {EXAMPLE}")))?;
        let wanted = [
            (List::Tools, raw.tools_list_changed),
            (List::Prompts, raw.prompts_list_changed),
            (List::Resources, raw.resources_list_changed),
        ];
        let lists = wanted
            .into_iter()
            .filter(|(_, is_wanted)| *is_wanted == Some(true));
        let uris = raw.resource_subscriptions;
        Ok(Filter {
            lists: lists.map(|(list, _)| list).collect(),
            uris: read_list(uris, "resourceSubscriptions", RESOURCES_MAX)?,
            ids: read_list(raw.task_ids, "taskIds", TASK_IDS_MAX)?,
        })
    }
}

fn name_of(list: List) -> &'static str {
    match list {
        List::Tools => "toolsListChanged",
        List::Prompts => "promptsListChanged",
        List::Resources => "resourcesListChanged",
    }
}

/// What tells that a list changed.
pub fn notification_of(list: List) -> &'static str {
    match list {
        List::Tools => "notifications/tools/list_changed",
        List::Prompts => "notifications/prompts/list_changed",
        List::Resources => "notifications/resources/list_changed",
    }
}

/// A filter's strings, each once.
fn read_list(
    raw: Option<&RawValue>,
    name: &str,
    max: usize,
) -> Result<Option<Vec<String>>, Refusal> {
    let Some(raw) = raw else {
        return Ok(None);
    };
    let mut items: Vec<String> = serde_json::from_str(raw.get()).map_err(|error| {
        Refusal::InvalidParams(format!(
            "params.notifications.{name} has to be an array of strings ({error})"
        ))
    })?;
    let mut seen = HashSet::new();
    items.retain(|item| seen.insert(item.clone()));
    if items.len() > max {
        return Err(Refusal::InvalidParams(format!(
            "params.notifications.{name} has {} items, and one stream watches at most {max}; open \
             another stream for the rest",
            items.len()
        )));
    }
    Ok(Some(items))
}

/// The part of a filter that the stream will tell of.
#[derive(Default)]
pub struct Agreed {
    pub lists: Vec<List>,
    pub uris: Option<Vec<String>>,
    pub ids: Option<Vec<String>>,
}

pub fn acknowledge(id: &RequestId, agreed: &Agreed) -> Bytes {
    wire::notification("notifications/subscriptions/acknowledged", |params| {
        params.object("_meta", |meta| write_subscription(meta, id));
        params.object("notifications", |out| {
            for list in &agreed.lists {
                out.flag(name_of(*list), true);
            }
            if let Some(uris) = &agreed.uris {
                out.texts("resourceSubscriptions", uris.iter().map(String::as_str));
            }
            if let Some(ids) = &agreed.ids {
                out.texts("taskIds", ids.iter().map(String::as_str));
            }
        });
    })
}

pub fn write_subscription(meta: &mut Object, id: &RequestId) {
    meta.raw("io.modelcontextprotocol/subscriptionId", id.as_json());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_acknowledgement_says_what_is_agreed_to() {
        let id = RequestId::for_tests(r#""listen-1""#);
        let ids = |ids: &[&str]| Agreed {
            ids: Some(ids.iter().map(|id| (*id).to_owned()).collect()),
            ..Agreed::default()
        };
        let lines = [
            acknowledge(
                &id,
                &Agreed {
                    lists: vec![List::Tools, List::Prompts],
                    uris: Some(vec!["x:a".to_owned()]),
                    ids: None,
                },
            ),
            acknowledge(&id, &ids(&["a"])),
            acknowledge(&id, &ids(&[])),
        ];
        let text: Vec<_> = lines
            .iter()
            .map(|line| std::str::from_utf8(line).unwrap())
            .collect();
        insta::assert_snapshot!(text.join("\n"), @r###"
{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"listen-1"},"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["x:a"]}}}
{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"listen-1"},"notifications":{"taskIds":["a"]}}}
{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"listen-1"},"notifications":{"taskIds":[]}}}
"###);
    }

    #[test]
    fn task_ids_are_strings_and_bounded() {
        let read = |json: &str| {
            let raw: &RawValue = serde_json::from_str(json).unwrap();
            read_list(Some(raw), "taskIds", TASK_IDS_MAX)
        };
        assert_eq!(
            read(r#"["b","a","b"]"#).unwrap(),
            Some(vec!["b".to_owned(), "a".to_owned()])
        );
        for json in ["{}", "[1]", "\"a\""] {
            assert!(
                matches!(read(json), Err(Refusal::InvalidParams(_))),
                "{json}"
            );
        }
        let many: Vec<_> = (0..=TASK_IDS_MAX).map(|n| n.to_string()).collect();
        assert!(read(&serde_json::to_string(&many).unwrap()).is_err());
    }
}
