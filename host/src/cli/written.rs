//! Where a tool's files are on this machine: a result names them as the tool sees them. It speaks only
//! of a host that says of itself, in the data directory found from here, that it is the one called.

use std::path::PathBuf;

use super::HostArgs;
use crate::admin::Serving;
use crate::config::{Config, Overrides};
use crate::paths::for_tenant;
use crate::task::TenantId;

/// Directories that `tool` may write: as it sees them, and where they are. Nothing where the host's
/// data directory is not found, or is another host's.
pub fn directories(host: &HostArgs, tool: &str) -> Vec<(String, PathBuf)> {
    let Ok(config) = Config::load(None, Overrides::default()) else {
        return Vec::new();
    };
    let serving = Serving::read(&config.data_dir).filter(|serving| serving.url == host.url);
    let plugins = serving.into_iter().flat_map(|serving| serving.plugins);
    let directories = plugins
        .filter(|(_, plugin)| plugin.tools.contains(tool))
        .flat_map(|(_, plugin)| plugin.written);
    directories
        .map(|(seen, path)| match &host.token {
            None => (seen, for_tenant(&path, TenantId::local().as_str()).0),
            // Whose token it is, only the host knows.
            Some(_) => (seen, path),
        })
        .collect()
}
