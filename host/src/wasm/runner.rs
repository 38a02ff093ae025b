//! One run: a fresh store and instance on the guests' own threads, watched from outside so that a
//! kill takes effect whatever the guest does.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;
use wasmtime::Store;

use super::bindings::longshore::plugin::types::{self, ToolError};
use super::control::CHECKPOINT_MAX_BYTES;
use super::egress::Egress;
use super::failure::{account, end_of, explain, failed};
use super::files::Allotments;
use super::grants::{Grants, Opened, nothing};
use super::guest::{Guest, Parts};
use super::json::compact;
use super::limits::Allowance;
use super::log::Log;
use super::output::{refusal, to_result};
use super::permission::Permission;
use super::sandbox::Inner;
use super::secrets::Secrets;
use super::{Component, LoadError, SandboxLimits};
use crate::scheduler::{Call, Run, RunEnd, StateQuota};
use crate::task::RpcError;

/// Records around the bytes a guest hands over in one call.
const HOSTCALL_SLACK_BYTES: usize = 256 << 10;

/// What `list-tools` may return.
const LISTING_MAX_BYTES: usize = 4 << 20;

/// What a tool may say when it refuses, stops or fails, characters.
const MESSAGE_MAX_CHARS: usize = 4_000;

/// The data of a JSON-RPC error, bytes. It is part of the task's record, which is bounded.
const DATA_MAX_BYTES: usize = 64 << 10;

/// A task that ends when whoever waits for it goes away.
pub(super) struct Owned<T>(pub JoinHandle<T>);

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs a call to its end, or to the moment the run is killed.
pub(super) async fn run(
    sandbox: Arc<Inner>,
    component: Component,
    grants: Arc<Grants>,
    call: Call,
    run: Run,
) -> RunEnd {
    // A full pool is an error and not a wait: the wait is here.
    let slots = Arc::clone(&sandbox.slots);
    let slot = tokio::select! {
        biased;
        () = run.killed() => return RunEnd::Abandoned,
        slot = slots.acquire_owned() => match slot {
            Ok(slot) => slot,
            Err(_) => return RunEnd::Abandoned,
        },
    };
    let handle = sandbox.guests.handle().clone();
    let guest = call_tool(sandbox, component, grants, call, run.clone(), slot);
    let mut guest = Owned(handle.spawn(guest));
    let killed = tokio::select! {
        biased;
        end = &mut guest.0 => return end.unwrap_or_else(|error| {
            tracing::error!(%error, "a run ended in a panic of the host");
            failed("the host failed while it ran the tool; its log has the details".to_owned())
        }),
        () = run.killed() => &mut guest.0,
    };
    killed.abort();
    // Nothing of the tool is left running when this returns, also when it ended just now.
    let _ = killed.await;
    RunEnd::Abandoned
}

async fn call_tool(
    sandbox: Arc<Inner>,
    component: Component,
    grants: Arc<Grants>,
    call: Call,
    run: Run,
    slot: OwnedSemaphorePermit,
) -> RunEnd {
    let log = Log::new(Some(run.clone()), sandbox.limits.log_max_bytes);
    let opened = match open_grants(&sandbox, &grants, &call, &log).await {
        Ok(opened) => opened,
        Err(message) => {
            log.note(&message);
            return failed(message);
        }
    };
    let egress = Egress::new(
        Arc::clone(&grants),
        opened.secrets,
        sandbox.connector.clone(),
        log.clone(),
    );
    let allowance = Allowance::new(sandbox.limits.memory_max_bytes);
    let hostcall_max_bytes =
        CHECKPOINT_MAX_BYTES.max(sandbox.limits.result_max_bytes) + HOSTCALL_SLACK_BYTES;
    let decisions = sandbox.decisions.get().cloned();
    let guest = Guest::new(Parts {
        wasi: opened.wasi,
        egress,
        allowance,
        log,
        run: Some(run),
        state_quota: state_quota(&grants, &sandbox.limits),
        allotments: Allotments::new(opened.allotments),
        permission: Permission::new(&call.tool.plugin, &call.tool.tool, decisions),
        grants,
    });
    let mut store = guest.into_store(&sandbox.engine, hostcall_max_bytes);
    let outcome = instantiate_and_call(&mut store, &component, &call).await;
    let end = end_of_call(&sandbox, &call, store.data(), outcome);
    // The guest has ended; wiping its memory is not worth the caller's time. The slot is free after.
    tokio::spawn(async move { drop((store, slot)) });
    end
}

fn end_of_call(
    sandbox: &Inner,
    call: &Call,
    guest: &Guest,
    outcome: wasmtime::Result<Result<types::Output, ToolError>>,
) -> RunEnd {
    match outcome {
        Err(error) => {
            let end = end_of(&error, guest);
            if let RunEnd::Failed(failure) = &end {
                let (tenant, tool) = (&call.tenant, &call.tool.tool);
                let (plugin, message) = (&call.tool.plugin, &failure.message);
                tracing::warn!(%tenant, plugin, tool, message, cause = account(&error), "a tool failed");
            }
            end
        }
        Ok(Ok(output)) => match to_result(&output, sandbox.limits.result_max_bytes) {
            Ok(result) => RunEnd::Returned(result),
            Err(message) => {
                guest.log.note(&message);
                failed(message)
            }
        },
        Ok(Err(error)) => refused(error, &guest.log),
    }
}

/// Opening directories and reading secrets may block, so it has a thread of its own; most plugins
/// have neither.
async fn open_grants(
    sandbox: &Arc<Inner>,
    grants: &Arc<Grants>,
    call: &Call,
    log: &Log,
) -> Result<Opened, String> {
    let opened = if !grants.may_block() {
        grants.open(&call.tenant, log, &sandbox.accounts)
    } else {
        let (grants, tenant, log) = (Arc::clone(grants), call.tenant.clone(), log.clone());
        let sandbox = Arc::clone(sandbox);
        tokio::task::spawn_blocking(move || grants.open(&tenant, &log, &sandbox.accounts))
            .await
            .map_err(|_| "the host failed while it opened what is granted".to_owned())?
    };
    opened.map_err(|error| {
        tracing::warn!(tenant = %call.tenant, plugin = call.tool.plugin, cause = error.cause, "{error}");
        error.to_string()
    })
}

/// What the operator gives, or the host's own limits.
fn state_quota(grants: &Grants, limits: &SandboxLimits) -> Option<StateQuota> {
    let state = grants.state?;
    Some(StateQuota {
        bytes: state.quota_bytes.unwrap_or(limits.state_max_bytes),
        keys: state.quota_keys.unwrap_or(limits.state_keys_max),
    })
}

async fn instantiate_and_call(
    store: &mut Store<Guest>,
    component: &Component,
    call: &Call,
) -> wasmtime::Result<Result<types::Output, ToolError>> {
    let plugin = component.pre().instantiate_async(&mut *store).await?;
    plugin
        .longshore_plugin_tools()
        .call_call_tool(store, &call.tool.tool, &call.arguments)
        .await
}

/// What a tool answered instead of a result.
fn refused(error: ToolError, log: &Log) -> RunEnd {
    match error {
        ToolError::InvalidArguments(what) => RunEnd::Returned(refusal(&bounded(what))),
        ToolError::Cancelled(what) => RunEnd::Cancelled(what.map(bounded)),
        ToolError::Failed(error) => {
            let data = error.data.and_then(|data| match compact(&data) {
                Ok(data) if data.get().len() > DATA_MAX_BYTES => {
                    log.note(&format!(
                        "the error's data is left out: it has {} bytes, and {DATA_MAX_BYTES} are \
                         allowed",
                        data.get().len()
                    ));
                    None
                }
                Ok(data) => Some(data.get().to_owned()),
                Err(cause) => {
                    log.note(&format!(
                        "the error's data is left out: it is not JSON: {cause}"
                    ));
                    None
                }
            });
            RunEnd::Failed(RpcError {
                code: error.code,
                message: bounded(error.message),
                data,
            })
        }
    }
}

fn bounded(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MESSAGE_MAX_CHARS) {
        text.truncate(end);
    }
    text
}

/// Asks a component which tools it has, with nothing granted.
pub(super) async fn list_tools(
    sandbox: Arc<Inner>,
    component: Component,
    _slot: OwnedSemaphorePermit,
) -> Result<Vec<types::Tool>, LoadError> {
    let log = Log::new(None, 0);
    let egress = Egress::new(
        Arc::default(),
        Secrets::default(),
        sandbox.connector.clone(),
        log.clone(),
    );
    let allowance = Allowance::new(sandbox.limits.memory_max_bytes);
    let guest = Guest::new(Parts {
        wasi: nothing(&log),
        egress,
        allowance,
        log,
        run: None,
        state_quota: None,
        allotments: Allotments::default(),
        permission: Permission::new("", "", None),
        grants: Arc::default(),
    });
    let mut store = guest.into_store(&sandbox.engine, LISTING_MAX_BYTES);
    let listing = async {
        let plugin = component.pre().instantiate_async(&mut store).await?;
        plugin
            .longshore_plugin_tools()
            .call_list_tools(&mut store)
            .await
    };
    let listed: wasmtime::Result<Vec<types::Tool>> = listing.await;
    listed.map_err(|error| {
        tracing::debug!(cause = account(&error), "list-tools failed");
        LoadError::Listing(explain(&error, store.data()))
    })
}
