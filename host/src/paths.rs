//! What a path on the host comes to: the tenant's name in its place, where its links lead, and the
//! directory there, opened without following any. It reads no file and decides nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;

/// What stands for the tenant's name in a path.
const TENANT_PLACEHOLDER: &str = "{tenant}";

/// How many links one path may lead through.
const LINKS_MAX: u32 = 40;

/// What a directory that is made may be for others, before the process's own mask.
const MADE_MODE: u32 = 0o777;

/// Puts the tenant's name in, and says whether it has a place. A tenant's name has no separator and
/// no dot, so that it can't leave it (I4). A path that is not text has no placeholder.
pub fn for_tenant(path: &Path, tenant: &str) -> (PathBuf, bool) {
    match path.to_str() {
        Some(text) if text.contains(TENANT_PLACEHOLDER) => {
            (text.replace(TENANT_PLACEHOLDER, tenant).into(), true)
        }
        _ => (path.to_owned(), false),
    }
}

/// The way along a path and its links.
pub struct Route {
    /// Where it leads, without links and dots. What is not there yet has no links, but a link to it.
    pub end: PathBuf,
    /// Every place it leads through, links and the end included: whoever may change one of them
    /// decides where the path leads.
    pub passed: Vec<PathBuf>,
}

impl Route {
    pub fn of(path: &Path) -> Route {
        let mut end = PathBuf::from("/");
        let mut passed = Vec::new();
        let mut links = 0;
        let mut words = reversed(&absolute(path));
        while let Some(word) = words.pop() {
            if word == ".." {
                end.pop();
                continue;
            }
            end.push(word);
            passed.push(end.clone());
            let Ok(target) = fs::read_link(&end) else {
                continue;
            };
            links += 1;
            if links > LINKS_MAX {
                continue;
            }
            end.pop();
            if target.is_absolute() {
                end = PathBuf::from("/");
            }
            words.extend(reversed(&target));
        }
        Route { end, passed }
    }
}

/// The words of a path, the first one last.
fn reversed(path: &Path) -> Vec<OsString> {
    let words = path.components().rev();
    words
        .filter(|word| !matches!(word, Component::CurDir | Component::RootDir))
        .map(|word| word.as_os_str().to_owned())
        .collect()
}

/// Only an empty path has no absolute form, and none is given.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Where paths led when they were checked: a link that is changed later leads to a place that nobody
/// gave (I5). Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Led(Arc<BTreeMap<PathBuf, PathBuf>>);

impl Led {
    /// Of paths and their ends; those without links are left out.
    pub fn new(ends: impl IntoIterator<Item = (PathBuf, PathBuf)>) -> Led {
        let linked = ends
            .into_iter()
            .filter(|(path, end)| absolute(path) != *end);
        Led(Arc::new(linked.collect()))
    }

    /// Where the path led, if that is not its own place.
    pub fn away(&self, path: &Path) -> Option<&Path> {
        self.0.get(path).map(PathBuf::as_path)
    }

    /// Where the path leads. None if that is not where it led.
    pub fn end(&self, path: &Path) -> Option<PathBuf> {
        let end = Route::of(path).end;
        let is_same = match self.away(path) {
            Some(led) => led == end,
            None => absolute(path) == end,
        };
        is_same.then_some(end)
    }
}

/// Opens a directory to look things up in, without following a link anywhere: one that was put there
/// since the place was checked fails. What is missing is made, if it may be.
pub fn open_directory(place: &Path, make: bool) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = openat(CWD, "/", flags, Mode::empty())?;
    for word in reversed(place).into_iter().rev() {
        let open = || openat(&at, &word, flags, Mode::empty());
        let opened = match open() {
            Err(Errno::NOENT) if make => {
                match mkdirat(&at, &word, Mode::from_raw_mode(MADE_MODE)) {
                    // Another run may have made it.
                    Ok(()) | Err(Errno::EXIST) => open(),
                    Err(error) => Err(error),
                }
            }
            opened => opened,
        };
        at = opened?;
    }
    Ok(File::from(at))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_tenants_name_takes_its_place_in_the_path() {
        let (path, is_per_tenant) = for_tenant(Path::new("/data/{tenant}/out"), "acme");
        assert_eq!(path, Path::new("/data/acme/out"));
        assert!(is_per_tenant);
        assert!(!for_tenant(Path::new("/data"), "acme").1);
    }

    #[test]
    fn a_path_leads_where_its_links_do() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(root.join("real/inner")).unwrap();
        symlink("real/inner/..", root.join("up")).unwrap();
        symlink(root.join("up/not/yet"), root.join("later")).unwrap();
        symlink("round", root.join("round")).unwrap();
        for (path, expected) in [
            ("up/inner", "real/inner"),
            ("up/./inner/../other", "real/other"),
            ("later/new", "real/not/yet/new"),
            ("round/x", "round/x"),
        ] {
            let end = Route::of(&root.join(path)).end;
            assert_eq!(end, root.join(expected), "{path}");
        }
        let passed = Route::of(&root.join("later")).passed;
        for place in ["later", "up", "real/inner", "real/not/yet"] {
            assert!(passed.contains(&root.join(place)), "{place}: {passed:?}");
        }
    }

    #[test]
    fn a_path_that_leads_elsewhere_than_it_did_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        for name in ["a", "b"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        let (link, plain) = (root.join("link"), root.join("plain"));
        symlink("a", &link).unwrap();
        let ends = [&link, &plain].map(|path| (path.clone(), Route::of(path).end));
        let led = Led::new(ends);
        assert_eq!(led.end(&link), Some(root.join("a")));
        assert_eq!(led.end(&plain), Some(plain.clone()));
        assert_eq!(led.away(&plain), None);

        fs::remove_file(&link).unwrap();
        for path in [&link, &plain] {
            symlink("b", path).unwrap();
            assert_eq!(led.end(path), None, "{}", path.display());
        }
    }

    #[test]
    fn a_directory_is_opened_and_made_without_following_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(root.join("real/inner")).unwrap();
        symlink("real", root.join("link")).unwrap();
        for (path, make, expected) in [
            ("real/inner", false, true),
            ("real/none", false, false),
            ("link", false, false),
            ("link/inner", true, false),
            ("link/new", true, false),
            ("real/new/newer", true, true),
        ] {
            let opened = open_directory(&root.join(path), make);
            assert_eq!(opened.is_ok(), expected, "{path}: {opened:?}");
        }
        assert!(root.join("real/new/newer").is_dir());
        assert_eq!(fs::read_dir(root.join("real")).unwrap().count(), 2);
    }
}
