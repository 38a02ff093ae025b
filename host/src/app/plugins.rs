//! What goes on beside requests while plugins come and go: following the plugins directory,
//! cancelling a removed plugin's tasks, giving back disk, and a file that says what is served.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use crate::admin::Serving;
use crate::catalog::{Catalog, Sweeper, Watch};
use crate::scheduler::Scheduler;
use crate::store::{Store, StoreError};
use crate::task::{Digest, Task};

/// Requests to cancel that may wait.
const CANCELS_MAX: usize = 16;

/// How often components are looked for that nothing needs, at the least and at the most.
const SWEEP_INTERVAL_MIN: Duration = Duration::from_secs(1);
const SWEEP_INTERVAL_MAX: Duration = Duration::from_secs(600);

/// What a host does from its start on, beside answering who it is.
pub enum Loading {
    /// Loads the plugins and takes up the tasks of an earlier process.
    UnderWay(AbortOnDropHandle<anyhow::Result<Upkeep>>),
    Done(Upkeep),
    Failed,
}

impl Loading {
    /// Resolves when it is done, at once if it was before.
    pub async fn end(&mut self) -> anyhow::Result<()> {
        let Loading::UnderWay(loading) = self else {
            return Ok(());
        };
        let ended = loading.await.context("loading the plugins was given up");
        match ended.and_then(|loaded| loaded) {
            Ok(upkeep) => {
                *self = Loading::Done(upkeep);
                Ok(())
            }
            Err(error) => {
                *self = Loading::Failed;
                Err(error)
            }
        }
    }

    pub async fn stop(&mut self) {
        if let Loading::UnderWay(loading) = self {
            loading.abort();
            // It may have been done by then.
            let _ = self.end().await;
        }
        if let Loading::Done(upkeep) = self {
            upkeep.stop().await;
        }
    }
}

/// The tasks beside the requests; they end with it.
pub struct Upkeep {
    tasks: JoinSet<()>,
    file: PathBuf,
}

impl Upkeep {
    pub fn start(
        catalog: &Catalog,
        store: &Store,
        scheduler: &Scheduler,
        keep: Duration,
        file: PathBuf,
        serving: Serving,
    ) -> Upkeep {
        let mut tasks = JoinSet::new();
        let (cancel, cancels) = mpsc::channel(CANCELS_MAX);
        tasks.spawn(say(catalog.clone(), file.clone(), serving));
        tasks.spawn(Watch::new(catalog.clone(), cancel).run());
        tasks.spawn(cancel_tasks(cancels, store.clone(), scheduler.clone()));
        tasks.spawn(sweep(catalog.clone(), store.clone(), keep));
        Upkeep { tasks, file }
    }

    pub async fn stop(&mut self) {
        self.tasks.shutdown().await;
        // Gone already, or the next host writes its own.
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Keeps the file true.
async fn say(catalog: Catalog, file: PathBuf, serving: Serving) {
    let mut looks = catalog.looks();
    loop {
        let generation = *looks.borrow_and_update();
        let now = serving.with(&catalog.snapshot(), generation);
        if let Err(error) = now.write(&file) {
            tracing::warn!(%error, file = %file.display(), "can't say what is served");
        }
        if looks.changed().await.is_err() {
            return;
        }
    }
}

async fn cancel_tasks(mut plugins: mpsc::Receiver<String>, store: Store, scheduler: Scheduler) {
    while let Some(plugin) = plugins.recv().await {
        let tasks = match unfinished(&store).await {
            // Of those that can't be read the log has told.
            Ok((tasks, _)) => tasks,
            Err(error) => {
                tracing::error!(
                    plugin,
                    error = &error as &dyn std::error::Error,
                    "its tasks can't be cancelled"
                );
                continue;
            }
        };
        let reason = format!("the operator removed the plugin `{plugin}`");
        for task in tasks.iter().filter(|task| task.tool.plugin == plugin) {
            if let Err(error) = scheduler.cancel(&task.key, &reason).await {
                tracing::error!(
                    plugin,
                    task = %task.key.id,
                    error = &error as &dyn std::error::Error,
                    "a task can't be cancelled"
                );
            }
        }
    }
}

async fn sweep(catalog: Catalog, store: Store, keep: Duration) {
    let interval = (keep / 4).clamp(SWEEP_INTERVAL_MIN, SWEEP_INTERVAL_MAX);
    let mut sweeper = Sweeper::new(catalog, keep);
    loop {
        let outcome = match unfinished(&store).await {
            // Any component may be the one that such a task needs.
            Ok((_, unreadable @ 1..)) => Err(format!(
                "the records of {unreadable} tasks that have not ended can't be read; stop the host \
                 and run `longshore store check`"
            )),
            Ok((tasks, 0)) => {
                let needed: BTreeSet<Digest> = tasks.iter().map(|task| task.tool.digest).collect();
                let swept = sweeper.sweep(&needed, interval).await;
                swept.map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = outcome {
            tracing::warn!(error, "unneeded components stay on disk for now");
        }
        sleep(interval).await;
    }
}

/// Reading every unfinished task may take a while.
async fn unfinished(store: &Store) -> Result<(Vec<Task>, usize), StoreError> {
    let store = store.clone();
    let read = tokio::task::spawn_blocking(move || store.unfinished_tasks());
    // It fails only when the runtime shuts down.
    read.await.unwrap_or(Err(StoreError::Closed))
}
