//! Which case files there are. It reads names, never contents, and follows no linked directory:
//! a link that leads upwards would never end.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Cases of one run. The result and the checkpoint name every failing one.
pub const CASES_MAX: usize = 2_000;

/// Directories inside directories.
const DEPTH_MAX: usize = 32;

/// A case's path below the directory, bytes.
const PATH_MAX_BYTES: usize = 512;

/// Why the cases could not be listed.
#[derive(Debug, Error)]
pub enum DiscoverError {
    #[error("cannot read directory {path}: {source}; grant the plugin a directory named `cases`")]
    Directory {
        path: String,
        source: std::io::Error,
    },
    #[error("more than {CASES_MAX} cases are selected; choose fewer with `filter`")]
    TooMany,
    #[error("{0} lies more than {DEPTH_MAX} directories deep or has too long a path; move it up")]
    TooDeep(String),
}

/// The paths of all `.toml` files below `root` that `filter` selects, relative to it with `/`, in
/// byte order, so that every run of the same files is the same run.
pub fn cases(root: &Path, filter: Option<&Filter>) -> Result<Vec<String>, DiscoverError> {
    let mut found = Vec::new();
    let mut pending = vec![(PathBuf::from(root), String::new(), 0)];
    while let Some((directory, prefix, depth)) = pending.pop() {
        let unreadable = |source| DiscoverError::Directory {
            path: directory.display().to_string(),
            source,
        };
        for entry in std::fs::read_dir(&directory).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type().map_err(unreadable)?;
            if kind.is_dir() {
                if depth >= DEPTH_MAX || path.len() > PATH_MAX_BYTES {
                    return Err(DiscoverError::TooDeep(path));
                }
                pending.push((entry.path(), format!("{path}/"), depth + 1));
            } else if name.ends_with(".toml") && filter.is_none_or(|filter| filter.selects(&path)) {
                if path.len() > PATH_MAX_BYTES {
                    return Err(DiscoverError::TooDeep(path));
                }
                if found.len() >= CASES_MAX {
                    return Err(DiscoverError::TooMany);
                }
                found.push(path);
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Selects cases by their path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// The path contains this.
    Part(String),
    /// The whole path fits: `*` within a directory, `**` across, `?` one character.
    Glob(String),
}

impl Filter {
    pub fn parse(text: &str) -> Filter {
        if text.contains(['*', '?']) {
            Filter::Glob(text.to_owned())
        } else {
            Filter::Part(text.to_owned())
        }
    }

    pub fn selects(&self, path: &str) -> bool {
        match self {
            Filter::Part(part) => path.contains(part.as_str()),
            Filter::Glob(glob) => fits(glob.as_bytes(), path.as_bytes()),
        }
    }
}

/// One row of a table instead of recursion: a pattern of many stars stays quadratic.
fn fits(glob: &[u8], path: &[u8]) -> bool {
    // Which lengths of `path` the pattern read so far can stand for.
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    let mut rest = glob;
    while !rest.is_empty() {
        if let Some(tail) = rest.strip_prefix(b"**/") {
            // Any number of whole directories, also none.
            let mut any = false;
            for at in 0..=path.len() {
                any |= reached[at];
                reached[at] |= any && at > 0 && path[at - 1] == b'/';
            }
            rest = tail;
        } else if let Some(tail) = rest.strip_prefix(b"**") {
            for at in 0..path.len() {
                reached[at + 1] |= reached[at];
            }
            rest = tail;
        } else if let Some(tail) = rest.strip_prefix(b"*") {
            for at in 0..path.len() {
                reached[at + 1] |= reached[at] && path[at] != b'/';
            }
            rest = tail;
        } else {
            for at in (0..path.len()).rev() {
                let same = rest[0] == path[at] || (rest[0] == b'?' && path[at] != b'/');
                reached[at + 1] = reached[at] && same;
            }
            reached[0] = false;
            rest = &rest[1..];
        }
    }
    reached[path.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_select_by_part_or_by_pattern() {
        let table = [
            ("users", "api/users/list.toml", true),
            ("users", "api/orders.toml", false),
            ("*.toml", "a.toml", true),
            ("*.toml", "api/a.toml", false),
            ("**.toml", "api/a.toml", true),
            ("**/a.toml", "a.toml", true),
            ("**/a.toml", "x/y/a.toml", true),
            ("**/a.toml", "x/ba.toml", false),
            ("x/**/a.toml", "x/a.toml", true),
            ("x/**/a.toml", "x/y/z/a.toml", true),
            ("x/**/a.toml", "y/a.toml", false),
            ("x**/a.toml", "xy/z/a.toml", true),
            ("api/*/list.toml", "api/users/list.toml", true),
            ("api/?.toml", "api/a.toml", true),
            ("api?a.toml", "api/a.toml", false),
            ("api/*", "api/", true),
            ("*x*", "api", false),
        ];
        for (filter, path, selected) in table {
            assert_eq!(
                Filter::parse(filter).selects(path),
                selected,
                "{filter} on {path}"
            );
        }
    }

    #[test]
    fn a_pattern_of_many_stars_ends() {
        let filter = Filter::parse(&"*a".repeat(200));
        assert!(!filter.selects(&"a".repeat(199)));
        assert!(filter.selects(&"a".repeat(200)));
        assert!(!Filter::parse(&"**/".repeat(200)).selects("a/b"));
    }

    #[test]
    fn cases_are_found_at_every_depth_in_order() {
        let root = tempfile::tempdir().unwrap();
        for path in ["b.toml", "a/z.toml", "a/b/c.toml", "a/readme.md", "a.toml"] {
            let file = root.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        let all = cases(root.path(), None).unwrap();
        assert_eq!(all, ["a.toml", "a/b/c.toml", "a/z.toml", "b.toml"]);
        let some = cases(root.path(), Some(&Filter::parse("a/*.toml"))).unwrap();
        assert_eq!(some, ["a/z.toml"]);
    }

    #[test]
    fn a_missing_directory_says_what_to_grant() {
        let error = cases(Path::new("/no/such/place"), None).unwrap_err();
        assert!(error.to_string().contains("grant the plugin"), "{error}");
    }
}
