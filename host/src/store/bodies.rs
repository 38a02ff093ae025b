//! Large bodies as files. A body is written and durable before the record that names it is
//! committed, and deleted only after the record that no longer names it is. What a crash leaves in
//! between is swept at the next start. The record says what the file must hold, and nothing else is
//! given out. It must not read or write records itself.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

use super::disk::sync_directory;
use super::error::{BodyError, Damage};
use crate::task::{TaskId, TaskKey, TenantId};

/// A body up to this size is a record's value; a larger one is a file.
pub(super) const INLINE_BYTES_MAX: usize = 16 * 1024;

/// How often a task's folder is made again when it is deleted under the writer's hands.
const FOLDER_TRIES: u32 = 3;

const INLINE: u8 = 0;
/// A file of which only the name is known: what format 1 wrote.
const FILE: u8 = 1;
/// A file under a seal: `length, 8 bytes big-endian | SHA-256 | name`.
const SEALED_FILE: u8 = 2;
const SEAL_BYTES: usize = 8 + 32;

/// A body on its way into a record.
pub(super) enum Body {
    Inline(Vec<u8>),
    File(PendingFile),
}

/// A durable file that no record names yet; deleted when dropped.
pub(super) struct PendingFile {
    path: PathBuf,
    seal: Seal,
    is_kept: bool,
}

/// What a file must hold to be the one that was written.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seal {
    length: u64,
    sha256: [u8; 32],
}

/// The file that a record's value names.
struct Named<'a> {
    name: &'a str,
    seal: Option<Seal>,
}

/// The folder of all bodies: `<tenant>/<task id>/<random name>`.
pub(super) struct Bodies {
    root: PathBuf,
    /// Tenants whose folder's name is durable.
    tenants: Mutex<HashSet<TenantId>>,
}

impl Body {
    /// The value that stands for the body in a record. From here on its file is the record's.
    pub(super) fn into_value(self) -> Vec<u8> {
        match self {
            Body::Inline(bytes) => {
                let mut value = Vec::with_capacity(bytes.len() + 1);
                value.push(INLINE);
                value.extend_from_slice(&bytes);
                value
            }
            Body::File(mut file) => {
                file.is_kept = true;
                let mut value = vec![SEALED_FILE];
                value.extend_from_slice(&file.seal.length.to_be_bytes());
                value.extend_from_slice(&file.seal.sha256);
                value.extend_from_slice(file.name().as_bytes());
                value
            }
        }
    }

    /// How many bytes it adds to a commit.
    pub(super) fn weight(&self) -> usize {
        match self {
            Body::Inline(bytes) => bytes.len(),
            Body::File(_) => 0,
        }
    }
}

impl PendingFile {
    fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if !self.is_kept {
            delete_with_folder(&self.path);
        }
    }
}

impl Bodies {
    pub(super) fn open(root: PathBuf) -> io::Result<Bodies> {
        fs::create_dir_all(&root)?;
        Ok(Bodies {
            root,
            tenants: Mutex::new(HashSet::new()),
        })
    }

    /// Writes a body that is too large for a record, durably. Blocks.
    pub(super) fn write(&self, key: &TaskKey, bytes: &[u8]) -> io::Result<Body> {
        self.make_tenant_folder(&key.tenant)?;
        let folder = self.folder(key);
        let random = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
        let path = folder.join(format!("{random:016x}"));
        let temporary = folder.join(format!("{random:016x}.tmp"));
        let file = PendingFile {
            path,
            seal: Seal::of(bytes),
            is_kept: false,
        };
        write_new(&temporary, bytes)
            .and_then(|()| fs::rename(&temporary, &file.path))
            .inspect_err(|_| delete_with_folder(&temporary))?;
        sync_directory(&folder)?;
        sync_directory(&self.root.join(key.tenant.as_str()))?;
        Ok(Body::File(file))
    }

    /// The body a record's value stands for, just as it was written.
    pub(super) fn read(&self, key: &TaskKey, value: &[u8]) -> Result<Vec<u8>, BodyError> {
        if let Some((&INLINE, bytes)) = value.split_first() {
            return Ok(bytes.to_vec());
        }
        let named = Named::read(value).ok_or(Damage::Reference)?;
        let mut file = File::open(self.folder(key).join(named.name))?;
        let found = file.metadata()?.len();
        let Some(seal) = named.seal else {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            return Ok(bytes);
        };
        // Before it is read: a file that somebody made huge must not be taken into memory.
        if found != seal.length {
            let expected = seal.length;
            return Err(Damage::Length { found, expected }.into());
        }
        let mut bytes = Vec::with_capacity(usize::try_from(found).unwrap_or_default());
        file.take(seal.length).read_to_end(&mut bytes)?;
        match Seal::of(&bytes) == seal {
            true => Ok(bytes),
            false => Err(Damage::Content.into()),
        }
    }

    /// Deletes the file a value named, if it named one.
    pub(super) fn delete(&self, key: &TaskKey, value: &[u8]) {
        if let Some(name) = file_name(value) {
            delete_with_folder(&self.folder(key).join(name));
        }
    }

    /// Deletes all files of a task.
    pub(super) fn delete_all(&self, key: &TaskKey) {
        match fs::remove_dir_all(self.folder(key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "the files of a removed task are still there");
            }
            _ => {}
        }
    }

    /// Deletes what no record names. `named` gives the values of all bodies of a task.
    pub(super) fn sweep<E: From<io::Error>>(
        &self,
        named: impl Fn(&TaskKey) -> Result<Vec<Vec<u8>>, E>,
    ) -> Result<(), E> {
        for key in self.tasks()? {
            let values = named(&key)?;
            let names: HashSet<&str> = values.iter().filter_map(|v| file_name(v)).collect();
            if names.is_empty() {
                self.delete_all(&key);
                continue;
            }
            for entry in fs::read_dir(self.folder(&key))? {
                let entry = entry?;
                let is_named = entry
                    .file_name()
                    .to_str()
                    .is_some_and(|n| names.contains(n));
                if !is_named && entry.file_type()?.is_file() {
                    fs::remove_file(entry.path())?;
                }
            }
        }
        Ok(())
    }

    /// The tasks that have a folder. Names that are not ours are left alone.
    pub(super) fn tasks(&self) -> io::Result<Vec<TaskKey>> {
        let mut tasks = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                continue;
            }
            let Some(tenant) = entry
                .file_name()
                .to_str()
                .and_then(|name| TenantId::parse(name).ok())
            else {
                continue;
            };
            for folder in fs::read_dir(entry.path())? {
                let name = folder?.file_name();
                if let Some(id) = name.to_str().and_then(|name| TaskId::parse(name).ok()) {
                    tasks.push(TaskKey {
                        tenant: tenant.clone(),
                        id,
                    });
                }
            }
        }
        Ok(tasks)
    }

    fn make_tenant_folder(&self, tenant: &TenantId) -> io::Result<()> {
        // Held while the name is made durable, so that nobody commits a record before it is.
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if !tenants.contains(tenant) {
            fs::create_dir_all(self.root.join(tenant.as_str()))?;
            sync_directory(&self.root)?;
            tenants.insert(tenant.clone());
        }
        Ok(())
    }

    pub(super) fn folder(&self, key: &TaskKey) -> PathBuf {
        self.root.join(key.tenant.as_str()).join(key.id.as_str())
    }
}

impl Seal {
    fn of(bytes: &[u8]) -> Seal {
        Seal {
            length: bytes.len() as u64,
            sha256: Sha256::digest(bytes).into(),
        }
    }

    fn read(bytes: &[u8; SEAL_BYTES]) -> Option<Seal> {
        let (length, sha256) = bytes.split_first_chunk()?;
        Some(Seal {
            length: u64::from_be_bytes(*length),
            sha256: sha256.try_into().ok()?,
        })
    }
}

impl<'a> Named<'a> {
    fn read(value: &'a [u8]) -> Option<Named<'a>> {
        let (seal, name) = match value.split_first()? {
            (&FILE, name) => (None, name),
            (&SEALED_FILE, rest) => {
                let (seal, name) = rest.split_first_chunk()?;
                (Some(Seal::read(seal)?), name)
            }
            _ => return None,
        };
        let name = std::str::from_utf8(name).ok()?;
        Some(Named { name, seal })
    }
}

/// The file a record's value names, if its body is one.
pub(super) fn file_name(value: &[u8]) -> Option<&str> {
    Named::read(value).map(|named| named.name)
}

/// Writes and syncs a new file. Its folder may vanish between being made and being used, when the
/// last other file in it is deleted.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    let mut tries = 0;
    let mut file = loop {
        tries += 1;
        fs::create_dir_all(folder)?;
        match OpenOptions::new().write(true).create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && tries < FOLDER_TRIES => {}
            outcome => break outcome?,
        }
    };
    file.write_all(bytes)?;
    file.sync_all()
}

/// Deletes a file, and its folder with the last one.
fn delete_with_folder(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, "a body that nothing names is left until the next start");
        }
        _ => {}
    }
    if let Some(folder) = path.parent() {
        // Fails while it holds other bodies, which is right.
        let _ = fs::remove_dir(folder);
    }
}
