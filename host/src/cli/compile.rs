//! `longshore __compile`: the compiler's process. It starts before anything else of the command
//! line does, because what it may use is limited from its first step.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::wasm::{COMPILE_COMMAND, compile_worker};

/// Compiles and gives the exit code, when this process was started for that.
pub fn run_if_asked(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let _program = arguments.next();
    if arguments.next()? != COMPILE_COMMAND {
        return None;
    }
    let code = compile_worker(arguments);
    Some(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}
