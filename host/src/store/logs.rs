//! What a task's guest wrote to its standard output and error: one file a task, appended, bounded,
//! never on the wire. Not made durable: it is for reading, nothing is decided by it.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::task::{TaskId, TaskKey, TenantId};

/// What a task's log may hold, bytes, with the line that says so.
pub(super) const LOG_BYTES_MAX: usize = 256 * 1024;

/// The last line of a log that is full.
pub(super) const LIMIT_LINE: &[u8] = b"\nlog limit reached\n";

const TEXT_BYTES_MAX: usize = LOG_BYTES_MAX - LIMIT_LINE.len();

/// Tasks share this many locks.
const LOCKS: usize = 16;

/// The folder of all logs: `<tenant>/<task id>.log`.
pub(super) struct Logs {
    root: PathBuf,
    /// Held from reading a log's length to writing it, so that it is cut only once.
    locks: [Mutex<()>; LOCKS],
}

impl Logs {
    pub(super) fn open(root: PathBuf) -> io::Result<Logs> {
        fs::create_dir_all(&root)?;
        Ok(Logs {
            root,
            locks: Default::default(),
        })
    }

    /// Appends what still fits. `exists` says whether there is such a task; asked under the log's
    /// lock, so that a removed task's log does not come back.
    pub(super) fn append<E: From<io::Error>>(
        &self,
        key: &TaskKey,
        text: &[u8],
        exists: impl FnOnce() -> Result<bool, E>,
    ) -> Result<(), E> {
        let _held = self.lock(key);
        if !exists()? {
            return Ok(());
        }
        fs::create_dir_all(self.root.join(key.tenant.as_str()))?;
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.path(key))?;
        let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        if length > TEXT_BYTES_MAX {
            return Ok(());
        }
        let room = TEXT_BYTES_MAX - length;
        if text.len() <= room {
            file.write_all(text)?;
        } else {
            file.write_all(&[&text[..room], LIMIT_LINE].concat())?;
        }
        Ok(())
    }

    /// The whole log, which is never longer than [`LOG_BYTES_MAX`]; empty when there is none.
    pub(super) fn read(&self, key: &TaskKey) -> io::Result<Vec<u8>> {
        let _held = self.lock(key);
        let mut text = Vec::new();
        match File::open(self.path(key)) {
            // A file that somebody else made longer must not be read into memory whole.
            Ok(file) => file.take(LOG_BYTES_MAX as u64).read_to_end(&mut text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        Ok(text)
    }

    /// Deletes a task's log.
    pub(super) fn delete(&self, key: &TaskKey) {
        let _held = self.lock(key);
        match fs::remove_file(self.path(key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "the log of a removed task is still there");
            }
            _ => {}
        }
    }

    /// Deletes the logs of tasks that do not exist.
    pub(super) fn sweep<E: From<io::Error>>(
        &self,
        exists: impl Fn(&TaskKey) -> Result<bool, E>,
    ) -> Result<(), E> {
        for key in self.tasks()? {
            if !exists(&key)? {
                self.delete(&key);
            }
        }
        Ok(())
    }

    /// The tasks that have a log. Names that are not ours are left alone.
    pub(super) fn tasks(&self) -> io::Result<Vec<TaskKey>> {
        let mut tasks = Vec::new();
        for folder in fs::read_dir(&self.root)? {
            let folder = folder?;
            let name = folder.file_name();
            let Some(tenant) = name.to_str().and_then(|name| TenantId::parse(name).ok()) else {
                continue;
            };
            for log in fs::read_dir(folder.path())? {
                let name = log?.file_name();
                let id = name.to_str().and_then(|name| name.strip_suffix(".log"));
                if let Some(id) = id.and_then(|id| TaskId::parse(id).ok()) {
                    let tenant = tenant.clone();
                    tasks.push(TaskKey { tenant, id });
                }
            }
        }
        Ok(tasks)
    }

    fn path(&self, key: &TaskKey) -> PathBuf {
        let folder = self.root.join(key.tenant.as_str());
        folder.join(format!("{}.log", key.id))
    }

    fn lock(&self, key: &TaskKey) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let index = usize::try_from(hasher.finish() % LOCKS as u64).unwrap_or_default();
        let lock = &self.locks[index];
        lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
