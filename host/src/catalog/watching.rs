//! Follows the sources while the host runs: file-system events say when to look, a slow poll looks
//! without them, and what is still being written is not loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify_events::event::{AccessKind, AccessMode, EventKind};
use notify_events::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::place::Fingerprint;
use super::{Catalog, Sources};

/// In the plugins directory: a file named after a plugin asks to cancel the plugin's tasks once it
/// is gone. Whoever may write here may remove plugins anyway.
pub const CANCEL_DIR: &str = ".cancel";

/// Files that stay the same for this long are taken to be whole.
const SETTLE: Duration = Duration::from_millis(300);

/// How often files that change are looked at.
const SETTLING_INTERVAL: Duration = Duration::from_millis(100);

/// How often the sources are looked at when no event comes.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// After which time of changing without a pause it is said.
const UNSETTLED_MAX: Duration = Duration::from_secs(60);

/// Requests to cancel a removed plugin's tasks that are read at once.
const CANCELS_MAX: usize = 1_000;

/// A place that changes.
struct Settling {
    now: Fingerprint,
    same_since: Instant,
    since: Instant,
    is_told: bool,
}

/// Follows a catalog's sources.
pub struct Watch {
    catalog: Catalog,
    settling: BTreeMap<PathBuf, Settling>,
    events: Events,
    told: mpsc::Receiver<()>,
    cancels: mpsc::Sender<String>,
}

impl Watch {
    /// Names of removed plugins whose tasks are to be cancelled go to `cancels`.
    pub fn new(catalog: Catalog, cancels: mpsc::Sender<String>) -> Watch {
        // One message is enough to say that something changed.
        let (tell, told) = mpsc::channel(1);
        Watch {
            events: Events::new(&catalog.inner.sources, tell),
            catalog,
            settling: BTreeMap::new(),
            told,
            cancels,
        }
    }

    /// Follows until it is dropped.
    pub async fn run(mut self) {
        loop {
            self.events.follow();
            self.look().await;
            let pause = match self.settling.is_empty() {
                true => POLL_INTERVAL,
                false => SETTLING_INTERVAL,
            };
            tokio::select! {
                Some(()) = self.told.recv() => {
                    // A copy of many files is one change.
                    sleep(SETTLING_INTERVAL).await;
                }
                () = sleep(pause) => {}
            }
        }
    }

    async fn look(&mut self) {
        let catalog = self.catalog.clone();
        let changes = {
            let known = catalog.inner.known.lock().await;
            known.changes(&catalog.inner.sources)
        };
        let is_settled = settle(&mut self.settling, changes, Instant::now());
        let retries =
            self.settling.is_empty() && catalog.inner.known.lock().await.has_passing_failures();
        if is_settled || retries {
            let held = self.settling.keys().cloned().collect();
            catalog.reload_except(&held).await;
        }
        self.tell_cancels().await;
    }

    /// Hands on requests to cancel, once their plugin no longer serves.
    async fn tell_cancels(&self) {
        let Some(root) = &self.catalog.inner.sources.plugins_dir else {
            return;
        };
        let Ok(entries) = fs::read_dir(root.join(CANCEL_DIR)) else {
            return;
        };
        let snapshot = self.catalog.snapshot();
        let requests: BTreeSet<PathBuf> = entries
            .take(CANCELS_MAX)
            .flatten()
            .map(|entry| entry.path())
            .collect();
        for request in requests {
            let Some(name) = request.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            if snapshot.plugins.contains_key(name) {
                continue;
            }
            if self.cancels.send(name.to_owned()).await.is_ok()
                && let Err(error) = fs::remove_file(&request)
            {
                tracing::warn!(%error, file = %request.display(), "can't remove a request to cancel");
            }
        }
    }
}

/// Notes what changes; true if something has stopped to.
fn settle(
    settling: &mut BTreeMap<PathBuf, Settling>,
    changes: BTreeMap<PathBuf, Fingerprint>,
    now: Instant,
) -> bool {
    let mut is_settled = false;
    let mut left = BTreeMap::new();
    for (place, fingerprint) in changes {
        let mut entry = settling.remove(&place).unwrap_or_else(|| Settling {
            now: fingerprint.clone(),
            same_since: now,
            since: now,
            is_told: false,
        });
        if entry.now != fingerprint {
            entry.now = fingerprint;
            entry.same_since = now;
        }
        if now - entry.same_since >= SETTLE {
            is_settled = true;
            continue;
        }
        if now - entry.since > UNSETTLED_MAX && !entry.is_told {
            entry.is_told = true;
            let place = place.display();
            tracing::warn!(%place, "the files of this plugin keep changing; it is loaded when they rest");
        }
        left.insert(place, entry);
    }
    *settling = left;
    is_settled
}

/// The subscription to file-system events; without them the poll is all there is.
struct Events {
    watcher: Option<RecommendedWatcher>,
    /// What is watched, with the inode it had: a directory that was replaced is another one.
    watched: BTreeMap<PathBuf, (RecursiveMode, Option<u64>)>,
    /// The directory in which a part of the way to the plugins directory will appear.
    awaited: Option<PathBuf>,
}

impl Events {
    fn new(sources: &Sources, tell: mpsc::Sender<()>) -> Events {
        let on_event = move |event: notify_events::Result<notify_events::Event>| {
            let is_change = match event {
                // Reading a plugin is no change of it, or every look would bring the next.
                Ok(event) => match event.kind {
                    EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
                    _ => true,
                },
                Err(_) => true,
            };
            if is_change {
                // One that waits already says the same.
                let _ = tell.try_send(());
            }
        };
        let watcher = notify_events::recommended_watcher(on_event)
            .inspect_err(|error| {
                tracing::warn!(%error, "no file-system events; plugins are looked at every {POLL_INTERVAL:?}");
            })
            .ok();
        let mut watched = BTreeMap::new();
        if let Some(root) = &sources.plugins_dir {
            watched.insert(root.clone(), (RecursiveMode::Recursive, None));
        }
        for place in &sources.plugin_dirs {
            watched.insert(place.clone(), (RecursiveMode::NonRecursive, None));
        }
        Events {
            watcher,
            watched,
            awaited: None,
        }
    }

    /// Watches what is there and was not.
    fn follow(&mut self) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        for (path, (mode, inode)) in &mut self.watched {
            let now = inode_of(path);
            if now == *inode {
                continue;
            }
            *inode = now;
            // Fails when it is not watched any more, which is just as well.
            let _ = watcher.unwatch(path);
            if now.is_some()
                && let Err(error) = watcher.watch(path, *mode)
            {
                tracing::warn!(%error, path = %path.display(), "no file-system events here; it is looked at every {POLL_INTERVAL:?}");
            }
        }
        let missing = self.watched.iter().find(|(_, (mode, inode))| {
            // A plugin's own directory is the operator's to have at the start.
            *mode == RecursiveMode::Recursive && inode.is_none()
        });
        let awaited = missing.and_then(|(path, _)| existing_ancestor(path));
        if self.awaited.as_deref() == awaited {
            return;
        }
        if let Some(before) = self.awaited.take() {
            let _ = watcher.unwatch(&before);
        }
        if let Some(place) = awaited
            && watcher.watch(place, RecursiveMode::NonRecursive).is_ok()
        {
            self.awaited = Some(place.to_owned());
        }
    }
}

fn existing_ancestor(path: &Path) -> Option<&Path> {
    let ancestors = path.ancestors().skip(1);
    let mut places = ancestors.map(|up| match up.as_os_str().is_empty() {
        true => Path::new("."),
        false => up,
    });
    places.find(|up| up.is_dir())
}

fn inode_of(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|metadata| metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_plugins_directory_that_comes_later_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("on/the/way");
        let sources = Sources {
            plugins_dir: Some(root.clone()),
            plugin_dirs: Vec::new(),
            component_max_bytes: 0,
        };
        let (tell, mut told) = mpsc::channel(1);
        let mut events = Events::new(&sources, tell);
        for made in [root.parent().unwrap(), &root, &root.join("a.wasm")] {
            events.follow();
            // What came before is known by now.
            let _ = told.try_recv();
            fs::create_dir_all(made).unwrap();
            let event = tokio::time::timeout(POLL_INTERVAL, told.recv()).await;
            assert_eq!(event, Ok(Some(())), "{}", made.display());
        }
    }

    #[test]
    fn what_is_still_being_written_waits_and_keeps_nobody_else() {
        let root = tempfile::tempdir().unwrap();
        let (whole, growing) = (
            root.path().join("whole.wasm"),
            root.path().join("growing.wasm"),
        );
        fs::write(&whole, "whole").unwrap();
        fs::write(&growing, "").unwrap();
        let changes = || {
            let places = [&whole, &growing].map(|place| (place.clone(), Fingerprint::of(place)));
            BTreeMap::from(places)
        };
        let mut settling = BTreeMap::new();
        let start = Instant::now();
        assert!(!settle(&mut settling, changes(), start));
        fs::write(&growing, "half").unwrap();
        assert!(settle(&mut settling, changes(), start + SETTLE));
        assert_eq!(settling.keys().collect::<Vec<_>>(), [&growing]);

        let mut rest = changes();
        rest.remove(&whole);
        assert!(!settle(&mut settling, rest.clone(), start + SETTLE * 3 / 2));
        assert!(settle(&mut settling, rest, start + SETTLE * 2));
        assert!(settling.is_empty());
    }
}
