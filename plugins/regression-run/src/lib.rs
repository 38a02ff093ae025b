//! `regression-run`: sends the requests of a directory of contract cases to a host under test and
//! says which answers are not as expected, how they differ, and how to see each again.

pub mod arguments;
pub mod case;
mod check;
mod curl;
mod discover;
mod journal;
pub mod report;
pub mod run;
pub mod send;
mod subset;
mod text;
mod triage;

use std::path::Path;

pub use check::Answer;
use longshore_plugin::prelude::*;

use crate::arguments::Arguments;
use crate::report::Report;
use crate::send::Network;

/// Where the guest sees the granted directory of cases.
const CASES_DIRECTORY: &str = "/cases";

/// Time a cancelled run gets for the requests under way: the longest a case may ask for, and some.
const CANCEL_GRACE: Duration = Duration::from_secs(125);

fn regression_run(ctx: &Context, arguments: Arguments) -> Result<Report> {
    run::run(ctx, &arguments, Path::new(CASES_DIRECTORY), &mut Network)
}

longshore_plugin::export! {
    tool(
        "regression-run",
        "Runs HTTP contract cases against a host and lists each failing case with its file, what \
         was expected, what came, and the curl command that sends it again. Failing cases are a \
         result (`passed: false`), not an error.",
        regression_run,
    )
    .title("Regression run")
    .task()
    .detach_when_left()
    .recovery(Recovery::Resume)
    .cancellation(
        "Begins no more cases, waits for the requests under way, and says how many cases ran and \
         which of them failed. What the requests did on the host under test stays done.",
    )
    .cancel_grace(CANCEL_GRACE)
    .poll_interval(Duration::from_secs(1))
    .open_world(true),
    prompt(
        "triage-regressions",
        "Has the model run the cases, group what fails by its cause, and say who is wrong.",
        triage::triage,
    )
    .title("Triage regressions"),
}
