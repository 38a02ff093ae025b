//! Changes of the plugins directory that happen at once or not at all: a plugin is made whole under
//! a name that hosts do not look at, and then renamed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::catalog::load::{PluginError, read_manifest, read_manifest_text};
use crate::catalog::manifest::{MANIFEST_FILE, Manifest};
use crate::catalog::place::{component_path, is_bare, places};
use crate::catalog::{CANCEL_DIR, Sources};
use crate::cli::exit::Failure;

/// Hosts leave out names that begin with a dot.
const STAGE_PREFIX: &str = ".longshore-";

/// Age at which a stage has lost its command.
const STAGE_MAX_AGE: Duration = Duration::from_secs(3_600);

/// The plugins directory.
pub struct Shelf {
    root: PathBuf,
}

/// A plugin that is whole and not yet served; removed unless it is put in place.
pub struct Staged(PathBuf);

impl Staged {
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        discard(&self.0);
    }
}

impl Shelf {
    pub fn open(root: &Path) -> Result<Shelf, Failure> {
        fs::create_dir_all(root).map_err(|error| unusable(root, &error))?;
        let shelf = Shelf {
            root: root.to_owned(),
        };
        shelf.tidy();
        Ok(shelf)
    }

    /// Where the plugin of that name is.
    pub fn find(&self, name: &str) -> Result<Option<PathBuf>, Failure> {
        let sources = Sources {
            plugins_dir: Some(self.root.clone()),
            plugin_dirs: Vec::new(),
            component_max_bytes: 0,
        };
        // One under its own name is found however many there are.
        let likely = self.root.join(name);
        let listed = places(&sources, [likely.as_path()]);
        let listed = listed.map_err(|error| Failure::failed(error.to_string()))?;
        let is_it = |place: &PathBuf| {
            // A manifest that can't be read leaves only the place's own name to go by.
            match read_manifest(place) {
                Ok(manifest) => manifest.name == name,
                Err(_) => place.file_name().is_some_and(|file| file == name),
            }
        };
        let mut all = listed.places.into_iter().chain(listed.left_out.places);
        Ok(all.find(is_it))
    }

    /// Copies the plugin at `source`, a directory or a component, under the name it is to have.
    pub fn stage(&self, source: &Path, name: Option<&str>) -> Result<(Staged, Manifest), Failure> {
        let failed = |error: PluginError| Failure::failed(error.to_string());
        let text = match name {
            Some(name) if is_bare(source) => Manifest::bare(name, source)
                .ok_or_else(|| failed(PluginError::FileName(name.into())))?,
            Some(_) => {
                return Err(Failure::usage(
                    "--name is for a component on its own; a plugin's directory has its name in \
                     plugin.toml",
                ));
            }
            None => read_manifest_text(source).map_err(failed)?.0,
        };
        let manifest = Manifest::parse(&text, &source.join(MANIFEST_FILE))?;
        let staged = Staged(self.stage_path("new", &manifest.name));
        let copy = || -> io::Result<()> {
            fs::create_dir(staged.path())?;
            let component = staged.path().join(&manifest.component);
            fs::copy(component_path(source, &manifest), &component)?;
            File::open(&component)?.sync_all()?;
            let file = staged.path().join(MANIFEST_FILE);
            fs::write(&file, text)?;
            File::open(&file)?.sync_all()
        };
        copy().map_err(|error| {
            Failure::failed(format!("can't copy {}: {error}", source.display()))
        })?;
        Ok((staged, manifest))
    }

    /// Puts a new plugin in place.
    pub fn add(&self, staged: &Staged, name: &str) -> Result<(), Failure> {
        let place = self.root.join(name);
        rename(staged.path(), &place, RenameFlags::NOREPLACE)
            .or_else(|error| match place.exists() {
                // Not every file system can refuse to replace.
                false => fs::rename(staged.path(), &place),
                true => Err(error),
            })
            .map_err(|error| unusable(&place, &error))?;
        // Whoever adds a plugin does not want the tasks of its next removal cancelled.
        let _ = fs::remove_file(self.cancel_file(name));
        Ok(())
    }

    /// Puts a plugin in the place of another, which is gone afterwards.
    pub fn replace(&self, staged: &Staged, place: &Path, name: &str) -> Result<(), Failure> {
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
            let old = self.stage_path("old", name);
            fs::rename(place, &old)?;
            fs::rename(staged.path(), place)?;
            discard(&old);
            Ok(())
        };
        exchange().map_err(|error| unusable(place, &error))
    }

    /// Takes a plugin away. With `cancels`, the host is asked to cancel its tasks.
    pub fn remove(&self, place: &Path, name: &str, cancels: bool) -> Result<(), Failure> {
        let remove = || -> io::Result<()> {
            if cancels {
                fs::create_dir_all(self.root.join(CANCEL_DIR))?;
                File::create(self.cancel_file(name))?;
            }
            let old = self.stage_path("old", name);
            fs::rename(place, &old)?;
            discard(&old);
            Ok(())
        };
        remove().map_err(|error| unusable(place, &error))
    }

    fn cancel_file(&self, name: &str) -> PathBuf {
        self.root.join(CANCEL_DIR).join(name)
    }

    fn stage_path(&self, what: &str, name: &str) -> PathBuf {
        let process = std::process::id();
        self.root
            .join(format!("{STAGE_PREFIX}{what}-{name}-{process}"))
    }

    /// Removes what a command left that was killed.
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
            if is_stage && is_old {
                discard(&entry.path());
            }
        }
    }
}

fn rename(from: &Path, to: &Path, flags: RenameFlags) -> io::Result<()> {
    Ok(renameat_with(CWD, from, CWD, to, flags)?)
}

/// Removes a directory, a file or a link. What can't be removed is out of every host's sight.
fn discard(path: &Path) {
    if fs::remove_dir_all(path).is_err() {
        let _ = fs::remove_file(path);
    }
}

fn unusable(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("can't change {}: {error}", path.display()))
}
