//! Logs: to standard error, filtered by `--log` or `RUST_LOG`. Nothing of a guest's output passes
//! here; that goes to its task's log.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// What is logged when neither `--log` nor `RUST_LOG` says.
pub const DEFAULT_FILTER: &str = "warn,longshore=info,rmcp=error";

/// The same for commands, whose own output is their report. rmcp warns of every call that is cancelled.
pub const COMMAND_FILTER: &str = "warn,rmcp=error";

/// Starts logging with `filter`, else that of `RUST_LOG`, else `default`. The error says what is
/// wrong with the filter.
pub fn init(filter: Option<&str>, default: &str) -> Result<(), String> {
    let from_environment = std::env::var(EnvFilter::DEFAULT_ENV).ok();
    let text = filter.or(from_environment.as_deref()).unwrap_or(default);
    let parsed = EnvFilter::try_new(text)
        .map_err(|error| format!("the log filter `{text}` is not valid: {error}"))?;
    // A second subscriber can only come from a test in the same process; the first stays.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_writer(std::io::stderr)
        .with_ansi(colours_wanted())
        .with_target(false)
        .try_init();
    Ok(())
}

/// Colours only for a person who did not refuse them (no-color.org).
fn colours_wanted() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}
