//! Room on the disk for what is to be stored. The database takes nothing more once it has met a full
//! disk, so everybody looks here first: runs wait, everybody else is refused. It writes nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::StoreError;
use super::disk::{COMMIT_ROOM_BYTES, Disk};

/// How often a full disk is looked at by what waits for room on it.
const POLL: Duration = Duration::from_millis(100);

/// How long what was seen of a disk is good enough for what is small.
const LOOK_MS: u64 = 20;

/// What to do when there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhenFull {
    Wait,
    Refuse,
}

pub(super) struct Room {
    pub(super) disk: Disk,
    /// What files take that are being written, bytes: they leave a commit the room it needs.
    reserved: AtomicU64,
    /// Whether the disk was full when somebody looked last.
    is_full: AtomicBool,
    /// How long the last look is good enough for what is small, in milliseconds from `opened`.
    good_until: AtomicU64,
    opened: Instant,
    /// Set once nothing may wait any more.
    is_ending: AtomicBool,
}

/// Room for files while they are written; given back when dropped.
pub(super) struct Reserved<'a> {
    room: &'a Room,
    bytes: u64,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.room.reserved.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

impl Room {
    pub(super) fn new(disk: Disk) -> Room {
        Room {
            disk,
            reserved: AtomicU64::new(0),
            is_full: AtomicBool::new(false),
            good_until: AtomicU64::new(0),
            opened: Instant::now(),
            is_ending: AtomicBool::new(false),
        }
    }

    /// Whether a commit finds room; says when that changes.
    pub(super) fn is_there(&self) -> bool {
        let is_full = !self.disk.has_free(COMMIT_ROOM_BYTES);
        let was_full = self.is_full.swap(is_full, Ordering::SeqCst);
        match (was_full, is_full) {
            (false, true) => tracing::error!(
                "the disk is full: runs wait, and everybody else is refused, until there is room"
            ),
            (true, false) => tracing::info!("the disk has room again; everything goes on"),
            _ => {}
        }
        !is_full
    }

    /// The same as seen a moment ago, which is good enough for what needs no room of its own.
    fn was_there(&self) -> bool {
        let now = self.opened.elapsed().as_millis() as u64;
        let is_recent = now < self.good_until.load(Ordering::Relaxed);
        if is_recent && !self.is_full.load(Ordering::SeqCst) {
            return true;
        }
        self.good_until.store(now + LOOK_MS, Ordering::Relaxed);
        self.is_there()
    }

    /// Waits until a commit finds room. False once nobody may wait any more. Blocks.
    pub(super) fn wait(&self) -> bool {
        while !self.is_there() {
            if self.is_ending() {
                return false;
            }
            thread::sleep(POLL);
        }
        true
    }

    /// Takes room for files of so many bytes together, which leaves a commit its own.
    pub(super) async fn reserve(
        &self,
        bytes: u64,
        when_full: WhenFull,
    ) -> Result<Reserved<'_>, StoreError> {
        let mut has_told = false;
        loop {
            let is_there = match bytes {
                0 => self.was_there(),
                _ => self.is_there(),
            };
            let reserved = self.try_reserve(bytes);
            match reserved {
                Some(reserved) if is_there => return Ok(reserved),
                _ if when_full == WhenFull::Refuse || self.is_ending() => {
                    return Err(StoreError::NoRoom);
                }
                _ => {}
            }
            if is_there && !has_told {
                tracing::warn!(bytes, "a run waits for room on the disk for what it stores");
                has_told = true;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn try_reserve(&self, bytes: u64) -> Option<Reserved<'_>> {
        let before = self.reserved.fetch_add(bytes, Ordering::SeqCst);
        let reserved = Reserved { room: self, bytes };
        if bytes == 0 {
            return Some(reserved);
        }
        let needed = before
            .saturating_add(bytes)
            .saturating_add(COMMIT_ROOM_BYTES);
        self.disk.has_free(needed).then_some(reserved)
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }

    /// Whatever waits, now and later, is refused instead.
    pub(super) fn end_waiting(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_reserved_is_given_once_and_comes_back() {
        let directory = tempfile::tempdir().unwrap();
        let room = Room::new(Disk::new(directory.path(), 0));
        // Between a quarter and a half of what is free.
        let powers = (0..62).map(|bit| 1_u64 << bit);
        let free = powers.take_while(|bytes| room.disk.has_free(*bytes)).last();
        let part = free.unwrap() / 2;
        let mut held = Vec::new();
        while let Ok(reserved) = room.reserve(part, WhenFull::Refuse).await {
            held.push(reserved);
            assert!(held.len() < 64, "given again and again");
        }
        assert!(!held.is_empty());
        // Nobody waits any more once a host ends.
        room.end_waiting();
        let ended = room.reserve(part, WhenFull::Wait).await;
        assert!(matches!(ended, Err(StoreError::NoRoom)));
        drop(held);
        assert!(room.reserve(part, WhenFull::Refuse).await.is_ok());
    }
}
