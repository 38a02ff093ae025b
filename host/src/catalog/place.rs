//! Where plugins lie: a directory with a `plugin.toml`, or a component on its own. It tells whether
//! something changed at a place and never reads what is in the files.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Sources;
use super::load::PluginError;
use super::manifest::{MANIFEST_FILE, Manifest};

/// Plugins of a directory.
const PLUGINS_MAX: usize = 1_000;

/// Entries of the plugins directory, and of a plugin's, that are looked at.
const ENTRIES_MAX: usize = 10_000;

/// How a component's file ends.
const COMPONENT_ENDING: &str = "wasm";

/// Every file that makes up a plugin, with what changes when one is written, moved or copied over.
/// The change time can't be set by anyone, so that a copy with an old date is noticed, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint(Vec<(OsString, Stamp)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size_bytes: u64,
    changed: (i64, i64),
}

impl Fingerprint {
    /// Of what is at `place` now; an empty one if nothing is.
    pub fn of(place: &Path) -> Fingerprint {
        let mut files = Vec::new();
        if is_bare(place) {
            files.extend(stamp(place).map(|stamp| (OsString::new(), stamp)));
        } else if let Ok(entries) = fs::read_dir(place) {
            for entry in entries.take(ENTRIES_MAX).flatten() {
                let (name, path) = (entry.file_name(), entry.path());
                if name == MANIFEST_FILE || is_component(&path) {
                    files.extend(stamp(&path).map(|stamp| (name, stamp)));
                }
            }
        }
        files.sort_by(|a, b| a.0.cmp(&b.0));
        Fingerprint(files)
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = fs::metadata(path).ok().filter(Metadata::is_file)?;
    Some(Stamp {
        inode: metadata.ino(),
        size_bytes: metadata.len(),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    })
}

/// Whether the place is a component on its own.
pub fn is_bare(place: &Path) -> bool {
    is_component(place) && !place.is_dir()
}

fn is_component(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ending == COMPONENT_ENDING)
}

/// What a place is called while its manifest says nothing.
pub fn place_name(place: &Path) -> String {
    let name = match is_bare(place) {
        true => place.file_stem(),
        false => place.file_name(),
    };
    match name {
        Some(name) => name.to_string_lossy().into_owned(),
        None => place.display().to_string(),
    }
}

/// The component's file.
pub fn component_path(place: &Path, manifest: &Manifest) -> PathBuf {
    match is_bare(place) {
        true => place.to_owned(),
        false => place.join(&manifest.component),
    }
}

/// Every place of the sources. Those of the plugins directory are in the order of their names, so
/// that every start sees them alike; names that begin with a dot are half done and left out.
pub fn places(sources: &Sources) -> Result<Vec<PathBuf>, PluginError> {
    let mut places = match &sources.plugins_dir {
        Some(root) => places_in(root)?,
        None => Vec::new(),
    };
    places.extend(sources.plugin_dirs.iter().cloned());
    Ok(places)
}

fn places_in(root: &Path) -> Result<Vec<PathBuf>, PluginError> {
    let unreadable = |source| PluginError::Unreadable {
        path: root.to_owned(),
        source,
    };
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut places = Vec::new();
    for entry in entries.take(ENTRIES_MAX) {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !is_hidden && (path.join(MANIFEST_FILE).is_file() || is_bare(&path)) {
            places.push(path);
        }
    }
    places.sort();
    places.truncate(PLUGINS_MAX);
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugins_directory_that_is_missing_has_no_plugins() {
        let sources = Sources {
            plugins_dir: Some("no-such-directory".into()),
            plugin_dirs: Vec::new(),
            component_max_bytes: 1,
        };
        assert!(places(&sources).unwrap().is_empty());
    }

    #[test]
    fn plugins_are_directories_and_components_and_nothing_hidden() {
        let root = tempfile::tempdir().unwrap();
        for name in ["b", ".half-done", "no-plugin"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        for file in ["b/plugin.toml", ".half-done/plugin.toml", "a.wasm", "a.txt"] {
            fs::write(root.path().join(file), "").unwrap();
        }
        let found = places_in(root.path()).unwrap();
        assert_eq!(found, ["a.wasm", "b"].map(|name| root.path().join(name)));
        assert_eq!(place_name(&found[0]), "a");
        assert_eq!(place_name(&found[1]), "b");
    }

    #[test]
    fn a_fingerprint_tells_every_change_of_a_plugins_files_and_no_other() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
        assert_eq!(Fingerprint::of(root.path()), Fingerprint::default());
        write("plugin.toml", "a");
        write("a.wasm", "a");
        let before = Fingerprint::of(root.path());
        write("notes.txt", "a");
        assert_eq!(Fingerprint::of(root.path()), before);
        // As long as before, and as old: another file under the same name.
        write("b.wasm.new", "b");
        fs::rename(root.path().join("b.wasm.new"), root.path().join("a.wasm")).unwrap();
        assert_ne!(Fingerprint::of(root.path()), before);
    }
}
