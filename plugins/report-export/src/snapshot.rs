//! A report that is not finished: where the reading stands and what the groups hold.
//!
//! It is the working state of an export, and its saved form goes into checkpoints and into the
//! partial file that a cancel leaves behind. Must not read or write files.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::aggregate::Groups;
use crate::arguments::UnevenRows;
use crate::csv::Position;

/// Tells a saved form from any other file; the number changes with the form.
const MARK: &[u8] = b"report-export 1\n";

/// The state of an export.
#[derive(Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// The arguments that the groups depend on.
    pub fingerprint: String,
    pub input: InputIdentity,
    /// Everything before it is in the groups.
    pub position: Position,
    /// Records after the header, the skipped ones included.
    pub rows_read: u64,
    /// Rows left out for their number of fields.
    pub rows_skipped: u64,
    /// Rows that were padded or cut.
    pub rows_fitted: u64,
    /// What was decided about uneven rows, by the arguments or a person.
    pub uneven_rows: Option<UnevenRows>,
    /// The output names are free, or may be written over.
    pub may_write: bool,
    /// The report's files are being put in place: what exists there may be its own.
    pub is_publishing: bool,
    /// Where the partial file of an earlier call was taken up, also over a wait; 0 without one.
    pub continued_from_bytes: u64,
    pub groups: Groups,
}

/// What tells that a file is still the one that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputIdentity {
    pub bytes: u64,
    /// Since the Unix epoch; none where the file system does not tell.
    pub modified_ns: Option<u64>,
}

/// Why a saved form is no use here.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum SnapshotError {
    #[error("it was written by another version of report-export")]
    OtherVersion,
    #[error("it is damaged")]
    Damaged,
    #[error("it belongs to a call with other arguments")]
    OtherArguments,
    #[error("the input file changed since")]
    InputChanged,
}

impl Snapshot {
    /// The saved form, well under 4 MiB.
    pub fn encode(&self) -> Vec<u8> {
        // The only failures postcard has here are of a fixed buffer and of a sequence without
        // length; there is neither.
        postcard::to_extend(self, MARK.to_vec()).expect("a snapshot can always be encoded")
    }

    /// Reads a saved form for an export of `columns` (grouped and measured) from `input`.
    pub fn decode(
        saved: &[u8],
        fingerprint: &str,
        input: &InputIdentity,
        columns: (usize, usize),
    ) -> Result<Snapshot, SnapshotError> {
        let saved = saved
            .strip_prefix(MARK)
            .ok_or(SnapshotError::OtherVersion)?;
        let snapshot: Snapshot = postcard::from_bytes(saved).map_err(|_| SnapshotError::Damaged)?;
        if snapshot.fingerprint != fingerprint {
            return Err(SnapshotError::OtherArguments);
        }
        if snapshot.input != *input {
            return Err(SnapshotError::InputChanged);
        }
        if !snapshot.groups.fits(columns.0, columns.1) || snapshot.position.offset > input.bytes {
            return Err(SnapshotError::Damaged);
        }
        Ok(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> Snapshot {
        Snapshot {
            fingerprint: "f".into(),
            input: InputIdentity {
                bytes: 100,
                modified_ns: Some(5),
            },
            position: Position {
                offset: 40,
                line: 3,
            },
            rows_read: 2,
            rows_skipped: 1,
            rows_fitted: 0,
            uneven_rows: Some(UnevenRows::Fit),
            may_write: true,
            is_publishing: false,
            continued_from_bytes: 0,
            groups: Groups::new(1),
        }
    }

    #[test]
    fn a_snapshot_comes_back_for_the_call_it_belongs_to_and_for_no_other() {
        let (saved, input) = (snapshot().encode(), snapshot().input);
        let read = Snapshot::decode(&saved, "f", &input, (2, 1)).unwrap();
        assert_eq!(
            read.position,
            Position {
                offset: 40,
                line: 3
            }
        );
        assert_eq!(read.uneven_rows, Some(UnevenRows::Fit));

        let refused = |fingerprint, input: &InputIdentity, columns| {
            Snapshot::decode(&saved, fingerprint, input, columns).unwrap_err()
        };
        assert_eq!(refused("g", &input, (2, 1)), SnapshotError::OtherArguments);
        assert_eq!(refused("f", &input, (2, 2)), SnapshotError::Damaged);
        let changed = InputIdentity {
            modified_ns: Some(6),
            ..input.clone()
        };
        assert_eq!(refused("f", &changed, (2, 1)), SnapshotError::InputChanged);
    }

    #[test]
    fn damage_is_told_and_never_panics() {
        let (saved, input) = (snapshot().encode(), snapshot().input);
        for length in 0..saved.len() {
            assert!(Snapshot::decode(&saved[..length], "f", &input, (2, 1)).is_err());
        }
        for place in 0..saved.len() {
            let mut damaged = saved.clone();
            damaged[place] ^= 0xff;
            let _ = Snapshot::decode(&damaged, "f", &input, (2, 1));
        }
    }
}
