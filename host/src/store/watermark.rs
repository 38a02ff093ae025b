//! How many commits were acknowledged, in a file beside the database. A database whose log is
//! damaged takes all that comes behind the damage for a write that was cut short, and forgets it
//! without a word; the number of its last commit is then below the one here (I8). What follows from
//! a loss is decided elsewhere.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::keys;
use super::records::Records;

/// The file in the database's folder, so that the two are kept and restored together.
const NAME: &str = "watermark";

/// The number and its complement, so that a torn write is no number.
const BYTES: usize = 16;

pub(super) struct Watermark {
    file: File,
}

impl Watermark {
    /// Opens or creates the one beside the database in `place`.
    pub(super) fn open(place: &Path) -> io::Result<Watermark> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(place.join(NAME))?;
        Ok(Watermark { file })
    }

    /// Notes that commit `number` is durable. Not synced: a kill leaves it as it is, and what a power
    /// cut leaves is older than the database, which tells less and nothing wrong.
    pub(super) fn write(&self, number: u64) -> io::Result<()> {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        bytes[8..].copy_from_slice(&(!number).to_be_bytes());
        self.file.write_all_at(&bytes, 0)
    }
}

/// How many commits the database in `place` has forgotten, as far as can be told.
pub(super) fn lost_commits(place: &Path, records: &Records) -> Result<u64, sled::Error> {
    let noted = fs::read(place.join(NAME)).ok().and_then(|it| read(&it));
    let last = last_commit(records)?;
    Ok(noted.unwrap_or_default().saturating_sub(last))
}

/// The number of the last commit that the database knows of.
pub(super) fn last_commit(records: &Records) -> Result<u64, sled::Error> {
    let value = records.get(keys::COMMITS)?;
    let number = value.and_then(|value| value.as_ref().try_into().ok());
    Ok(number.map_or(0, u64::from_be_bytes))
}

fn read(bytes: &[u8]) -> Option<u64> {
    let (number, complement) = bytes.split_first_chunk()?;
    let number = u64::from_be_bytes(*number);
    (complement == (!number).to_be_bytes()).then_some(number)
}
