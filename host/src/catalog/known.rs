//! What was found at each place, so that only what changed is loaded again. It decides which
//! version of a plugin serves and never what its tools are called.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::load::{LoadedPlugin, PluginError, load_plugin, read_manifest_text};
use super::manifest::Manifest;
use super::offers::find_taken;
use super::place::{Fingerprint, LeftOut, place_name, places};
use super::{Snapshot, Sources, grants};
use crate::config::Given;
use crate::wasm::{Grants, Sandbox};

/// Under which name it is reported what is wrong with the plugins directory. No plugin has it.
const SOURCES_NAME: &str = "plugins directory";

/// Plugins beyond the limit that are told one by one.
const LEFT_OUT_TOLD_MAX: usize = 100;

/// The places and what they held when they were last looked at.
#[derive(Default)]
pub struct Known {
    seen: BTreeMap<PathBuf, Seen>,
    left_out: LeftOut,
}

#[derive(Clone)]
struct Seen {
    fingerprint: Fingerprint,
    /// The plugin's; the place's own while no manifest could be read.
    name: String,
    grants: Option<Arc<Grants>>,
    failure: Option<Failure>,
}

#[derive(Clone)]
struct Failure {
    reason: String,
    is_passing: bool,
    /// How often it came in a row, of the same files.
    times: u32,
}

/// What became of the sources.
#[derive(Default)]
pub struct Loaded {
    pub plugins: Vec<LoadedPlugin>,
    /// Plugins that are as they were.
    pub unchanged: BTreeSet<String>,
    pub failures: BTreeMap<String, String>,
    pub grants: BTreeMap<String, Arc<Grants>>,
}

/// Loads every plugin of the sources.
pub async fn load_all(
    sandbox: &Sandbox,
    sources: &Sources,
    given: &BTreeMap<String, Given>,
) -> Loaded {
    let loader = Loader {
        sandbox,
        sources,
        given,
    };
    let (nothing, nobody) = (Snapshot::default(), BTreeSet::new());
    loader.load(&mut Known::default(), &nothing, &nobody).await
}

impl Known {
    /// The places that are no longer as they were, with how they are now.
    pub fn changes(&self, sources: &Sources) -> BTreeMap<PathBuf, Fingerprint> {
        let listed = places(sources, self.places());
        let is_unreadable = listed.is_err();
        let listed = listed.unwrap_or_default();
        let mut all: BTreeSet<&Path> = listed.places.iter().map(PathBuf::as_path).collect();
        all.extend(self.places());
        let mut changes: BTreeMap<PathBuf, Fingerprint> = all
            .into_iter()
            .map(|place| (place, Fingerprint::of(place)))
            .filter(|(place, now)| match self.seen.get(*place) {
                Some(seen) => seen.fingerprint != *now,
                None => true,
            })
            .map(|(place, now)| (place.to_owned(), now))
            .collect();
        // Having too much, or no longer, is told like a change.
        if !is_unreadable && listed.left_out != self.left_out {
            let root = sources.plugins_dir.iter().cloned();
            changes.extend(root.map(|root| (root, Fingerprint::default())));
        }
        changes
    }

    fn places(&self) -> impl Iterator<Item = &Path> {
        self.seen.keys().map(PathBuf::as_path)
    }

    /// Whether a failure may pass without a change.
    pub fn has_passing_failures(&self) -> bool {
        let mut failures = self.seen.values().filter_map(|seen| seen.failure.as_ref());
        failures.any(|failure| failure.is_passing)
    }
}

/// What serves while the sources are looked at.
#[derive(Clone, Copy)]
struct Serving<'a> {
    snapshot: &'a Snapshot,
    /// The names of plugins whose places are still there.
    staying: &'a BTreeSet<String>,
}

impl Serving<'_> {
    /// Whoever serves a URI keeps it: a plugin that is added must not take it over.
    fn check_free(
        &self,
        plugin: LoadedPlugin,
        loaded: &[LoadedPlugin],
    ) -> Result<LoadedPlugin, PluginError> {
        match find_taken(&plugin, loaded, self.snapshot, self.staying) {
            Some((uri, owner)) => Err(PluginError::TakenUri { uri, owner }),
            None => Ok(plugin),
        }
    }
}

/// What plugins are loaded with.
pub struct Loader<'a> {
    pub sandbox: &'a Sandbox,
    pub sources: &'a Sources,
    pub given: &'a BTreeMap<String, Given>,
}

impl Loader<'_> {
    /// Loads what changed, one after the other: compilation is bounded to one anyway. Places in
    /// `held` stay as they are known.
    pub async fn load(
        &self,
        known: &mut Known,
        serving: &Snapshot,
        held: &BTreeSet<PathBuf>,
    ) -> Loaded {
        let mut loaded = Loaded::default();
        let mut places = match places(self.sources, known.places()) {
            Ok(listed) => {
                let is_told = listed.left_out == known.left_out;
                loaded.leave_out(self.sources, serving, &listed.left_out, is_told);
                known.left_out = listed.left_out;
                listed.places
            }
            Err(error) => {
                tracing::error!("plugins not loaded: {error}");
                loaded
                    .failures
                    .insert(SOURCES_NAME.to_owned(), error.to_string());
                // Unreadable is not empty: what serves goes on.
                known.seen.keys().cloned().collect()
            }
        };
        for place in held {
            if known.seen.contains_key(place) && !places.contains(place) {
                places.push(place.clone());
            }
        }
        // Whoever serves under a name keeps it: a plugin that is added must not take it over.
        places.sort_by_key(|place| {
            let seen = known.seen.get(place);
            !seen.is_some_and(|seen| serving.plugins.contains_key(&seen.name))
        });
        let staying: BTreeSet<String> = places
            .iter()
            .filter_map(|place| known.seen.get(place))
            .map(|seen| seen.name.clone())
            .collect();
        let mut next = BTreeMap::new();
        let mut names = BTreeSet::new();
        for place in places {
            let before = known.seen.get(&place);
            let seen = if held.contains(&place) {
                match before {
                    Some(before) => loaded.keep(before),
                    None => continue,
                }
            } else {
                let serving = Serving {
                    snapshot: serving,
                    staying: &staying,
                };
                self.look(&place, before, serving, &mut names, &mut loaded)
                    .await
            };
            names.insert(seen.name.clone());
            next.insert(place, seen);
        }
        known.seen = next;
        loaded
    }

    async fn look(
        &self,
        place: &Path,
        before: Option<&Seen>,
        serving: Serving<'_>,
        names: &mut BTreeSet<String>,
        loaded: &mut Loaded,
    ) -> Seen {
        let fingerprint = Fingerprint::of(place);
        if let Some(before) = before
            && before.fingerprint == fingerprint
            && !names.contains(&before.name)
            && !before.may_pass()
        {
            return loaded.keep(before);
        }
        // A version that fails leaves the one before it serving, under its own name (I8).
        let served = before
            .map(|before| &before.name)
            .filter(|name| serving.snapshot.plugins.contains_key(*name));
        let failed = |loaded: &mut Loaded, name: String, error: PluginError| {
            let name = served.cloned().unwrap_or(name);
            loaded.fail(fingerprint.clone(), name, before, &error)
        };
        let manifest = read_manifest_text(place)
            .and_then(|(text, path)| Ok((Manifest::parse(&text, &path)?, text)));
        let (manifest, text) = match manifest {
            Ok(read) => read,
            Err(error) => return failed(loaded, place_name(place), error),
        };
        let name = manifest.name.clone();
        if names.contains(&name) {
            let key = format!("{name} ({})", place_name(place));
            return failed(loaded, key, PluginError::DuplicatePlugin(name));
        }
        let none = Given::default();
        let given = self.given.get(&name).unwrap_or(&none);
        let effective = Arc::new(grants::effective(&manifest.grants, given));
        let max_bytes = self.sources.component_max_bytes;
        let grants = effective.clone();
        let checked = load_plugin(self.sandbox, place, manifest, grants, max_bytes)
            .await
            .and_then(|plugin| serving.check_free(plugin, &loaded.plugins));
        let outcome = match checked {
            Ok(plugin) => {
                let digest = plugin.plugin.digest;
                let kept = self.sandbox.keep_manifest(digest, &name, text).await;
                kept.map(|()| plugin).map_err(PluginError::from)
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(plugin) => {
                // It serves all the same: not every tool needs what is missing.
                for missing in effective.missing().into_iter().chain(effective.unset()) {
                    tracing::warn!(plugin = name, cause = missing.cause, "{missing}");
                }
                loaded.grants.insert(name.clone(), effective.clone());
                loaded.plugins.push(plugin);
                Seen {
                    fingerprint,
                    name,
                    grants: Some(effective),
                    failure: None,
                }
            }
            Err(error) => {
                let mut seen = failed(loaded, name.clone(), error);
                if seen.name == name {
                    seen.grants = Some(effective.clone());
                    loaded.grants.insert(name, effective);
                }
                seen
            }
        }
    }
}

impl Loaded {
    /// Says what is not served because there is too much (I8).
    fn leave_out(
        &mut self,
        sources: &Sources,
        serving: &Snapshot,
        left_out: &LeftOut,
        is_told: bool,
    ) {
        let Some(root) = sources
            .plugins_dir
            .as_ref()
            .filter(|_| !left_out.is_empty())
        else {
            return;
        };
        for place in left_out.places.iter().take(LEFT_OUT_TOLD_MAX) {
            // Another place may have a plugin of that name.
            let mut name = place_name(place);
            if serving.plugins.contains_key(&name) {
                name += " (left out)";
            }
            self.failures.insert(name, PluginError::LeftOut.to_string());
        }
        let error = PluginError::TooMany {
            root: root.clone(),
            plugins: left_out.places.len(),
            has_more: left_out.has_more,
        };
        if !is_told {
            tracing::error!("plugins not loaded: {error}");
        }
        self.failures
            .insert(SOURCES_NAME.to_owned(), error.to_string());
    }

    fn keep(&mut self, seen: &Seen) -> Seen {
        match &seen.failure {
            Some(failure) => {
                let reason = failure.reason.clone();
                self.failures.insert(seen.name.clone(), reason);
            }
            None => {
                self.unchanged.insert(seen.name.clone());
            }
        }
        if let Some(grants) = &seen.grants {
            self.grants.insert(seen.name.clone(), grants.clone());
        }
        seen.clone()
    }

    fn fail(
        &mut self,
        fingerprint: Fingerprint,
        name: String,
        before: Option<&Seen>,
        error: &PluginError,
    ) -> Seen {
        let reason = error.to_string();
        let again = before
            .and_then(|before| Some((before, before.failure.as_ref()?)))
            .filter(|(_, failure)| failure.reason == reason);
        if again.is_none() {
            tracing::error!(plugin = name, "plugin not loaded: {reason}");
        }
        let grants = before
            .filter(|before| before.name == name)
            .and_then(|before| before.grants.clone());
        if let Some(grants) = &grants {
            self.grants.insert(name.clone(), grants.clone());
        }
        self.failures.insert(name.clone(), reason.clone());
        let times = again
            .filter(|(before, _)| before.fingerprint == fingerprint)
            .map_or(1, |(_, failure)| failure.times.saturating_add(1));
        Seen {
            fingerprint,
            name,
            grants,
            failure: Some(Failure {
                reason,
                is_passing: error.is_passing(times),
                times,
            }),
        }
    }
}

impl Seen {
    fn may_pass(&self) -> bool {
        let failure = self.failure.as_ref();
        failure.is_some_and(|failure| failure.is_passing)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wasm::LoadError;

    #[test]
    fn a_listing_that_takes_too_long_is_tried_again_a_few_times_until_its_files_change() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("slow.wasm");
        std::fs::write(&file, "one").unwrap();
        let mut loaded = Loaded::default();
        let mut fail = |before: Option<&Seen>, error: LoadError| {
            let fingerprint = Fingerprint::of(&file);
            loaded.fail(fingerprint, "slow".to_owned(), before, &error.into())
        };
        let slow = || LoadError::ListingTime(Duration::from_secs(5));

        let mut seen = fail(None, slow());
        let mut tries = 1;
        while seen.may_pass() {
            seen = fail(Some(&seen), slow());
            tries += 1;
            assert!(tries < 100, "it is tried for ever");
        }
        assert_eq!(tries, 5);
        assert!(!fail(Some(&seen), slow()).may_pass());

        std::fs::write(&file, "another").unwrap();
        assert!(fail(Some(&seen), slow()).may_pass(), "new files");
        let refused = LoadError::Listing("list-tools: it trapped".to_owned());
        assert!(!fail(None, refused).may_pass());
    }
}
