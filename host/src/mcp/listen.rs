//! `subscriptions/listen`: a stream that first says what it will tell, then tells of changed tools
//! and tasks, and answers the request itself when the host shuts down.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::envelope::{Request, parse};
use super::error::Refusal;
use super::wire::{self, Object};
use super::{Output, RequestId, tasks};
use crate::catalog::Snapshot;
use crate::notify::Subscription;
use crate::service::Service;
use crate::task::{TaskKey, TenantId};

/// Tasks one stream may watch.
const TASK_IDS_MAX: usize = 256;

/// Streams one tenant may have open.
const STREAMS_MAX: usize = 64;

/// What a client wants to hear; kinds that the host does not have are not agreed to.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Filter<'a> {
    #[serde(default)]
    tools_list_changed: Option<bool>,
    #[serde(borrow, default)]
    task_ids: Option<&'a RawValue>,
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

    /// How many are open, all tenants together.
    pub fn open(&self) -> usize {
        self.lock().values().sum()
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
    let ids = read_task_ids(&filter)?;
    if ids.is_some() && !request.client.takes_tasks {
        return Err(Refusal::NeedsTasks {
            method: "subscriptions/listen with taskIds",
        });
    }
    let place = streams.take(tenant)?;
    let tools = (filter.tools_list_changed == Some(true)).then(|| service.tool_changes());
    let tasks = ids.as_ref().map(|ids| service.watch(tenant, ids));
    let agreed = ids.map(|ids| agreed_ids(ids, tasks.as_ref()));
    let acknowledgement = acknowledge(&request.id, tools.is_some(), agreed.as_deref());
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
        tools,
        tasks,
        shutdown,
        is_over: false,
        _place: place,
    };
    Ok(Output::Stream(
        stream::unfold(listening, Listening::next).boxed(),
    ))
}

fn read_task_ids(filter: &Filter) -> Result<Option<Vec<String>>, Refusal> {
    let Some(raw) = filter.task_ids else {
        return Ok(None);
    };
    let mut ids: Vec<String> = serde_json::from_str(raw.get()).map_err(|error| {
        Refusal::InvalidParams(format!(
            "params.notifications.taskIds has to be an array of strings ({error})"
        ))
    })?;
    let mut seen = HashSet::new();
    ids.retain(|id| seen.insert(id.clone()));
    if ids.len() > TASK_IDS_MAX {
        return Err(Refusal::InvalidParams(format!(
            "params.notifications.taskIds has {} ids, and one stream watches at most \
             {TASK_IDS_MAX}; open another stream for the rest",
            ids.len()
        )));
    }
    Ok(Some(ids))
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

fn acknowledge(id: &RequestId, tools: bool, task_ids: Option<&[String]>) -> Bytes {
    wire::notification("notifications/subscriptions/acknowledged", |params| {
        params.object("_meta", |meta| write_subscription(meta, id));
        params.object("notifications", |agreed| {
            if tools {
                agreed.flag("toolsListChanged", true);
            }
            if let Some(ids) = task_ids {
                agreed.texts("taskIds", ids.iter().map(String::as_str));
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
    tools: Option<watch::Receiver<Arc<Snapshot>>>,
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
                is_changed = tools_changed(&mut self.tools) => {
                    if is_changed {
                        Some(self.tools_changed())
                    } else {
                        self.tools = None;
                        None
                    }
                }
                key = task_changed(&mut self.tasks) => self.task(&key),
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

    fn tools_changed(&self) -> Bytes {
        wire::notification("notifications/tools/list_changed", |params| {
            params.object("_meta", |meta| write_subscription(meta, &self.id));
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

async fn tools_changed(tools: &mut Option<watch::Receiver<Arc<Snapshot>>>) -> bool {
    match tools {
        Some(tools) => tools.changed().await.is_ok(),
        None => std::future::pending().await,
    }
}

async fn task_changed(tasks: &mut Option<Subscription>) -> TaskKey {
    match tasks {
        Some(tasks) => tasks.changed().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_acknowledgement_says_what_is_agreed_to() {
        let id = RequestId::for_tests(r#""listen-1""#);
        let ids = ["a".to_owned()];
        let lines = [
            acknowledge(&id, true, None),
            acknowledge(&id, false, Some(&ids)),
            acknowledge(&id, false, Some(&[])),
        ];
        let text: Vec<_> = lines
            .iter()
            .map(|line| std::str::from_utf8(line).unwrap())
            .collect();
        insta::assert_snapshot!(text.join("\n"), @r###"
{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"listen-1"},"notifications":{"toolsListChanged":true}}}
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
            let filter = Filter {
                tools_list_changed: None,
                task_ids: Some(raw),
            };
            read_task_ids(&filter)
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
