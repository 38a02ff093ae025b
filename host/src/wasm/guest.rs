//! What the host holds for one instance: its WASI view, its egress, its allowance and its run.
//! One store a run, dropped with it.

use std::time::Instant;

use wasmtime::component::ResourceTable;
use wasmtime::{Engine, Store, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use super::egress::Egress;
use super::limits::Allowance;
use super::log::Log;
use super::pace::Pace;
use crate::scheduler::Run;

/// Handles a guest may hold in component tables and host objects behind them.
const HANDLES_MAX: usize = 1_000;

/// The data of one store.
pub(super) struct Guest {
    pub wasi: WasiCtx,
    pub egress: Egress,
    pub allowance: Allowance,
    pub log: Log,
    /// None while the component is only asked what it has.
    pub run: Option<Run>,
    /// Hooks called since the guest last let others on.
    pub hooks_called: u32,
    pub pace: Pace,
    table: ResourceTable,
    http: WasiHttpCtx,
}

impl Guest {
    pub fn new(
        wasi: WasiCtx,
        egress: Egress,
        allowance: Allowance,
        log: Log,
        run: Option<Run>,
    ) -> Guest {
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES_MAX);
        Guest {
            wasi,
            egress,
            allowance,
            log,
            run,
            hooks_called: 0,
            pace: Pace::new(Instant::now()),
            table,
            http: WasiHttpCtx::new(),
        }
    }

    /// A store with every limit set. `hostcall_max_bytes` bounds what one call may hand to the host.
    pub fn into_store(self, engine: &Engine, hostcall_max_bytes: usize) -> Store<Guest> {
        let mut store = Store::new(engine, self);
        // `limiter` copies the counts when it is called: the allowance is complete by now.
        store.limiter(|guest| &mut guest.allowance);
        store.set_hostcall_fuel(hostcall_max_bytes);
        store.set_max_component_handles(HANDLES_MAX);
        store.set_epoch_deadline(1);
        // A yield that wakes itself would starve timers and sockets; tokio's own does not. An
        // aborted run ends at this yield, also in the middle of a busy loop (I6).
        store.epoch_deadline_callback(|_| {
            Ok(UpdateDeadline::YieldCustom(
                1,
                Box::pin(tokio::task::yield_now()),
            ))
        });
        store
    }
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl WasiHttpView for Guest {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView {
            hooks: &mut self.egress,
            table: &mut self.table,
            ctx: &mut self.http,
        }
    }
}
