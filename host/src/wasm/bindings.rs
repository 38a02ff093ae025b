//! The contract as Rust types, generated from `wit/`. Nothing is added here. Of the world `server`
//! only the parts that a component exports are loaded; see `component`.

wasmtime::component::bindgen!({
    path: "../wit",
    world: "server",
    imports: { default: async | trappable },
    exports: { default: async },
    require_store_data_send: true,
});
