//! A terminal that a test types on and reads.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::watch;

/// Longer than a command takes to show what it waits with.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Terminal {
    keys: File,
    /// The command's side.
    side: OwnedFd,
    shown: watch::Receiver<String>,
}

impl Terminal {
    pub fn open() -> Terminal {
        let (mut ours, mut theirs) = (-1, -1);
        let null = std::ptr::null_mut();
        // SAFETY: fills in two descriptors, which nobody else has; the rest may be null.
        let (ours, side) = unsafe {
            let opened = libc::openpty(&mut ours, &mut theirs, null, null.cast(), null.cast());
            assert_eq!(opened, 0, "there is a terminal");
            (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
        };
        let (show, shown) = watch::channel(String::new());
        let mut screen = ours.try_clone().unwrap();
        // Ends with the terminal: reading fails once nobody has the other side.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]);
                show.send_modify(|all| all.push_str(&text));
            }
        });
        Terminal {
            keys: ours,
            side,
            shown,
        }
    }

    /// Has the command read from here and write its messages here.
    pub fn give_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let side = || self.side.try_clone().unwrap();
        command.stdin(side()).stderr(side()).env("TERM", "xterm")
    }

    pub fn type_keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until `text` was shown, and returns all that was so far.
    pub async fn until_shown(&self, text: &str) -> String {
        self.until(|all| all.contains(text)).await
    }

    pub async fn until(&self, holds: impl Fn(&str) -> bool) -> String {
        let mut shown = self.shown.clone();
        let found = shown.wait_for(|all| holds(all));
        let found = tokio::time::timeout(PATIENCE, found).await;
        let last = || self.shown.borrow().clone();
        match found {
            Ok(found) => found.expect("the terminal is open").clone(),
            Err(_) => panic!("not shown in time: {:?}", last()),
        }
    }
}
