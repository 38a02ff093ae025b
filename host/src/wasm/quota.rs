//! How much of the disk a granted directory takes, against its quota (I6). What a guest is about to
//! write is charged before it is written, never less than it takes; what that charges too much, and
//! what is deleted, comes back when the directory is measured again. So the sum on the disk does not
//! exceed the quota, however many runs write, but for one case: the system may still be busy with the
//! last write of a run that was ended by force, whose charge a measurement has given back by then.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// A file system's usual unit. Every file and directory counts as at least one, so that a quota
/// bounds their number, too.
pub(super) const BLOCK_BYTES: u64 = 4_096;

/// `st_blocks` counts in these, whatever the file system's own.
const STAT_BLOCK_BYTES: u64 = 512;

/// After a measurement that took a while, the next one waits so many times as long: a guest at its
/// quota must not keep the host busy with measuring. It waits meanwhile.
const REST_FACTOR: u32 = 20;

/// The accounts of all directories with a quota that a run has open. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Accounts(Arc<Mutex<HashMap<PathBuf, Weak<Account>>>>);

/// One directory's account, shared by all runs that write there.
struct Account {
    root: PathBuf,
    ledger: Mutex<Ledger>,
    /// One measurement at a time, on one thread: others wait for their turn without one, and are
    /// forgotten when their run ends (I6).
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Ledger {
    /// What was found at the last measurement; None before the first.
    found_bytes: Option<u64>,
    /// Charged since, and written.
    written_bytes: u64,
    /// Charged, and perhaps not on the disk yet.
    pending_bytes: u64,
    /// When the last measurement began.
    measured_at: Option<Instant>,
    /// When the next one may begin.
    rested_at: Option<Instant>,
}

/// A directory's account and what it may take. Cheap to clone.
#[derive(Clone)]
pub(super) struct Allotment {
    account: Arc<Account>,
    max_bytes: u64,
}

/// A charge for a write; it counts as pending until it is dropped.
pub(super) struct Charge {
    account: Arc<Account>,
    bytes: u64,
}

impl Accounts {
    /// The account of a directory. May block.
    pub fn open(&self, directory: &Path, max_bytes: u64) -> io::Result<Allotment> {
        let root = std::fs::canonicalize(directory)?;
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, account| account.strong_count() > 0);
        let account = match open.get(&root).and_then(Weak::upgrade) {
            Some(account) => account,
            None => {
                let account = Arc::new(Account {
                    root: root.clone(),
                    ledger: Mutex::default(),
                    turn: Arc::default(),
                });
                open.insert(root, Arc::downgrade(&account));
                account
            }
        };
        Ok(Allotment { account, max_bytes })
    }
}

impl Allotment {
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Whether both are of one directory.
    pub fn is_same(&self, other: &Allotment) -> bool {
        Arc::ptr_eq(&self.account, &other.account)
    }

    /// How many bytes a write may have that is charged now, without measuring.
    pub fn room_bytes(&self) -> u64 {
        let free = self.account.lock().free_bytes(self.max_bytes);
        (free / BLOCK_BYTES).saturating_sub(1) * BLOCK_BYTES
    }

    /// Charges a write of `length` bytes if there is room for it as far as is known.
    pub fn try_charge(&self, length: u64) -> Option<Charge> {
        let bytes = cost_bytes(length);
        let mut ledger = self.account.lock();
        if ledger.free_bytes(self.max_bytes) < bytes {
            return None;
        }
        ledger.pending_bytes += bytes;
        Some(Charge {
            account: Arc::clone(&self.account),
            bytes,
        })
    }

    /// As [`Allotment::try_charge`], after a measurement where that would help.
    pub async fn charge(&self, length: u64) -> Option<Charge> {
        if let Some(charge) = self.try_charge(length) {
            return Some(charge);
        }
        self.measure().await;
        self.try_charge(length)
    }

    /// Looks at what the directory takes. Waits its turn: a guest at its quota is slowed down, and
    /// not told that a directory is full which it may just have emptied.
    pub async fn measure(&self) {
        let asked_at = Instant::now();
        let turn = Arc::clone(&self.account.turn).lock_owned().await;
        let (measured_at, rested_at) = {
            let ledger = self.account.lock();
            (ledger.measured_at, ledger.rested_at)
        };
        // Another run's measurement has seen what this one wants to know.
        if measured_at.is_some_and(|measured_at| measured_at >= asked_at) {
            return;
        }
        if let Some(rested_at) = rested_at {
            tokio::time::sleep_until(rested_at.into()).await;
        }
        let account = Arc::clone(&self.account);
        let measured = tokio::task::spawn_blocking(move || {
            // Until the thread is free again, also when nobody waits for it any more.
            let _turn = turn;
            account.measure()
        });
        if let Ok(Err(error)) = measured.await {
            tracing::warn!(%error, "a directory with a quota can't be measured, and counts as full");
        }
    }
}

impl Account {
    /// Blocks. Whoever calls has the turn.
    fn measure(&self) -> io::Result<()> {
        let started = Instant::now();
        let written_before = self.lock().written_bytes;
        let found = disk_bytes(&self.root);
        let now = Instant::now();
        let mut ledger = self.lock();
        let took = now.duration_since(started).max(Duration::from_micros(1));
        ledger.rested_at = Some(now + took * REST_FACTOR);
        ledger.measured_at = Some(started);
        // Unknown is full.
        ledger.found_bytes = found.as_ref().ok().copied();
        found?;
        // What was written while it was measured may not have been seen.
        ledger.written_bytes = ledger.written_bytes.saturating_sub(written_before);
        Ok(())
    }

    /// Statements under this lock are short and leave the ledger whole one by one.
    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger {
    /// Nothing is known to be free before the first measurement.
    fn free_bytes(&self, max_bytes: u64) -> u64 {
        let Some(found) = self.found_bytes else {
            return 0;
        };
        let taken = found
            .saturating_add(self.written_bytes)
            .saturating_add(self.pending_bytes);
        max_bytes.saturating_sub(taken)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut ledger = self.account.lock();
        ledger.pending_bytes = ledger.pending_bytes.saturating_sub(self.bytes);
        ledger.written_bytes = ledger.written_bytes.saturating_add(self.bytes);
    }
}

/// The most that a write of so many bytes can take: wherever it begins, it touches one block more
/// than it fills.
fn cost_bytes(length: u64) -> u64 {
    length
        .div_ceil(BLOCK_BYTES)
        .saturating_add(1)
        .saturating_mul(BLOCK_BYTES)
}

/// What is on the disk below a directory, and what that itself has grown by: its first block was there
/// before. Links are not followed.
fn disk_bytes(root: &Path) -> io::Result<u64> {
    let own = std::fs::metadata(root)?.blocks() * STAT_BLOCK_BYTES;
    let mut total = own.saturating_sub(BLOCK_BYTES);
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            // Deleted meanwhile, here and below.
            Err(error) if error.kind() == io::ErrorKind::NotFound && folder != root => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let found = match entry.metadata() {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            total += (found.blocks() * STAT_BLOCK_BYTES).max(BLOCK_BYTES);
            if found.is_dir() {
                open.push(entry.path());
            }
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTA: u64 = 10 * BLOCK_BYTES;

    fn allotment(root: &Path) -> (Accounts, Allotment) {
        let accounts = Accounts::default();
        let allotment = accounts.open(root, QUOTA).unwrap();
        (accounts, allotment)
    }

    #[tokio::test]
    async fn what_is_charged_too_much_comes_back_when_it_is_measured() {
        let root = tempfile::tempdir().unwrap();
        let (_accounts, allotment) = allotment(root.path());
        assert!(allotment.try_charge(1).is_none(), "nothing is known yet");
        for _ in 0..5 {
            assert!(allotment.charge(1).await.is_some());
        }
        assert!(allotment.try_charge(1).is_none());
        // Nothing was written after all.
        assert!(allotment.charge(1).await.is_some());
    }

    #[tokio::test]
    async fn what_is_under_way_counts_through_a_measurement() {
        let root = tempfile::tempdir().unwrap();
        let (_accounts, allotment) = allotment(root.path());
        let charge = allotment.charge(8 * BLOCK_BYTES).await;
        assert!(charge.is_some());
        assert!(allotment.charge(BLOCK_BYTES).await.is_none());
        drop(charge);
        assert!(allotment.charge(BLOCK_BYTES).await.is_some());
    }

    #[tokio::test]
    async fn all_runs_of_one_directory_share_its_account() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("a")).unwrap();
        std::fs::write(root.path().join("a/file"), vec![1; 20_000]).unwrap();
        let (accounts, one) = allotment(root.path());
        let other = accounts.open(&root.path().join("a/.."), QUOTA).unwrap();
        assert!(one.is_same(&other));
        // Five blocks of the file, one or more of the directory.
        assert!(one.charge(4 * BLOCK_BYTES).await.is_none());
        assert!(other.charge(1).await.is_some());
    }
    #[test]
    fn runs_that_wait_for_a_measurement_hold_no_thread() {
        let root = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        runtime.block_on(async {
            let (_accounts, allotment) = allotment(root.path());
            let turn = Arc::clone(&allotment.account.turn).lock_owned().await;
            let waiting: Vec<_> = (0..8)
                .map(|_| {
                    let allotment = allotment.clone();
                    tokio::spawn(async move { allotment.measure().await })
                })
                .collect();
            tokio::task::yield_now().await;
            let free = tokio::task::spawn_blocking(|| true).await;
            assert!(free.unwrap());
            assert!(allotment.try_charge(1).is_none(), "nobody measured");
            drop(turn);
            for one in waiting {
                one.await.unwrap();
            }
            assert!(allotment.try_charge(1).is_some());
        });
    }

    #[tokio::test]
    async fn a_run_that_leaves_while_it_waits_leaves_nothing_behind() {
        let root = tempfile::tempdir().unwrap();
        let (_accounts, allotment) = allotment(root.path());
        let turn = Arc::clone(&allotment.account.turn).lock_owned().await;
        let left = allotment.measure();
        assert!(futures_util::FutureExt::now_or_never(left).is_none());
        drop(turn);
        assert!(allotment.charge(1).await.is_some());
    }
}
