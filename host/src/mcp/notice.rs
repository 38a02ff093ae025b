//! What a client without Tasks is told of how its call runs (I8): first on the call's stream, and in
//! its result.

use tokio::sync::watch;

use crate::service::{PendingCall, Standing};

/// A notice that is told once.
#[derive(Clone)]
pub struct Notice {
    /// None for a call that runs as its tool means it to.
    standing: Option<watch::Receiver<Standing>>,
    /// Why a call is answered synchronously, in this era.
    synchronous: &'static str,
    is_told: bool,
}

/// What a result's `_meta` says.
pub struct Told {
    pub reason: String,
    /// The task the call went on as.
    pub task: Option<String>,
}

impl Notice {
    pub fn new(pending: &PendingCall, synchronous: &'static str) -> Notice {
        Notice {
            standing: pending.is_fallback.then(|| pending.standing.clone()),
            synchronous,
            is_told: false,
        }
    }

    /// Of a call that needs none.
    pub fn none() -> Notice {
        Notice {
            standing: None,
            synchronous: "",
            is_told: true,
        }
    }

    /// Whether there is something to be told, now or later.
    pub fn is_due(&self) -> bool {
        self.standing.is_some() && !self.is_told
    }

    /// The words, as soon as they are known, once.
    pub fn take(&mut self) -> Option<String> {
        if self.is_told {
            return None;
        }
        let words = match &*self.standing.as_ref()?.borrow() {
            Standing::WithClient => self.synchronous.to_owned(),
            Standing::Undecided => return None,
            Standing::Detached(id) => detached(id.as_str()),
        };
        self.is_told = true;
        Some(words)
    }

    /// For a client that gave no way to tell it on the stream.
    pub fn only_in_result(&mut self) {
        self.is_told = true;
    }

    pub fn of_result(&self) -> Option<Told> {
        Some(match &*self.standing.as_ref()?.borrow() {
            // One that ended before it had to be decided ran with its client.
            Standing::WithClient | Standing::Undecided => Told {
                reason: self.synchronous.to_owned(),
                task: None,
            },
            Standing::Detached(id) => Told {
                reason: detached(id.as_str()),
                task: Some(id.as_str().to_owned()),
            },
        })
    }
}

fn detached(id: &str) -> String {
    format!(
        "this call runs within its request, because its client takes no tasks; when the client \
         leaves it, it goes on as task {id}: while `longshore serve` runs on this data directory, \
         `longshore task get {id}` reads it and `longshore task cancel {id}` stops it"
    )
}
