//! Components out of modules: `bindings WIT OUTPUT` writes the contract's bindings for C, `c MODULE
//! OUTPUT` makes a component of what a C compiler made of them, and `text WIT TEXT OUTPUT` one of a
//! module that somebody wrote by hand, with the contract as its world.

use std::error::Error;
use std::path::Path;

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::{Resolve, WorldId};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};

const WORLD: &str = "plugin";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["bindings", wit, output] => write_bindings(Path::new(wit), Path::new(output)),
        ["c", module, output] => component_of_c(Path::new(module), Path::new(output)),
        ["text", wit, text, output] => {
            component_of_text(Path::new(wit), Path::new(text), Path::new(output))
        }
        _ => Err("usage: bindings WIT OUTPUT | c MODULE OUTPUT | text WIT TEXT OUTPUT".into()),
    }
}

fn read_world(wit: &Path) -> Result<(Resolve, WorldId), Box<dyn Error>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit)?;
    let world = resolve.select_world(&[package], Some(WORLD))?;
    Ok((resolve, world))
}

fn write_bindings(wit: &Path, output: &Path) -> Result<(), Box<dyn Error>> {
    let (mut resolve, world) = read_world(wit)?;
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
fn component_of_c(module: &Path, output: &Path) -> Result<(), Box<dyn Error>> {
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

fn component_of_text(wit: &Path, text: &Path, output: &Path) -> Result<(), Box<dyn Error>> {
    let (resolve, world) = read_world(wit)?;
    let mut module = wat::parse_file(text)?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    let component = ComponentEncoder::default()
        .validate(true)
        .module(&module)?
        .encode()?;
    std::fs::write(output, component)?;
    Ok(())
}
