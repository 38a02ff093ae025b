//! The data directory as a place: who may use it, how much room its disk has, and what makes a new
//! name in it durable. It must not know what the files hold.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

use super::{OpenError, StoreError};

const MIB: u64 = 1024 * 1024;

const LOCK: &str = "lock";

/// What a commit has to find: the database may begin two segments of 8 MiB, and after an error it
/// takes nothing more until it is opened again.
pub(super) const COMMIT_ROOM_BYTES: u64 = 16 * MIB;

/// What opening the database takes at least: it clears the end of its log, a segment.
pub(super) const OPEN_ROOM_BYTES: u64 = 8 * MIB;

/// What is kept aside so that a store whose disk is full can be opened once more, which takes a
/// segment, and has room for some commits then.
const BALLAST_BYTES: u64 = 32 * MIB;

/// Guards against a full disk.
pub(super) struct Disk {
    directory: PathBuf,
    free_min_bytes: u64,
}

impl Disk {
    pub(super) fn new(directory: &Path, free_min_bytes: u64) -> Disk {
        Disk {
            directory: directory.to_owned(),
            free_min_bytes,
        }
    }

    /// Refuses when a new task could fill the disk: a full one takes no updates either.
    pub(super) fn check_room(&self) -> Result<(), StoreError> {
        if free_bytes(&self.directory)? < self.free_min_bytes {
            let min_mib = self.free_min_bytes.div_ceil(MIB);
            return Err(StoreError::DiskFull { min_mib });
        }
        Ok(())
    }

    /// Whether so many bytes are free. What can't be measured holds nobody up.
    pub(super) fn has_free(&self, bytes: u64) -> bool {
        has_free(&self.directory, bytes).unwrap_or(true)
    }

    /// Gives the ballast up when the disk is too full to open the store without.
    pub(super) fn release_ballast(&self) -> io::Result<()> {
        if has_free(&self.directory, BALLAST_BYTES)? {
            return Ok(());
        }
        match fs::remove_file(self.ballast()) {
            Ok(()) => {
                tracing::warn!("the disk is full; the space kept aside is used to open the store");
                sync_directory(&self.directory)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Keeps the ballast aside if there is room for it. Without it the store works all the same.
    pub(super) fn keep_ballast(&self) {
        if let Err(error) = self.make_ballast() {
            tracing::warn!(%error, "no space could be kept aside for opening a store on a full disk");
        }
    }

    fn make_ballast(&self) -> io::Result<()> {
        let path = self.ballast();
        let wanted = self.free_min_bytes.saturating_add(BALLAST_BYTES);
        let is_whole = fs::metadata(&path).is_ok_and(|found| found.len() == BALLAST_BYTES);
        if is_whole || free_bytes(&self.directory)? < wanted {
            return Ok(());
        }
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)?;
        let reserved = fallocate(&file, FallocateFlags::empty(), 0, BALLAST_BYTES);
        if let Err(error) = reserved.and_then(|()| rustix::fs::fsync(&file)) {
            // A file system without fallocate; an empty ballast would only look like one.
            fs::remove_file(&path)?;
            return Err(error.into());
        }
        Ok(())
    }

    /// Whether the directory is where it was when the lock was taken.
    pub(super) fn is_in_place(&self, lock: &File) -> bool {
        is_locked_by(&self.directory, lock)
    }

    fn ballast(&self) -> PathBuf {
        self.directory.join("ballast")
    }
}

/// Whether so many bytes are free on the disk of `directory`.
pub(super) fn has_free(directory: &Path, bytes: u64) -> io::Result<bool> {
    Ok(free_bytes(directory)? >= bytes)
}

/// Whether the directory is still the one that `lock` was taken of, and not deleted, moved or exchanged.
pub(super) fn is_locked_by(directory: &Path, lock: &File) -> bool {
    let same = || -> io::Result<bool> {
        let (open, named) = (lock.metadata()?, fs::metadata(directory.join(LOCK))?);
        Ok((open.dev(), open.ino()) == (named.dev(), named.ino()))
    };
    same().unwrap_or(false)
}

/// Takes the directory for this process until the file is dropped.
pub(super) fn lock(directory: &Path) -> Result<File, OpenError> {
    let name = || directory.display().to_string();
    let unusable = |source| OpenError::Directory {
        directory: name(),
        source,
    };
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(directory.join(LOCK))
        .map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(name())),
        Err(TryLockError::Error(source)) => Err(unusable(source)),
    }
}

/// Makes the names in a directory durable.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn free_bytes(directory: &Path) -> io::Result<u64> {
    let found = statvfs(directory)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}
