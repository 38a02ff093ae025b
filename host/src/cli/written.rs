//! Where a tool's files are on this machine: a result names them as the tool sees them. It speaks only
//! of a host that says of itself, in the data directory found from here, that it is the one called.

use std::path::PathBuf;

use super::HostArgs;
use crate::admin::Serving;
use crate::config::{Config, Overrides, TenantToken};
use crate::paths::for_tenant;
use crate::task::TenantId;

/// Directories that `tool` may write: as it sees them, and where they are. Nothing where the host's
/// data directory is not found, or is another host's.
pub fn directories(host: &HostArgs, tool: &str) -> Vec<(String, PathBuf)> {
    let Ok(config) = Config::load(None, Overrides::default()) else {
        return Vec::new();
    };
    let tenant = match &host.token {
        None => Some(TenantId::local()),
        // A token that the host knows and this configuration does not is nobody's here.
        Some(token) => {
            let hash = TenantToken::hash(token);
            let known = config.tenants.iter();
            let mut known = known.filter(|known| known.token_sha256 == hash);
            known.next().map(|known| known.tenant.clone())
        }
    };
    let serving = Serving::read(&config.data_dir).filter(|serving| serving.url == host.url);
    let plugins = serving.into_iter().flat_map(|serving| serving.plugins);
    let directories = plugins
        .filter(|(_, plugin)| plugin.tools.contains(tool))
        .flat_map(|(_, plugin)| plugin.written);
    directories
        .map(|(seen, path)| match &tenant {
            Some(tenant) => (seen, for_tenant(&path, tenant.as_str()).0),
            None => (seen, path),
        })
        .collect()
}
