//! Puts the parts together into a running host, from the configuration down, and takes them apart
//! again in the opposite order. It decides nothing else.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rustix::fs::Mode;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::catalog::{Catalog, Snapshot, Sources, sandbox_limits};
use crate::clock::Clock;
use crate::config::{Config, Limits};
use crate::http::{self, Authenticator, HttpOptions, MCP_PATH};
use crate::notify::Notifier;
use crate::scheduler::{Scheduler, SchedulerLimits};
use crate::service::{Service, ServiceLimits};
use crate::store::{Store, StoreOptions};
use crate::wasm::Sandbox;

/// A running host.
pub struct Host {
    address: SocketAddr,
    catalog: Catalog,
    scheduler: Scheduler,
    store: Store,
    drain_timeout: Duration,
    shutdown: watch::Sender<bool>,
    server: JoinHandle<std::io::Result<()>>,
}

impl Host {
    /// Opens the store, loads the plugins, recovers tasks and starts serving.
    pub async fn start(config: Config) -> anyhow::Result<Host> {
        // First what fails for reasons of the machine: the port and the directory.
        let listener = TcpListener::bind(config.listen).await.with_context(|| {
            format!(
                "can't listen on {}; choose another with --listen ADDRESS:PORT",
                config.listen
            )
        })?;
        let address = listener
            .local_addr()
            .context("can't tell the listening address")?;
        let data_dir = config.data_dir.as_path();
        std::fs::create_dir_all(data_dir).with_context(|| {
            format!(
                "can't make the data directory {}; see --data-dir",
                data_dir.display()
            )
        })?;

        let clock = Clock::system();
        let notifier = Notifier::default();
        let store = {
            let (directory, options) = (data_dir.join("store"), store_options(&config.limits));
            let (clock, notifier) = (clock.clone(), notifier.clone());
            tokio::task::spawn_blocking(move || Store::open(&directory, options, clock, notifier))
                .await??
        };
        let sandbox = Sandbox::new(sandbox_limits(&config.limits), &data_dir.join("components"))?;
        let catalog = Catalog::open(sandbox, Sources::from(&config), config.given.clone()).await;
        let scheduler = Scheduler::new(
            store.clone(),
            notifier.clone(),
            Arc::new(catalog.clone()),
            clock.clone(),
            scheduler_limits(&config.limits),
        );
        scheduler.start().await?;
        let service = Service::new(
            catalog.clone(),
            store.clone(),
            scheduler.clone(),
            notifier,
            clock,
            service_limits(&config.limits),
        );

        let key = request_state_key(&data_dir.join("request-state.key"))?;
        let shutdown = watch::Sender::new(false);
        let options = http_options(&config);
        let authenticator = authenticator(&config);
        let router = http::router(
            service,
            options.clone(),
            authenticator,
            key,
            shutdown.subscribe(),
        );
        let server = tokio::spawn(http::serve(listener, router, options, shutdown.subscribe()));
        Ok(Host {
            address,
            catalog,
            scheduler,
            store,
            drain_timeout: millis(config.limits.drain_timeout_ms),
            shutdown,
            server,
        })
    }

    /// Where MCP is served.
    pub fn url(&self) -> String {
        format!("http://{}{MCP_PATH}", self.address)
    }

    /// The tools as they are now.
    pub fn tools(&self) -> Arc<Snapshot> {
        self.catalog.snapshot()
    }

    /// Stops taking calls, brings runs to rest, and closes the store.
    pub async fn stop(self) {
        self.shutdown.send_replace(true);
        self.scheduler.drain(self.drain_timeout).await;
        if let Ok(Err(error)) = self.server.await {
            tracing::error!(%error, "the server ended with an error");
        }
        self.store.close().await;
    }
}

fn authenticator(config: &Config) -> Authenticator {
    let tenants: HashMap<_, _> = config
        .tenants
        .iter()
        .map(|token| (token.token_sha256.0, token.tenant.clone()))
        .collect();
    Authenticator::new(tenants)
}

fn store_options(limits: &Limits) -> StoreOptions {
    StoreOptions {
        queue_max: size(limits.store_queue_max),
        cache_bytes: limits.store_cache_bytes,
        free_disk_min_bytes: limits.free_disk_min_bytes,
    }
}

fn scheduler_limits(limits: &Limits) -> SchedulerLimits {
    SchedulerLimits {
        tasks_running_max: size(limits.tasks_running_max),
        tenant_tasks_running_max: size(limits.tenant_tasks_running_max),
        tasks_unfinished_max: size(limits.tasks_unfinished_max),
        calls_running_max: size(limits.calls_running_max),
        tenant_calls_running_max: size(limits.tenant_calls_running_max),
        call_wait_max: millis(limits.call_wait_max_ms),
        held_instances_max: size(limits.held_instances_max),
        park_after: millis(limits.park_after_ms),
        save_interval: millis(limits.save_interval_ms),
        sweep_interval: millis(limits.sweep_interval_ms),
    }
}

fn service_limits(limits: &Limits) -> ServiceLimits {
    ServiceLimits {
        call_grace: millis(limits.call_grace_ms),
        task_ttl_default: millis(limits.task_ttl_default_ms),
        task_ttl_max: millis(limits.task_ttl_max_ms),
        poll_interval_default: millis(limits.poll_interval_default_ms),
        cancel_grace_default: millis(limits.cancel_grace_default_ms),
        cancel_grace_max: millis(limits.cancel_grace_max_ms),
    }
}

fn http_options(config: &Config) -> HttpOptions {
    let limits = &config.limits;
    HttpOptions {
        allowed_origins: config.allowed_origins.clone(),
        allowed_hosts: config.allowed_hosts.clone(),
        body_max_bytes: size(limits.request_body_max_bytes),
        body_timeout: millis(limits.request_body_timeout_ms),
        connections_max: size(limits.connections_max),
        drain_timeout: millis(limits.drain_timeout_ms),
        ..HttpOptions::default()
    }
}

/// The key that seals what calls carry through their clients: made once, readable by the owner only.
fn request_state_key(path: &Path) -> anyhow::Result<[u8; 32]> {
    let unusable = || {
        format!(
            "can't use the key {}; delete it to have a new one made",
            path.display()
        )
    };
    match std::fs::read(path) {
        Ok(bytes) => bytes.try_into().map_err(|_| anyhow::anyhow!(unusable())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mut key = [0; 32];
            getrandom::fill(&mut key).context("the system's random generator failed")?;
            write_private(path, &key).with_context(unusable)?;
            Ok(key)
        }
        Err(error) => Err(error).with_context(unusable),
    }
}

/// Written whole or not at all: a host killed here makes the key at its next start.
fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let temporary = path.with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    options
        .write(true)
        .create(true)
        .truncate(true)
        .mode((Mode::RUSR | Mode::WUSR).bits());
    let mut file = options.open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)
}

fn millis(value: u64) -> Duration {
    Duration::from_millis(value)
}

/// The configuration's ranges fit a 64-bit address space, the only kind this host is built for.
fn size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
