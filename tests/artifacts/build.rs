//! Compiles all guests into `target/guests` and writes `guests.rs`. The guests' cargo sees nothing
//! of the cargo that runs this script but where the toolchain is.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const TARGET: &str = "wasm32-wasip2";
/// Where guests are looked for, from the repository's root.
const GROUPS: [&str; 2] = ["plugins", "tests/guests"];

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()?;
    let guests = find_guests(&root)?;
    watch(&root, &guests);
    ensure_target()?;
    let target = root.join("target/guests");
    build(&root.join("plugins"), &target)?;
    let mut collected = Vec::new();
    for guest in &guests {
        collected.push(collect(guest, &target)?);
    }
    let out = PathBuf::from(env::var("OUT_DIR")?).join("guests.rs");
    fs::write(out, source(&collected)?)?;
    Ok(())
}

/// The directories of all guests, sorted by name.
fn find_guests(root: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut guests = Vec::new();
    for group in GROUPS {
        let group = root.join(group);
        let entries =
            fs::read_dir(&group).map_err(|error| format!("{}: {error}", group.display()))?;
        for entry in entries {
            let directory = entry?.path();
            if directory.join("Cargo.toml").is_file() {
                guests.push(directory);
            }
        }
    }
    guests.sort_by_key(|directory| name_of(directory));
    Ok(guests)
}

fn name_of(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Says what makes the guests stale. Never a directory that a build writes into.
fn watch(root: &Path, guests: &[PathBuf]) {
    for path in [
        "plugins/Cargo.toml",
        "plugins/Cargo.lock",
        "plugin-sdk/src",
        "plugin-sdk/Cargo.toml",
        "wit",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    for guest in guests {
        for part in ["src", "assets", "Cargo.toml", "plugin.toml"] {
            let path = guest.join(part);
            if path.exists() {
                println!("cargo::rerun-if-changed={}", path.display());
            }
        }
    }
}

/// Sees to it that the target is there: a fresh toolchain lacks it.
fn ensure_target() -> Result<(), Box<dyn Error>> {
    let printed = clean(Command::new("rustc"))
        .args(["--print", "target-libdir", "--target", TARGET])
        .output()?;
    let directory = String::from_utf8(printed.stdout)?;
    if Path::new(directory.trim()).is_dir() {
        return Ok(());
    }
    let added = clean(Command::new("rustup"))
        .args(["target", "add", TARGET])
        .output();
    match added {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!(
            "the Rust target {TARGET} is missing and `rustup target add {TARGET}` failed; install \
             it and try again:\n{}",
            String::from_utf8_lossy(&output.stderr)
        )
        .into()),
        Err(_) => Err(format!(
            "the Rust target {TARGET} is missing and there is no rustup to get it; install it and \
             try again"
        )
        .into()),
    }
}

/// One cargo for all: the guests are one workspace.
fn build(workspace: &Path, target: &Path) -> Result<(), Box<dyn Error>> {
    let output = clean(Command::new("cargo"))
        .current_dir(workspace)
        .args([
            "build",
            "--release",
            "--workspace",
            "--target",
            TARGET,
            "--target-dir",
        ])
        .arg(target)
        .output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "the guests do not compile:\n{}",
            String::from_utf8_lossy(&output.stderr)
        )
        .into()),
    }
}

/// Takes away what the outer cargo set for this script: it would change how guests are built, or
/// build them anew for every profile.
fn clean(mut command: Command) -> Command {
    const PREFIXES: [&str; 10] = [
        "CARGO_BUILD_",
        "CARGO_CFG_",
        "CARGO_ENCODED_",
        "CARGO_FEATURE_",
        "CARGO_MANIFEST_",
        "CARGO_PKG_",
        "CARGO_PROFILE_",
        "CARGO_TARGET_",
        "DEP_",
        "RUSTC",
    ];
    const NAMES: [&str; 12] = [
        "CARGO",
        "CARGO_MAKEFLAGS",
        "DEBUG",
        "HOST",
        "LD_LIBRARY_PATH",
        "NUM_JOBS",
        "OPT_LEVEL",
        "OUT_DIR",
        "PROFILE",
        "RUSTDOC",
        "RUSTFLAGS",
        "TARGET",
    ];
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if NAMES.contains(&&*text) || PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
}

struct Collected {
    name: String,
    directory: PathBuf,
    component: String,
}

/// Lays a guest out as a plugin is installed.
fn collect(guest: &Path, target: &Path) -> Result<Collected, Box<dyn Error>> {
    let name = name_of(guest);
    let component = format!("{}.wasm", name.replace('-', "_"));
    let built = target.join(TARGET).join("release").join(&component);
    let directory = target.join("plugins").join(&name);
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&directory)?;
    fs::copy(&built, directory.join(&component)).map_err(|error| {
        format!(
            "{}: {error}; a guest's package is a cdylib named as its directory",
            built.display()
        )
    })?;
    let manifest = match fs::read_to_string(guest.join("plugin.toml")) {
        Ok(text) => text,
        Err(_) => format!("name = \"{name}\"\nversion = \"0.1.0\"\ncomponent = \"{component}\"\n"),
    };
    fs::write(directory.join("plugin.toml"), manifest)?;
    Ok(Collected {
        name,
        directory,
        component,
    })
}

fn source(guests: &[Collected]) -> Result<String, Box<dyn Error>> {
    let mut source = String::new();
    for guest in guests {
        writeln!(
            source,
            "pub const {}: Guest = Guest {{ name: {:?}, directory: {:?}, component: {:?} }};",
            guest.name.replace('-', "_").to_uppercase(),
            guest.name,
            guest.directory,
            guest.component,
        )?;
    }
    let constants = guests
        .iter()
        .map(|guest| guest.name.replace('-', "_").to_uppercase());
    writeln!(
        source,
        "\n/// All of them, by name.\npub const GUESTS: &[Guest] = &[{}];\n",
        constants.collect::<Vec<_>>().join(", ")
    )?;
    source.push_str(
        "/// Calls a macro with the name of every guest, `-` as `_`. A test file defines it as\n\
         /// `($name:ident) => { #[allow(unused_imports)] use $name as _; }` and has a module of\n\
         /// tests for each name.\n#[macro_export]\nmacro_rules! foreach_guest {\n    \
         ($each:ident) => {\n",
    );
    for guest in guests {
        writeln!(source, "        $each!({});", guest.name.replace('-', "_"))?;
    }
    source.push_str("    };\n}\n");
    Ok(source)
}
