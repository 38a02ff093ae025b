//! The host that runs on a data directory, seen from beside it: what it says it serves, and whether
//! it still does.

use std::path::Path;
use std::time::Duration;

use reqwest::Url;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::super::exit::Failure;
use crate::app::Serving;
use crate::config::Config;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A host that compiles something large first may take this long to get to a change.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(120);

const LOOK_INTERVAL: Duration = Duration::from_millis(100);

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

/// What the running host serves; None when none runs.
pub async fn find_running(data_dir: &Path) -> Option<Serving> {
    let serving = Serving::read(data_dir)?;
    let url: Url = serving.url.parse().ok()?;
    let address = (url.host_str()?.to_owned(), url.port_or_known_default()?);
    let connecting = TcpStream::connect((address.0.trim_matches(['[', ']']), address.1));
    // A host that was killed left its file behind.
    timeout(CONNECT_TIMEOUT, connecting).await.ok()?.ok()?;
    Some(serving)
}

/// The host that runs on the configuration's data directory, which must serve the plugins of its
/// plugins directory: a change of another one would wait for ever.
pub async fn find_running_on(config: &Config) -> Result<Option<Serving>, Failure> {
    let running = find_running(&config.data_dir).await;
    let real = |path: &Path| {
        std::fs::canonicalize(path)
            .or_else(|_| std::path::absolute(path))
            .ok()
    };
    match &running {
        Some(serving) if real(&serving.plugins_dir) != real(&config.plugins_dir) => {
            let (theirs, ours) = (serving.plugins_dir.display(), config.plugins_dir.display());
            Err(Failure::usage(format!(
                "the host that runs on {} serves the plugins of {theirs}, not of {ours}; give \
                 --plugins {theirs}",
                config.data_dir.display()
            )))
        }
        _ => Ok(running),
    }
}

/// Waits until the running host, which served `before`, has taken a change of the plugin `name`
/// over: `is_over` says so of what it serves now.
pub async fn wait(
    data_dir: &Path,
    before: Option<&Serving>,
    name: &str,
    is_over: impl Fn(&Serving) -> bool,
) -> Taken {
    let Some(before) = before else {
        return Taken::AtNextStart;
    };
    let deadline = Instant::now() + CHANGE_TIMEOUT;
    loop {
        let Some(now) = Serving::read(data_dir) else {
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
