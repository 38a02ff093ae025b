//! The contract as Rust types, generated from `wit/`. Nothing is added here.

wasmtime::component::bindgen!({
    path: "../wit",
    world: "plugin",
    imports: { default: async | trappable },
    exports: { default: async },
    require_store_data_send: true,
});
