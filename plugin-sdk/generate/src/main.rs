//! Writes `plugin-sdk/src/bindings.rs` from `wit/`:
//! `cargo run --manifest-path plugin-sdk/generate/Cargo.toml`.

mod digest;

use std::error::Error;
use std::path::Path;

use wit_bindgen_core::wit_parser::Resolve;
use wit_bindgen_core::{Files, WorldGenerator};

fn main() -> Result<(), Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let wit = here.join("../../wit");
    let source = format!(
        "//! Generated from `wit/` by `generate/`; not to be edited.\n{}\n\n{}",
        digest::line(digest::of_contract(&wit)?),
        bindings(&wit)?
    );
    std::fs::write(here.join("../src/bindings.rs"), source)?;
    Ok(())
}

fn bindings(wit: &Path) -> Result<String, Box<dyn Error>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit)?;
    let world = resolve.select_world(&[package], Some("configured-plugin"))?;
    let mut options = wit_bindgen_rust::Opts::default();
    options.format = true;
    options.pub_export_macro = true;
    options.generate_all = true;
    options.default_bindings_module = Some("longshore_plugin::bindings".into());
    let mut files = Files::default();
    options.build().generate(&mut resolve, world, &mut files)?;
    let (_, source) = files.iter().next().ok_or("the generator wrote nothing")?;
    Ok(String::from_utf8(source.to_vec())?)
}
