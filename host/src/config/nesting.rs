//! Directories that lie in each other. Whoever may write the outer one can put a link in the place of
//! the inner one, and so decide where another grant leads (I5): such a configuration is refused.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Component, Path, absolute};

use super::{Given, GivenDirectory};

/// What stands for the tenant's name in a path.
const TENANT_PLACEHOLDER: &str = "{tenant}";

/// A directory that lies in another, which may be written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Nested<'a> {
    pub plugin: &'a str,
    pub name: &'a str,
    pub outer_plugin: &'a str,
    pub outer_name: &'a str,
}

/// The first that is found; `tenants` are the names that may stand for the placeholder.
pub(super) fn find<'a>(given: &'a BTreeMap<String, Given>, tenants: &[&str]) -> Option<Nested<'a>> {
    let all: Vec<(&str, &str, &GivenDirectory)> = given
        .iter()
        .flat_map(|(plugin, given)| {
            let asked_for = given.ask.iter().flat_map(|ask| &ask.directories);
            let directories = given.directories.iter().chain(asked_for);
            directories.map(|(name, directory)| (plugin.as_str(), name.as_str(), directory))
        })
        .collect();
    all.iter().find_map(|(plugin, name, inner)| {
        let mut outer = all.iter().filter(|(_, _, outer)| outer.write);
        let (outer_plugin, outer_name, _) =
            outer.find(|(_, _, outer)| lies_in(&inner.path, &outer.path, tenants))?;
        Some(Nested {
            plugin,
            name,
            outer_plugin,
            outer_name,
        })
    })
}

/// Whether `inner` is somewhere below `outer`, by their words.
fn lies_in(inner: &Path, outer: &Path, tenants: &[&str]) -> bool {
    // Only an empty path has no absolute form, and none is given.
    let (Ok(inner), Ok(outer)) = (absolute(inner), absolute(outer)) else {
        return false;
    };
    let (inner, outer) = (words(&inner), words(&outer));
    let mut pairs = inner.iter().zip(&outer);
    inner.len() > outer.len() && pairs.all(|(inner, outer)| may_be_one(inner, outer, tenants))
}

fn words(path: &Path) -> Vec<&OsStr> {
    let mut words = Vec::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(words.pop()),
            Component::CurDir => {}
            component => words.push(component.as_os_str()),
        }
    }
    words
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
            let found = lies_in(Path::new(inner), Path::new(outer), &tenants);
            assert_eq!(found, expected, "{inner} in {outer}");
        }
    }
}
