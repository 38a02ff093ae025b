//! Compiled guests, shared by the hosts of all tests: compiling one takes seconds, and a host takes
//! what it finds in its cache only if it is what a host has put there.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, MutexGuard};

/// Held by the host that compiles first.
static COMPILING: Mutex<()> = Mutex::const_new(());

fn shared() -> PathBuf {
    let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("components");
    fs::create_dir_all(&shared).unwrap();
    shared
}

/// Whether every plugin in `plugins` was compiled before.
fn has_all(plugins: &Path) -> bool {
    let names: Vec<OsString> = names(&shared());
    components(plugins).iter().all(|component| {
        let digest = Sha256::digest(fs::read(component).unwrap());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        names.iter().any(|name| {
            let name = name.to_string_lossy();
            name.starts_with(&digest) && name.ends_with(".sha256")
        })
    })
}

/// Gives a host's cache what others have compiled. While the guard is held nobody else compiles;
/// there is none when there is nothing left to compile.
pub async fn lend(plugins: &Path, cache: &Path) -> Option<MutexGuard<'static, ()>> {
    let guard = match has_all(plugins) {
        true => None,
        false => Some(COMPILING.lock().await),
    };
    copy(&shared(), cache);
    guard
}

/// Takes what a host has compiled.
pub fn keep(cache: &Path) {
    copy(cache, &shared());
}

/// Copies what is not there yet; the code's seal (`.sha256`) last, as the host does.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let mut names = names(from);
    names.sort_by_key(|name| name.to_string_lossy().ends_with(".sha256"));
    for name in names {
        let is_whole = !name.to_string_lossy().starts_with('.');
        let target = to.join(&name);
        if is_whole && !target.exists() {
            let temporary = tempfile::NamedTempFile::new_in(to).unwrap();
            fs::copy(from.join(&name), temporary.path()).unwrap();
            temporary.persist(target).unwrap();
        }
    }
}

fn names(directory: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}

/// The components of all plugins, whatever they hold.
fn components(plugins: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(plugins).into_iter().flatten();
    folders
        .flat_map(|folder| fs::read_dir(folder.unwrap().path()).into_iter().flatten())
        .map(|file| file.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "wasm")
        })
        .collect()
}
