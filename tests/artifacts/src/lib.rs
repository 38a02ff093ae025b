//! Every guest of this repository, compiled: the plugins in `plugins/` and the guests that exist
//! only for tests in `tests/guests/`. The build script makes a constant of each, so a guest that
//! does not compile fails the tests, and [`foreach_guest`] makes one without a test fail to
//! compile.

use std::path::PathBuf;

/// A compiled guest.
#[derive(Clone, Copy, Debug)]
pub struct Guest {
    /// The name of its directory, its package and its plugin.
    pub name: &'static str,
    directory: &'static str,
    component: &'static str,
}

impl Guest {
    /// A directory that holds the component and its `plugin.toml`, and nothing else.
    pub fn directory(&self) -> PathBuf {
        PathBuf::from(self.directory)
    }

    /// The component's file.
    pub fn component(&self) -> PathBuf {
        self.directory().join(self.component)
    }
}

// `GUESTS`, one constant a guest, and the macro `foreach_guest`.
include!(concat!(env!("OUT_DIR"), "/guests.rs"));
