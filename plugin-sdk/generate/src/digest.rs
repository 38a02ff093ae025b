//! What `src/bindings.rs` was made from, in one number.

use std::io;
use std::path::Path;

/// FNV-1a over the files of `wit/` in the order of their names. It tells a change, not an attack.
pub fn of_contract(wit: &Path) -> io::Result<u64> {
    let mut files = std::fs::read_dir(wit)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    files.sort();
    let mut digest = 0xcbf2_9ce4_8422_2325;
    for file in files {
        for byte in std::fs::read(file)? {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    Ok(digest)
}

/// The line of `src/bindings.rs` that holds the digest.
pub fn line(digest: u64) -> String {
    format!("//! Contract: {digest:016x}")
}
