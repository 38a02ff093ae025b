//! A copy of the database on another disk. Whoever opens the database writes to it: it clears the end
//! of its log and notes where it is. On a full disk it can't, and a copy is read instead. It must
//! not change what it copies, and not outlive its use for long: it holds what all tenants' tasks do.
//!
//! Who has a copy holds its folder locked until it is gone, so one that nobody holds is of a process
//! that died, and whoever opens a store next deletes it.

use std::env::temp_dir;
use std::fs::{self, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::process::geteuid;
use tempfile::TempDir;

use super::OpenError;
use super::disk::{COMMIT_ROOM_BYTES, has_free};
use super::offline::unusable;

const MIB: u64 = 1024 * 1024;

/// What a copy's name begins with.
const PREFIX: &str = "longshore-records-";

/// How often a copy is begun anew that another process took for one that nobody holds, and how often
/// one is deleted that is still being written.
const TRIES: u32 = 100;

/// The copies of this process, for its end.
static OWN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The copy; deleted when dropped.
pub(super) struct Scratch {
    copy: TempDir,
    /// Of the copy's folder, given up after it is deleted. None where folders can't be locked, and
    /// so nobody takes one for left behind.
    _lock: Option<File>,
}

impl Scratch {
    /// Copies the folder `place` of the store in `directory` into the directory for temporary files.
    pub(super) fn copy_of(directory: &Path, place: &Path) -> Result<Scratch, OpenError> {
        let elsewhere = temp_dir();
        let copied = Scratch::try_copy(place, &elsewhere);
        copied.map_err(|error| match error {
            Failure::Original(source) => unusable(directory, source),
            Failure::Copy { needed, source } => OpenError::NoScratch {
                directory: directory.display().to_string(),
                elsewhere: elsewhere.display().to_string(),
                needed_mib: needed.div_ceil(MIB),
                source,
            },
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.copy.path()
    }

    fn try_copy(place: &Path, elsewhere: &Path) -> Result<Scratch, Failure> {
        let mut files = Vec::new();
        let needed = list_files(place, Path::new(""), &mut files).map_err(Failure::Original)?;
        let copied = || -> io::Result<Scratch> {
            if !has_free(elsewhere, needed.saturating_add(COMMIT_ROOM_BYTES))? {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let scratch = Scratch::make(elsewhere)?;
            copy_files(place, &files, scratch.path())?;
            Ok(scratch)
        };
        copied().map_err(|source| Failure::Copy { needed, source })
    }

    /// An empty folder that this process holds.
    fn make(elsewhere: &Path) -> io::Result<Scratch> {
        // Held until the folder is among them, so that none is made behind `discard_copies`.
        let mut own = own();
        for _ in 0..TRIES {
            let copy = tempfile::Builder::new()
                .prefix(PREFIX)
                .permissions(Permissions::from_mode(0o700))
                .tempdir_in(elsewhere)?;
            if let Some(lock) = lock(copy.path())? {
                own.push(copy.path().to_owned());
                return Ok(Scratch { copy, _lock: lock });
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Held until it is gone, so that the end of the process waits for that.
        let mut own = own();
        let _ = fs::remove_dir_all(self.copy.path());
        own.retain(|path| path != self.copy.path());
    }
}

/// Locks a folder that was just made. The outer None: another process deletes it, or has.
fn lock(path: &Path) -> io::Result<Option<Option<File>>> {
    let folder = match open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        folder => folder?,
    };
    match folder.try_lock() {
        Ok(()) => Ok(is_at(&folder, path).then_some(Some(folder))),
        Err(TryLockError::WouldBlock) => Ok(None),
        // Not every file system can.
        Err(TryLockError::Error(_)) => Ok(Some(None)),
    }
}

/// Deletes the copies that nobody holds. What can't be deleted holds nobody up.
pub(super) fn sweep() {
    let entries = fs::read_dir(temp_dir()).into_iter().flatten().flatten();
    for entry in entries {
        if entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(PREFIX.as_bytes())
        {
            let _ = delete_if_left(&entry.path());
        }
    }
}

fn delete_if_left(path: &Path) -> io::Result<()> {
    let folder = open(path)?;
    let is_ours = folder.metadata()?.uid() == geteuid().as_raw();
    if is_ours && folder.try_lock().is_ok() && is_at(&folder, path) {
        fs::remove_dir_all(path)?;
    }
    Ok(())
}

/// Opens a folder, itself and not by a link: anybody may put something of that name there.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Whether the open folder is what `path` names.
fn is_at(folder: &File, path: &Path) -> bool {
    let same = || -> io::Result<bool> {
        let (open, named) = (folder.metadata()?, fs::symlink_metadata(path)?);
        Ok((open.dev(), open.ino()) == (named.dev(), named.ino()))
    };
    same().unwrap_or(false)
}

/// Deletes the copies of this process, which ends now, whatever its threads are at. None is made
/// after this.
pub fn discard_copies() {
    let own = own();
    for path in own.iter() {
        // A thread may be putting one more file there.
        let _ = (0..TRIES).try_for_each(|_| {
            let _ = fs::remove_dir_all(path);
            path.exists().then_some(())
        });
    }
    std::mem::forget(own);
}

fn own() -> MutexGuard<'static, Vec<PathBuf>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

enum Failure {
    Original(io::Error),
    Copy { needed: u64, source: io::Error },
}

/// Every file below `root/folder`, by its path from `root`; returns their bytes together.
fn list_files(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        let found = entry.metadata()?;
        if found.is_dir() {
            bytes += list_files(root, &path, files)?;
        } else {
            bytes += found.len();
            files.push(path);
        }
    }
    Ok(bytes)
}

fn copy_files(place: &Path, files: &[PathBuf], copy: &Path) -> io::Result<()> {
    for file in files {
        let target = copy.join(file);
        // The copy's own folder is there, or was taken away.
        if let Some(folder) = file.parent().filter(|folder| *folder != Path::new("")) {
            fs::create_dir_all(copy.join(folder))?;
        }
        fs::copy(place.join(file), target)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_dead_process_left_is_swept_and_what_is_held_is_not() {
        let held = Scratch::make(&temp_dir()).unwrap();
        let left = tempfile::Builder::new().prefix(PREFIX).tempdir().unwrap();
        fs::write(left.path().join("db"), "records").unwrap();
        sweep();
        assert!(held.path().exists());
        assert!(!left.path().exists());
        let path = held.path().to_owned();
        drop(held);
        assert!(!path.exists());
    }
}
