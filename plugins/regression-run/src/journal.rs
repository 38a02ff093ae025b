//! What a run has done so far: counted, and small enough to be saved after every case. A later run
//! goes on from it.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::Failure;

/// Of all failures' excerpts and commands that is kept, bytes; later failures keep their reason.
/// Checkpoint and result must stay well under the host's limits.
const DETAIL_MAX_BYTES: usize = 192 * 1024;

/// Of a reason that is kept once there is no room for detail, bytes.
const SHORT_REASON_BYTES: usize = 120;

/// The state of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    /// Fingerprints of the paths of cases that are done.
    done: BTreeSet<u64>,
    /// In the order they failed.
    failing: Vec<Failing>,
    detail_bytes: usize,
    /// Time all earlier runs took, ms.
    pub elapsed_ms: u64,
}

/// A case that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failing {
    /// The case's file, below the directory of cases.
    pub path: String,
    /// What the case calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The first difference, in one line.
    pub reason: String,
    /// What the case expects; absent when the run had no room left for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What came instead, with an excerpt of the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
    /// Sends the request again from a shell; absent when the file is not a case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curl: Option<String>,
}

impl Failing {
    pub fn new(
        path: &str,
        name: Option<String>,
        failure: Failure,
        curl: Option<String>,
    ) -> Failing {
        Failing {
            path: path.to_owned(),
            name,
            reason: failure.reason,
            expected: Some(failure.expected),
            actual: Some(failure.actual),
            curl,
        }
    }

    fn size(&self) -> usize {
        let optional = [&self.name, &self.expected, &self.actual, &self.curl];
        let texts = optional.into_iter().flatten().map(String::len);
        texts.sum::<usize>() + self.reason.len()
    }

    fn shorten(&mut self) {
        self.reason = crate::text::excerpt(&self.reason, SHORT_REASON_BYTES);
        (self.name, self.expected, self.actual, self.curl) = (None, None, None, None);
    }
}

impl Journal {
    /// What an earlier run saved; None when it is not readable.
    pub fn read(saved: &[u8]) -> Option<Journal> {
        serde_json::from_slice(saved).ok()
    }

    pub fn is_done(&self, path: &str) -> bool {
        self.done.contains(&fingerprint(path))
    }

    pub fn pass(&mut self, path: &str) {
        self.done.insert(fingerprint(path));
    }

    pub fn fail(&mut self, mut failing: Failing) {
        if !self.done.insert(fingerprint(&failing.path)) {
            return;
        }
        let size = failing.size();
        if self.detail_bytes + size <= DETAIL_MAX_BYTES {
            self.detail_bytes += size;
        } else {
            failing.shorten();
        }
        self.failing.push(failing);
    }

    pub fn done(&self) -> usize {
        self.done.len()
    }

    pub fn failing(&self) -> &[Failing] {
        &self.failing
    }

    /// Whatever is not among `paths` no longer counts: the files changed between two runs.
    pub fn keep_only(&mut self, paths: &[String]) {
        let present: BTreeSet<u64> = paths.iter().map(|path| fingerprint(path)).collect();
        self.done.retain(|done| present.contains(done));
        self.failing
            .retain(|failing| present.contains(&fingerprint(&failing.path)));
    }
}

/// FNV-1a of 64 bits: the same in every run, and a path's fixed small size in the checkpoint.
fn fingerprint(path: &str) -> u64 {
    path.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::CASES_MAX;

    fn failing(path: &str, bytes: usize) -> Failing {
        Failing {
            path: path.to_owned(),
            name: Some("name".to_owned()),
            reason: "x".repeat(bytes),
            expected: Some("y".repeat(bytes)),
            actual: Some("z".repeat(bytes)),
            curl: Some("curl".to_owned()),
        }
    }

    #[test]
    fn a_saved_journal_reads_back_the_same() {
        let mut journal = Journal::default();
        journal.pass("a.toml");
        journal.fail(failing("b.toml", 3));
        journal.elapsed_ms = 7;
        let saved = serde_json::to_vec(&journal).unwrap();
        assert_eq!(Journal::read(&saved), Some(journal.clone()));
        assert!(journal.is_done("a.toml") && journal.is_done("b.toml"));
        assert!(!journal.is_done("c.toml"));
    }

    #[test]
    fn a_case_counts_once() {
        let mut journal = Journal::default();
        journal.fail(failing("a.toml", 3));
        journal.fail(failing("a.toml", 3));
        journal.pass("a.toml");
        assert_eq!((journal.done(), journal.failing().len()), (1, 1));
    }

    #[test]
    fn cases_that_are_gone_no_longer_count() {
        let mut journal = Journal::default();
        journal.pass("a.toml");
        journal.fail(failing("b.toml", 3));
        journal.keep_only(&["a.toml".to_owned(), "c.toml".to_owned()]);
        assert_eq!((journal.done(), journal.failing().len()), (1, 0));
    }

    #[test]
    fn a_journal_of_nothing_but_long_failures_stays_small() {
        let mut journal = Journal::default();
        for index in 0..CASES_MAX {
            journal.fail(failing(&format!("{index:04}/{}", "p".repeat(200)), 600));
        }
        let saved = serde_json::to_vec(&journal).unwrap();
        assert!(saved.len() < 1_000_000, "{} bytes", saved.len());
        assert!(journal.failing()[0].expected.is_some());
        let last = journal.failing().last().unwrap();
        assert!(last.expected.is_none() && last.reason.len() < 160);
    }
}
