//! `subscriptions/listen`: a stream that first says what it will tell, then tells of changed lists,
//! resources and tasks, and answers the request itself when the host shuts down.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec;

use bytes::Bytes;
use futures_util::future::select_all;
use futures_util::{FutureExt, StreamExt, stream};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::envelope::{Request, parse};
use super::error::Refusal;
use super::wire::{self, Object};
use super::{Output, RequestId, tasks};
use crate::catalog::List;
use crate::notify::{ResourceKey, Subscription};
use crate::service::Service;
use crate::task::{TaskKey, TenantId};

/// Tasks one stream may watch, and resources.
const TASK_IDS_MAX: usize = 256;
pub const RESOURCES_MAX: usize = 256;

/// Streams one tenant may have open.
const STREAMS_MAX: usize = 64;

/// What a client wants to hear; kinds that the host does not have are not agreed to.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Filter<'a> {
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

/// The lists that can be followed: as a filter names each, and the notification of its change.
const LISTS: [(List, &str, &str); 3] = [
    (
        List::Tools,
        "toolsListChanged",
        "notifications/tools/list_changed",
    ),
    (
        List::Prompts,
        "promptsListChanged",
        "notifications/prompts/list_changed",
    ),
    (
        List::Resources,
        "resourcesListChanged",
        "notifications/resources/list_changed",
    ),
];

impl Filter<'_> {
    fn wants(&self, list: List) -> bool {
        let wanted = match list {
            List::Tools => self.tools_list_changed,
            List::Prompts => self.prompts_list_changed,
            List::Resources => self.resources_list_changed,
        };
        wanted == Some(true)
    }
}

/// A list that a stream follows.
struct Followed {
    name: &'static str,
    notification: &'static str,
    /// None once the catalog is gone.
    changes: Option<watch::Receiver<u64>>,
}

/// How many streams each tenant has open.
#[derive(Default)]
pub struct Streams(Mutex<HashMap<TenantId, usize>>);

/// A stream's place among its tenant's.
struct Place {
    streams: Arc<Streams>,
    tenant: TenantId,
}

impl Streams {
    fn take(self: &Arc<Streams>, tenant: &TenantId) -> Result<Place, Refusal> {
        let mut counts = self.lock();
        let open = counts.entry(tenant.clone()).or_default();
        if *open >= STREAMS_MAX {
            return Err(Refusal::TooManyStreams {
                open: *open,
                max: STREAMS_MAX,
            });
        }
        *open += 1;
        Ok(Place {
            streams: Arc::clone(self),
            tenant: tenant.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, usize>> {
        // Counts are whole after every statement, so a panic elsewhere left nothing broken.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.streams.lock();
        if let Some(open) = counts.get_mut(&self.tenant) {
            *open -= 1;
            if *open == 0 {
                counts.remove(&self.tenant);
            }
        }
    }
}

pub fn listen(
    service: &Service,
    streams: &Arc<Streams>,
    shutdown: watch::Receiver<bool>,
    tenant: &TenantId,
    request: &Request,
) -> Result<Output, Refusal> {
    const EXAMPLE: &str = r#"example: "notifications": {"toolsListChanged": true, "taskIds": []}"#;
    let raw = request.params.notifications.ok_or_else(|| {
        Refusal::InvalidParams(format!("params.notifications is missing; {EXAMPLE}"))
    })?;
    let filter: Filter = parse(raw, "params.notifications")
        .map_err(|what| Refusal::InvalidParams(format!("{what}; {EXAMPLE}")))?;
    let ids = read_list(filter.task_ids, "taskIds", TASK_IDS_MAX)?;
    let uris = read_list(
        filter.resource_subscriptions,
        "resourceSubscriptions",
        RESOURCES_MAX,
    )?;
    if ids.is_some() && !request.client.takes_tasks {
        return Err(Refusal::NeedsTasks {
            method: "subscriptions/listen with taskIds",
        });
    }
    let place = streams.take(tenant)?;
    let wanted = LISTS.into_iter().filter(|(list, ..)| filter.wants(*list));
    let lists: Vec<Followed> = wanted
        .map(|(list, name, notification)| Followed {
            name,
            notification,
            changes: Some(service.changes(list)),
        })
        .collect();
    let resources = uris.map(|uris| service.watch_resources(tenant, uris));
    let tasks = ids.as_ref().map(|ids| service.watch(tenant, ids));
    let ids = ids.map(|ids| agreed_ids(ids, tasks.as_ref()));
    let agreed = Agreed {
        lists: lists.iter().map(|list| list.name).collect(),
        uris: resources.as_ref().map(uris_of),
        ids,
    };
    let acknowledgement = acknowledge(&request.id, &agreed);
    let listening = Listening {
        id: request.id.clone(),
        service: service.clone(),
        acknowledgement: Some(acknowledgement),
        // Watched first and read after: nothing that changes in between is lost. The state at the
        // start is told too, because a task may have ended before the client could listen.
        untold: match &tasks {
            Some(tasks) => tasks.keys().to_vec().into_iter(),
            None => Vec::new().into_iter(),
        },
        lists,
        resources,
        tasks,
        shutdown,
        is_over: false,
        _place: place,
    };
    Ok(Output::Stream(
        stream::unfold(listening, Listening::next).boxed(),
    ))
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

/// The URIs that some plugin serves.
fn uris_of(resources: &Subscription<ResourceKey>) -> Vec<String> {
    let keys = resources.keys().iter();
    keys.map(|key| key.uri.clone()).collect()
}

/// The ids that are tasks of the tenant, in the client's order. Unknown and foreign ones are left
/// out alike (I4).
fn agreed_ids(ids: Vec<String>, tasks: Option<&Subscription>) -> Vec<String> {
    let watched: HashSet<&str> = tasks
        .into_iter()
        .flat_map(Subscription::keys)
        .map(|key| key.id.as_str())
        .collect();
    ids.into_iter()
        .filter(|id| watched.contains(id.as_str()))
        .collect()
}

/// The part of a filter that the stream will tell of.
#[derive(Default)]
struct Agreed {
    lists: Vec<&'static str>,
    uris: Option<Vec<String>>,
    ids: Option<Vec<String>>,
}

fn acknowledge(id: &RequestId, agreed: &Agreed) -> Bytes {
    wire::notification("notifications/subscriptions/acknowledged", |params| {
        params.object("_meta", |meta| write_subscription(meta, id));
        params.object("notifications", |out| {
            for list in &agreed.lists {
                out.flag(list, true);
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

fn write_subscription(meta: &mut Object, id: &RequestId) {
    meta.raw("io.modelcontextprotocol/subscriptionId", id.as_json());
}

/// An open stream. It holds no messages: what changed is read when the client takes it.
struct Listening {
    id: RequestId,
    service: Service,
    acknowledgement: Option<Bytes>,
    /// Tasks whose state at the start was not told yet.
    untold: vec::IntoIter<TaskKey>,
    lists: Vec<Followed>,
    resources: Option<Subscription<ResourceKey>>,
    tasks: Option<Subscription>,
    shutdown: watch::Receiver<bool>,
    is_over: bool,
    _place: Place,
}

impl Listening {
    async fn next(mut self) -> Option<(Bytes, Listening)> {
        if self.is_over {
            return None;
        }
        if let Some(message) = self.acknowledgement.take() {
            return Some((message, self));
        }
        while let Some(key) = self.untold.next() {
            if let Some(message) = self.task(&key) {
                return Some((message, self));
            }
        }
        loop {
            let message = tokio::select! {
                biased;
                () = ended(&mut self.shutdown) => {
                    self.is_over = true;
                    Some(self.response())
                }
                notification = list_changed(&mut self.lists) => {
                    Some(self.notification(notification, None))
                }
                key = changed(&mut self.resources) => {
                    Some(self.notification("notifications/resources/updated", Some(&key.uri)))
                }
                key = changed(&mut self.tasks) => self.task(&key),
            };
            if let Some(message) = message {
                return Some((message, self));
            }
        }
    }

    /// The task as it is now; None once it is gone.
    fn task(&self, key: &TaskKey) -> Option<Bytes> {
        let view = self.service.watched(key)?;
        Some(wire::notification("notifications/tasks", |params| {
            tasks::write_detailed(params, &view);
            params.object("_meta", |meta| {
                write_subscription(meta, &self.id);
                tasks::write_extras(meta, &view);
            });
        }))
    }

    fn notification(&self, method: &str, uri: Option<&str>) -> Bytes {
        wire::notification(method, |params| {
            params.object("_meta", |meta| write_subscription(meta, &self.id));
            if let Some(uri) = uri {
                params.text("uri", uri);
            }
        })
    }

    /// The answer to the listen request itself ("Graceful Closure").
    fn response(&self) -> Bytes {
        wire::response(&self.id, |result| {
            result.text("resultType", "complete");
            wire::result_meta(result, |meta| write_subscription(meta, &self.id));
        })
    }
}

/// Resolves when the host shuts down, also when whoever would say so is gone.
async fn ended(shutdown: &mut watch::Receiver<bool>) {
    let _ = shutdown.wait_for(|is_ending| *is_ending).await;
}

/// The notification of the next list that changes; for ever when none is followed.
async fn list_changed(lists: &mut [Followed]) -> &'static str {
    let waiting = lists.iter_mut().map(|list| {
        async {
            if let Some(changes) = &mut list.changes
                && changes.changed().await.is_ok()
            {
                return list.notification;
            }
            list.changes = None;
            std::future::pending().await
        }
        .boxed()
    });
    let waiting: Vec<_> = waiting.collect();
    if waiting.is_empty() {
        return std::future::pending().await;
    }
    select_all(waiting).await.0
}

async fn changed<K: Clone + Ord + Hash>(subscription: &mut Option<Subscription<K>>) -> K {
    match subscription {
        Some(subscription) => subscription.changed().await,
        None => std::future::pending().await,
    }
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
                    lists: vec!["toolsListChanged", "promptsListChanged"],
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
    fn a_tenant_has_only_so_many_streams_and_gets_them_back() {
        let streams = Arc::new(Streams::default());
        let (ours, theirs) = (TenantId::local(), TenantId::parse("other").unwrap());
        let mut places: Vec<_> = (0..STREAMS_MAX)
            .map(|_| streams.take(&ours).ok().unwrap())
            .collect();
        assert!(streams.take(&ours).is_err());
        assert!(streams.take(&theirs).is_ok(), "tenants are apart (I4)");
        places.pop();
        assert!(streams.take(&ours).is_ok());
        drop(places);
        assert!(streams.lock().is_empty());
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
