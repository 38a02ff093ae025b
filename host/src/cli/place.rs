//! Arguments that say where a host is on this machine: its configuration, its data, its plugins.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::exit::Failure;
use crate::config::{Config, Overrides};

/// A host's data.
#[derive(Args)]
pub struct DataArgs {
    /// The configuration [default: ./longshore.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the host keeps its tasks [default: ./longshore-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// A host's data and the plugins it finds by itself.
#[derive(Args)]
pub struct HostDirs {
    #[command(flatten)]
    data: DataArgs,
    /// A directory of plugins [default: ./plugins.d]
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
}

/// All that a host serves.
#[derive(Args)]
pub struct ServedArgs {
    #[command(flatten)]
    dirs: HostDirs,
    /// One plugin's directory, beside the others; may be given several times
    #[arg(long, value_name = "DIR")]
    plugin: Vec<PathBuf>,
}

impl DataArgs {
    pub fn config(&self) -> Result<Config, Failure> {
        self.config_with(Overrides::default())
    }

    fn config_with(&self, overrides: Overrides) -> Result<Config, Failure> {
        let overrides = Overrides {
            data_dir: self.data_dir.clone(),
            ..overrides
        };
        Ok(Config::load(self.config.as_deref(), overrides)?)
    }
}

impl HostDirs {
    pub fn config(&self) -> Result<Config, Failure> {
        self.config_with(Overrides::default())
    }

    fn config_with(&self, overrides: Overrides) -> Result<Config, Failure> {
        self.data.config_with(Overrides {
            plugins_dir: self.plugins.clone(),
            ..overrides
        })
    }
}

impl ServedArgs {
    /// `listen` is None for what the configuration says, or for nothing over HTTP.
    pub fn config(&self, listen: Option<SocketAddr>) -> Result<Config, Failure> {
        self.dirs.config_with(Overrides {
            listen,
            plugin_dirs: self.plugin.clone(),
            ..Overrides::default()
        })
    }
}
