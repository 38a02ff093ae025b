//! Which directories may not be given. None may lie in another that somebody may write: whoever writes
//! the outer one can put a link in the place of the inner one, and so decide where another grant leads.
//! The same holds for the links on the way to one. And none may reach what is the host's own, which holds what is everybody's (I4) and says who is
//! given what (I5). It looks where links lead, and reads no file.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use super::{Given, SecretSource};
use crate::paths::{Led, Route, for_tenant};

/// A directory that may not be given.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub plugin: String,
    pub name: String,
    pub message: String,
}

/// Where the host keeps what is its own.
pub(super) struct Places<'a> {
    pub configuration: &'a Path,
    pub data_dir: &'a Path,
    pub plugins_dir: &'a Path,
    pub plugin_dirs: &'a [PathBuf],
}

/// Refuses the first that is found, and notes of the others where they lead; `tenants` are the names
/// that may stand for the placeholder.
pub(super) fn check(
    given: &mut BTreeMap<String, Given>,
    places: &Places,
    tenants: &[&str],
) -> Result<(), Refused> {
    if given
        .values_mut()
        .all(|given| given.all_directories().count() == 0)
    {
        return Ok(());
    }
    let own = Own::all(given, places);
    let written = Written::of(given, tenants);
    for (plugin, given) in given {
        for (name, directory) in given.all_directories() {
            let mut ends = Vec::new();
            for path in paths(&directory.path, tenants) {
                let route = Route::of(&path);
                let found = written.find_around(name, &route);
                let found = found.or_else(|| {
                    let mut own = own.iter();
                    own.find_map(|own| own.is_reached(name, &route.end, directory.write))
                });
                if let Some(message) = found {
                    let (plugin, name) = (plugin.clone(), name.to_owned());
                    return Err(Refused {
                        plugin,
                        name,
                        message,
                    });
                }
                ends.push((path, route.end));
            }
            directory.led = Led::new(ends);
        }
    }
    Ok(())
}

/// The path for each tenant.
fn paths(path: &Path, tenants: &[&str]) -> Vec<PathBuf> {
    match for_tenant(path, "") {
        (path, false) => vec![path],
        (_, true) => {
            let each = tenants.iter();
            each.map(|tenant| for_tenant(path, tenant).0).collect()
        }
    }
}

/// Directories that may be written, with the words that name them.
struct Written(HashMap<PathBuf, String>);

impl Written {
    fn of(given: &mut BTreeMap<String, Given>, tenants: &[&str]) -> Written {
        let mut written = HashMap::new();
        for (plugin, given) in given {
            for (name, directory) in given.all_directories().filter(|(_, one)| one.write) {
                let paths = paths(&directory.path, tenants).into_iter();
                let ends = paths.map(|path| Route::of(&path).end);
                written.extend(ends.map(|end| (end, format!("`{name}` of `{plugin}`"))));
            }
        }
        Written(written)
    }

    /// What is wrong if the way leads through one of them: a tool there could put a link into it.
    fn find_around(&self, name: &str, route: &Route) -> Option<String> {
        let (place, outer) = route.passed.iter().find_map(|place| {
            let outer = self.0.get(place.parent()?)?;
            Some((place, outer))
        })?;
        let what = match route.end.starts_with(place) {
            true => format!("lies in {outer}"),
            false => format!("is reached through {outer}"),
        };
        Some(format!(
            "the directory `{name}` {what}, which may be written: a tool there could put a link in its \
             place; give one of them a place of its own"
        ))
    }
}

/// Something of the host's.
struct Own {
    route: Route,
    what: String,
    /// What a tool that reaches it could do.
    why: &'static str,
    may_be_read: bool,
}

impl Own {
    fn all(given: &BTreeMap<String, Given>, places: &Places) -> Vec<Own> {
        let mut all = Vec::new();
        let mut own = |path: &Path, what: &str, why, may_be_read| {
            all.extend(with_links(path).into_iter().map(|route| Own {
                route,
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

    /// What is wrong if a directory reaches it.
    fn is_reached(&self, name: &str, directory: &Path, write: bool) -> Option<String> {
        let path = &self.route.end;
        let relation = match (path == directory, path.starts_with(directory)) {
            (true, _) => "is",
            (false, true) => "holds",
            (false, false) if directory.starts_with(path) => "lies in",
            (false, false) => {
                let mut passed = self.route.passed.iter();
                passed.find(|place| write && place.starts_with(directory))?;
                "holds a link on the way to"
            }
        };
        (write || !self.may_be_read).then(|| {
            format!(
                "the directory `{name}` ({}) {relation} {} ({}), and {}; give it a place that is apart \
                 from the host's own",
                directory.display(),
                self.what,
                path.display(),
                self.why
            )
        })
    }
}

/// Where a path leads, and the links in there: a store on another disk, a plugin that is elsewhere.
fn with_links(path: &Path) -> Vec<Route> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    std::iter::once(Route::of(path))
        .chain(links.map(|link| Route::of(&link.path())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_lies_in_another_by_where_they_are() {
        for (inner, outer, expected) in [
            ("/srv/a/b", "/srv/a", true),
            ("/srv/a/./b/../c/", "/srv/a", true),
            ("/srv/a", "/srv/a", false),
            ("/srv/a", "/srv/a/b", false),
            ("/srv/ab", "/srv/a", false),
            ("work/out", "work", true),
            ("/srv/{tenant}/out", "/srv/{tenant}", true),
            ("/srv/ada/out", "/srv/{tenant}", true),
            ("/srv/x-{tenant}/out", "/srv/x-ada", true),
            ("/srv/ada/out", "/srv/a{tenant}", true),
            ("/srv/shared/out", "/srv/{tenant}", false),
        ] {
            let text = format!(
                "directories.outer = {{ path = \"{outer}\", access = \"write\" }}\n\
                 directories.inner = {{ path = \"{inner}\", access = \"read\" }}"
            );
            let given: Given = toml::from_str(&text).unwrap();
            let places = Places {
                configuration: Path::new("/etc/longshore.toml"),
                data_dir: Path::new("/var/longshore"),
                plugins_dir: Path::new("/usr/longshore"),
                plugin_dirs: &[],
            };
            let mut given = BTreeMap::from([("a".to_owned(), given)]);
            let refused = check(&mut given, &places, &["ada", "da"]).is_err();
            assert_eq!(refused, expected, "{inner} in {outer}");
        }
    }
}
