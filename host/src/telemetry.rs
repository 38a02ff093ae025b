//! Logs: to standard error, filtered by `--log` or `RUST_LOG`. Nothing of a guest's output passes
//! here; that goes to its task's log.

use std::io::{self, IsTerminal, Write};

use tracing_subscriber::EnvFilter;

use crate::plain::harmless;

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
        .with_writer(|| Harmless(std::io::stderr()))
        .with_ansi(colours_wanted())
        .with_target(false)
        .try_init();
    Ok(())
}

/// A log whose events may name what a plugin or a client sent: none of it drives the terminal of who
/// reads it, and the worst it can do is a colour.
struct Harmless<W>(W);

impl<W: Write> Write for Harmless<W> {
    /// One event, whole: that is how it is written.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let shown = harmless(&text, colour_length);
        self.0.write_all(shown.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// How long the colour is with which `text` begins: `ESC [ 1;31 m`.
fn colour_length(text: &str) -> Option<usize> {
    let codes = text.strip_prefix("\u{1b}[")?;
    let end = codes.find(|c: char| !(c.is_ascii_digit() || c == ';'))?;
    codes[end..].starts_with('m').then_some(end + 3)
}

/// Colours only for a person who did not refuse them (no-color.org).
fn colours_wanted() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_keeps_its_colours_and_nothing_else_that_drives_a_terminal() {
        let mut log = Harmless(Vec::new());
        let event = "\u{1b}[2mtime\u{1b}[0m \u{1b}[1;31mERROR\u{1b}[0m a\u{1b}]0;t\u{7}\u{9b}2J\u{202e}\u{1b}[2Jb\n";
        log.write_all(event.as_bytes()).unwrap();
        let shown = "\u{1b}[2mtime\u{1b}[0m \u{1b}[1;31mERROR\u{1b}[0m a]0;t2J[2Jb\n";
        assert_eq!(String::from_utf8(log.0).unwrap(), shown);
    }
}
