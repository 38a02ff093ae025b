//! A store opened for one command while no host has it: locked, of a format this version knows, and
//! with nothing swept, so that a check sees what is there.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::bodies::Bodies;
use super::core::{check_format, explain};
use super::logs::Logs;
use super::records::Records;
use super::{OpenError, StoreError, disk};

/// Page cache of a command that reads everything once, bytes.
pub(super) const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// The locked store.
pub(super) struct Offline {
    pub(super) directory: PathBuf,
    pub(super) records: Records,
    pub(super) bodies: Bodies,
    pub(super) logs: Logs,
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
        let records = Records::open(&directory.join("records"), CACHE_BYTES)
            .map_err(|error| explain(directory, error))?;
        check_format(directory, &records)?;
        Ok(Offline {
            bodies: Bodies::open(directory.join("bodies")).map_err(unusable)?,
            logs: Logs::open(directory.join("logs")).map_err(unusable)?,
            directory: directory.to_owned(),
            records,
            lock,
        })
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
