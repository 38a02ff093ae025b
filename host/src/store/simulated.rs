//! A store whose committer is a test's own hand and whose records outlive it: a crash is to drop it,
//! with whatever it was told and has not committed. What decides and what is written is the real
//! thing; only the thread and the disk are left out.

use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;

use super::check::{Report, check_records};
use super::committer::{Command, Committer};
use super::core::Core;
use super::records::Records;
use super::{Front, Store, keys};
use crate::clock::Clock;
use crate::notify::Notifier;
use crate::task::TaskKey;

const QUEUE_MAX: usize = 1_024;

/// What a crash leaves: the records.
pub(crate) struct Medium {
    records: Records,
    directory: Arc<tempfile::TempDir>,
}

/// Unfinished tasks a tenant may have in a simulation.
const TASKS_UNFINISHED_MAX: usize = 4;

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
        let core = Core::simulated(records, self.directory.path(), TASKS_UNFINISHED_MAX);
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

    /// What `longshore store check` would say of the records.
    pub fn check(&self) -> Report {
        check_records(&self.records).unwrap()
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
