//! What a guest reads of an error that a stream ended with: the reason, and nothing of the host's own.
//! With `RUST_BACKTRACE` set, wasmtime's own words would hold a backtrace of the host.

use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::WasiView;

use super::guest::Guest;

/// As wasmtime 48 names it; older guests' versions are found by it, too.
const ERROR: &str = "wasi:io/error@0.2.12";

/// A longer reason is cut, characters.
const REASON_MAX_CHARS: usize = 1_000;

pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    linker.instance(ERROR)?.func_wrap(
        "[method]error.to-debug-string",
        |mut store, (error,): (Resource<wasmtime::Error>,)| {
            let reason = format!("{:#}", store.data_mut().ctx().table.get(&error)?);
            let shown: String = reason.chars().take(REASON_MAX_CHARS).collect();
            Ok((shown,))
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}
