//! What a guest may reach, and the WASI view that is made of it. Nothing that no grant names is in
//! that view (I5): sockets are linked, because language runtimes import them, and denied.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use thiserror::Error;
use wasmtime_wasi::filesystem::Dir;
use wasmtime_wasi::{FsPerms, OpenMode, WasiCtx, WasiCtxBuilder};

use super::files::Directory;
use super::log::Log;
use super::quota::{Accounts, Allotment};
use super::secrets::Secrets;
use crate::paths::{Led, for_tenant, open_directory};
use crate::task::{Digest, TenantId};

/// Random bytes a guest may ask for in one call.
const RANDOM_MAX_BYTES: u64 = 1 << 20;

/// What helps where something is not there.
pub(super) const CREATE: &str = "ask its operator to create it, or to correct the grant";

/// What helps where links were changed.
const CHECK: &str = "a link on its way was changed after the host had checked it: ask its operator to \
                     take that back, or to start the host again";

/// What a guest may reach: what its plugin asks for and the operator gives (I5).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grants {
    pub directories: Vec<DirectoryGrant>,
    pub http: Vec<HttpGrant>,
    /// What a person may be asked for while the tool runs.
    pub ask: Vec<AskGrant>,
    pub ask_directories: Vec<AskDirectory>,
    pub environment: BTreeMap<String, String>,
    pub configuration: BTreeMap<String, String>,
    pub secrets: Vec<SecretGrant>,
    pub state: Option<StateGrant>,
}

/// A host a person may allow. Its name may be a pattern, `*` or `*.example.com`, which stands for
/// names of the public internet only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskGrant {
    pub http: HttpGrant,
    /// Whether it may be allowed for good.
    pub remember: bool,
    /// The author's reason, for the person.
    pub why: String,
}

/// A directory a person may allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskDirectory {
    pub directory: DirectoryGrant,
    /// Whether it may be allowed for good.
    pub remember: bool,
    /// The author's reason, for the person.
    pub why: String,
}

/// A key-value state; what is not said is the host's own limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateGrant {
    pub quota_bytes: Option<u64>,
    pub quota_keys: Option<u64>,
}

/// A secret the guest may use without seeing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretGrant {
    /// The variable that holds the guest's placeholder.
    pub name: String,
    pub place: SecretPlace,
    /// Where it may be sent.
    pub hosts: Vec<HttpGrant>,
}

/// Where the host reads a secret, at the start of each run, so that it can be changed at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretPlace {
    Environment(String),
    File(PathBuf),
}

/// A directory, seen by the guest as `/<name>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryGrant {
    pub name: String,
    /// On the host; `{tenant}` stands for the tenant's name.
    pub path: PathBuf,
    pub write: bool,
    /// What its files may take, bytes.
    pub quota_bytes: Option<u64>,
    /// Where the path led when the host checked it.
    pub led: Led,
}

/// A host the guest may send HTTP requests to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpGrant {
    /// `http` or `https`; None allows both.
    pub scheme: Option<String>,
    /// A name or an address, as the operator wrote it.
    pub host: String,
    /// None allows the scheme's own port.
    pub port: Option<u16>,
    /// Paths must begin with this; `/` allows all.
    pub path_prefix: String,
    /// In upper case; None allows all.
    pub methods: Option<BTreeSet<String>>,
}

impl fmt::Display for HttpGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scheme) = &self.scheme {
            write!(f, "{scheme}://")?;
        }
        f.write_str(&self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        f.write_str(&self.path_prefix)?;
        match &self.methods {
            None => Ok(()),
            Some(methods) => {
                let methods: Vec<&str> = methods.iter().map(String::as_str).collect();
                write!(f, " ({})", methods.join(", "))
            }
        }
    }
}

/// What a run's grants come to, opened.
pub(super) struct Opened {
    pub wasi: WasiCtx,
    pub secrets: Secrets,
    pub directories: Vec<Directory>,
}

/// A grant that can't be used. The text is for clients and names no path; the cause is for the
/// host's log.
#[derive(Clone, Debug, Error)]
#[error("the {kind} granted as `{name}` can't be opened on the host; {remedy}")]
pub struct GrantError {
    pub kind: &'static str,
    pub name: String,
    pub remedy: &'static str,
    pub cause: String,
}

impl Grants {
    /// Whether opening them reads the disk.
    pub(super) fn may_block(&self) -> bool {
        !self.directories.is_empty() || !self.secrets.is_empty()
    }

    /// What is granted, or may be asked for, and is not there: directories, and files with secrets. It
    /// may block. A directory of each tenant's own is not looked for.
    pub fn missing(&self) -> Vec<GrantError> {
        let asked = self.ask_directories.iter().map(|asked| &asked.directory);
        let directories = self.directories.iter().chain(asked);
        let shared =
            directories.filter(|grant| !for_tenant(&grant.path, TenantId::local().as_str()).1);
        let secrets = self.secrets.iter().filter(|grant| {
            // The environment is that of whoever looks; see `unset`.
            matches!(grant.place, SecretPlace::File(_))
        });
        shared
            .filter_map(|grant| grant.look(&TenantId::local()).err())
            .chain(secrets.filter_map(|grant| Secrets::open(std::slice::from_ref(grant)).err()))
            .collect()
    }

    /// Secrets whose variable this process does not have. Only the host's own word counts: others have
    /// another environment.
    pub fn unset(&self) -> Vec<GrantError> {
        let secrets = self.secrets.iter();
        secrets
            .filter(|grant| matches!(grant.place, SecretPlace::Environment(_)))
            .filter_map(|grant| Secrets::open(std::slice::from_ref(grant)).err())
            .collect()
    }

    /// Tells these grants from others, also those of another process of this version.
    pub fn digest(&self) -> Digest {
        Digest(Sha256::digest(format!("{self:?}")).into())
    }

    /// The WASI view for one run of `tenant`, and the secrets it may use. It may block. A directory
    /// that can't be opened fails only the tools that look into it.
    pub(super) fn open(
        &self,
        tenant: &TenantId,
        log: &Log,
        accounts: &Accounts,
    ) -> Result<Opened, GrantError> {
        let mut builder = sealed(log);
        let secrets = Secrets::open(&self.secrets)?;
        for (name, placeholder) in secrets.placeholders() {
            builder.env(name, placeholder);
        }
        for (name, value) in &self.environment {
            builder.env(name, value);
        }
        let granted = self.directories.iter();
        let asked = self.ask_directories.iter();
        Ok(Opened {
            wasi: builder.build(),
            secrets,
            directories: granted
                .map(|grant| Directory::granted(grant, tenant, accounts))
                .chain(asked.map(Directory::to_be_asked_for))
                .collect(),
        })
    }
}

impl DirectoryGrant {
    /// Opens it for one run of `tenant`. A tenant's own is made where it may be written. It may
    /// block.
    pub(super) fn open(
        &self,
        tenant: &TenantId,
        accounts: &Accounts,
    ) -> Result<(Dir, Option<Allotment>), GrantError> {
        let (place, is_per_tenant) = self.place(tenant)?;
        let failed = |error: std::io::Error| self.failed(CREATE, &place, &error);
        let opened = open_directory(&place, is_per_tenant && self.write).map_err(failed)?;
        let (permissions, mode) = self.mode();
        let allotment = match self.quota_bytes {
            Some(bytes) if self.write => Some(accounts.open(&place, bytes).map_err(failed)?),
            Some(_) | None => None,
        };
        Ok((Dir::new(opened, permissions, mode, false), allotment))
    }

    /// Whether it can be opened, as far as a look tells that changes nothing. It may block.
    pub(super) fn look(&self, tenant: &TenantId) -> Result<(), GrantError> {
        let (place, is_per_tenant) = self.place(tenant)?;
        match fs::metadata(&place) {
            Ok(found) if found.is_dir() => Ok(()),
            Ok(_) => {
                let error = std::io::ErrorKind::NotADirectory.into();
                Err(self.failed(CREATE, &place, &error))
            }
            Err(_) if is_per_tenant && self.write => Ok(()),
            Err(error) => Err(self.failed(CREATE, &place, &error)),
        }
    }

    /// Where it is for the tenant, if that is where it was when it was checked (I5), and whether it
    /// is the tenant's own.
    fn place(&self, tenant: &TenantId) -> Result<(PathBuf, bool), GrantError> {
        let (path, is_per_tenant) = for_tenant(&self.path, tenant.as_str());
        match self.led.end(&path) {
            Some(place) => Ok((place, is_per_tenant)),
            None => {
                let error = std::io::Error::other("it led elsewhere when the host started");
                Err(self.failed(CHECK, &path, &error))
            }
        }
    }

    /// Where links on its way led for the tenant, if there were any.
    pub(super) fn led_away(&self, tenant: &TenantId) -> Option<&Path> {
        self.led.away(&for_tenant(&self.path, tenant.as_str()).0)
    }

    /// What may be done in it.
    pub(super) fn mode(&self) -> (FsPerms, OpenMode) {
        match self.write {
            true => (FsPerms::ReadWrite, OpenMode::READ | OpenMode::WRITE),
            false => (FsPerms::ReadOnly, OpenMode::READ),
        }
    }

    fn failed(&self, remedy: &'static str, path: &Path, error: &std::io::Error) -> GrantError {
        GrantError {
            kind: "directory",
            name: self.name.clone(),
            remedy,
            cause: format!("{}: {error}", path.display()),
        }
    }

    pub fn guest_path(&self) -> String {
        format!("/{}", self.name)
    }
}

/// A view with output and nothing else.
pub(super) fn nothing(log: &Log) -> WasiCtx {
    sealed(log).build()
}

fn sealed(log: &Log) -> WasiCtxBuilder {
    let mut builder = WasiCtxBuilder::new();
    builder
        .stdout(log.stdout())
        .stderr(log.stderr())
        .max_random_size(RANDOM_MAX_BYTES)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenants_directory_is_created_only_when_it_may_be_written() {
        let root = tempfile::tempdir().unwrap();
        let mut grants = Grants {
            directories: vec![DirectoryGrant {
                name: "out".to_owned(),
                path: root.path().join("{tenant}"),
                write: false,
                quota_bytes: None,
                led: Led::default(),
            }],
            ..Grants::default()
        };
        let open = |grants: &Grants| {
            let local = TenantId::local();
            grants.directories[0].look(&local)?;
            grants.directories[0].open(&local, &Accounts::default())
        };
        let Err(error) = open(&grants) else {
            panic!("a missing directory was opened");
        };
        let path = root.path().to_str().unwrap();
        assert!(!error.to_string().contains(path), "{error}");
        assert!(error.cause.contains(path), "{}", error.cause);

        grants.directories[0].write = true;
        assert!(open(&grants).is_ok());
        assert!(root.path().join("local").is_dir());
    }
}
