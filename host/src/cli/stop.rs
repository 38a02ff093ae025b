//! The signals that stop a command, which then gives up in order what it holds.

use std::future::Future;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit::Failure;

/// Ctrl-C and SIGTERM.
pub struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    pub fn listen() -> Result<Stop, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::failed(format!("can't watch signals: {error}")))
        };
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

/// Does `work`, which is dropped when a signal comes before its end: so a file that it was writing
/// does not stay half written.
pub async fn unless_stopped<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let mut stop = Stop::listen()?;
    tokio::select! {
        done = work => done,
        () = stop.wait() => Err(Failure::interrupted("stopped before it was done")),
    }
}
