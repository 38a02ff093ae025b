//! Where tasks are kept: small records in the database, large bodies in files, one committer that
//! makes both durable before anyone is told (I1). The only module that names sled.
//!
//! What is in the data directory: `records/` the database with the number of its last commit,
//! `bodies/` and `logs/` files by tenant and task, `lock`, and `ballast`, space kept aside for a full
//! disk.

mod aside;
mod bodies;
mod check;
mod codec;
mod committer;
mod compact;
mod contents;
mod core;
mod disk;
mod draft;
mod error;
mod export;
mod keys;
mod logs;
mod offline;
mod parts;
mod quota;
mod reads;
mod records;
mod room;
mod rounds;
mod scratch;
#[cfg(test)]
pub(crate) mod simulated;
mod state;
#[cfg(test)]
mod tests;
mod watermark;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::sync::{mpsc, oneshot};

use self::bodies::{Body, INLINE_BYTES_MAX};
use self::committer::{Command, Committer};
use self::contents::{take_apart, take_contents, when_full};
use self::core::Core;
use self::keys::Slot;
use self::room::WhenFull;
use crate::clock::Clock;
use crate::notify::Notifier;
use crate::task::{Answer, Event, InputRequest, Task, TaskKey, TenantId};

pub use self::check::{Problem, Report, check};
pub use self::codec::RecordError;
pub use self::compact::{Compacted, compact};
pub use self::error::{Damage, OpenError, StoreError, TransferError, UpdateError};
pub use self::export::{Damaged, Exported, export, import};
pub use self::rounds::RoundName;
pub use self::scratch::discard_copies;
pub use self::state::{
    STATE_KEY_MAX_BYTES, STATE_KEYS_PAGE, STATE_VALUE_MAX_BYTES, StateChange, StateError,
    StateOwner, StateQuota, StateUsage, forget_state, state_usages,
};

/// The task store. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    front: Arc<Front>,
}

/// What a store is opened with.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Commands that may wait for the committer.
    pub queue_max: usize,
    /// Memory for the database's page cache, bytes.
    pub cache_bytes: u64,
    /// Below this much free disk, new tasks are refused, bytes.
    pub free_disk_min_bytes: u64,
    /// What the calls of one tenant may leave for their next rounds, bytes.
    pub tenant_rounds_max_bytes: u64,
    /// What may be kept of one tenant's large results, bytes.
    pub tenant_results_kept_max_bytes: u64,
    /// Tasks of one tenant that have not ended.
    pub tasks_unfinished_max: usize,
}

/// A new task with everything it has at birth.
#[derive(Clone, Debug)]
pub struct NewTask {
    pub task: Task,
    /// The call's arguments as JSON text.
    pub arguments: String,
    /// What the call already saved, when it ran before it became a task.
    pub checkpoint: Option<Vec<u8>>,
    pub steps: Vec<(String, Vec<u8>)>,
    pub inputs: Vec<StoredInput>,
}

/// A question with its answer, if there is one.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredInput {
    pub request: InputRequest,
    pub answer: Option<Answer>,
}

/// What all clones share. The committer's thread holds only the core, so that it ends with the
/// last clone.
struct Front {
    core: Arc<Core>,
    /// None only while it is dropped.
    commands: Option<mpsc::Sender<Command>>,
    committer: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Opens or creates the store in `dir`; its lock is held until the last clone is dropped.
    pub fn open(
        dir: &Path,
        options: StoreOptions,
        clock: Clock,
        notifier: Notifier,
    ) -> Result<Store, OpenError> {
        let core = Arc::new(Core::open(dir, &options)?);
        let (commands, queue) = mpsc::channel(options.queue_max.max(1));
        let committer = Committer {
            core: core.clone(),
            clock,
            notifier,
        };
        let thread = thread::Builder::new()
            .name("committer".to_owned())
            .spawn(move || {
                let core = committer.core.clone();
                if catch_unwind(AssertUnwindSafe(|| committer.run(queue))).is_err() {
                    core.fail(StoreError::CommitterLost);
                }
            })
            .map_err(|source| OpenError::Directory {
                directory: dir.display().to_string(),
                source,
            })?;
        let front = Front {
            core,
            commands: Some(commands),
            committer: Mutex::new(Some(thread)),
        };
        Ok(Store {
            front: Arc::new(front),
        })
    }

    /// Makes a new task durable (I1). Refused when its tenant has as many as it may.
    pub async fn insert(&self, new: NewTask) -> Result<(), StoreError> {
        self.core().room.disk.check_room()?;
        let (task, contents) = take_apart(new);
        let bodies = self
            .write_bodies(&task.key, contents, WhenFull::Refuse)
            .await?;
        let (reply, answer) = oneshot::channel();
        let task = Box::new(task);
        self.command(Command::Insert {
            task,
            bodies,
            reply,
        })
        .await?;
        answer.await.map_err(|_| self.lost())?
    }

    /// Applies `event` to the newest state and makes the outcome durable. Bodies the event carries
    /// are written with it. Returns the task after the event; an event that changes nothing writes
    /// nothing. While the disk is full, what a run has to say waits; others are refused.
    pub async fn update(&self, key: &TaskKey, mut event: Event) -> Result<Task, UpdateError> {
        let when_full = when_full(&event);
        let contents = take_contents(&mut event);
        let bodies = self.write_bodies(key, contents, when_full).await?;
        let (reply, answer) = oneshot::channel();
        self.command(Command::Update {
            key: key.clone(),
            event,
            bodies,
            reply,
        })
        .await?;
        answer.await.map_err(|_| self.lost())?
    }

    /// Deletes a task with all its records and files. Fine when there is none.
    pub async fn remove(&self, key: &TaskKey) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Remove {
            key: key.clone(),
            reply,
        };
        self.command(command).await?;
        answer.await.map_err(|_| self.lost())?
    }

    /// Appends to the task's log file (guest output), which is bounded; not made durable.
    pub fn append_log(&self, key: &TaskKey, text: &[u8]) -> Result<(), StoreError> {
        let core = self.core();
        let exists = || Ok::<_, StoreError>(core.records.contains(&keys::task(key))?);
        core.logs.append(key, text, exists)
    }

    /// Refuses when the tenant has as many unfinished tasks as it may; another may still come first.
    pub fn check_quota(&self, tenant: &TenantId) -> Result<(), StoreError> {
        self.core().check_quota(tenant, 0)
    }

    /// Whether the store takes writes.
    pub fn is_ready(&self) -> bool {
        self.is_open() && self.core().is_in_place() && self.core().room.is_there()
    }

    /// From here on nothing waits for room on a full disk; it is refused.
    pub fn end_waiting(&self) {
        self.core().room.end_waiting();
    }

    /// Commits what is queued and stops the committer. Afterwards the store can only be read.
    pub async fn close(&self) {
        self.end_waiting();
        // Fails when it is closed already; its thread is then waited for all the same.
        let _ = self.command(Command::Stop).await;
        let front = self.front.clone();
        let joined = tokio::task::spawn_blocking(move || front.join_committer());
        // The thread catches its own panics, and joining it has none.
        let _ = joined.await;
    }

    fn core(&self) -> &Core {
        &self.front.core
    }

    /// Whether nothing has ended all writing.
    fn is_open(&self) -> bool {
        let is_open = self.front.commands.as_ref().is_some_and(|c| !c.is_closed());
        is_open && self.core().failure().is_none()
    }

    async fn command(&self, command: Command) -> Result<(), StoreError> {
        let Some(commands) = &self.front.commands else {
            return Err(StoreError::Closed);
        };
        commands.send(command).await.map_err(|_| self.lost())
    }

    /// Why the committer does not answer.
    fn lost(&self) -> StoreError {
        let failure = self.core().failure();
        failure.cloned().unwrap_or(StoreError::Closed)
    }

    /// Makes large bodies durable before a record names them.
    async fn write_bodies(
        &self,
        key: &TaskKey,
        contents: Vec<(Slot, Vec<u8>)>,
        when_full: WhenFull,
    ) -> Result<Vec<(Slot, Body)>, StoreError> {
        let large = contents.iter().filter(|(_, bytes)| !is_inline(bytes));
        let file_bytes: usize = large.map(|(_, bytes)| bytes.len()).sum();
        let _room = self
            .core()
            .room
            .reserve(file_bytes as u64, when_full)
            .await?;
        if contents.iter().all(|(_, bytes)| is_inline(bytes)) {
            let inline = contents.into_iter();
            return Ok(inline
                .map(|(slot, bytes)| (slot, Body::Inline(bytes)))
                .collect());
        }
        if !self.is_open() {
            return Err(self.lost());
        }
        let core = self.front.core.clone();
        let key = key.clone();
        let written = tokio::task::spawn_blocking(move || {
            let mut bodies = Vec::with_capacity(contents.len());
            for (slot, bytes) in contents {
                let body = match is_inline(&bytes) {
                    true => Body::Inline(bytes),
                    false => core.bodies.write(&key, &bytes)?,
                };
                bodies.push((slot, body));
            }
            Ok(bodies)
        });
        // It fails only when the runtime shuts down.
        written.await.map_err(|_| StoreError::Closed)?
    }
}

impl Front {
    fn join_committer(&self) {
        let mut committer = self
            .committer
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = committer.take() {
            // Its panic, if any, was caught and noted in the core.
            let _ = thread.join();
        }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        // Without a sender the committer commits what is queued and ends.
        self.core.room.end_waiting();
        self.commands = None;
        self.join_committer();
    }
}

fn is_inline(bytes: &[u8]) -> bool {
    bytes.len() <= INLINE_BYTES_MAX
}
