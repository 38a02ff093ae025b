//! Puts the parts together into a running host, from the configuration down, and takes them apart
//! again in the opposite order. It decides nothing else.

mod plugins;

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use self::plugins::{Loading, Upkeep};
use crate::admin::{Admin, Running, Serving};
use crate::catalog::{Catalog, Snapshot, Sources, sandbox_limits};
use crate::clock::Clock;
use crate::config::{Config, Limits};
use crate::http::{self, Authenticator, HttpOptions, MCP_PATH};
use crate::local;
use crate::mcp::{Endpoint, Keyring, LegacyLimits, LineClient, LineLimits};
use crate::notify::Notifier;
use crate::scheduler::{Scheduler, SchedulerLimits};
use crate::service::{Service, ServiceLimits};
use crate::store::{Store, StoreOptions};
use crate::task::TenantId;
use crate::wasm::{Decisions, Sandbox};

/// A running host: one that is reached over HTTP, too.
pub struct Host {
    local: LocalHost,
    address: SocketAddr,
    server: JoinHandle<std::io::Result<()>>,
}

/// A running host for clients on this machine: on given streams, and on the socket in the data
/// directory. Its plugins may still be loading.
pub struct LocalHost {
    catalog: Catalog,
    scheduler: Scheduler,
    store: Store,
    loading: Loading,
    service: Service,
    endpoint: Endpoint,
    lines: LineLimits,
    shutdown: watch::Sender<bool>,
    /// None when the socket can't be made, which is said.
    socket: Option<JoinHandle<()>>,
    socket_clients: watch::Receiver<usize>,
}

impl Host {
    /// Opens the store, loads the plugins, recovers tasks and starts serving.
    pub async fn start(config: Config) -> anyhow::Result<Host> {
        // First what fails for reasons of the machine: the port, then the directory.
        let listener = TcpListener::bind(config.listen).await.with_context(|| {
            format!(
                "can't listen on {}; choose another with --listen ADDRESS:PORT",
                config.listen
            )
        })?;
        let address = listener
            .local_addr()
            .context("can't tell the listening address")?;
        let url = format!("http://{address}{MCP_PATH}");
        let mut local = LocalHost::open(&config, Some(url)).await?;
        local.until_loaded().await?;
        let options = http_options(&config);
        let router = http::router(
            local.service.clone(),
            local.endpoint.clone(),
            options.clone(),
            authenticator(&config),
        );
        let shutdown = local.shutdown.subscribe();
        let server = tokio::spawn(http::serve(listener, router, options, shutdown));
        Ok(Host {
            local,
            address,
            server,
        })
    }

    /// Where MCP is served.
    pub fn url(&self) -> String {
        format!("http://{}{MCP_PATH}", self.address)
    }

    /// The tools as they are now.
    pub fn tools(&self) -> Arc<Snapshot> {
        self.local.tools()
    }

    /// Stops taking calls, brings runs to rest, and closes the store.
    pub async fn stop(mut self) {
        let deadline = self.local.drain().await;
        if let Ok(Err(error)) = self.server.await {
            tracing::error!(%error, "the server ended with an error");
        }
        self.local.close(deadline).await;
    }
}

impl LocalHost {
    /// Opens the store and listens on the socket, while plugins are loaded and tasks recovered. The store
    /// is first: while another process holds it, nothing else of the directory is touched.
    pub async fn start(config: &Config) -> anyhow::Result<LocalHost> {
        LocalHost::open(config, None).await
    }

    /// `url` is where it is also reached over HTTP.
    async fn open(config: &Config, url: Option<String>) -> anyhow::Result<LocalHost> {
        let data_dir = config.data_dir.as_path();
        // What is in it is nobody else's business: tasks, answers, results.
        let mut private = std::fs::DirBuilder::new();
        private.recursive(true).mode(0o700);
        private.create(data_dir).with_context(|| {
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
        sandbox.keep_decisions(Decisions::new(config.decisions_dir()));
        let catalog = Catalog::new(sandbox.clone(), Sources::from(config), config.given.clone());
        let scheduler = Scheduler::new(
            store.clone(),
            notifier.clone(),
            Arc::new(catalog.clone()),
            clock.clone(),
            scheduler_limits(&config.limits),
        );
        let (loaded, is_loaded) = watch::channel(false);
        let service = Service::new(
            catalog.clone(),
            store.clone(),
            scheduler.clone(),
            notifier,
            clock.clone(),
            service_limits(&config.limits),
            is_loaded,
        );

        let keyring = Keyring::open(
            &data_dir.join("request-state.key"),
            millis(config.limits.request_state_key_max_age_ms),
            clock,
        )?;
        let url = url.unwrap_or_else(|| format!("unix:{}", local::socket_path(data_dir).display()));
        let serving = Serving::new(url, &config.plugins_dir);
        let running = Running::Here {
            catalog: catalog.clone(),
            serving: serving.clone(),
        };
        let shutdown = watch::Sender::new(false);
        let endpoint = Endpoint::new(
            service.clone(),
            Admin::new(sandbox, config, running),
            keyring,
            legacy_limits(&config.limits),
            shutdown.subscribe(),
        );
        let loading = {
            let (catalog, store) = (catalog.clone(), store.clone());
            let scheduler = scheduler.clone();
            let keep = millis(config.limits.component_keep_ms);
            let file = Serving::file(data_dir);
            let load = async move {
                catalog.reload().await;
                scheduler.start().await?;
                let upkeep = Upkeep::start(&catalog, &store, &scheduler, keep, file, serving);
                loaded.send_replace(true);
                Ok(upkeep)
            };
            Loading::UnderWay(AbortOnDropHandle::new(tokio::spawn(load)))
        };
        let lines = line_limits(&config.limits);
        let (open, socket_clients) = watch::channel(0);
        let socket = match local::bind(data_dir) {
            Ok(listener) => {
                let shutdown = shutdown.subscribe();
                let serving = local::serve(listener, endpoint.clone(), lines, open, shutdown);
                Some(tokio::spawn(serving))
            }
            Err(error) => {
                let path = local::socket_path(data_dir);
                tracing::warn!(
                    path = %path.display(), %error,
                    "no local socket: `longshore stdio` can't share this data directory meanwhile"
                );
                None
            }
        };
        Ok(LocalHost {
            catalog,
            loading,
            scheduler,
            store,
            service,
            endpoint,
            lines,
            shutdown,
            socket,
            socket_clients,
        })
    }

    /// Resolves when the plugins are loaded and the tasks recovered.
    ///
    /// # Errors
    /// When the store can't be read; the host is good for nothing then.
    pub async fn until_loaded(&mut self) -> anyhow::Result<()> {
        self.loading.end().await
    }

    /// The tools as they are now.
    pub fn tools(&self) -> Arc<Snapshot> {
        self.catalog.snapshot()
    }

    /// Serves the client on this process's standard input and output, as `tenant`, until it ends its
    /// side or the host stops.
    pub fn serve_stdio(
        &self,
        tenant: TenantId,
    ) -> impl Future<Output = std::io::Result<()>> + Send + use<> {
        let (endpoint, lines) = (self.endpoint.clone(), self.lines);
        async move {
            let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
            let client = LineClient::Tenant(tenant);
            endpoint.serve_lines(client, input, output, lines).await
        }
    }

    /// Resolves when no other process is served over the socket.
    pub async fn until_alone(&self) {
        let mut clients = self.socket_clients.clone();
        // An error means that there is no socket.
        let _ = clients.wait_for(|open| *open == 0).await;
    }

    /// Stops taking calls, brings runs to rest, and closes the store.
    pub async fn stop(mut self) {
        let deadline = self.drain().await;
        self.close(deadline).await;
    }

    /// Until when the rest has time: everybody who waits began to at the same moment.
    async fn drain(&mut self) -> Instant {
        let deadline = Instant::now() + self.lines.drain;
        self.shutdown.send_replace(true);
        self.loading.stop().await;
        self.scheduler.drain(deadline).await;
        deadline
    }

    async fn close(self, deadline: Instant) {
        if let Some(mut socket) = self.socket
            && tokio::time::timeout_at(deadline, &mut socket)
                .await
                .is_err()
        {
            socket.abort();
        }
        self.store.close().await;
    }
}

/// How a process introduces its client there.
pub fn introduction(tenant: &TenantId) -> String {
    local::introduction(tenant)
}

/// Where another process finds the host of this configuration's data directory.
pub fn socket_path(config: &Config) -> PathBuf {
    local::socket_path(&config.data_dir)
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
        tenant_rounds_max_bytes: limits.tenant_rounds_max_bytes,
        tenant_results_kept_max_bytes: limits.tenant_results_kept_max_bytes,
        tasks_unfinished_max: size(limits.tasks_unfinished_max),
    }
}

fn scheduler_limits(limits: &Limits) -> SchedulerLimits {
    SchedulerLimits {
        tasks_running_max: size(limits.tasks_running_max),
        tenant_tasks_running_max: size(limits.tenant_tasks_running_max),
        calls_running_max: size(limits.calls_running_max),
        tenant_calls_running_max: size(limits.tenant_calls_running_max),
        call_wait_max: millis(limits.call_wait_max_ms),
        tenant_calls_waiting_max: size(limits.tenant_calls_waiting_max),
        held_instances_max: size(limits.held_instances_max),
        tenant_held_instances_max: size(limits.tenant_held_instances_max),
        round_hold: millis(limits.round_hold_ms),
        tenant_rounds_held_max: size(limits.tenant_rounds_held_max),
        held_memory_max_bytes: limits.held_memory_max_bytes,
        park_after: millis(limits.park_after_ms),
        save_interval: millis(limits.save_interval_ms),
        sweep_interval: millis(limits.sweep_interval_ms),
    }
}

fn service_limits(limits: &Limits) -> ServiceLimits {
    ServiceLimits {
        call_grace: millis(limits.call_grace_ms),
        read_timeout: millis(limits.read_timeout_ms),
        task_ttl_default: millis(limits.task_ttl_default_ms),
        task_ttl_max: millis(limits.task_ttl_max_ms),
        poll_interval_default: millis(limits.poll_interval_default_ms),
        cancel_grace_default: millis(limits.cancel_grace_default_ms),
        cancel_grace_max: millis(limits.cancel_grace_max_ms),
    }
}

fn legacy_limits(limits: &Limits) -> LegacyLimits {
    LegacyLimits {
        sessions_max: size(limits.legacy_sessions_max),
        tenant_sessions_max: size(limits.tenant_legacy_sessions_max),
        session_idle: millis(limits.legacy_session_idle_ms),
        reconnect: millis(limits.legacy_reconnect_ms),
    }
}

fn line_limits(limits: &Limits) -> LineLimits {
    LineLimits {
        line_max_bytes: size(limits.request_body_max_bytes),
        drain: millis(limits.drain_timeout_ms),
    }
}

fn http_options(config: &Config) -> HttpOptions {
    let limits = &config.limits;
    let tenants: HashSet<_> = config.tenants.iter().map(|token| &token.tenant).collect();
    let is_shared = tenants.len() > 1;
    HttpOptions {
        allowed_origins: config.allowed_origins.clone(),
        allowed_hosts: config.allowed_hosts.clone(),
        body_max_bytes: size(limits.request_body_max_bytes),
        body_timeout: millis(limits.request_body_timeout_ms),
        connections_max: size(limits.connections_max),
        tenant_connections_max: is_shared.then(|| size(limits.tenant_connections_max)),
        write_timeout: millis(limits.write_timeout_ms),
        drain_timeout: millis(limits.drain_timeout_ms),
        ..HttpOptions::default()
    }
}

fn millis(value: u64) -> Duration {
    Duration::from_millis(value)
}

/// The configuration's ranges fit a 64-bit address space, the only kind this host is built for.
fn size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
