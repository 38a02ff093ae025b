//! Why a guest ended without returning, in words for its author and its operator. What the engine
//! says, with its backtrace, goes into the logs and never to a client.

use wasmtime::Trap;
use wasmtime_wasi::I32Exit;

use super::control::{Broken, is_abandoned};
use super::engine::STACK_MAX_BYTES;
use super::grants::GrantError;
use super::guest::Guest;
use crate::scheduler::RunEnd;
use crate::task::RpcError;

/// JSON-RPC's "invalid params".
const INVALID_PARAMS: i32 = -32602;

/// The engine's account of one failure in the logs, characters.
const ACCOUNT_MAX_CHARS: usize = 8_000;

/// A failure of the call with a message for the client.
pub(super) fn failed(message: String) -> RunEnd {
    RunEnd::Failed(RpcError::internal(message))
}

/// Arguments that are wrong, in the guest's words.
pub(super) fn invalid_params(message: String) -> RpcError {
    RpcError {
        code: INVALID_PARAMS,
        message,
        data: None,
    }
}

/// What an error out of the engine means for the run.
pub(super) fn end_of(error: &wasmtime::Error, guest: &Guest) -> RunEnd {
    if is_abandoned(error) {
        return RunEnd::Abandoned;
    }
    let message = explain(error, guest);
    guest.log.note(&format!("{message}\n{}", account(error)));
    failed(message)
}

/// What the engine says, for logs: the chain and the guest's own frames, no backtrace of the host.
pub(super) fn account(error: &wasmtime::Error) -> String {
    format!("{error:#}")
        .chars()
        .take(ACCOUNT_MAX_CHARS)
        .collect()
}

/// One sentence about what the guest did.
pub(super) fn explain(error: &wasmtime::Error, guest: &Guest) -> String {
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return explain_trap(*trap, guest);
    }
    if let Some(Broken(rule)) = error.downcast_ref() {
        return format!("the tool broke a rule of its host: {rule}");
    }
    if let Some(error) = error.downcast_ref::<GrantError>() {
        return error.to_string();
    }
    if error.downcast_ref::<I32Exit>().is_some() {
        let words = last_words(guest);
        return format!("the tool exited instead of returning{words}");
    }
    if guest.allowance.memory_refused {
        return out_of_memory(guest);
    }
    let text = error.root_cause().to_string();
    if text.contains("fuel allocated for hostcalls") {
        "the tool handed more data to its host at once than is allowed".to_owned()
    } else if text.contains("handle limit") || text.contains("resource table has no free keys") {
        "the tool holds too many handles (files, streams, requests) at once".to_owned()
    } else if is_malformed(&text) {
        format!("the tool handed its host what is no value of the contract ({text})")
    } else {
        "the tool failed inside a call to its host; the task's log has the details".to_owned()
    }
}

/// Whether the engine could not read what a guest handed over. These texts are the engine's own;
/// others may name what only the operator should see.
fn is_malformed(text: &str) -> bool {
    let ends = ["out of bounds", "out of bounds of memory", "not aligned"];
    text.contains("pointer") && ends.iter().any(|end| text.ends_with(end))
        || text.starts_with("unexpected discriminant")
        || text.starts_with("invalid utf-8 sequence")
}

fn explain_trap(trap: Trap, guest: &Guest) -> String {
    match trap {
        Trap::StackOverflow => format!(
            "the tool recursed too deeply: its stack may have {} KiB",
            STACK_MAX_BYTES >> 10
        ),
        _ if guest.allowance.memory_refused => out_of_memory(guest),
        Trap::UnreachableCodeReached => match last_words(guest).as_str() {
            "" => "the tool aborted without saying why".to_owned(),
            words => format!("the tool panicked{words}"),
        },
        trap => format!("the tool crashed: {trap}"),
    }
}

fn out_of_memory(guest: &Guest) -> String {
    format!(
        "the tool needed more than the {} MiB of memory it may have",
        guest.allowance.memory_max_bytes() >> 20
    )
}

fn last_words(guest: &Guest) -> String {
    guest
        .log
        .last_words()
        .map_or_else(String::new, |words| format!(": {words}"))
}
