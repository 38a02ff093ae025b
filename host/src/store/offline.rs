//! A store opened for one command while no host has it: locked, of a format this version knows, and
//! with nothing swept, so that a check sees what is there.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::bodies::Bodies;
use super::core::{check_format, explain, refuse_loss};
use super::disk::{COMMIT_ROOM_BYTES, OPEN_ROOM_BYTES};
use super::logs::Logs;
use super::records::Records;
use super::scratch::{self, Scratch};
use super::watermark::lost_commits;
use super::{OpenError, StoreError, disk};

/// The database's folder in a data directory.
const RECORDS: &str = "records";

/// Page cache of a command that reads everything once, bytes.
pub(super) const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// The locked store.
pub(super) struct Offline {
    pub(super) directory: PathBuf,
    pub(super) records: Records,
    pub(super) bodies: Bodies,
    pub(super) logs: Logs,
    /// How many commits the database has forgotten.
    pub(super) lost_commits: u64,
    /// Where the records are read that can't be opened where they are; behind them, so that it goes
    /// after they are closed.
    _scratch: Option<Scratch>,
    /// Last, so that it is given up after the database is closed.
    pub(super) lock: File,
}

impl Offline {
    /// Opens the store in `directory`; makes none.
    pub(super) fn open(directory: &Path) -> Result<Offline, OpenError> {
        let lock = lock_existing(directory)?;
        Offline::open_locked(directory, lock, None)
    }

    /// The same for a command that only reads, which a full disk must not keep from it.
    pub(super) fn open_to_read(directory: &Path) -> Result<Offline, OpenError> {
        let lock = lock_existing(directory)?;
        let scratch = Offline::scratch_if_full(directory)?;
        Offline::open_locked(directory, lock, scratch)
    }

    /// None where the records are read in their own place.
    fn scratch_if_full(directory: &Path) -> Result<Option<Scratch>, OpenError> {
        let has_free =
            |bytes| disk::has_free(directory, bytes).map_err(|source| unusable(directory, source));
        if has_free(COMMIT_ROOM_BYTES)? {
            return Ok(None);
        }
        match Scratch::copy_of(directory, &directory.join(RECORDS)) {
            Err(OpenError::NoScratch { .. }) if has_free(OPEN_ROOM_BYTES)? => Ok(None),
            copied => copied.map(Some),
        }
    }

    fn open_locked(
        directory: &Path,
        lock: File,
        scratch: Option<Scratch>,
    ) -> Result<Offline, OpenError> {
        let unusable = |source| unusable(directory, source);
        let own = directory.join(RECORDS);
        let place = scratch.as_ref().map_or(&*own, Scratch::path);
        let unreadable = |error| explain(directory, error);
        let records = Records::open(place, CACHE_BYTES).map_err(unreadable)?;
        let lost_commits = lost_commits(place, &records).map_err(unreadable)?;
        check_format(directory, &records)?;
        Ok(Offline {
            _scratch: scratch,
            lost_commits,
            bodies: Bodies::open(directory.join("bodies")).map_err(unusable)?,
            logs: Logs::open(directory.join("logs")).map_err(unusable)?,
            directory: directory.to_owned(),
            records,
            lock,
        })
    }

    /// Refuses what has forgotten something, before it is taken for the whole.
    pub(super) fn refuse_loss(&self) -> Result<(), OpenError> {
        refuse_loss(&self.directory, self.lost_commits)
    }

    /// Says which store can't be read.
    pub(super) fn unreadable(&self, error: StoreError) -> OpenError {
        OpenError::Unreadable {
            directory: self.directory.display().to_string(),
            source: error,
        }
    }
}

/// Locks the store in `directory`, if there is one.
fn lock_existing(directory: &Path) -> Result<File, OpenError> {
    scratch::sweep();
    match directory.join(RECORDS).is_dir() {
        true => disk::lock(directory),
        false => Err(OpenError::Missing(directory.display().to_string())),
    }
}

pub(super) fn unusable(directory: &Path, source: io::Error) -> OpenError {
    OpenError::Directory {
        directory: directory.display().to_string(),
        source,
    }
}

/// Deletes a folder with all it holds; fine when there is none.
pub(super) fn delete_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
