//! What `src/bindings.rs` was made from, in one number.

use std::io;
use std::path::{Path, PathBuf};

/// FNV-1a over the files below `wit/` in the order of their names. It tells a change, not an attack.
pub fn of_contract(wit: &Path) -> io::Result<u64> {
    let mut files = files_below(wit)?;
    files.sort();
    let mut digest = 0xcbf2_9ce4_8422_2325;
    for file in files {
        for byte in std::fs::read(file)? {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    Ok(digest)
}

fn files_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => files.extend(files_below(&path)?),
            false => files.push(path),
        }
    }
    Ok(files)
}

/// The line of `src/bindings.rs` that holds the digest.
pub fn line(digest: u64) -> String {
    format!("//! Contract: {digest:016x}")
}
