//! Tools that carry out a script from their arguments, one with each combination of traits that
//! tests need. A script is a list of operations; what each tells is a line of the result.

mod operation;

use longshore_plugin::prelude::*;

use operation::Operation;

#[derive(Deserialize, JsonSchema)]
struct Script {
    /// Carried out in order.
    script: Vec<Operation>,
}

fn run(ctx: &Context, args: Script) -> Result<String> {
    let mut lines = Vec::new();
    for operation in args.script {
        lines.extend(operation.carry_out(ctx)?);
    }
    Ok(lines.join("\n"))
}

/// After a cancel it says so, and where the script was.
fn run_and_clean_up(ctx: &Context, args: Script) -> Result<String> {
    match run(ctx, args) {
        Err(error) if error.is_stopped() => {
            let reached: Option<String> = ctx.saved_state()?;
            Err(Error::cancelled(format!("cleaned up after {reached:?}")))
        }
        ended => ended,
    }
}

longshore_plugin::export! {
    tool("script_inline", "Runs a script within the call.", run)
        .inline()
        .recovery(Recovery::Resume),
    tool("script_auto", "Runs a script.", run).recovery(Recovery::Resume),
    tool("script_detach", "Runs a script that goes on when its client leaves.", run)
        .recovery(Recovery::Resume)
        .detach_when_left(),
    tool("script_once", "Runs a script that is never run again.", run),
    tool("script_fail", "Runs a script as a task that an interruption fails.", run).task(),
    tool("script_restart", "Runs a script as a task that starts again.", run)
        .task()
        .recovery(Recovery::Restart),
    tool("script_resume", "Runs a script as a task that goes on.", run)
        .task()
        .recovery(Recovery::Resume),
    tool("script_clean_up", "Runs a script as a task that cleans up.", run_and_clean_up)
        .task()
        .recovery(Recovery::Resume)
        .cleanup_on_cancel(),
    tool("script_ask_first", "Runs a script that asks `first` before there is a task.", run)
        .task()
        .recovery(Recovery::Resume)
        .asks_first("first", "whether there is a task at all"),
}
