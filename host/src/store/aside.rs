//! What the database keeps beside its log and can make anew: its settings, which are always the same
//! here, and a snapshot that spares it reading the log from the beginning. Without either it opens as
//! well; with a damaged one it does not. It must not touch the log.

use std::fs;
use std::io;
use std::path::Path;

/// The settings; they end with their checksum.
const SETTINGS: &str = "conf";

/// What names of snapshots begin with; they end with a length and their checksum.
const SNAPSHOT_PREFIX: &str = "snap.";

const CHECKSUM_BYTES: usize = 4;
const LENGTH_BYTES: usize = 8;

/// Deletes those that are not as they were written. Settings that are, and are others, stay: the
/// database is of another program then, and refuses to open. A log that has lost something is found by
/// the number of its last commit.
pub(super) fn drop_damaged(directory: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let (name, path) = {
            let entry = entry?;
            (entry.file_name(), entry.path())
        };
        let is_snapshot = name
            .as_encoded_bytes()
            .starts_with(SNAPSHOT_PREFIX.as_bytes());
        let end_bytes = match is_snapshot {
            true => LENGTH_BYTES + CHECKSUM_BYTES,
            false if name == SETTINGS => CHECKSUM_BYTES,
            false => continue,
        };
        if !is_whole(&fs::read(&path)?, end_bytes) {
            tracing::warn!(
                file = %path.display(),
                "a file that the database can make anew is damaged and was deleted; check the disk"
            );
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn is_whole(bytes: &[u8], end_bytes: usize) -> bool {
    let Some(length) = bytes
        .len()
        .checked_sub(end_bytes)
        .filter(|length| *length > 0)
    else {
        return false;
    };
    bytes.ends_with(&crc32fast::hash(&bytes[..length]).to_le_bytes())
}
