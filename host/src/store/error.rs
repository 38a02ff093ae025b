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
    #[error(
        "the database in {directory} has lost its last {commits} commits: its file is damaged; restore \
         a backup, or move what is left with `longshore store export --leave-out-damaged` and \
         `longshore store import` into a new directory"
    )]
    Lost { directory: String, commits: u64 },
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
        "the disk of the data directory {directory} is full, and a copy of its records could not be \
         read from {elsewhere} instead; make room on that disk, or set TMPDIR to a directory of \
         another one that has {needed_mib} MiB and some more"
    )]
    NoScratch {
        directory: String,
        elsewhere: String,
        needed_mib: u64,
        #[source]
        source: io::Error,
    },
    #[error(
        "the records in the data directory {directory} can't be read; restore the directory or an \
         export from a backup, or start with another one with --data-dir"
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
    #[error("task {task} can't be exported: {what}; --leave-out-damaged exports all the others")]
    Damaged { task: String, what: String },
    #[error("the store in {0} is not empty; import into a new one")]
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

/// What became of a body that is not as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Damage {
    #[error("its file is missing")]
    Missing,
    #[error("its file has {found} bytes, and {expected} were written")]
    Length { found: u64, expected: u64 },
    #[error("its file does not hold what was written")]
    Content,
    #[error("its record names no file")]
    Reference,
}

/// Why a body can't be read.
#[derive(Debug, Error)]
pub(super) enum BodyError {
    #[error(transparent)]
    Damaged(#[from] Damage),
    #[error(transparent)]
    File(io::Error),
}

/// Why a record could not be read or written.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    #[error("the disk has less than {min_mib} MiB free; new tasks are refused until there is more")]
    DiskFull { min_mib: u64 },
    #[error("the disk is full, and nothing can be stored until it has room; try again later")]
    NoRoom,
    #[error(
        "{0} tasks of this tenant have not ended yet, which is the limit; cancel some or wait for them"
    )]
    TooManyTasks(usize),
    #[error("the stored {what} can't be used: {damage}; call the tool again")]
    Damaged { what: &'static str, damage: Damage },
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
    #[error(
        "{max} bytes of large results are kept for this tenant, which is the limit; wait until older \
         ones expire, or have the tool return less"
    )]
    TooManyResults { max: u64 },
    #[error("the round was begun already")]
    RoundUsed,
    #[error("the round is over")]
    RoundOver,
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

impl From<io::Error> for BodyError {
    fn from(error: io::Error) -> BodyError {
        match error.kind() {
            io::ErrorKind::NotFound => BodyError::Damaged(Damage::Missing),
            _ => BodyError::File(error),
        }
    }
}

impl BodyError {
    /// Says what of the task can't be read.
    pub(super) fn of(self, what: &'static str) -> StoreError {
        match self {
            BodyError::Damaged(damage) => StoreError::Damaged { what, damage },
            BodyError::File(error) => error.into(),
        }
    }
}

impl From<sled::Error> for StoreError {
    fn from(error: sled::Error) -> StoreError {
        StoreError::Records(Arc::new(error))
    }
}
