//! A store whose committer is a test's own hand and whose records outlive it: a crash is to drop it,
//! with whatever it was told and has not committed. What decides and what is written is the real
//! thing; only the thread and the disk are left out.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;

use super::bodies::Bodies;
use super::check::{Report, check_bodies, check_records};
use super::committer::{Command, Committer};
use super::core::Core;
use super::records::Records;
use super::watermark::last_commit;
use super::{Front, Store, keys, parts};
use crate::clock::Clock;
use crate::notify::Notifier;
use crate::task::{TaskKey, TenantId};

const QUEUE_MAX: usize = 1_024;

/// What a crash leaves: the records.
pub(crate) struct Medium {
    records: Records,
    directory: Arc<tempfile::TempDir>,
}

/// Unfinished tasks a tenant may have in a simulation.
const TASKS_UNFINISHED_MAX: usize = 4;

/// What may be kept of a tenant's large results in one, bytes: a few parts.
const RESULTS_MAX_BYTES: u64 = 80;

/// Commits what the store was told, when and as much as the test says.
pub(crate) struct Hand {
    committer: Committer,
    commands: mpsc::Receiver<Command>,
}

impl Medium {
    pub fn new() -> Medium {
        Medium {
            records: Records::in_memory(),
            directory: Arc::new(tempfile::tempdir().unwrap()),
        }
    }

    /// Another medium in the same folder, which simulations leave empty.
    pub fn fresh(&self) -> Medium {
        Medium {
            records: Records::in_memory(),
            directory: self.directory.clone(),
        }
    }

    /// The store as the next process opens it.
    pub fn open(&self, clock: Clock) -> (Store, Hand) {
        let records = self.records.reopened();
        let directory = self.directory.path();
        let core = Core::simulated(records, directory, TASKS_UNFINISHED_MAX, RESULTS_MAX_BYTES);
        let core = Arc::new(core);
        let (sender, commands) = mpsc::channel(QUEUE_MAX);
        let front = Front {
            core: core.clone(),
            commands: Some(sender),
            committer: Mutex::new(None),
        };
        let committer = Committer {
            core,
            clock,
            notifier: Notifier::default(),
        };
        let store = Store {
            front: Arc::new(front),
        };
        let hand = Hand {
            committer,
            commands,
        };
        (store, hand)
    }

    /// The tasks there are.
    pub fn tasks(&self) -> Vec<TaskKey> {
        let records = self.records.scan(keys::TASK);
        let keys = records.filter_map(|entry| keys::read(&entry.unwrap().0)?.1);
        keys.collect()
    }

    /// How many commits there were.
    pub fn commits(&self) -> u64 {
        last_commit(&self.records).unwrap()
    }

    /// What `longshore store check` would say of the records and of what they hold.
    pub fn check(&self) -> Report {
        let mut report = check_records(&self.records).unwrap();
        let bodies = Bodies::open(self.directory.path().join("bodies")).unwrap();
        check_bodies(&self.records, &bodies, &mut report).unwrap();
        report
    }
}

impl Store {
    /// Compares what is counted of large results with what the records have: `Greater` while some may
    /// be on their way, and `Equal` when none is.
    pub(crate) fn check_counts(&self, at_most: Ordering) -> Result<(), String> {
        let core = self.core();
        let there = parts::count(&core.records, &core.bodies, u64::MAX).unwrap();
        for tenant in ["a", "b"].map(|name| TenantId::parse(name).unwrap()) {
            let (counted, there) = (core.part_bytes.of(&tenant), there.of(&tenant));
            let found = counted.cmp(&there);
            if found != Ordering::Equal && found != at_most {
                return Err(format!(
                    "{counted} bytes of results are counted for {tenant}, and {there} are there"
                ));
            }
        }
        Ok(())
    }
}

impl Hand {
    /// Commits at most `max` of the commands that wait, together; returns how many.
    pub fn commit(&mut self, max: usize) -> usize {
        let mut group = Vec::new();
        while group.len() < max
            && let Ok(command) = self.commands.try_recv()
        {
            group.push(command);
        }
        let count = group.len();
        if count > 0 {
            self.committer.commit(group);
        }
        count
    }
}
