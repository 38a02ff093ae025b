//! `wasi:config/store`: the configuration values a guest is granted, and nothing else (I5).

use super::guest::Guest;
use wasi::config::store::{Error, Host};

wasmtime::component::bindgen!({
    inline: "
        package longshore:configuration;
        world reader { import wasi:config/store@0.2.0-rc.1; }
    ",
    path: "../wit/deps/config.wit",
    imports: { default: trappable },
    require_store_data_send: true,
});

pub(super) use wasi::config::store::add_to_linker;

impl Host for Guest {
    fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<String>, Error>> {
        Ok(Ok(self.configuration().get(&key).cloned()))
    }

    fn get_all(&mut self) -> wasmtime::Result<Result<Vec<(String, String)>, Error>> {
        let values = self.configuration().iter();
        Ok(Ok(values
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()))
    }
}
