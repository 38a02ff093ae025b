//! One run: a fresh store and instance on the guests' own threads, watched from outside so that a
//! kill takes effect whatever the guest does.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;
use tracing::Instrument;
use wasmtime::Store;

use super::bindings::exports::longshore::plugin::prompts::Prompt;
use super::bindings::exports::longshore::plugin::resources::ResourceList;
use super::bindings::longshore::plugin::types;
use super::control::CHECKPOINT_MAX_BYTES;
use super::egress::Egress;
use super::failure::{account, end_of, explain, failed};
use super::files::Directories;
use super::grants::{Grants, Opened, nothing};
use super::guest::{Guest, Parts};
use super::limits::Allowance;
use super::log::Log;
use super::operation::perform;
use super::permission::Permission;
use super::sandbox::Inner;
use super::secrets::Secrets;
use super::{Component, LoadError, SandboxLimits};
use crate::scheduler::{Call, Run, RunEnd, StateQuota};
use crate::task::Trace;

/// Records around the bytes a guest hands over in one call.
const HOSTCALL_SLACK_BYTES: usize = 256 << 10;

/// What each of the listings may return, bytes.
const LISTING_MAX_BYTES: usize = 4 << 20;

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
    let guest = call_guest(sandbox, component, grants, call, run.clone(), slot);
    let mut guest = Owned(handle.spawn(guest.in_current_span()));
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

async fn call_guest(
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
    let trace = run.trace().cloned();
    if let Some(id) = trace.as_ref().and_then(Trace::id) {
        log.note(&format!("trace {id}"));
    }
    let egress = Egress::new(
        &format!("{}/{}/{}", call.tenant, call.tool.plugin, call.tool.tool),
        Arc::clone(&grants),
        opened.secrets,
        sandbox.connector.clone(),
        trace,
        log.clone(),
    );
    let allowance = Allowance::new(sandbox.limits.memory_max_bytes);
    let limits = &sandbox.limits;
    let returned_max_bytes = limits.result_kept_max_bytes.max(limits.result_max_bytes);
    let hostcall_max_bytes = returned_max_bytes.max(CHECKPOINT_MAX_BYTES) + HOSTCALL_SLACK_BYTES;
    let decisions = sandbox.decisions.get().cloned();
    let guest = Guest::new(Parts {
        wasi: opened.wasi,
        egress,
        allowance,
        log,
        run: Some(run),
        state_quota: state_quota(&grants, limits),
        directories: Directories::new(
            opened.directories,
            sandbox.stand_in.clone(),
            sandbox.accounts.clone(),
        ),
        permission: Permission::new(&call.tool.plugin, &call.tool.tool, decisions),
        grants,
    });
    let mut store = guest.into_store(&sandbox.engine, hostcall_max_bytes);
    let outcome = perform(&mut store, &component, &call, limits).await;
    let end = outcome.unwrap_or_else(|error| end_of_failure(&error, &call, store.data()));
    // The guest has ended; wiping its memory is not worth the caller's time. The slot is free after.
    tokio::spawn(async move { drop((store, slot)) });
    end
}

fn end_of_failure(error: &wasmtime::Error, call: &Call, guest: &Guest) -> RunEnd {
    let end = end_of(error, guest);
    if let RunEnd::Failed(failure) = &end {
        let (tenant, tool) = (&call.tenant, &call.tool.tool);
        let (plugin, message) = (&call.tool.plugin, &failure.message);
        tracing::warn!(%tenant, plugin, tool, message, cause = account(error), "a tool failed");
    }
    end
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

/// What a component says it has, as it says it.
pub(super) struct Told {
    pub tools: Vec<types::Tool>,
    pub resources: ResourceList,
    pub prompts: Vec<Prompt>,
}

/// Asks a component what it has, with nothing granted. It also shows whether its exports are what
/// their names promise.
pub(super) async fn ask_what_it_has(
    sandbox: Arc<Inner>,
    component: Component,
    _slot: OwnedSemaphorePermit,
) -> Result<Told, LoadError> {
    let log = Log::new(None, 0);
    let egress = Egress::new(
        "",
        Arc::default(),
        Secrets::default(),
        sandbox.connector.clone(),
        None,
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
        directories: Directories::none(sandbox.stand_in.clone()),
        permission: Permission::new("", "", None),
        grants: Arc::default(),
    });
    let mut store = guest.into_store(&sandbox.engine, LISTING_MAX_BYTES);
    let told = listings(&mut store, &component).await;
    told.map_err(|unheard| match unheard {
        Unheard::Exports(error) => LoadError::Contract(format!("{error:#}")),
        Unheard::Asked(what, error) => {
            tracing::debug!(cause = account(&error), "{what} failed");
            let reason = explain(&error, store.data());
            LoadError::Listing(format!("{what}: {reason}"))
        }
    })
}

/// Why a component did not say what it has.
enum Unheard {
    /// Its exports are not what their names promise.
    Exports(wasmtime::Error),
    /// It failed while it was asked this.
    Asked(&'static str, wasmtime::Error),
}

async fn listings(store: &mut Store<Guest>, component: &Component) -> Result<Told, Unheard> {
    let exports = component.exports();
    let instance = component.pre().instantiate_async(&mut *store).await;
    let instance = instance.map_err(|error| Unheard::Asked("its start", error))?;
    let mut load = || -> wasmtime::Result<_> {
        if let Some(completion) = &exports.completion {
            completion.load(&mut *store, &instance)?;
        }
        let resources = exports.resources.as_ref();
        let prompts = exports.prompts.as_ref();
        Ok((
            exports.tools.load(&mut *store, &instance)?,
            resources
                .map(|resources| resources.load(&mut *store, &instance))
                .transpose()?,
            prompts
                .map(|prompts| prompts.load(&mut *store, &instance))
                .transpose()?,
        ))
    };
    let (tools, resources, prompts) = load().map_err(Unheard::Exports)?;
    let tools = tools.call_list_tools(&mut *store).await;
    let tools = tools.map_err(|error| Unheard::Asked("list-tools", error))?;
    let resources = match resources {
        Some(resources) => resources.call_list_resources(&mut *store).await,
        None => Ok(ResourceList {
            entries: Vec::new(),
            templates: Vec::new(),
        }),
    };
    let resources = resources.map_err(|error| Unheard::Asked("list-resources", error))?;
    let prompts = match prompts {
        Some(prompts) => prompts.call_list_prompts(&mut *store).await,
        None => Ok(Vec::new()),
    };
    Ok(Told {
        tools,
        resources,
        prompts: prompts.map_err(|error| Unheard::Asked("list-prompts", error))?,
    })
}
