//! The sandbox itself: brings components in, and hands calls to runs.

use std::collections::{BTreeSet, HashMap};
use std::env;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use wasmtime::Engine;
use wasmtime::component::Linker;

use super::cache::{Cache, digest_of, failed};
use super::compile::Compiler;
use super::component::{self, Component, Loaded, check_kind};
use super::declare::{self, Declared};
use super::egress::Connector;
use super::engine::{self, GuestThreads, LISTING_INSTANCES_MAX};
use super::files::StandIn;
use super::guest::Guest;
use super::quota::Accounts;
use super::runner::{self, Owned};
use super::turns::Turns;
use super::{Decisions, Grants, LoadError, SandboxLimits};
use crate::scheduler::{Call, Run, RunEnd};
use crate::task::Digest;

/// How long a component may take to say what it has.
const LISTING_TIMEOUT: Duration = Duration::from_secs(5);

/// Compiles and runs components. Cheap to clone.
#[derive(Clone)]
pub struct Sandbox(Arc<Inner>);

pub(super) struct Inner {
    pub limits: SandboxLimits,
    pub engine: Engine,
    pub guests: GuestThreads,
    pub turns: Turns,
    pub connector: Connector,
    pub accounts: Accounts,
    pub stand_in: StandIn,
    /// Unset: what people allow for good is kept nowhere.
    pub decisions: OnceLock<Arc<Decisions>>,
    /// Instances that may live; fewer than the pool has, for a full pool is an error.
    pub slots: Arc<Semaphore>,
    listing_slots: Arc<Semaphore>,
    linker: Linker<Guest>,
    cache: Cache,
    compiler: Compiler,
    /// One compilation at a time.
    compiling: Semaphore,
    /// Components that are in use, so that each is mapped once.
    loaded: Mutex<HashMap<Digest, Weak<Loaded>>>,
}

impl Sandbox {
    /// Starts the engine and the guests' own runtime. Compiled code is cached in `cache_dir`;
    /// components are compiled in a process of this program.
    pub fn new(limits: SandboxLimits, cache_dir: &Path) -> Result<Sandbox, LoadError> {
        let program = env::current_exe().map_err(|error| {
            LoadError::Engine(format!("can't find the program that compiles: {error}"))
        })?;
        Sandbox::with_compiler(limits, cache_dir, Compiler::Child(program))
    }

    /// As [`Sandbox::new`], with another compiler.
    pub fn with_compiler(
        limits: SandboxLimits,
        cache_dir: &Path,
        compiler: Compiler,
    ) -> Result<Sandbox, LoadError> {
        let engine = engine::start(&limits)?;
        let cache = Cache::open(cache_dir, &engine)?;
        let threads = limits.threads.max(1);
        Ok(Sandbox(Arc::new(Inner {
            guests: GuestThreads::start(threads)?,
            turns: Turns::new(threads),
            connector: Connector::new(),
            accounts: Accounts::default(),
            stand_in: StandIn::make(cache_dir).map_err(failed("it takes no new directory"))?,
            decisions: OnceLock::new(),
            slots: Arc::new(Semaphore::new(limits.instances_max as usize)),
            listing_slots: Arc::new(Semaphore::new(LISTING_INSTANCES_MAX as usize)),
            linker: component::linker(&engine)?,
            cache,
            compiler,
            compiling: Semaphore::new(1),
            loaded: Mutex::default(),
            engine,
            limits,
        })))
    }

    /// Keeps what people allow for good in `decisions`. The first place that is named counts.
    pub fn keep_decisions(&self, decisions: Decisions) {
        // A second one would only lose what the first has.
        let _ = self.0.decisions.set(Arc::new(decisions));
    }

    /// Instances that live, and those whose memory is being wiped.
    pub fn instances(&self) -> usize {
        let max = self.0.limits.instances_max as usize;
        max.saturating_sub(self.0.slots.available_permits())
    }

    /// Checks and compiles a component (in a child process, cached by digest), and keeps its file
    /// so that [`Sandbox::load_digest`] finds it.
    pub async fn load(&self, wasm: &[u8]) -> Result<Component, LoadError> {
        let max_bytes = self.0.limits.component_max_bytes;
        let size_bytes = wasm.len() as u64;
        if size_bytes > max_bytes {
            return Err(LoadError::TooLarge {
                size_bytes,
                max_bytes,
            });
        }
        check_kind(wasm)?;
        let wasm: Arc<[u8]> = wasm.into();
        let bytes = Arc::clone(&wasm);
        let digest = blocking(move || Ok(digest_of(&bytes))).await?;
        if let Some(component) = self.find_loaded(digest) {
            // Its file may have been forgotten while a run still held it.
            let inner = Arc::clone(&self.0);
            blocking(move || inner.cache.keep_component(digest, &wasm)).await?;
            return Ok(component);
        }
        let inner = Arc::clone(&self.0);
        let code = match blocking(move || Ok(inner.cache.find_code(digest))).await? {
            Some(code) => code,
            None => self.compile(digest, &wasm).await?,
        };
        let inner = Arc::clone(&self.0);
        let component = blocking(move || {
            // SAFETY: the cache returns only what the compiler wrote, checked against its seal,
            // and never changes a file in place.
            let component = unsafe { Component::open(&inner.linker, &code, digest, size_bytes) }?;
            inner.cache.keep_component(digest, &wasm)?;
            Ok(component)
        })
        .await?;
        self.remember(&component);
        Ok(component)
    }

    /// Brings back a component that was loaded before, also before a restart; None if its file is
    /// gone.
    pub async fn load_digest(&self, digest: Digest) -> Result<Option<Component>, LoadError> {
        if let Some(component) = self.find_loaded(digest) {
            return Ok(Some(component));
        }
        let inner = Arc::clone(&self.0);
        match blocking(move || inner.cache.read_component(digest)).await? {
            Some(wasm) => self.load(&wasm).await.map(Some),
            None => Ok(None),
        }
    }

    /// Keeps what a plugin asked for beside its component, for tasks that outlive the plugin.
    pub async fn keep_manifest(
        &self,
        digest: Digest,
        plugin: &str,
        text: String,
    ) -> Result<(), LoadError> {
        let (inner, plugin) = (Arc::clone(&self.0), plugin.to_owned());
        blocking(move || inner.cache.keep_manifest(digest, &plugin, &text)).await
    }

    /// The manifest that was kept last for a component; None if there is none.
    pub async fn read_manifest(
        &self,
        digest: Digest,
        plugin: &str,
    ) -> Result<Option<String>, LoadError> {
        let (inner, plugin) = (Arc::clone(&self.0), plugin.to_owned());
        blocking(move || inner.cache.read_manifest(digest, &plugin)).await
    }

    /// Components that are kept and that nothing in this process uses.
    pub async fn unused(&self) -> Result<BTreeSet<Digest>, LoadError> {
        let inner = Arc::clone(&self.0);
        let mut kept = blocking(move || inner.cache.digests()).await?;
        let loaded = self.loaded();
        kept.retain(|digest| {
            let component = loaded.get(digest);
            component.is_none_or(|component| component.strong_count() == 0)
        });
        Ok(kept)
    }

    /// Removes a component's files; whoever runs it goes on.
    pub async fn forget(&self, digest: Digest) -> Result<(), LoadError> {
        let inner = Arc::clone(&self.0);
        blocking(move || inner.cache.forget(digest)).await
    }

    /// Asks the component what it has, under tight limits and without any grant.
    pub async fn list(&self, component: &Component) -> Result<Declared, LoadError> {
        let listing = async {
            let slots = Arc::clone(&self.0.listing_slots);
            let slot = slots.acquire_owned().await.map_err(|_| stopped())?;
            let listing = runner::ask_what_it_has(Arc::clone(&self.0), component.clone(), slot);
            let mut listing = Owned(self.0.guests.begin.spawn(listing));
            (&mut listing.0).await.map_err(|_| stopped())?
        };
        let told = timeout(LISTING_TIMEOUT, listing)
            .await
            .map_err(|_| LoadError::ListingTime(LISTING_TIMEOUT))??;
        declare::read_all(told)
    }

    /// Runs a call in a fresh instance.
    pub fn run(
        &self,
        component: Component,
        grants: Arc<Grants>,
        call: Call,
        run: Run,
    ) -> BoxFuture<'static, RunEnd> {
        Box::pin(runner::run(
            Arc::clone(&self.0),
            component,
            grants,
            call,
            run,
        ))
    }

    async fn compile(
        &self,
        digest: Digest,
        wasm: &Arc<[u8]>,
    ) -> Result<std::path::PathBuf, LoadError> {
        let _turn = self.0.compiling.acquire().await.map_err(|_| stopped())?;
        // Whoever had the turn before may have compiled the same component.
        let inner = Arc::clone(&self.0);
        if let Some(code) = blocking(move || Ok(inner.cache.find_code(digest))).await? {
            return Ok(code);
        }
        let (inner, wasm) = (Arc::clone(&self.0), Arc::clone(wasm));
        let input = blocking(move || {
            let input = inner.cache.temporary();
            std::fs::write(input.path(), &wasm).map_err(failed("a component can't be written"))?;
            Ok(input)
        })
        .await?;
        let output = self.0.cache.temporary();
        tracing::info!(%digest, "compiling a component");
        let started = std::time::Instant::now();
        self.0
            .compiler
            .compile(input.path(), output.path(), &self.0.limits)
            .await?;
        tracing::info!(%digest, took = ?started.elapsed(), "compiled a component");
        let inner = Arc::clone(&self.0);
        blocking(move || inner.cache.keep_code(digest, output)).await
    }

    fn find_loaded(&self, digest: Digest) -> Option<Component> {
        self.loaded().get(&digest)?.upgrade().map(Component)
    }

    fn remember(&self, component: &Component) {
        let mut loaded = self.loaded();
        loaded.retain(|_, component| component.strong_count() > 0);
        loaded.insert(component.digest(), Arc::downgrade(&component.0));
    }

    fn loaded(&self) -> MutexGuard<'_, HashMap<Digest, Weak<Loaded>>> {
        self.0.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stopped() -> LoadError {
    LoadError::Engine("it is shutting down".to_owned())
}

/// Runs file work off the threads that answer requests.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(stopped()))
}
