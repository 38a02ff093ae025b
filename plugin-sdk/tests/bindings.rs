//! Keeps the checked-in bindings true to `wit/`.

#[path = "../generate/src/digest.rs"]
mod digest;

use std::path::Path;

#[test]
fn the_bindings_were_generated_from_the_contract_as_it_is() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let contract = digest::of_contract(&here.join("../wit")).expect("wit/ can be read");
    for bindings in ["src/bindings.rs", "src/server_bindings.rs"] {
        let source = std::fs::read_to_string(here.join(bindings)).expect("the file can be read");
        assert!(
            source.contains(&digest::line(contract)),
            "wit/ has changed since {bindings} was made: run \
             `cargo run --manifest-path plugin-sdk/generate/Cargo.toml`"
        );
    }
}
