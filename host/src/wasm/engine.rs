//! The engine: its settings, its ticker, and the runtime that guests have to themselves.
//!
//! What compiled code depends on is in [`settings`], which the compiling process shares; the pool
//! is only for the process that runs guests.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::turns::Turns;
use super::{LoadError, SandboxLimits};
use crate::threads;

/// How long a guest may compute before it must let others on (I6).
const TICK: Duration = Duration::from_millis(10);

/// Stack of a guest, bytes.
pub(super) const STACK_MAX_BYTES: usize = 512 << 10;

/// Core instances of one component; languages with an adapter need several.
pub(super) const CORE_INSTANCES_MAX: u32 = 16;

/// Linear memories of one component.
pub(super) const MEMORIES_MAX: u32 = 4;

/// Tables of one component.
pub(super) const TABLES_MAX: u32 = 16;

/// Elements of one table. Memory limits do not cover tables.
pub(super) const TABLE_ELEMENTS_MAX: usize = 20_000;

/// Instances kept apart for asking components which tools they have, so that a full house of
/// running tools does not keep a plugin from being added.
pub(super) const LISTING_INSTANCES_MAX: u32 = 2;

/// Memory and table space that stay mapped in a slot between two guests, bytes. Together with
/// page map scans, which find what a guest really touched, this halves the cost of a small call
/// (36 to 19 µs for a Rust guest on a kernel that has them).
const KEEP_RESIDENT_BYTES: usize = 256 << 10;
const TABLE_KEEP_RESIDENT_BYTES: usize = 64 << 10;

/// Slots up to which each memory may have the address space that makes bounds checks free.
const ROOMY_SLOTS_MAX: u32 = 4_096;

/// Address space of a memory's guard region when slots are many, bytes.
const NARROW_GUARD_BYTES: u64 = 64 << 10;

/// Threads for blocking file operations and name lookups of all guests together.
const BLOCKING_THREADS_MAX: usize = 64;

/// The address space set aside for one linear memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reservation {
    /// The engine's default: fastest code, gigabytes of address space a memory.
    Roomy,
    /// Just the memory limit, bytes, for hosts with very many instances.
    Narrow(u64),
}

impl Reservation {
    pub fn of(limits: &SandboxLimits) -> Reservation {
        if memory_slots(limits) <= ROOMY_SLOTS_MAX {
            Reservation::Roomy
        } else {
            Reservation::Narrow(limits.memory_max_bytes as u64)
        }
    }
}

/// Everything that compiled code depends on: equal settings make code that fits.
pub(super) fn settings(reservation: Reservation) -> Config {
    let mut config = Config::new();
    config
        .concurrency_support(false)
        .epoch_interruption(true)
        .max_wasm_stack(STACK_MAX_BYTES);
    if let Reservation::Narrow(bytes) = reservation {
        config
            .memory_reservation(bytes)
            .memory_guard_size(NARROW_GUARD_BYTES)
            .memory_reservation_for_growth(0);
    }
    config
}

/// The engine that runs guests, with a pool as large as the limits allow and a running ticker.
pub(super) fn start(limits: &SandboxLimits) -> Result<Engine, LoadError> {
    let instances = instance_slots(limits);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_stacks(instances)
        .total_core_instances(instances.saturating_mul(CORE_INSTANCES_MAX))
        .total_memories(memory_slots(limits))
        .total_tables(instances.saturating_mul(TABLES_MAX))
        .max_core_instances_per_component(CORE_INSTANCES_MAX)
        .max_memories_per_component(MEMORIES_MAX)
        .max_tables_per_component(TABLES_MAX)
        .max_memories_per_module(MEMORIES_MAX)
        .max_tables_per_module(TABLES_MAX)
        .table_elements(TABLE_ELEMENTS_MAX)
        .max_memory_size(limits.memory_max_bytes)
        .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
        .table_keep_resident(TABLE_KEEP_RESIDENT_BYTES)
        .pagemap_scan(Enabled::Auto);

    let mut config = settings(Reservation::of(limits));
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    let engine = Engine::new(&config).map_err(|error| LoadError::Engine(format!("{error:#}")))?;
    start_ticker(&engine)?;
    Ok(engine)
}

fn instance_slots(limits: &SandboxLimits) -> u32 {
    limits.instances_max.saturating_add(LISTING_INSTANCES_MAX)
}

fn memory_slots(limits: &SandboxLimits) -> u32 {
    instance_slots(limits).saturating_mul(MEMORIES_MAX)
}

/// The ticker holds the engine weakly and ends with it.
fn start_ticker(engine: &Engine) -> Result<(), LoadError> {
    let engine = engine.weak();
    let tick = move || {
        while let Some(engine) = engine.upgrade() {
            engine.increment_epoch();
            drop(engine);
            thread::sleep(TICK);
        }
    };
    thread::Builder::new()
        .name("guest-ticker".to_owned())
        .spawn(tick)
        .map(drop)
        .map_err(|error| LoadError::Engine(format!("can't start the ticker thread: {error}")))
}

/// The guests' own threads, so that whatever they do, requests go on being answered (I6). Most guests
/// are done soon; those that compute on and on have lighter threads, apart from the others.
#[derive(Clone)]
pub(super) struct GuestThreads {
    pub begin: Arc<GuestRuntime>,
    pub long: Arc<GuestRuntime>,
}

pub(super) struct GuestRuntime(Option<Runtime>);

impl GuestThreads {
    pub fn start(threads: usize) -> Result<GuestThreads, LoadError> {
        let runtime = |name| {
            let mut builder = Builder::new_multi_thread();
            builder
                .worker_threads(Turns::threads(threads))
                .max_blocking_threads(BLOCKING_THREADS_MAX)
                .thread_name(name)
                .enable_all();
            builder
        };
        let mut long = runtime("long-guest");
        long.on_thread_start(threads::run_long_guests);
        Ok(GuestThreads {
            begin: GuestRuntime::build(&mut runtime("guest"))?,
            long: GuestRuntime::build(&mut long)?,
        })
    }
}

impl GuestRuntime {
    fn build(builder: &mut Builder) -> Result<Arc<GuestRuntime>, LoadError> {
        let runtime = builder.build().map_err(|error| {
            LoadError::Engine(format!("can't start the guests' threads: {error}"))
        })?;
        Ok(Arc::new(GuestRuntime(Some(runtime))))
    }

    pub fn spawn<F>(&self, work: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let runtime = self.0.as_ref();
        let runtime = runtime.expect("the runtime is there until it is dropped");
        runtime.spawn(work)
    }
}

impl Drop for GuestRuntime {
    /// A runtime dropped inside another panics; it must be told to stop in the background.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
