//! What can go wrong in the store.

use std::io;
use std::sync::Arc;

use thiserror::Error;

use super::codec::RecordError;
use crate::task::Rejected;

/// Why a store can't be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    #[error(
        "another process uses the data directory {0}; stop it, or choose another with --data-dir"
    )]
    InUse(String),
    #[error(
        "the data directory {directory} was written by a newer version (format {found}, this one \
         reads up to {supported}); use that version, or choose another directory with --data-dir"
    )]
    NewerFormat {
        directory: String,
        found: u8,
        supported: u8,
    },
    #[error("there is no store in {0}; say which data directory with --data-dir")]
    Missing(String),
    #[error("the copy of the records of {0} was not the same; nothing was changed")]
    BadCopy(String),
    #[error("the store in {directory} can't be read")]
    Unreadable {
        directory: String,
        #[source]
        source: StoreError,
    },
    #[error(
        "the data directory {0} holds a database of something else; choose another with --data-dir"
    )]
    Foreign(String),
    #[error(
        "the data directory {directory} can't be used; check that it may be written and that its \
         disk has room"
    )]
    Directory {
        directory: String,
        #[source]
        source: io::Error,
    },
    #[error(
        "the records in the data directory {directory} can't be read; restore them from a backup, \
         or choose another directory with --data-dir"
    )]
    Records {
        directory: String,
        #[source]
        source: sled::Error,
    },
}

/// Why a store can't be exported or imported.
#[derive(Debug, Error)]
pub enum TransferError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("the store can't be read or written")]
    Store(#[from] StoreError),
    #[error("task {task} can't be exported: {what}")]
    Damaged { task: String, what: String },
    #[error("the store in {0} has tasks; import into a new one")]
    NotEmpty(String),
    #[error("the export can't be written")]
    Write(#[source] io::Error),
    #[error("the export can't be read")]
    Read(#[source] io::Error),
    #[error("line {number} of the export can't be used: {what}; nothing was imported")]
    Line { number: u64, what: String },
    #[error(
        "the export was made by a newer version (format {found}, this one reads up to {supported}); \
         import it with that version"
    )]
    Newer { found: u8, supported: u8 },
    #[error("the export ends too early; nothing was imported")]
    Incomplete,
}

/// Why a record could not be read or written.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    #[error("the disk has less than {min_mib} MiB free; new tasks are refused until there is more")]
    DiskFull { min_mib: u64 },
    #[error("the store is closed")]
    Closed,
    #[error("a task with this id exists")]
    Exists,
    #[error("a task's record would be {bytes} bytes, and {max} is the most; shorten its texts")]
    TooLarge { bytes: usize, max: usize },
    #[error(
        "calls of this tenant that wait for answers left {max} bytes with the host, which is the \
         limit; answer some, or try again in a few minutes"
    )]
    TooManyRounds { max: u64 },
    #[error("the round was begun already")]
    RoundUsed,
    #[error("a record can't be used")]
    Record(#[source] Arc<RecordError>),
    #[error("a file of the data directory can't be read or written")]
    File(#[source] Arc<io::Error>),
    #[error(
        "the records can't be read or written; nothing more is until the disk is in order and the \
         host is started again"
    )]
    Records(#[source] Arc<sled::Error>),
    #[error("the committer ended unexpectedly; start the host again")]
    CommitterLost,
}

/// Why an event changed nothing.
#[derive(Clone, Debug, Error)]
pub enum UpdateError {
    #[error("no such task")]
    Unknown,
    #[error(transparent)]
    Rejected(#[from] Rejected),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<RecordError> for StoreError {
    fn from(error: RecordError) -> StoreError {
        StoreError::Record(Arc::new(error))
    }
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> StoreError {
        StoreError::File(Arc::new(error))
    }
}

impl From<sled::Error> for StoreError {
    fn from(error: sled::Error) -> StoreError {
        StoreError::Records(Arc::new(error))
    }
}
