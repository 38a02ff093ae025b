//! What the C toolchain lacks: `c-bindings bindings WIT OUTPUT` writes the bindings of the
//! contract, `c-bindings component MODULE OUTPUT` makes a component of what was compiled.

use std::error::Error;
use std::path::Path;

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::Resolve;
use wit_component::ComponentEncoder;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["bindings", wit, output] => write_bindings(Path::new(wit), Path::new(output)),
        ["component", module, output] => make_component(Path::new(module), Path::new(output)),
        _ => Err("usage: c-bindings bindings WIT OUTPUT | component MODULE OUTPUT".into()),
    }
}

fn write_bindings(wit: &Path, output: &Path) -> Result<(), Box<dyn Error>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit)?;
    let world = resolve.select_world(&[package], Some("plugin"))?;
    let mut files = Files::default();
    let mut generator = wit_bindgen_c::Opts::default().build();
    generator.generate(&mut resolve, world, &mut files)?;
    std::fs::create_dir_all(output)?;
    for (name, content) in files.iter() {
        std::fs::write(output.join(name), content)?;
    }
    Ok(())
}

/// The C library speaks WASI's first version; the adapter turns that into the second.
fn make_component(module: &Path, output: &Path) -> Result<(), Box<dyn Error>> {
    let component = ComponentEncoder::default()
        .validate(true)
        .module(&std::fs::read(module)?)?
        .adapter(
            WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME,
            WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
        )?
        .encode()?;
    std::fs::write(output, component)?;
    Ok(())
}
