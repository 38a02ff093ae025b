//! The signals that stop a command, which then gives up in order what it holds.

use std::future::{Future, pending};

use dialoguer::console::Term;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::exit::{Exit, Failure};
use super::terminal::Settings;

/// Ctrl-C and SIGTERM.
pub struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    pub fn listen() -> Result<Stop, Failure> {
        Ok(Stop {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Resolves at the next signal.
    pub async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Ctrl-C, for a command that waits for others. From its first call on the signal's own action is
/// gone, so whatever the command waits for then, it waits [under it](Interrupts::or). One that comes
/// while another was not seen yet ends the process: no host keeps it, and no mistake of ours.
pub struct Interrupts {
    unseen: mpsc::Receiver<()>,
    watching: JoinHandle<()>,
}

impl Interrupts {
    pub fn listen() -> Result<Interrupts, Failure> {
        let mut signals = listen(SignalKind::interrupt())?;
        let before = Settings::now();
        let (tell, unseen) = mpsc::channel(1);
        let watching = tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if tell.try_send(()).is_err() {
                    end_here(before.as_ref());
                }
            }
        });
        Ok(Interrupts { unseen, watching })
    }

    /// Resolves at the next one. Safe to cancel: none is lost.
    pub async fn next(&mut self) {
        if self.unseen.recv().await.is_none() {
            pending().await
        }
    }

    /// What `work` comes to; None when an interrupt comes first, which drops it.
    pub async fn or<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            // First: the work may be ready each time it is looked at.
            biased;
            () = self.next() => None,
            done = work => Some(done),
        }
    }

    /// One that came before a person decided otherwise means nothing any more.
    pub fn forget(&mut self) {
        let _ = self.unseen.try_recv();
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

fn end_here(before: Option<&Settings>) -> ! {
    // A prompt may have changed it, and hidden the cursor.
    if let Some(before) = before {
        before.restore();
        let _ = Term::stderr().show_cursor();
    }
    Exit::Interrupted.now()
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::failed(format!("can't watch signals: {error}")))
}

/// Does `work`, which is dropped when a signal comes before its end: so a file that it was writing
/// does not stay half written. A second one ends it also where it can't be dropped.
pub async fn unless_stopped<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let mut terminate = listen(SignalKind::terminate())?;
    let done = tokio::select! {
        done = interrupts.or(work) => done,
        _ = terminate.recv() => None,
    };
    done.unwrap_or_else(|| Err(Failure::interrupted("stopped before it was done")))
}
