//! Gives back the disk of components that nothing needs any more. It never removes what a plugin
//! serves with or a task still has to run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Catalog;
use crate::task::Digest;
use crate::wasm::LoadError;

/// Remembers since when a component is not needed. A call that has just begun may not have reached
/// the store yet, so one look is not enough.
pub struct Sweeper {
    catalog: Catalog,
    keep: Duration,
    unneeded: BTreeMap<Digest, Duration>,
}

impl Sweeper {
    /// Components go once they were not needed for `keep`.
    pub fn new(catalog: Catalog, keep: Duration) -> Sweeper {
        Sweeper {
            catalog,
            keep,
            unneeded: BTreeMap::new(),
        }
    }

    /// Looks, `passed` after the last time, and removes what has not been needed for long enough.
    /// `needed` are the components of unfinished tasks.
    pub async fn sweep(
        &mut self,
        needed: &BTreeSet<Digest>,
        passed: Duration,
    ) -> Result<(), LoadError> {
        let sandbox = &self.catalog.inner.sandbox;
        let unused = sandbox.unused().await?;
        let mut unneeded = BTreeMap::new();
        for digest in unused.difference(needed) {
            let before = self.unneeded.get(digest);
            let age = before.map_or(Duration::ZERO, |age| *age + passed);
            if age < self.keep {
                unneeded.insert(*digest, age);
            } else {
                sandbox.forget(*digest).await?;
                tracing::info!(%digest, "removed a component that nothing needs");
            }
        }
        self.unneeded = unneeded;
        Ok(())
    }
}
