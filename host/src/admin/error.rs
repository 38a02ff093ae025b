//! Why an administrator does not get what they ask for, in words for a person and for a program.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::catalog::load::PluginError;

#[derive(Debug, Error)]
pub enum AdminError {
    /// Before anything was changed.
    #[error("{}: {source}", path.display())]
    Plugin { path: PathBuf, source: PluginError },
    #[error(
        "a name is for a component on its own, a file that ends in `.wasm`; a plugin's directory has \
         its name in plugin.toml"
    )]
    Named,
    #[error(
        "a plugin `{0}` is there already; `longshore plugin replace` puts another version in its place"
    )]
    Exists(String),
    #[error(
        "the host serves a plugin `{0}` from outside its plugins directory (--plugin); give this one \
         another name"
    )]
    Elsewhere(String),
    #[error("no plugin `{name}` is in {}; `longshore plugin add` brings a new one", directory.display())]
    NothingToReplace { name: String, directory: PathBuf },
    #[error(
        "no plugin `{name}` is in {}; `longshore plugin list` shows those that are",
        directory.display()
    )]
    NothingToRemove { name: String, directory: PathBuf },
    #[error(
        "the host that runs on {} serves the plugins of {theirs}, not of {ours}; give --plugins {theirs}",
        data_dir.display(),
        theirs = theirs.display(),
        ours = ours.display()
    )]
    OtherDirectory {
        data_dir: PathBuf,
        theirs: PathBuf,
        ours: PathBuf,
    },
    #[error(transparent)]
    Places(PluginError),
    #[error("can't copy {}: {source}", path.display())]
    Copy { path: PathBuf, source: io::Error },
    #[error("can't change {}: {source}", path.display())]
    Change { path: PathBuf, source: io::Error },
    #[error("the host stops; nothing was changed")]
    Stopped,
}
