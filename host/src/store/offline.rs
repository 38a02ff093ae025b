//! A store opened for one command while no host has it: locked, of a format this version knows, and
//! with nothing swept, so that a check sees what is there.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::bodies::Bodies;
use super::core::{check_format, explain, refuse_loss};
use super::logs::Logs;
use super::records::Records;
use super::watermark::lost_commits;
use super::{OpenError, StoreError, disk};

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
    /// Last, so that it is given up after the database is closed.
    pub(super) lock: File,
}

impl Offline {
    /// Opens the store in `directory`; makes none.
    pub(super) fn open(directory: &Path) -> Result<Offline, OpenError> {
        if !directory.join("records").is_dir() {
            return Err(OpenError::Missing(directory.display().to_string()));
        }
        let unusable = |source| unusable(directory, source);
        let lock = disk::lock(directory)?;
        let place = directory.join("records");
        let unreadable = |error| explain(directory, error);
        let records = Records::open(&place, CACHE_BYTES).map_err(unreadable)?;
        let lost_commits = lost_commits(&place, &records).map_err(unreadable)?;
        check_format(directory, &records)?;
        Ok(Offline {
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
