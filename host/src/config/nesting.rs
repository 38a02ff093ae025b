//! Which directories may not be given. None may lie in another that somebody may write: whoever writes
//! the outer one can put a link in the place of the inner one, and so decide where another grant leads.
//! And none may reach what is the host's own, which holds what is everybody's (I4) and says who is
//! given what (I5). It looks where links lead, and reads no file.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Component, Path, PathBuf, absolute};

use super::{Given, GivenDirectory, SecretSource};

/// What stands for the tenant's name in a path.
const TENANT_PLACEHOLDER: &str = "{tenant}";

/// How many links one path may lead through.
const LINKS_MAX: u32 = 40;

/// A directory that may not be given.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused<'a> {
    pub plugin: &'a str,
    pub name: &'a str,
    pub message: String,
}

/// Where the host keeps what is its own.
pub(super) struct Places<'a> {
    pub configuration: &'a Path,
    pub data_dir: &'a Path,
    pub plugins_dir: &'a Path,
    pub plugin_dirs: &'a [PathBuf],
}

struct Directory<'a> {
    plugin: &'a str,
    name: &'a str,
    given: &'a GivenDirectory,
}

/// The first that is found; `tenants` are the names that may stand for the placeholder.
pub(super) fn find<'a>(
    given: &'a BTreeMap<String, Given>,
    places: &Places,
    tenants: &[&str],
) -> Option<Refused<'a>> {
    let all: Vec<Directory> = given
        .iter()
        .flat_map(|(plugin, given)| {
            let asked_for = given.ask.iter().flat_map(|ask| &ask.directories);
            let directories = given.directories.iter().chain(asked_for);
            directories.map(|(name, given)| Directory {
                plugin,
                name,
                given,
            })
        })
        .collect();
    if all.is_empty() {
        return None;
    }
    let own = Own::all(given, places);
    let found = find_nested(&all, tenants).or_else(|| find_own(&all, &own, tenants));
    found.map(|(directory, message)| Refused {
        plugin: directory.plugin,
        name: directory.name,
        message,
    })
}

fn find_nested<'a, 'b>(
    all: &'b [Directory<'a>],
    tenants: &[&str],
) -> Option<(&'b Directory<'a>, String)> {
    let places: Vec<PathBuf> = all.iter().map(|one| resolved(&one.given.path)).collect();
    let all = || all.iter().zip(&places);
    all().find_map(|(inner, place)| {
        let mut written = all().filter(|(outer, _)| outer.given.write);
        let (outer, _) = written.find(|(_, outer)| lies_in(place, outer, tenants))?;
        let message = format!(
            "the directory `{}` lies in `{}` of `{}`, which may be written: a tool there could put \
             a link in its place; give one of them a place of its own",
            inner.name, outer.name, outer.plugin
        );
        Some((inner, message))
    })
}

fn find_own<'a, 'b>(
    all: &'b [Directory<'a>],
    own: &[Own],
    tenants: &[&str],
) -> Option<(&'b Directory<'a>, String)> {
    all.iter().find_map(|directory| {
        let places = places_of(&directory.given.path, tenants);
        let mut pairs = places
            .iter()
            .flat_map(|place| own.iter().map(move |own| (place, own)));
        let (place, own) = pairs.find(|(place, own)| {
            let reaches = own.path.starts_with(place) || place.starts_with(&own.path);
            reaches && (directory.given.write || !own.may_be_read)
        })?;
        let relation = match (own.path == *place, own.path.starts_with(place)) {
            (true, _) => "is",
            (false, true) => "holds",
            (false, false) => "lies in",
        };
        let message = format!(
            "the directory `{}` ({}) {relation} {} ({}), and {}; give it a place that is apart from \
             the host's own",
            directory.name,
            place.display(),
            own.what,
            own.path.display(),
            own.why
        );
        Some((directory, message))
    })
}

/// Something of the host's.
struct Own {
    path: PathBuf,
    what: String,
    /// What a tool that reaches it could do.
    why: &'static str,
    may_be_read: bool,
}

impl Own {
    fn all(given: &BTreeMap<String, Given>, places: &Places) -> Vec<Own> {
        let mut all = Vec::new();
        let mut own = |path: &Path, what: &str, why, may_be_read| {
            all.extend(with_links(path).into_iter().map(|path| Own {
                path,
                what: what.to_owned(),
                why,
                may_be_read,
            }));
        };
        let why = "keys, tasks and answers of every tenant are in there";
        own(places.data_dir, "the data directory", why, false);
        let why = "that says what everybody is given";
        own(places.configuration, "the configuration", why, false);
        let why = "whoever writes there decides what the host runs";
        own(places.plugins_dir, "the plugins directory", why, true);
        for directory in places.plugin_dirs {
            own(directory, "a plugin's directory", why, true);
        }
        for (plugin, given) in given {
            for (name, secret) in &given.secrets {
                if let SecretSource::File(path) = &secret.source {
                    let what = format!("the secret `{name}` of `{plugin}`");
                    own(path, &what, "no tool may see a secret", false);
                }
            }
        }
        all
    }
}

/// Where a path leads, and the links in there: a store on another disk, a plugin that is elsewhere.
fn with_links(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    std::iter::once(resolved(path))
        .chain(links.map(|link| resolved(&link.path())))
        .collect()
}

/// Where a path leads, for each tenant.
fn places_of(path: &Path, tenants: &[&str]) -> Vec<PathBuf> {
    match path.to_str() {
        Some(text) if text.contains(TENANT_PLACEHOLDER) => tenants
            .iter()
            .map(|tenant| resolved(Path::new(&text.replace(TENANT_PLACEHOLDER, tenant))))
            .collect(),
        _ => vec![resolved(path)],
    }
}

/// The path without links and dots. What is not there yet has none, but a link to it.
fn resolved(path: &Path) -> PathBuf {
    // Only an empty path has no absolute form, and none is given.
    let path = absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut done = PathBuf::from("/");
    let mut links = 0;
    let mut words = reversed(&path);
    while let Some(word) = words.pop() {
        if word == ".." {
            done.pop();
            continue;
        }
        done.push(word);
        let Ok(target) = fs::read_link(&done) else {
            continue;
        };
        links += 1;
        if links > LINKS_MAX {
            continue;
        }
        done.pop();
        if target.is_absolute() {
            done = PathBuf::from("/");
        }
        words.extend(reversed(&target));
    }
    done
}

/// The words of a path, the first one last.
fn reversed(path: &Path) -> Vec<OsString> {
    let words = path.components().rev();
    words
        .filter(|word| !matches!(word, Component::CurDir | Component::RootDir))
        .map(|word| word.as_os_str().to_owned())
        .collect()
}

/// Whether `inner` is somewhere below `outer`, by their words.
fn lies_in(inner: &Path, outer: &Path, tenants: &[&str]) -> bool {
    let (inner, outer) = (words(inner), words(outer));
    let mut pairs = inner.iter().zip(&outer);
    inner.len() > outer.len() && pairs.all(|(inner, outer)| may_be_one(inner, outer, tenants))
}

fn words(path: &Path) -> Vec<&OsStr> {
    path.components().map(Component::as_os_str).collect()
}

fn may_be_one(one: &OsStr, other: &OsStr, tenants: &[&str]) -> bool {
    let with = |word: &OsStr, tenant: &str| {
        let word = word.to_string_lossy();
        word.replace(TENANT_PLACEHOLDER, tenant)
    };
    one == other
        || tenants
            .iter()
            .any(|tenant| with(one, tenant) == with(other, tenant))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_lies_in_another_by_its_words() {
        let tenants = ["ada"];
        for (inner, outer, expected) in [
            ("/srv/a/b", "/srv/a", true),
            ("/srv/a/./b/../c/", "/srv/a", true),
            ("/srv/a", "/srv/a", false),
            ("/srv/a", "/srv/a/b", false),
            ("/srv/ab", "/srv/a", false),
            ("/srv/a/../b", "/srv/a", false),
            ("work/out", "work", true),
            ("/srv/{tenant}/out", "/srv/{tenant}", true),
            ("/srv/ada/out", "/srv/{tenant}", true),
            ("/srv/x-{tenant}/out", "/srv/x-ada", true),
            ("/srv/shared/out", "/srv/{tenant}", false),
        ] {
            let [inner, outer] = [inner, outer].map(|path| resolved(Path::new(path)));
            let found = lies_in(&inner, &outer, &tenants);
            assert_eq!(found, expected, "{inner:?} in {outer:?}");
        }
    }

    #[test]
    fn a_path_leads_where_its_links_do() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(root.join("real/inner")).unwrap();
        let link = |name: &str, target: &str| {
            std::os::unix::fs::symlink(target, root.join(name)).unwrap();
        };
        link("up", "real/inner/..");
        link("later", root.join("up/not/yet").to_str().unwrap());
        link("round", "round");
        for (path, expected) in [
            ("up/inner", "real/inner"),
            ("up/./inner/../other", "real/other"),
            ("later/new", "real/not/yet/new"),
            ("round/x", "round/x"),
        ] {
            assert_eq!(resolved(&root.join(path)), root.join(expected), "{path}");
        }
    }
}
