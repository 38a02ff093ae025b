//! The keys that seal states: the newest seals, and one that was replaced opens what it has sealed
//! for as long as that lives. They are a file of the data directory, which only its owner reads.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::LIFETIME;
use crate::clock::{Clock, Timestamp};

/// Only the user who runs the host.
const FILE_MODE: u32 = 0o600;

type KeyBytes = [u8; 32];

/// Keys by age. Rotation is looked for whenever a state is about to be sealed.
pub struct Keyring {
    path: PathBuf,
    max_age: Duration,
    clock: Clock,
    /// Newest first; never empty.
    keys: Mutex<Vec<Key>>,
    /// Held by whoever rotates.
    rotating: Mutex<()>,
}

/// Why there are no keys.
#[derive(Debug, Error)]
pub enum KeyringError {
    #[error(
        "the key file {path} can't be used: {what}; delete it to have a new one made, after which \
         calls that wait for an answer have to be made again"
    )]
    Damaged { path: String, what: String },
    #[error("the key file {path} can't be read or written; see to its owner and permissions")]
    File {
        path: String,
        #[source]
        source: io::Error,
    },
}

#[derive(Clone)]
struct Key {
    bytes: KeyBytes,
    made_at: Timestamp,
    replaced_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile {
    keys: Vec<KeyEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyEntry {
    key: String,
    made_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replaced_ms: Option<u64>,
}

impl Keyring {
    /// Reads the keys, or makes the first.
    pub fn open(path: &Path, max_age: Duration, clock: Clock) -> Result<Keyring, KeyringError> {
        let shown = || path.display().to_string();
        let unusable = |source| KeyringError::File {
            path: shown(),
            source,
        };
        let keys = match fs::read(path) {
            Ok(bytes) => read(&bytes).map_err(|what| KeyringError::Damaged {
                path: shown(),
                what,
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let first = vec![Key::new(clock.now())];
                write(path, &first).map_err(unusable)?;
                first
            }
            Err(error) => return Err(unusable(error)),
        };
        Ok(Keyring {
            path: path.to_owned(),
            max_age,
            clock,
            keys: Mutex::new(keys),
            rotating: Mutex::new(()),
        })
    }

    /// The key that seals.
    pub fn newest(&self) -> KeyBytes {
        self.lock()[0].bytes
    }

    /// The keys whose states may still be alive.
    pub fn usable(&self) -> Vec<KeyBytes> {
        let now = self.clock.now();
        let keys = self.lock();
        let usable = keys.iter().filter(|key| key.is_usable(now));
        usable.map(|key| key.bytes).collect()
    }

    /// Replaces a key that is old enough. Where the file can't be written the old one goes on.
    pub async fn rotate_if_due(self: &Arc<Self>) {
        if !self.is_due() {
            return;
        }
        let ring = Arc::clone(self);
        match tokio::task::spawn_blocking(move || ring.rotate()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the key that seals request states could not be replaced");
            }
            Err(error) => tracing::error!(%error, "replacing a key ended unexpectedly"),
        }
    }

    fn is_due(&self) -> bool {
        self.clock.now().since(self.lock()[0].made_at) >= self.max_age
    }

    fn rotate(&self) -> io::Result<()> {
        let _turn = self.rotating.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever had the turn before may have done it.
        if !self.is_due() {
            return Ok(());
        }
        let now = self.clock.now();
        let mut keys = vec![Key::new(now)];
        keys.extend(self.lock().iter().map(|key| Key {
            replaced_at: key.replaced_at.or(Some(now)),
            ..key.clone()
        }));
        keys.retain(|key| key.is_usable(now));
        // Durable before it seals: what it sealed has to be opened by the next process, too.
        write(&self.path, &keys)?;
        *self.lock() = keys;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Key>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Key {
    fn new(now: Timestamp) -> Key {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).expect("the system's source of randomness works");
        Key {
            bytes,
            made_at: now,
            replaced_at: None,
        }
    }

    fn is_usable(&self, now: Timestamp) -> bool {
        self.replaced_at
            .is_none_or(|replaced| now.since(replaced) < LIFETIME)
    }
}

fn read(bytes: &[u8]) -> Result<Vec<Key>, String> {
    if let Ok(bytes) = bytes.try_into() {
        // The first form of this file was one key and nothing else; its age is not known.
        return Ok(vec![Key {
            bytes,
            made_at: Timestamp(0),
            replaced_at: None,
        }]);
    }
    let file: KeyFile = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if file.keys.is_empty() {
        return Err("it has no key".to_owned());
    }
    file.keys.into_iter().map(Key::try_from).collect()
}

/// Written whole or not at all: a host killed here goes on with what there was.
fn write(path: &Path, keys: &[Key]) -> io::Result<()> {
    let file = KeyFile {
        keys: keys.iter().map(KeyEntry::from).collect(),
    };
    let text = serde_json::to_vec(&file).map_err(io::Error::other)?;
    let temporary = path.with_extension("new");
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE_MODE);
    let mut out = options.open(&temporary)?;
    out.write_all(&text)?;
    out.sync_all()?;
    fs::rename(&temporary, path)?;
    match path.parent() {
        Some(folder) => fs::File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

impl TryFrom<KeyEntry> for Key {
    type Error = String;

    fn try_from(entry: KeyEntry) -> Result<Key, String> {
        let bytes = URL_SAFE_NO_PAD
            .decode(&entry.key)
            .map_err(|error| error.to_string())?;
        Ok(Key {
            bytes: bytes
                .try_into()
                .map_err(|_| "a key does not have 32 bytes".to_owned())?,
            made_at: Timestamp(entry.made_ms),
            replaced_at: entry.replaced_ms.map(Timestamp),
        })
    }
}

impl From<&Key> for KeyEntry {
    fn from(key: &Key) -> KeyEntry {
        KeyEntry {
            key: URL_SAFE_NO_PAD.encode(key.bytes),
            made_ms: key.made_at.0,
            replaced_ms: key.replaced_at.map(|at| at.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn open(path: &Path, clock: &Clock) -> Result<Arc<Keyring>, KeyringError> {
        Keyring::open(path, DAY, clock.clone()).map(Arc::new)
    }

    #[tokio::test]
    async fn a_key_is_replaced_by_age_and_opens_what_it_sealed_for_as_long_as_that_lives() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let clock = Clock::manual(Timestamp(1_000));
        let ring = open(&path, &clock).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let first = ring.newest();
        clock.advance(DAY - Duration::from_millis(1));
        ring.rotate_if_due().await;
        assert_eq!(ring.newest(), first);
        clock.advance(Duration::from_millis(1));
        ring.rotate_if_due().await;
        let second = ring.newest();
        assert_ne!(second, first);
        // The next process has both, and the old one goes in its time.
        let ring = open(&path, &clock).unwrap();
        assert_eq!(ring.usable(), [second, first]);
        clock.advance(LIFETIME - Duration::from_millis(1));
        assert_eq!(ring.usable(), [second, first]);
        clock.advance(Duration::from_millis(1));
        assert_eq!(ring.usable(), [second]);
        clock.advance(DAY);
        ring.rotate_if_due().await;
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&URL_SAFE_NO_PAD.encode(first)), "{text}");
        assert!(text.contains(&URL_SAFE_NO_PAD.encode(second)), "{text}");
    }

    #[tokio::test]
    async fn a_file_that_can_not_be_written_leaves_the_old_key_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("folder/key");
        fs::create_dir(dir.path().join("folder")).unwrap();
        let clock = Clock::manual(Timestamp(1_000));
        let ring = open(&path, &clock).unwrap();
        let first = ring.newest();
        fs::remove_dir_all(dir.path().join("folder")).unwrap();
        clock.advance(DAY);
        ring.rotate_if_due().await;
        assert_eq!(ring.usable(), [first]);
    }

    #[tokio::test]
    async fn a_file_of_the_first_form_is_taken_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        fs::write(&path, [7; 32]).unwrap();
        let ring = open(&path, &Clock::system()).unwrap();
        assert_eq!(ring.newest(), [7; 32]);
        ring.rotate_if_due().await;
        assert_ne!(ring.newest(), [7; 32]);
        assert_eq!(ring.usable()[1], [7; 32]);
    }

    #[test]
    fn a_damaged_file_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        for bytes in [
            &b""[..],
            b"{",
            b"{\"keys\":[]}",
            b"{\"keys\":[{\"key\":\"AAAA\",\"made_ms\":0}]}",
            b"{\"keys\":[{\"key\":\"!\",\"made_ms\":0}]}",
            &[7; 31],
        ] {
            fs::write(&path, bytes).unwrap();
            let error = open(&path, &Clock::system()).err().unwrap().to_string();
            assert!(
                error.contains("delete it to have a new one made"),
                "{error}"
            );
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let error = open(&path, &Clock::system()).err().unwrap().to_string();
        assert!(error.contains("owner and permissions"), "{error}");
    }
}
