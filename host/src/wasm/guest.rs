//! What the host holds for one instance: its WASI view, its egress, its allowance and its run.
//! One store a run, dropped with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use wasmtime::component::ResourceTable;
use wasmtime::{Engine, Store, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use super::Grants;
use super::egress::Egress;
use super::files::Directories;
use super::limits::Allowance;
use super::log::Log;
use super::pace::Pace;
use super::permission::Permission;
use crate::scheduler::{Run, StateQuota};

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
    /// None without a grant of state.
    pub state_quota: Option<StateQuota>,
    pub directories: Directories,
    pub permission: Permission,
    grants: Arc<Grants>,
    /// Hooks called since the guest last let others on.
    pub hooks_called: u32,
    pub pace: Pace,
    table: ResourceTable,
    http: WasiHttpCtx,
}

/// What a guest is made of.
pub(super) struct Parts {
    pub wasi: WasiCtx,
    pub egress: Egress,
    pub allowance: Allowance,
    pub log: Log,
    pub run: Option<Run>,
    pub state_quota: Option<StateQuota>,
    pub directories: Directories,
    pub permission: Permission,
    pub grants: Arc<Grants>,
}

impl Guest {
    pub fn new(parts: Parts) -> Guest {
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES_MAX);
        Guest {
            wasi: parts.wasi,
            egress: parts.egress,
            allowance: parts.allowance,
            log: parts.log,
            run: parts.run,
            state_quota: parts.state_quota,
            directories: parts.directories,
            permission: parts.permission,
            grants: parts.grants,
            hooks_called: 0,
            pace: Pace::new(Instant::now()),
            table,
            http: WasiHttpCtx::new(),
        }
    }

    /// The configuration values it may read.
    pub fn configuration(&self) -> &BTreeMap<String, String> {
        &self.grants.configuration
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
