//! One run: a fresh store and instance on the guests' own threads, watched from outside so that a
//! kill takes effect whatever the guest does.

use std::error::Error;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::{JoinError, JoinHandle};
use tracing::Instrument;
use wasmtime::Store;

use super::bindings::exports::longshore::plugin::prompts::Prompt;
use super::bindings::exports::longshore::plugin::resources::ResourceList;
use super::bindings::longshore::plugin::types;
use super::control::CHECKPOINT_MAX_BYTES;
use super::egress::Egress;
use super::engine::GuestThreads;
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
use super::turns::InTurns;
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
    let threads = sandbox.guests.clone();
    let (turns, tenant) = (sandbox.turns.clone(), call.tenant.clone());
    let (reply, end) = oneshot::channel();
    let is_long = Arc::new(AtomicBool::new(false));
    let started = Started {
        call,
        run: run.clone(),
        slot,
        is_long: Arc::clone(&is_long),
        reply,
    };
    let guest = turns.take(tenant, call_guest(sandbox, component, grants, started));
    attend(&threads, guest, is_long, end, run.killed()).await
}

/// Has a guest done by the guests' threads, until it told its end or is killed.
async fn attend<F>(
    threads: &GuestThreads,
    guest: InTurns<F>,
    is_long: Arc<AtomicBool>,
    mut end: oneshot::Receiver<RunEnd>,
    killed: impl Future<Output = ()>,
) -> RunEnd
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut killed = pin!(killed);
    let guest = until_long(guest, is_long);
    let mut guest = Owned(threads.begin.spawn(guest.in_current_span()));
    loop {
        tokio::select! {
            biased;
            Ok(end) = &mut end => return end,
            left = &mut guest.0 => match left {
                Ok(Some(long)) => {
                    let long = until_long(long, Arc::default());
                    guest = Owned(threads.long.spawn(long.in_current_span()));
                }
                // It may have told its end between the two looks.
                ended => return end.try_recv().unwrap_or_else(|_| panicked(ended.err())),
            },
            () = &mut killed => break,
        }
    }
    guest.0.abort();
    // Nothing of the tool is left running when this returns, also when it ended just now.
    let _ = (&mut guest.0).await;
    RunEnd::Abandoned
}

/// Lets a guest go on to its end, or until it has computed so long that it has to leave those that
/// just begin.
async fn until_long<F: Future<Output = ()>>(
    mut guest: InTurns<F>,
    is_long: Arc<AtomicBool>,
) -> Option<InTurns<F>> {
    let left = poll_fn(|context| match Pin::new(&mut guest).poll(context) {
        Poll::Ready(()) => Poll::Ready(false),
        Poll::Pending if is_long.load(Ordering::Relaxed) => Poll::Ready(true),
        Poll::Pending => Poll::Pending,
    });
    left.await.then_some(guest)
}

/// A call with what it holds, and where its end is told.
struct Started {
    call: Call,
    run: Run,
    slot: OwnedSemaphorePermit,
    is_long: Arc<AtomicBool>,
    reply: oneshot::Sender<RunEnd>,
}

/// The end of a run that told none.
fn panicked(error: Option<JoinError>) -> RunEnd {
    let error = error.as_ref().map(|error| error as &dyn Error);
    tracing::error!(error, "a run ended in a panic of the host");
    failed("the host failed while it ran the tool; its log has the details".to_owned())
}

async fn call_guest(
    sandbox: Arc<Inner>,
    component: Component,
    grants: Arc<Grants>,
    started: Started,
) {
    let Started {
        call,
        run,
        slot,
        is_long,
        reply,
    } = started;
    let log = Log::new(Some(run.clone()), sandbox.limits.log_max_bytes);
    let opened = match open_grants(&sandbox, &grants, &call, &log).await {
        Ok(opened) => opened,
        Err(message) => {
            log.note(&message);
            let _ = reply.send(failed(message));
            return;
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
        is_long,
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
    // The guest has ended; wiping its memory is not worth the caller's time, but it takes of its
    // tenant's. The slot is free after.
    let _ = reply.send(end);
    drop((store, slot));
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
        is_long: Arc::default(),
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

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::task::yield_now;

    use super::*;
    use crate::task::TenantId;
    use crate::wasm::turns::Turns;

    async fn end_of_run<F>(
        guest: impl FnOnce(Arc<AtomicBool>, oneshot::Sender<RunEnd>) -> F,
    ) -> RunEnd
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let threads = GuestThreads::start(1).unwrap();
        let is_long = Arc::new(AtomicBool::new(false));
        let (reply, end) = oneshot::channel();
        let guest = Turns::new(1).take(TenantId::local(), guest(Arc::clone(&is_long), reply));
        attend(&threads, guest, is_long, end, pending()).await
    }

    #[tokio::test]
    async fn a_panic_of_the_host_is_the_end_of_its_run_and_says_so() {
        for panics_when_long in [false, true] {
            let end = end_of_run(|is_long, reply| async move {
                let _reply = reply;
                is_long.store(panics_when_long, Ordering::Relaxed);
                yield_now().await;
                panic!("of the test");
            });
            let RunEnd::Failed(error) = end.await else {
                panic!("it did not fail");
            };
            assert!(
                error.message.contains("the host failed"),
                "{}",
                error.message
            );
        }
    }

    #[tokio::test]
    async fn a_guest_that_computes_for_long_goes_on_among_the_long_ones() {
        let thread = || std::thread::current().name().unwrap_or_default().to_owned();
        let end = end_of_run(|is_long, reply| async move {
            let first = thread();
            is_long.store(true, Ordering::Relaxed);
            yield_now().await;
            let told = failed(format!("{first}, then {}", thread()));
            let _ = reply.send(told);
        });
        assert_eq!(end.await, failed("guest, then long-guest".to_owned()));
    }
}
