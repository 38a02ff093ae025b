//! The compiler's WebAssembly target: looks for it, and gets it where it can.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::cli::exit::Failure;
use crate::cli::print::note;

/// What plugins are compiled for.
pub const TARGET: &str = "wasm32-wasip2";

/// Makes sure that the toolchain of `directory` has the target.
pub fn ensure(directory: &Path) -> Result<(), Failure> {
    if has_target(directory)? {
        return Ok(());
    }
    note!("getting the {TARGET} target: rustup target add {TARGET}");
    let mut rustup = Command::new("rustup");
    rustup
        .args(["target", "add", TARGET])
        .current_dir(directory);
    match rustup.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::usage(format!(
            "`rustup target add {TARGET}` did not succeed ({status}); run it where there is a \
             network, then build again"
        ))),
        Err(_) => Err(Failure::usage(format!(
            "the compiler has no {TARGET} target, and there is no rustup to get it; install Rust \
             with rustup (https://rustup.rs), or the target's standard library with your system's \
             packages (Debian: libstd-rust-dev-wasm32)"
        ))),
    }
}

fn has_target(directory: &Path) -> Result<bool, Failure> {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", TARGET]);
    without_surrounding_build(&mut rustc);
    let output = rustc.current_dir(directory).stdin(Stdio::null()).output();
    let output = output.map_err(|error| {
        Failure::usage(format!(
            "can't run rustc ({error}); install Rust with rustup: https://rustup.rs"
        ))
    })?;
    let libraries = String::from_utf8_lossy(&output.stdout);
    Ok(output.status.success() && Path::new(libraries.trim()).is_dir())
}

/// Takes away what a cargo that runs us, or the shell, has set for another build: a guest's build
/// must not depend on it. What says where crates come from stays.
pub fn without_surrounding_build(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let Some(text) = name.to_str() else {
            continue;
        };
        if is_of_another_build(text) {
            command.env_remove(&name);
        }
    }
}

fn is_of_another_build(name: &str) -> bool {
    const KEPT: &[&str] = &[
        "CARGO_HOME",
        "CARGO_HTTP_",
        "CARGO_NET_",
        "CARGO_REGISTRIES_",
        "CARGO_REGISTRY_",
        "CARGO_SOURCE_",
        "CARGO_TERM_",
    ];
    const TAKEN: &[&str] = &[
        "CARGO",
        "MAKEFLAGS",
        "MFLAGS",
        "OPT_LEVEL",
        "OUT_DIR",
        "RUSTC",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTDOCFLAGS",
        "RUSTFLAGS",
    ];
    TAKEN.contains(&name)
        || (name.starts_with("CARGO_") && !KEPT.iter().any(|kept| name.starts_with(kept)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guests_build_inherits_only_where_crates_come_from() {
        for name in [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_TARGET_DIR",
            "CARGO_BUILD_TARGET",
            "CARGO_PROFILE_RELEASE_LTO",
            "CARGO_MANIFEST_DIR",
            "CARGO_PKG_NAME",
            "CARGO",
        ] {
            assert!(is_of_another_build(name), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "CARGO_HOME",
            "CARGO_REGISTRIES_OURS_INDEX",
            "RUSTUP_HOME",
        ] {
            assert!(!is_of_another_build(name), "{name}");
        }
    }
}
