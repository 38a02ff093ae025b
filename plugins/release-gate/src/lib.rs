//! `release-gate`: carries out a list of outward HTTP requests, asks a person before each one that
//! others will see, and never sends one twice.

pub mod arguments;
pub mod drive;
pub mod journal;
pub mod plan;
pub mod report;
pub mod request;
mod send;
mod text;

use longshore_plugin::prelude::*;

use crate::arguments::Arguments;
use crate::plan::Plan;
use crate::report::Report;

/// Time a cancelled run gets to take back what was done.
const CANCEL_GRACE: Duration = Duration::from_secs(300);

/// A task may wait for its answers over a long weekend.
const TTL: Duration = Duration::from_secs(7 * 24 * 3600);

fn release_gate(ctx: &Context, arguments: Arguments) -> Result<Report> {
    let Some(task_id) = ctx.task_id() else {
        // Without a task nothing outlives a crash, and a step could be sent twice.
        fail!("release-gate runs only as a task; call it with a client that takes tasks");
    };
    let plan = Plan::new(arguments, &task_id).map_err(Error::invalid_arguments)?;
    drive::drive(ctx, &plan, send::send)
}

longshore_plugin::export! {
    tool(
        "release-gate",
        "Carries out a list of HTTP requests in order and asks a person before each one that others \
         will see. No step is sent twice, also after a crash. The result says what became of every \
         step.",
        release_gate,
    )
    .title("Release gate")
    .task()
    .detach_when_left()
    .recovery(Recovery::Resume)
    .cancellation(
        "Sends no more steps. Steps that were done, or may have been, and declare an undo are taken \
         back, newest first, without further questions, also while the task waits for an answer. \
         The end says what was undone and what stays done.",
    )
    .cleanup_on_cancel()
    .cancel_grace(CANCEL_GRACE)
    .ttl(TTL)
    .poll_interval(Duration::from_secs(1))
    .destructive(true)
    .open_world(true)
    .asks_effect(
        "step-<number>-<name>",
        "Whether this step's request is sent. Asked before each step that is not GET or HEAD. A no \
         ends the run; steps before it stay done.",
    )
    .asks_effect(
        "undo-<number>-<name>",
        "Whether this step, which was done or may have been, is taken back. Asked only after another \
         step failed.",
    ),
}
