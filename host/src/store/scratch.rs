//! A copy of the database on another disk. Whoever opens the database writes to it: it clears the end
//! of its log and notes where it is. On a full disk it can't, and a copy is read instead. It must
//! not change what it copies.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::OpenError;
use super::disk::has_room_to_open;
use super::offline::unusable;

const MIB: u64 = 1024 * 1024;

/// The copy; deleted when dropped.
pub(super) struct Scratch(TempDir);

impl Scratch {
    /// Copies the folder `place` of the store in `directory` into the directory for temporary files.
    pub(super) fn copy_of(directory: &Path, place: &Path) -> Result<Scratch, OpenError> {
        let elsewhere = std::env::temp_dir();
        let copied = Scratch::try_copy(place, &elsewhere);
        copied.map_err(|error| match error {
            Failure::Original(source) => unusable(directory, source),
            Failure::Copy { needed, source } => OpenError::NoScratch {
                directory: directory.display().to_string(),
                elsewhere: elsewhere.display().to_string(),
                needed_mib: needed.div_ceil(MIB),
                source,
            },
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    fn try_copy(place: &Path, elsewhere: &Path) -> Result<Scratch, Failure> {
        let mut files = Vec::new();
        let needed = list_files(place, Path::new(""), &mut files).map_err(Failure::Original)?;
        copy_files(place, &files, needed, elsewhere)
            .map(Scratch)
            .map_err(|source| Failure::Copy { needed, source })
    }
}

enum Failure {
    Original(io::Error),
    Copy { needed: u64, source: io::Error },
}

/// Every file below `root/folder`, by its path from `root`; returns their bytes together.
fn list_files(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        let found = entry.metadata()?;
        if found.is_dir() {
            bytes += list_files(root, &path, files)?;
        } else {
            bytes += found.len();
            files.push(path);
        }
    }
    Ok(bytes)
}

fn copy_files(
    place: &Path,
    files: &[PathBuf],
    needed: u64,
    elsewhere: &Path,
) -> io::Result<TempDir> {
    if !has_room_to_open(elsewhere, needed)? {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let copy = tempfile::Builder::new()
        .prefix("longshore-")
        // It holds what all tenants' tasks do.
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(elsewhere)?;
    for file in files {
        let target = copy.path().join(file);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(place.join(file), target)?;
    }
    Ok(copy)
}
