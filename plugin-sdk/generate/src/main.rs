//! Writes the bindings of the SDK from `wit/`, one file a world: `src/bindings.rs` and
//! `src/server_bindings.rs`. `cargo run --manifest-path plugin-sdk/generate/Cargo.toml`.

mod digest;

use std::error::Error;
use std::path::Path;

use wit_bindgen_core::wit_parser::{Resolve, WorldItem};
use wit_bindgen_core::{Files, WorldGenerator};
use wit_bindgen_rust::{Opts, WithOption};

fn main() -> Result<(), Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let wit = here.join("../../wit");
    let digest = digest::line(digest::of_contract(&wit)?);
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(&wit)?;
    for (world, module) in [
        ("configured-plugin", "bindings"),
        ("server", "server_bindings"),
    ] {
        let id = resolve.select_world(&[package], Some(world))?;
        let with = match world {
            "configured-plugin" => Vec::new(),
            // What a world imports is one set of types, whichever world exports what.
            _ => imports(&resolve, id)?,
        };
        let options = Opts {
            format: true,
            pub_export_macro: true,
            generate_all: true,
            default_bindings_module: Some(format!("longshore_plugin::{module}")),
            with,
            ..Opts::default()
        };
        let mut files = Files::default();
        options.build().generate(&mut resolve, id, &mut files)?;
        let (_, source) = files.iter().next().ok_or("the generator wrote nothing")?;
        // Macros of both worlds share one scope, the crate's.
        let source = String::from_utf8(source.to_vec())?.replace(
            "__export_longshore",
            &format!("__export_{module}_longshore"),
        );
        std::fs::write(
            here.join(format!("../src/{module}.rs")),
            format!(
                "//! Generated from `wit/` by `generate/`; not to be edited.\n{digest}\n\n{source}"
            ),
        )?;
    }
    Ok(())
}

/// Where the bindings of the small world have what this one imports, too.
fn imports(
    resolve: &Resolve,
    world: wit_bindgen_core::wit_parser::WorldId,
) -> Result<Vec<(String, WithOption)>, Box<dyn Error>> {
    let mut found = Vec::new();
    for (key, item) in &resolve.worlds[world].imports {
        let WorldItem::Interface { id, .. } = item else {
            continue;
        };
        let interface = &resolve.interfaces[*id];
        let name = interface.name.as_ref().ok_or("an import has no name")?;
        let package = &resolve.packages[interface.package.ok_or("an import has no package")?].name;
        let module = format!("{}::{}::{name}", package.namespace, package.name).replace('-', "_");
        let path = WithOption::Path(format!("crate::bindings::{module}"));
        found.push((resolve.name_world_key(key), path));
    }
    Ok(found)
}
