//! Where plugins lie: a directory with a `plugin.toml`, or a component on its own. It tells whether
//! something changed at a place and never reads what is in the files.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Sources;
use super::load::PluginError;
use super::manifest::{MANIFEST_FILE, Manifest};

/// Plugins of a directory.
pub const PLUGINS_MAX: usize = 1_000;

/// Entries of the plugins directory, and of a plugin's, that are looked at.
pub const ENTRIES_MAX: usize = 10_000;

/// What a file system keeps at its root for itself, and lets nobody read.
const FILE_SYSTEMS_OWN: &str = "lost+found";

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

/// The places of the sources.
#[derive(Default)]
pub struct Listed {
    pub places: Vec<PathBuf>,
    pub left_out: LeftOut,
}

/// What the plugins directory has beyond its limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// In the order of their names.
    pub places: Vec<PathBuf>,
    /// Whether there are entries that were not even looked at.
    pub has_more: bool,
}

impl LeftOut {
    pub fn is_empty(&self) -> bool {
        self.places.is_empty() && !self.has_more
    }
}

/// Every place of the sources. Those of the plugins directory are in the order of their names, so
/// that every start sees them alike, and `known` ones come before the limit: no other takes their
/// place (I8). Names that begin with a dot are half done and left out.
pub fn places<'a>(
    sources: &Sources,
    known: impl IntoIterator<Item = &'a Path>,
) -> Result<Listed, PluginError> {
    let mut listed = match &sources.plugins_dir {
        Some(root) => places_in(root, known)?,
        None => Listed::default(),
    };
    listed.places.extend(sources.plugin_dirs.iter().cloned());
    Ok(listed)
}

fn places_in<'a>(
    root: &Path,
    known: impl IntoIterator<Item = &'a Path>,
) -> Result<Listed, PluginError> {
    let unreadable = |source| PluginError::Unreadable {
        path: root.to_owned(),
        source,
    };
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Listed::default()),
        Err(error) => return Err(unreadable(error)),
    };
    let known = known
        .into_iter()
        .filter(|place| place.parent() == Some(root));
    let mut places: BTreeSet<PathBuf> = known
        .filter(|place| is_place(place))
        .map(Path::to_owned)
        .collect();
    let mut added = BTreeSet::new();
    let mut left_out = LeftOut::default();
    for (number, entry) in entries.enumerate() {
        if number == ENTRIES_MAX {
            left_out.has_more = true;
            break;
        }
        let path = entry.map_err(unreadable)?.path();
        if !places.contains(&path) && is_place(&path) {
            added.insert(path);
        }
    }
    let mut added = added.into_iter();
    let room = PLUGINS_MAX.saturating_sub(places.len());
    places.extend(added.by_ref().take(room));
    left_out.places = added.collect();
    Ok(Listed {
        places: places.into_iter().collect(),
        left_out,
    })
}

fn is_place(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let is_hidden = name.as_encoded_bytes().starts_with(b".");
    // A known one may be gone, and then only its name is left.
    let is_component = || is_bare(path) && fs::symlink_metadata(path).is_ok();
    !is_hidden && name != FILE_SYSTEMS_OWN && (has_manifest(path) || is_component())
}

/// Whether there is something of that name, whatever it is: if it can't be read, that is told where
/// it is tried.
fn has_manifest(path: &Path) -> bool {
    match fs::symlink_metadata(path.join(MANIFEST_FILE)) {
        Ok(_) => true,
        Err(error) => !matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        ),
    }
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
        assert!(places(&sources, []).unwrap().places.is_empty());
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
        let found = places_in(root.path(), []).unwrap().places;
        assert_eq!(found, ["a.wasm", "b"].map(|name| root.path().join(name)));
        assert_eq!(place_name(&found[0]), "a");
        assert_eq!(place_name(&found[1]), "b");
    }

    #[test]
    fn what_is_called_like_a_manifest_is_one_that_can_be_told_of() {
        let root = tempfile::tempdir().unwrap();
        for name in ["device", "folder", "gone", "lost+found"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let manifest = |place: &str| root.path().join(place).join(MANIFEST_FILE);
        std::os::unix::fs::symlink("/dev/null", manifest("device")).unwrap();
        fs::create_dir(manifest("folder")).unwrap();
        std::os::unix::fs::symlink("nothing", manifest("gone")).unwrap();
        fs::write(manifest("lost+found"), "").unwrap();
        let found = places_in(root.path(), []).unwrap().places;
        let expected = ["device", "folder", "gone"];
        assert_eq!(found, expected.map(|name| root.path().join(name)));
    }

    #[test]
    fn what_is_known_comes_before_the_limit_and_the_rest_is_told() {
        let root = tempfile::tempdir().unwrap();
        let known = root.path().join("z.wasm");
        fs::write(&known, "").unwrap();
        let others: Vec<PathBuf> = (0..=PLUGINS_MAX)
            .map(|number| root.path().join(format!("{number:04}.wasm")))
            .collect();
        for file in &others {
            fs::write(file, "").unwrap();
        }
        let listed = places_in(root.path(), [known.as_path()]).unwrap();
        assert_eq!(listed.places.len(), PLUGINS_MAX);
        assert_eq!(listed.places.last(), Some(&known));
        assert_eq!(listed.left_out.places, others[PLUGINS_MAX - 1..]);
        assert!(!listed.left_out.has_more);

        fs::remove_file(&known).unwrap();
        let listed = places_in(root.path(), [known.as_path()]).unwrap();
        assert!(listed.places == others[..PLUGINS_MAX], "a gone one stays");
        assert_eq!(listed.left_out.places, others[PLUGINS_MAX..]);
    }

    #[test]
    fn what_is_known_is_found_among_however_many_entries() {
        let root = tempfile::tempdir().unwrap();
        for number in 0..=ENTRIES_MAX {
            fs::write(root.path().join(format!("{number}.txt")), "").unwrap();
        }
        let known = root.path().join("known.wasm");
        fs::write(&known, "").unwrap();
        let listed = places_in(root.path(), [known.as_path()]).unwrap();
        assert_eq!(listed.places, [known]);
        assert!(listed.left_out.has_more);
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
