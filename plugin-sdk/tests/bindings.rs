//! Keeps the checked-in bindings true to `wit/`.

#[path = "../generate/src/digest.rs"]
mod digest;

use std::path::Path;

#[test]
fn the_bindings_were_generated_from_the_contract_as_it_is() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let contract = digest::of_contract(&here.join("../wit")).expect("wit/ can be read");
    let bindings =
        std::fs::read_to_string(here.join("src/bindings.rs")).expect("src/bindings.rs can be read");
    assert!(
        bindings.contains(&digest::line(contract)),
        "wit/ has changed: run `cargo run --manifest-path plugin-sdk/generate/Cargo.toml`"
    );
}
