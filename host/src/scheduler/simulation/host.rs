//! One process of the simulation: to crash it is to drop it.

use std::cell::Cell;
use std::future::Future;
use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;

use super::guest::World;
use crate::clock::Clock;
use crate::notify::Notifier;
use crate::scheduler::{Scheduler, SchedulerLimits};
use crate::store::Store;
use crate::store::simulated::{Hand, Medium};

/// Turns every task of the runtime gets in one step: more than the longest chain of them needs.
const TURNS: usize = 16;

/// Calls at once, and instances that wait in memory.
const CALLS_MAX: usize = 2;
const HELD_MAX: usize = 2;

/// Longer than any simulation: timers that never fire.
const NEVER: Duration = Duration::from_secs(3_600);

pub(super) struct Host {
    /// First, so that its tasks are dropped before what they use.
    runtime: Runtime,
    pub(super) scheduler: Scheduler,
    pub(super) store: Store,
    hand: Hand,
    started: Arc<AtomicBool>,
    drained: Arc<AtomicBool>,
    clients: Vec<AbortHandle>,
}

impl Host {
    pub(super) fn open(
        medium: &Medium,
        clock: &Clock,
        world: &World,
        park_after: Duration,
    ) -> Host {
        let (store, hand) = medium.open(clock.clone());
        let limits = SchedulerLimits {
            tasks_running_max: 3,
            tenant_tasks_running_max: 2,
            calls_running_max: CALLS_MAX,
            tenant_calls_running_max: 1,
            tenant_calls_waiting_max: 8,
            call_wait_max: NEVER,
            held_instances_max: HELD_MAX,
            tenant_held_instances_max: 1,
            round_hold: NEVER,
            tenant_rounds_held_max: 1,
            held_memory_max_bytes: 0,
            park_after,
            save_interval: NEVER,
            sweep_interval: NEVER,
        };
        let runner = Arc::new(world.clone());
        let (clock, notifier) = (clock.clone(), Notifier::default());
        let scheduler =
            Scheduler::naming(store.clone(), notifier, runner, clock, limits, counted_id);
        Host {
            runtime: Builder::new_current_thread().enable_time().build().unwrap(),
            scheduler,
            store,
            hand,
            started: Arc::default(),
            drained: Arc::default(),
            clients: Vec::new(),
        }
    }

    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// What a client does, which may go away in the middle.
    pub(super) fn spawn_client(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.clients.push(self.runtime.spawn(work).abort_handle());
    }

    /// Clients that still wait.
    pub(super) fn waiting_clients(&mut self) -> &[AbortHandle] {
        self.clients.retain(|client| !client.is_finished());
        &self.clients
    }

    /// Recovers; done when [`Host::is_started`] says so.
    pub(super) fn start(&self) {
        let (scheduler, started) = (self.scheduler.clone(), self.started.clone());
        self.spawn(async move {
            let outcome = scheduler.start().await;
            started.store(outcome.is_ok(), Ordering::SeqCst);
        });
    }

    pub(super) fn is_started(&self) -> bool {
        self.started.load(Ordering::SeqCst)
    }

    pub(super) fn drain(&self) {
        if self.is_draining() {
            return;
        }
        let (scheduler, drained) = (self.scheduler.clone(), self.drained.clone());
        self.spawn(async move {
            scheduler.drain(tokio::time::Instant::now() + NEVER).await;
            drained.store(true, Ordering::SeqCst);
        });
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.scheduler.0.draining.borrow()
    }

    pub(super) fn is_drained(&self) -> bool {
        self.drained.load(Ordering::SeqCst)
    }

    /// Whether nothing runs or waits, and all there is to give was given back.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.scheduler.lock();
        let is_empty = state.runs.is_empty() && state.queue.taken() == 0;
        let waits = state.waiting.is_empty() && state.waiting_places.is_empty();
        drop(state);
        let counts = self.scheduler.counts();
        is_empty && waits && (counts.calls, counts.held) == (0, 0)
    }

    /// What is counted by tenant is what is given out.
    pub(super) fn check_places(&self) -> Result<(), String> {
        let counts = self.scheduler.counts();
        let state = self.scheduler.lock();
        let calls = self.scheduler.0.calls.taken_by_tenants();
        let held: usize = state.held.values().sum();
        let rounds: usize = state.waiting_places.values().sum();
        let waiting = state.waiting.len();
        if (counts.calls, counts.held) != (calls, held) || waiting > rounds || waiting > held {
            return Err(format!(
                "{calls} calls and {held} instances are counted by tenant, {} and {} in all, {waiting} \
                 rounds wait in {rounds} places",
                counts.calls, counts.held
            ));
        }
        Ok(())
    }

    pub(super) fn commit(&mut self, max: usize) -> usize {
        self.hand.commit(max)
    }

    /// Lets everything go as far as it can without a commit.
    pub(super) fn settle(&self) {
        self.runtime.block_on(async {
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
        });
    }
}

/// A process that dies takes its runs along; here they and their scheduler would hold each other.
impl Drop for Host {
    fn drop(&mut self) {
        let mut state = self.scheduler.lock();
        let places = take(&mut state.waiting_places);
        let left = (take(&mut state.runs), take(&mut state.waiting), places);
        drop(state);
        drop(left);
    }
}

thread_local! {
    static IDS: Cell<u64> = const { Cell::new(0) };
}

/// Tasks are named in the order they come, whatever the test before this one did.
pub(super) fn restart_ids() {
    IDS.set(0);
}

fn counted_id() -> [u8; 16] {
    IDS.set(IDS.get() + 1);
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&IDS.get().to_be_bytes());
    bytes
}
