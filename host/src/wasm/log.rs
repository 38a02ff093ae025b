//! What a guest prints, and what the host notes about its run: both go into the run's log, bounded,
//! and never onto the wire.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use crate::plain::drives_display;
use crate::scheduler::{Message, Run};

/// Output that a guest may hand over at once, bytes.
const WRITE_MAX_BYTES: usize = 64 << 10;

/// What is remembered of standard error to explain a trap, bytes.
const TAIL_MAX_BYTES: usize = 4 << 10;

/// How much of a guest's last words is shown, characters.
const LAST_WORDS_MAX_CHARS: usize = 300;

/// How much of a message for the client is kept, characters.
const MESSAGE_MAX_CHARS: usize = 1_000;

/// A run's log. Cheap to clone; all clones share one budget.
#[derive(Clone)]
pub(super) struct Log(Arc<Inner>);

struct Inner {
    /// None while a component is only asked which tools it has: then nobody keeps its output.
    run: Option<Run>,
    max_bytes: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    written_bytes: usize,
    /// The end of standard error.
    tail: Vec<u8>,
    has_warned: bool,
}

/// One of a guest's output streams.
#[derive(Clone)]
pub(super) struct GuestOutput {
    log: Log,
    is_error: bool,
}

impl Log {
    pub fn new(run: Option<Run>, max_bytes: usize) -> Log {
        Log(Arc::new(Inner {
            run,
            max_bytes,
            state: Mutex::default(),
        }))
    }

    pub fn stdout(&self) -> GuestOutput {
        GuestOutput {
            log: self.clone(),
            is_error: false,
        }
    }

    pub fn stderr(&self) -> GuestOutput {
        GuestOutput {
            log: self.clone(),
            is_error: true,
        }
    }

    /// Adds a line of the host's own.
    pub fn note(&self, text: &str) {
        self.append(format!("[host] {text}\n").as_bytes(), false);
    }

    /// The same of what its operator has to mend, who may never see the log of a call that was no task:
    /// once a run it is in the host's log as well.
    pub fn warn(&self, text: &str) {
        self.note(text);
        if let Some(run) = &self.0.run
            && !std::mem::replace(&mut self.state().has_warned, true)
        {
            let (tenant, tool) = (run.tenant(), run.tool());
            tracing::warn!(%tenant, plugin = %tool.plugin, tool = %tool.tool, "{text}");
        }
    }

    /// Adds what the guest said to its client.
    pub fn message(&self, message: &Message) {
        let level = message.level.as_str();
        let logger = message.logger.as_deref().unwrap_or_default();
        let space = if logger.is_empty() { "" } else { " " };
        let data: String = message.data.chars().take(MESSAGE_MAX_CHARS).collect();
        self.append(
            format!("[{level}{space}{logger}] {data}\n").as_bytes(),
            false,
        );
    }

    /// The last thing the guest said on standard error, in one line: a panic's message if there
    /// is one, else its last line.
    pub fn last_words(&self) -> Option<String> {
        let tail = String::from_utf8_lossy(&self.state().tail).into_owned();
        last_words(&tail)
    }

    fn append(&self, bytes: &[u8], is_error: bool) {
        let mut state = self.state();
        if is_error {
            remember(&mut state.tail, bytes);
        }
        let left = self.0.max_bytes.saturating_sub(state.written_bytes);
        let kept = bytes.len().min(left);
        state.written_bytes += kept;
        // The budget is used up by exactly one write, so this is said once.
        let is_cut = left > 0 && kept == left;
        drop(state);
        let Some(run) = &self.0.run else { return };
        if kept > 0 {
            run.log(&bytes[..kept]);
        }
        if is_cut {
            let note = format!(
                "\n[host] a run's log holds {} bytes; what follows is not kept\n",
                self.0.max_bytes
            );
            run.log(note.as_bytes());
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the end of what was written.
fn remember(tail: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = &bytes[bytes.len().saturating_sub(TAIL_MAX_BYTES)..];
    let excess = (tail.len() + bytes.len()).saturating_sub(TAIL_MAX_BYTES);
    tail.drain(..excess);
    tail.extend_from_slice(bytes);
}

fn last_words(tail: &str) -> Option<String> {
    let lines: Vec<&str> = tail
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("note: run with"))
        .collect();
    let panic = lines.iter().rposition(|line| line.contains("panicked at"));
    let words = match panic {
        Some(index) if index + 1 < lines.len() => lines[index + 1..].join(" "),
        _ => (*lines.last()?).to_owned(),
    };
    let words: String = words
        .chars()
        .filter(|character| !drives_display(*character))
        .take(LAST_WORDS_MAX_CHARS)
        .collect();
    (!words.is_empty()).then_some(words)
}

impl IsTerminal for GuestOutput {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for GuestOutput {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl Pollable for GuestOutput {
    fn ready<'life0, 'async_trait>(
        &'life0 mut self,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(std::future::ready(()))
    }
}

impl OutputStream for GuestOutput {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.log.append(&bytes, self.is_error);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_MAX_BYTES)
    }
}

impl AsyncWrite for GuestOutput {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.log.append(bytes, self.is_error);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_a_panics_message() {
        let tail = "starting\n\nthread '<unnamed>' panicked at src/lib.rs:3:5:\nno such row\n\
                    note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n";
        assert_eq!(last_words(tail).as_deref(), Some("no such row"));
    }

    #[test]
    fn last_words_without_a_panic_are_the_last_line() {
        assert_eq!(last_words("one\ntwo\n\n").as_deref(), Some("two"));
        assert_eq!(last_words("\n"), None);
        assert_eq!(
            last_words(&"x".repeat(5_000)).map(|words| words.len()),
            Some(300)
        );
    }

    #[test]
    fn the_tail_keeps_the_end() {
        let mut tail = Vec::new();
        remember(&mut tail, &vec![b'a'; 3 * TAIL_MAX_BYTES]);
        remember(&mut tail, b"end");
        assert_eq!(tail.len(), TAIL_MAX_BYTES);
        assert!(tail.ends_with(b"aend"));
    }
}
