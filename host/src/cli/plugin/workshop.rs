//! What the plugin commands look at plugins with: the administrator's part of the host, in this process.

use crate::admin::{Admin, Running};
use crate::catalog::sandbox_limits;
use crate::cli::exit::Failure;
use crate::config::Config;
use crate::wasm::Sandbox;

pub struct Workshop {
    pub admin: Admin,
    /// Thrown away with it: looking at a plugin leaves nothing behind.
    _cache: Option<tempfile::TempDir>,
}

impl Workshop {
    pub fn open(config: &Config) -> Result<Workshop, Failure> {
        let cache = tempfile::tempdir()
            .map_err(|error| Failure::failed(format!("no temporary directory: {error}")))?;
        Ok(Workshop {
            admin: admin(config, cache.path())?,
            _cache: Some(cache),
        })
    }

    /// One that shares the compiled code of the host on the data directory, so that what is checked
    /// here need not be compiled again there.
    pub fn of_host(config: &Config) -> Result<Workshop, Failure> {
        Ok(Workshop {
            admin: admin(config, &config.data_dir.join("components"))?,
            _cache: None,
        })
    }
}

fn admin(config: &Config, cache: &std::path::Path) -> Result<Admin, Failure> {
    let sandbox = Sandbox::new(sandbox_limits(&config.limits), cache)
        .map_err(|error| Failure::failed(error.to_string()))?;
    let data_dir = config.data_dir.clone();
    Ok(Admin::new(sandbox, config, Running::Beside { data_dir }))
}
