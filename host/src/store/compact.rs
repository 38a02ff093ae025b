//! Writes the records anew without what updates have left behind, and puts the copy in the place of
//! the old in one step. The database never gives space back by itself.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::disk::sync_directory;
use super::offline::{CACHE_BYTES, Offline, delete_folder, unusable};
use super::records::{Records, Writes};
use super::{OpenError, StoreError, core::explain};

/// The copy while it is made, and the old records while they are deleted.
pub(super) const COPY: &str = "records.new";

/// How much one commit of the copy takes, bytes of keys and values.
const COMMIT_BYTES: usize = 4 * 1024 * 1024;

/// What a compaction came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    pub records: u64,
    pub bytes_before: u64,
    pub bytes_after: u64,
}

/// Compacts the store in `directory`, which no host may have open. Whatever interrupts it, the
/// records are the old ones or the new ones, whole.
pub fn compact(directory: &Path) -> Result<Compacted, OpenError> {
    let offline = Offline::open(directory)?;
    offline.refuse_loss()?;
    let unusable = |source| unusable(directory, source);
    let (place, copy) = (directory.join("records"), directory.join(COPY));
    delete_folder(&copy).map_err(unusable)?;
    let bytes_before = disk_bytes(&place).map_err(unusable)?;
    let outcome = write_copy(&offline, &copy).and_then(|records| {
        verify(&offline, &copy)?;
        Ok(records)
    });
    let records = outcome.inspect_err(|_| {
        // What is left of it is deleted by the next start, too.
        let _ = delete_folder(&copy);
    })?;
    let Offline {
        records: old, lock, ..
    } = offline;
    drop(old);
    renameat_with(CWD, &place, CWD, &copy, RenameFlags::EXCHANGE)
        .map_err(|error| unusable(error.into()))?;
    sync_directory(directory).map_err(unusable)?;
    delete_folder(&copy).map_err(unusable)?;
    let bytes_after = disk_bytes(&place).map_err(unusable)?;
    drop(lock);
    Ok(Compacted {
        records,
        bytes_before,
        bytes_after,
    })
}

/// Copies every record; returns how many there are.
fn write_copy(offline: &Offline, copy: &Path) -> Result<u64, OpenError> {
    let new = Records::open(copy, CACHE_BYTES).map_err(|error| explain(copy, error))?;
    let outcome = copy_all(&offline.records, &new);
    outcome.map_err(|error| offline.unreadable(error))
}

fn copy_all(old: &Records, new: &Records) -> Result<u64, StoreError> {
    let mut count = 0;
    let mut bytes = 0;
    let mut writes = Writes::new();
    for entry in old.scan(b"") {
        let (key, value) = entry?;
        count += 1;
        bytes += key.len() + value.len();
        writes.insert(key.to_vec(), Some(value.to_vec()));
        if bytes >= COMMIT_BYTES {
            new.commit(std::mem::take(&mut writes))?;
            bytes = 0;
        }
    }
    new.commit(writes)?;
    Ok(count)
}

/// Opens the copy again and compares it record by record.
fn verify(offline: &Offline, copy: &Path) -> Result<(), OpenError> {
    let new = Records::open(copy, CACHE_BYTES).map_err(|error| explain(copy, error))?;
    let is_same = || -> Result<bool, StoreError> {
        let mut copied = new.scan(b"");
        for entry in offline.records.scan(b"") {
            let original = entry?;
            if copied.next().transpose()? != Some(original) {
                return Ok(false);
            }
        }
        Ok(copied.next().is_none())
    };
    match is_same().map_err(|error| offline.unreadable(error))? {
        true => Ok(()),
        false => Err(OpenError::BadCopy(offline.directory.display().to_string())),
    }
}

/// What a folder takes of the disk, bytes.
fn disk_bytes(folder: &Path) -> io::Result<u64> {
    /// `st_blocks` counts in these, whatever the file system's own.
    const BLOCK_BYTES: u64 = 512;
    let mut total = 0;
    let mut open: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let found = entry.metadata()?;
            match found.is_dir() {
                true => open.push(entry.path()),
                false => total += found.blocks() * BLOCK_BYTES,
            }
        }
    }
    Ok(total)
}
