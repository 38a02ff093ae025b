//! Changes of the plugins directory that happen at once or not at all: a plugin is made whole under
//! a name that hosts do not look at, and then renamed. Whoever dies in between leaves what was there.

use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::TempDir;

use super::AdminError;
use crate::catalog::load::{PluginError, component_size, read_manifest, read_manifest_text};
use crate::catalog::manifest::{MANIFEST_FILE, Manifest};
use crate::catalog::place::{component_path, is_bare, places};
use crate::catalog::{CANCEL_DIR, Sources};

/// Hosts leave out names that begin with a dot.
const STAGE_PREFIX: &str = ".longshore-";

/// Age at which a stage has lost whoever made it.
const STAGE_MAX_AGE: Duration = Duration::from_secs(3_600);

/// As of any directory: what the user's mask leaves of it.
const STAGE_MODE: u32 = 0o777;

/// What was taken away, in a directory of its own.
const TAKEN_AWAY: &str = "plugin";

/// The plugins directory.
pub struct Shelf {
    root: PathBuf,
    component_max_bytes: u64,
}

/// A plugin that is whole and not yet served; removed unless it is put in place.
pub struct Staged(TempDir);

impl Staged {
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// The manifest, with its text, of a directory or of a component that is to be called `name`.
pub fn read_as(source: &Path, name: Option<&str>) -> Result<(Manifest, String), AdminError> {
    let failed = |source: PluginError, path: &Path| AdminError::Plugin {
        path: path.to_owned(),
        source,
    };
    let text = match name {
        Some(name) if is_bare(source) => Manifest::bare(name, source)
            .ok_or_else(|| failed(PluginError::FileName(name.into()), source))?,
        Some(_) => return Err(AdminError::Named),
        None => {
            read_manifest_text(source)
                .map_err(|error| failed(error, source))?
                .0
        }
    };
    let manifest = Manifest::parse(&text, &source.join(MANIFEST_FILE))
        .map_err(|error| failed(error.into(), source))?;
    Ok((manifest, text))
}

impl Shelf {
    pub fn open(root: &Path, component_max_bytes: u64) -> Result<Shelf, AdminError> {
        fs::create_dir_all(root).map_err(|error| unusable(root, error))?;
        let shelf = Shelf {
            root: root.to_owned(),
            component_max_bytes,
        };
        shelf.tidy();
        Ok(shelf)
    }

    /// Where the plugin of that name is.
    pub fn find(&self, name: &str) -> Result<Option<PathBuf>, AdminError> {
        let sources = Sources {
            plugins_dir: Some(self.root.clone()),
            plugin_dirs: Vec::new(),
            component_max_bytes: self.component_max_bytes,
        };
        // One under its own name is found however many there are.
        let likely = self.root.join(name);
        let is_it = |place: &PathBuf| {
            // A manifest that can't be read leaves only the place's own name to go by.
            match read_manifest(place) {
                Ok(manifest) => manifest.name == name,
                Err(_) => place.file_name().is_some_and(|file| file == name),
            }
        };
        let listed = places(&sources, [likely.as_path()]).map_err(AdminError::Places)?;
        let mut all = listed.places.into_iter().chain(listed.left_out.places);
        Ok(all.find(is_it))
    }

    /// Copies the plugin at `source`, a directory or a component, under the name it is to have.
    pub fn stage(
        &self,
        source: &Path,
        name: Option<&str>,
    ) -> Result<(Staged, Manifest), AdminError> {
        let (manifest, text) = read_as(source, name)?;
        let component = component_path(source, &manifest);
        // A pipe would never end.
        component_size(&component, self.component_max_bytes).map_err(|error| {
            AdminError::Plugin {
                path: source.to_owned(),
                source: error,
            }
        })?;
        let stage = || -> io::Result<Staged> {
            let staged = self.temporary("new")?;
            let mut from = File::open(&component)?.take(self.component_max_bytes);
            let mut to = File::create(staged.path().join(&manifest.component))?;
            io::copy(&mut from, &mut to)?;
            to.sync_all()?;
            let file = staged.path().join(MANIFEST_FILE);
            fs::write(&file, text)?;
            File::open(&file)?.sync_all()?;
            File::open(staged.path())?.sync_all()?;
            Ok(Staged(staged))
        };
        let staged = stage().map_err(|error| AdminError::Copy {
            path: source.to_owned(),
            source: error,
        })?;
        Ok((staged, manifest))
    }

    /// Puts a new plugin in place.
    pub fn add(&self, staged: &Staged, name: &str) -> Result<(), AdminError> {
        let place = self.root.join(name);
        rename(staged.path(), &place, RenameFlags::NOREPLACE)
            .or_else(|error| match place.exists() {
                // Not every file system can refuse to replace.
                false => fs::rename(staged.path(), &place),
                true => Err(error),
            })
            .and_then(|()| self.sync())
            .map_err(|error| match error.kind() {
                // Somebody was faster.
                io::ErrorKind::AlreadyExists => AdminError::Exists(name.to_owned()),
                _ => unusable(&place, error),
            })?;
        // Whoever adds a plugin does not want the tasks of its next removal cancelled.
        let _ = fs::remove_file(self.cancel_file(name));
        Ok(())
    }

    /// Puts a plugin in the place of another, which is gone afterwards.
    pub fn replace(&self, staged: &Staged, place: &Path, name: &str) -> Result<(), AdminError> {
        let exchange = || -> io::Result<()> {
            if is_bare(place) {
                fs::rename(staged.path(), self.root.join(name))?;
                return fs::remove_file(place);
            }
            if rename(staged.path(), place, RenameFlags::EXCHANGE).is_ok() {
                return Ok(());
            }
            // Not every file system can exchange. A host looks again before it takes a place that is
            // empty for a moment as given up.
            let old = self.take_away(place)?;
            fs::rename(staged.path(), place).or_else(|error| {
                fs::rename(old.path().join(TAKEN_AWAY), place)?;
                Err(error)
            })
        };
        exchange()
            .and_then(|()| self.sync())
            .map_err(|error| unusable(place, error))
    }

    /// Takes a plugin away. With `cancels`, the host is asked to cancel its tasks.
    pub fn remove(&self, place: &Path, name: &str, cancels: bool) -> Result<(), AdminError> {
        let remove = || -> io::Result<()> {
            if cancels {
                fs::create_dir_all(self.root.join(CANCEL_DIR))?;
                File::create(self.cancel_file(name))?;
            }
            self.take_away(place)?;
            self.sync()
        };
        remove().map_err(|error| unusable(place, error))
    }

    fn cancel_file(&self, name: &str) -> PathBuf {
        self.root.join(CANCEL_DIR).join(name)
    }

    /// A directory that no host looks at, with a name nobody has; gone with the value.
    fn temporary(&self, what: &str) -> io::Result<TempDir> {
        tempfile::Builder::new()
            .prefix(&format!("{STAGE_PREFIX}{what}-"))
            .permissions(Permissions::from_mode(STAGE_MODE))
            .tempdir_in(&self.root)
    }

    /// Moves a directory, a file or a link out of every host's sight.
    fn take_away(&self, place: &Path) -> io::Result<TempDir> {
        let old = self.temporary("old")?;
        fs::rename(place, old.path().join(TAKEN_AWAY))?;
        Ok(old)
    }

    /// Renames are on the disk when a change is said to be made.
    fn sync(&self) -> io::Result<()> {
        File::open(&self.root)?.sync_all()
    }

    /// Removes what was left by somebody who was killed.
    fn tidy(&self) {
        let Ok(entries) = fs::read_dir(&self.root) else {
            return;
        };
        for entry in entries.flatten() {
            let is_stage = entry
                .file_name()
                .as_encoded_bytes()
                .starts_with(STAGE_PREFIX.as_bytes());
            let changed = entry.metadata().and_then(|metadata| metadata.modified());
            let is_old =
                changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > STAGE_MAX_AGE));
            if is_stage && is_old && fs::remove_dir_all(entry.path()).is_err() {
                // A file, or out of every host's sight all the same.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn rename(from: &Path, to: &Path, flags: RenameFlags) -> io::Result<()> {
    Ok(renameat_with(CWD, from, CWD, to, flags)?)
}

fn unusable(path: &Path, source: io::Error) -> AdminError {
    AdminError::Change {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_BYTES: u64 = 1 << 10;

    fn plugin(root: &Path, version: &str) -> PathBuf {
        let folder = root.join(version);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("a.wasm"), version).unwrap();
        let manifest = format!("name = \"a\"\nversion = \"{version}\"\ncomponent = \"a.wasm\"\n");
        fs::write(folder.join(MANIFEST_FILE), manifest).unwrap();
        folder
    }

    fn entries(root: &Path) -> Vec<String> {
        let entries = fs::read_dir(root).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn of_two_that_add_the_same_name_one_is_told_that_it_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("plugins");
        let shelf = Shelf::open(&root, MAX_BYTES).unwrap();
        let [one, two] = ["1", "2"].map(|version| plugin(directory.path(), version));
        let (one, _) = shelf.stage(&one, None).unwrap();
        let (two, _) = shelf.stage(&two, None).unwrap();
        shelf.add(&one, "a").unwrap();
        let error = shelf.add(&two, "a").unwrap_err();
        assert!(matches!(error, AdminError::Exists(_)), "{error}");
        drop((one, two));
        assert_eq!(entries(&root), ["a"]);
        assert_eq!(fs::read(root.join("a/a.wasm")).unwrap(), b"1");
    }

    #[test]
    fn what_was_replaced_or_removed_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("plugins");
        let shelf = Shelf::open(&root, MAX_BYTES).unwrap();
        // Made by hand: as a directory under another name, then as a component on its own.
        fs::rename(plugin(directory.path(), "1"), root.join("other")).unwrap();
        let (second, _) = shelf.stage(&plugin(directory.path(), "2"), None).unwrap();
        let place = shelf.find("a").unwrap().unwrap();
        shelf.replace(&second, &place, "a").unwrap();
        drop(second);
        assert_eq!(fs::read(root.join("other/a.wasm")).unwrap(), b"2");
        shelf.remove(&place, "a", false).unwrap();
        assert_eq!(entries(&root), [""; 0]);

        fs::write(root.join("a.wasm"), "bare").unwrap();
        let place = shelf.find("a").unwrap().unwrap();
        shelf.remove(&place, "a", true).unwrap();
        assert_eq!(entries(&root), [CANCEL_DIR]);
        assert_eq!(entries(&root.join(CANCEL_DIR)), ["a"]);
    }

    #[test]
    fn a_pipe_or_too_large_a_component_is_not_copied() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("plugins");
        let shelf = Shelf::open(&root, MAX_BYTES).unwrap();
        let folder = plugin(directory.path(), "1");
        let component = folder.join("a.wasm");
        fs::remove_file(&component).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(CWD, &component, fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(shelf.stage(&folder, None).is_err());
        fs::remove_file(&component).unwrap();
        fs::write(&component, vec![0; 1 << 11]).unwrap();
        assert!(shelf.stage(&folder, None).is_err());
        assert_eq!(entries(&root), [""; 0]);
    }
}
