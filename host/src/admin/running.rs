//! The host that serves, if one does: this process, or one beside it that is known by what it says of
//! itself in the data directory. It waits for a change to be taken over and makes none.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep, timeout};

use super::{AdminError, Serving};
use crate::catalog::Catalog;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A host that compiles something large first may take this long to get to a change.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(120);

const LOOK_INTERVAL: Duration = Duration::from_millis(100);

pub enum Running {
    /// This process.
    Here { catalog: Catalog, serving: Serving },
    /// Another one, or none.
    Beside { data_dir: PathBuf },
}

/// What became of a change.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// The running host did as it should.
    Over { url: String },
    /// It could not, and says why.
    Refused { reason: String },
    /// It has not got to it.
    NotYet { url: String },
    /// No host runs on the data directory; the next start will.
    AtNextStart,
}

impl Running {
    /// What the running host serves; None when none runs.
    pub async fn find(&self) -> Option<Serving> {
        let serving = self.read()?;
        let is_running = match self {
            Running::Here { .. } => true,
            // A host that was killed left its file behind.
            Running::Beside { .. } => answers(&serving.url).await,
        };
        is_running.then_some(serving)
    }

    /// As [`Running::find`], of a host that must serve the plugins of `plugins_dir`: it would never take
    /// over a change of another directory.
    pub async fn find_on(&self, plugins_dir: &Path) -> Result<Option<Serving>, AdminError> {
        let running = self.find().await;
        let real = |path: &Path| {
            std::fs::canonicalize(path)
                .or_else(|_| std::path::absolute(path))
                .ok()
        };
        match (self, &running) {
            (Running::Beside { data_dir }, Some(serving))
                if real(&serving.plugins_dir) != real(plugins_dir) =>
            {
                Err(AdminError::OtherDirectory {
                    data_dir: data_dir.clone(),
                    theirs: serving.plugins_dir.clone(),
                    ours: plugins_dir.to_owned(),
                })
            }
            _ => Ok(running),
        }
    }

    /// Waits until the running host, which served `before`, has taken a change of the plugin `name`
    /// over: `is_over` says so of what it serves now.
    pub async fn wait(
        &self,
        before: Option<&Serving>,
        name: &str,
        is_over: impl Fn(&Serving) -> bool,
    ) -> Taken {
        let Some(before) = before else {
            return Taken::AtNextStart;
        };
        let deadline = Instant::now() + CHANGE_TIMEOUT;
        loop {
            let Some(now) = self.read() else {
                return Taken::AtNextStart;
            };
            if now.generation != before.generation || now.url != before.url {
                if let Some(reason) = now.failures.get(name) {
                    let reason = reason.clone();
                    return Taken::Refused { reason };
                }
                if is_over(&now) {
                    return Taken::Over { url: now.url };
                }
            }
            if Instant::now() > deadline {
                return Taken::NotYet { url: now.url };
            }
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// What it said last.
    fn read(&self) -> Option<Serving> {
        match self {
            Running::Here { catalog, serving } => {
                // In this order: what is newer than it says is waited for once more.
                let generation = *catalog.looks().borrow();
                Some(serving.with(&catalog.snapshot(), generation))
            }
            Running::Beside { data_dir } => Serving::read(data_dir),
        }
    }
}

/// Whether somebody listens where a host said it does.
async fn answers(url: &str) -> bool {
    let connecting = async {
        if let Some(socket) = url.strip_prefix("unix:") {
            return UnixStream::connect(socket).await.is_ok();
        }
        let address = url
            .strip_prefix("http://")
            .and_then(|rest| rest.split('/').next());
        match address.and_then(|address| address.parse::<SocketAddr>().ok()) {
            Some(address) => TcpStream::connect(address).await.is_ok(),
            None => false,
        }
    };
    timeout(CONNECT_TIMEOUT, connecting).await.unwrap_or(false)
}
