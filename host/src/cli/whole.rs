//! A file that a command writes: whole under its name or not at all, so that one that was there stays
//! until the new one is complete. It decides nothing about the contents.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Who may read a file that was not there before; one that was keeps its permissions.
#[derive(Clone, Copy)]
pub enum Readers {
    /// Whoever may read what its user makes.
    Usual,
    Owner,
}

/// The file while it is written; without [`Whole::finish`] nothing has changed.
pub struct Whole(Place);

enum Place {
    /// What will have the name, beside it under another.
    Beside {
        file: NamedTempFile,
        target: PathBuf,
        before: Option<Before>,
    },
    /// A device or a pipe, which is not for us to replace.
    Itself(File),
}

/// Whose the file is that was there, and who may do what with it.
struct Before {
    owner: u32,
    group: u32,
    mode: u32,
}

impl Whole {
    /// Begins the file that is to be at `path`. A link stays a link: what it leads to is replaced.
    pub fn create(path: &Path, readers: Readers) -> io::Result<Whole> {
        let before = match fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) => {
                // Who may not write a file may not replace it.
                let file = OpenOptions::new().write(true).open(path)?;
                if !found.is_file() {
                    return Ok(Whole(Place::Itself(file)));
                }
                Some(Before {
                    owner: found.uid(),
                    group: found.gid(),
                    mode: found.mode() & 0o777,
                })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let target = match before {
            Some(_) => fs::canonicalize(path)?,
            None => path.to_owned(),
        };
        let mode = match (&before, readers) {
            (None, Readers::Usual) => 0o666,
            // That of a file that was there comes at the end.
            (Some(_), _) | (None, Readers::Owner) => 0o600,
        };
        let folder = target.parent().filter(|folder| *folder != Path::new(""));
        let file = tempfile::Builder::new()
            .prefix(".longshore-")
            .suffix(".part")
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(folder.unwrap_or(Path::new(".")))?;
        Ok(Whole(Place::Beside {
            file,
            target,
            before,
        }))
    }

    /// Writes to the same file, for another thread.
    pub fn writer(&self) -> io::Result<File> {
        self.file().try_clone()
    }

    /// Puts what was written under its name, once it is on the disk.
    pub fn finish(self) -> io::Result<()> {
        let Place::Beside {
            file,
            target,
            before,
        } = self.0
        else {
            return Ok(());
        };
        if let Some(before) = before {
            // Only root may give a file away; for anybody else it stays its own.
            let _ = fchown(file.as_file(), Some(before.owner), Some(before.group));
            let permissions = Permissions::from_mode(before.mode);
            file.as_file().set_permissions(permissions)?;
        }
        file.as_file().sync_all()?;
        file.persist(target)?;
        Ok(())
    }

    fn file(&self) -> &File {
        match &self.0 {
            Place::Beside { file, .. } => file.as_file(),
            Place::Itself(file) => file,
        }
    }
}

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replace(path: &Path, text: &str, readers: Readers) -> io::Result<()> {
        let mut file = Whole::create(path, readers)?;
        file.write_all(text.as_bytes())?;
        file.finish()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_not_finished_changes_nothing_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        fs::write(&path, "old").unwrap();
        let mut file = Whole::create(&path, Readers::Usual).unwrap();
        file.write_all(b"half").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        replace(&path, "new", Readers::Usual).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_new_file_is_for_its_readers_and_an_old_one_keeps_its_mode() {
        let directory = tempfile::tempdir().unwrap();
        let usual = directory.path().join("usual");
        fs::write(&usual, "").unwrap();
        let (path, other) = (directory.path().join("a"), directory.path().join("b"));
        replace(&path, "a", Readers::Owner).unwrap();
        replace(&other, "b", Readers::Usual).unwrap();
        assert_eq!((mode(&path), mode(&other)), (0o600, mode(&usual)));
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        replace(&path, "c", Readers::Owner).unwrap();
        assert_eq!(mode(&path), 0o640);
    }

    #[test]
    fn a_link_stays_and_what_is_no_file_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let (link, path) = (directory.path().join("link"), directory.path().join("out"));
        fs::write(&path, "old").unwrap();
        std::os::unix::fs::symlink("out", &link).unwrap();
        replace(&link, "new", Readers::Usual).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"new");

        let null = Path::new("/dev/null");
        replace(null, "nothing", Readers::Usual).unwrap();
        assert!(!fs::metadata(null).unwrap().is_file());
        let error = replace(directory.path(), "no", Readers::Usual).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    }
}
