//! Tells a session's client what changes while nothing of it runs: the lists, and the resources it
//! subscribed to. All of it ends with the session.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::{ErrorData, Peer, RoleServer};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::server::error_data;
use crate::catalog::List;
use crate::mcp::error::Refusal;
use crate::mcp::filter::RESOURCES_MAX;
use crate::notify::{ResourceKey, Subscription};
use crate::service::{CallError, Service};
use crate::task::TenantId;

/// What a session's client is told without asking.
#[derive(Default)]
pub struct Following {
    lists: Mutex<Vec<AbortOnDropHandle<()>>>,
    resources: Mutex<HashMap<String, AbortOnDropHandle<()>>>,
}

impl Following {
    /// Follows every list, from now on.
    pub fn follow_lists(&self, service: &Service, peer: &Peer<RoleServer>) {
        let following = [List::Tools, List::Prompts, List::Resources].map(|list| {
            let changes = service.changes(list);
            AbortOnDropHandle::new(tokio::spawn(follow_list(list, changes, peer.clone())))
        });
        *lock(&self.lists) = following.into();
    }

    /// Follows a resource; fine when it is followed already.
    pub fn subscribe(
        &self,
        service: &Service,
        tenant: &TenantId,
        uri: String,
        peer: &Peer<RoleServer>,
    ) -> Result<(), ErrorData> {
        let subscription = service.watch_resources(tenant, [uri.clone()]);
        if subscription.keys().is_empty() {
            return Err(error_data(Refusal::Call(CallError::UnknownResource(uri))));
        }
        let mut resources = lock(&self.resources);
        if resources.len() >= RESOURCES_MAX && !resources.contains_key(&uri) {
            return Err(ErrorData::invalid_params(
                format!(
                    "the session follows {RESOURCES_MAX} resources, which is the limit; unsubscribe \
                     from one first"
                ),
                None,
            ));
        }
        let following = tokio::spawn(follow_resource(subscription, peer.clone()));
        resources.insert(uri, AbortOnDropHandle::new(following));
        Ok(())
    }

    /// Fine when the resource was not followed.
    pub fn unsubscribe(&self, uri: &str) {
        lock(&self.resources).remove(uri);
    }
}

async fn follow_list(list: List, mut changes: watch::Receiver<u64>, peer: Peer<RoleServer>) {
    while changes.changed().await.is_ok() {
        let told = match list {
            List::Tools => peer.notify_tool_list_changed().await,
            List::Prompts => peer.notify_prompt_list_changed().await,
            List::Resources => peer.notify_resource_list_changed().await,
        };
        if told.is_err() {
            return;
        }
    }
}

async fn follow_resource(mut changes: Subscription<ResourceKey>, peer: Peer<RoleServer>) {
    loop {
        let key = changes.changed().await;
        let told = ResourceUpdatedNotificationParam::new(key.uri);
        if peer.notify_resource_updated(told).await.is_err() {
            return;
        }
    }
}

/// Only whole values are ever put in, so a panic elsewhere left nothing broken.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
