//! Compiled code and component files on disk, by digest. A file is written under another name,
//! made durable and renamed, and never changed afterwards: the engine maps it.
//!
//! `<digest>.wasm` is the component; `<digest>-<engine>.cwasm` its code for this engine, which is
//! taken only if it is what `<digest>-<engine>.sha256` says; `<digest>-<plugin>.toml` what the
//! plugin asked for that brought it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use wasmtime::Engine;

use super::LoadError;
use crate::task::Digest;

/// How files begin that are not complete.
const TEMPORARY_PREFIX: &str = ".tmp-";

/// Age at which an incomplete file has lost its writer.
const TEMPORARY_MAX_AGE: Duration = Duration::from_secs(3_600);

/// A digest in a file's name.
const DIGEST_CHARS: usize = 64;

/// The directory. Its functions block.
pub(super) struct Cache {
    dir: PathBuf,
    /// What code must be compiled for to fit the engine.
    engine_key: String,
    temporaries: AtomicU64,
}

/// A file that is removed unless it is kept.
pub(super) struct Temporary(PathBuf);

impl Temporary {
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A file that was kept is no longer there under this name.
        let _ = fs::remove_file(&self.0);
    }
}

impl Cache {
    /// Opens the directory, creating it if need be.
    pub fn open(dir: &Path, engine: &Engine) -> Result<Cache, LoadError> {
        fs::create_dir_all(dir).map_err(failed("its directory can't be created"))?;
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        let cache = Cache {
            dir: dir.to_owned(),
            engine_key: format!("{:016x}", hasher.finish()),
            temporaries: AtomicU64::new(0),
        };
        cache.sweep().map_err(failed("it can't be read"))?;
        Ok(cache)
    }

    /// The code of a component, if it is there and unharmed.
    pub fn find_code(&self, digest: Digest) -> Option<PathBuf> {
        let code = self.code_path(digest);
        let seal = fs::read_to_string(self.seal_path(digest)).ok()?;
        let found = digest_of_file(&code).ok()?;
        if found.to_string() == seal.trim() {
            Some(code)
        } else {
            tracing::warn!(%digest, "compiled code was harmed on disk; it is compiled again");
            None
        }
    }

    /// Takes over compiled code.
    pub fn keep_code(&self, digest: Digest, code: Temporary) -> Result<PathBuf, LoadError> {
        let keep = || {
            let seal = digest_of_file(code.path())?.to_string();
            File::open(code.path())?.sync_all()?;
            let path = self.code_path(digest);
            // The seal last: code without its seal is not taken.
            fs::rename(code.path(), &path)?;
            self.write(&self.seal_path(digest), seal.as_bytes())?;
            Ok(path)
        };
        keep().map_err(failed("compiled code can't be written"))
    }

    /// Keeps a component's file, so that its tasks find it after a restart.
    pub fn keep_component(&self, digest: Digest, wasm: &[u8]) -> Result<(), LoadError> {
        let path = self.component_path(digest);
        if path.exists() {
            return Ok(());
        }
        self.write(&path, wasm)
            .map_err(failed("a component can't be written"))
    }

    /// A component's file, if it is there and unharmed.
    pub fn read_component(&self, digest: Digest) -> Result<Option<Vec<u8>>, LoadError> {
        match fs::read(self.component_path(digest)) {
            Ok(wasm) if digest_of(&wasm) == digest => Ok(Some(wasm)),
            Ok(_) => {
                tracing::warn!(%digest, "a kept component was harmed on disk");
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("a component can't be read")(error)),
        }
    }

    /// Keeps a plugin's manifest beside its component.
    pub fn keep_manifest(&self, digest: Digest, plugin: &str, text: &str) -> Result<(), LoadError> {
        let path = self.manifest_path(digest, plugin);
        if fs::read_to_string(&path).is_ok_and(|kept| kept == text) {
            return Ok(());
        }
        self.write(&path, text.as_bytes())
            .map_err(failed("a manifest can't be written"))
    }

    /// The manifest that was kept last; None if there is none.
    pub fn read_manifest(&self, digest: Digest, plugin: &str) -> Result<Option<String>, LoadError> {
        match fs::read_to_string(self.manifest_path(digest, plugin)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("a manifest can't be read")(error)),
        }
    }

    /// The components of which there is any file.
    pub fn digests(&self) -> Result<BTreeSet<Digest>, LoadError> {
        let files = self.files().map_err(failed("it can't be read"))?;
        Ok(files.into_iter().map(|(digest, _)| digest).collect())
    }

    /// Removes every file of a component.
    pub fn forget(&self, digest: Digest) -> Result<(), LoadError> {
        let forget = || {
            for (of, path) in self.files()? {
                if of == digest {
                    fs::remove_file(path)?;
                }
            }
            Ok(())
        };
        forget().map_err(failed("a component can't be removed"))
    }

    fn files(&self) -> io::Result<Vec<(Digest, PathBuf)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let digest = name.to_str().and_then(|name| name.get(..DIGEST_CHARS));
            if let Some(Ok(digest)) = digest.map(Digest::parse) {
                files.push((digest, entry.path()));
            }
        }
        Ok(files)
    }

    /// A new file's name that nobody else uses.
    pub fn temporary(&self) -> Temporary {
        let number = self.temporaries.fetch_add(1, Ordering::Relaxed);
        let mut hasher = DefaultHasher::new();
        // Several caches of one process may share the directory.
        (std::ptr::from_ref(self) as usize).hash(&mut hasher);
        let name = format!(
            "{TEMPORARY_PREFIX}{}-{:x}-{number}",
            process::id(),
            hasher.finish()
        );
        Temporary(self.dir.join(name))
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let temporary = self.temporary();
        let mut file = File::create(temporary.path())?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(temporary.path(), path)?;
        File::open(&self.dir)?.sync_all()
    }

    /// Removes what a process left that died while it wrote.
    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name();
            if !name.to_string_lossy().starts_with(TEMPORARY_PREFIX) {
                continue;
            }
            match sweep_one(&entry) {
                // Somebody who uses the directory, too, was done with it just now.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                swept => swept?,
            }
        }
        Ok(())
    }

    fn component_path(&self, digest: Digest) -> PathBuf {
        self.dir.join(format!("{digest}.wasm"))
    }

    /// A plugin's name has no separator and no dot.
    fn manifest_path(&self, digest: Digest, plugin: &str) -> PathBuf {
        self.dir.join(format!("{digest}-{plugin}.toml"))
    }

    fn code_path(&self, digest: Digest) -> PathBuf {
        self.dir.join(format!("{digest}-{}.cwasm", self.engine_key))
    }

    fn seal_path(&self, digest: Digest) -> PathBuf {
        self.dir
            .join(format!("{digest}-{}.sha256", self.engine_key))
    }
}

pub(super) fn digest_of(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

fn digest_of_file(path: &Path) -> io::Result<Digest> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(Digest(hasher.finalize().into())),
            length => hasher.update(&buffer[..length]),
        }
    }
}

pub(super) fn failed(what: &'static str) -> impl Fn(io::Error) -> LoadError {
    move |source| LoadError::Cache { what, source }
}

fn sweep_one(temporary: &fs::DirEntry) -> io::Result<()> {
    let modified = temporary.metadata()?.modified()?;
    if modified.elapsed().unwrap_or_default() > TEMPORARY_MAX_AGE {
        fs::remove_file(temporary.path())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use wasmtime::Engine;

    use super::*;

    #[test]
    fn a_cache_opens_while_others_write_into_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::default();
        let cache = Cache::open(dir.path(), &engine).unwrap();
        thread::scope(|scope| {
            let writing = scope.spawn(|| {
                for _ in 0..2_000 {
                    let temporary = cache.temporary();
                    fs::write(temporary.path(), "half of it").unwrap();
                }
            });
            while !writing.is_finished() {
                Cache::open(dir.path(), &engine).unwrap();
            }
        });
    }
}
