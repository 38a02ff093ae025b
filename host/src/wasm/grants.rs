//! What a guest may reach, and the WASI view that is made of it. Nothing that no grant names is in
//! that view (I5): sockets are linked, because language runtimes import them, and denied.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use thiserror::Error;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder};

use super::log::Log;
use super::quota::{Accounts, Allotment};
use super::secrets::Secrets;
use crate::task::TenantId;

/// Random bytes a guest may ask for in one call.
const RANDOM_MAX_BYTES: u64 = 1 << 20;

/// What stands for the tenant's name in a granted path.
const TENANT_PLACEHOLDER: &str = "{tenant}";

/// What a guest may reach: what its plugin asks for and the operator gives (I5).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grants {
    pub directories: Vec<DirectoryGrant>,
    pub http: Vec<HttpGrant>,
    /// What a person may be asked for while the tool runs.
    pub ask: Vec<AskGrant>,
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
    /// Quotas of directories, by the name the guest sees.
    pub allotments: HashMap<String, Allotment>,
}

/// A grant that can't be used. The text is for clients and names no path; the cause is for the
/// host's log.
#[derive(Debug, Error)]
#[error(
    "the {kind} granted as `{name}` can't be opened on the host; ask its operator to create it, or to \
     correct the grant"
)]
pub(super) struct GrantError {
    pub kind: &'static str,
    pub name: String,
    pub cause: String,
}

impl Grants {
    /// Whether opening them reads the disk.
    pub(super) fn may_block(&self) -> bool {
        !self.directories.is_empty() || !self.secrets.is_empty()
    }

    /// The WASI view for one run of `tenant`, and the secrets it may use. It may block.
    pub(super) fn open(
        &self,
        tenant: &TenantId,
        log: &Log,
        accounts: &Accounts,
    ) -> Result<Opened, GrantError> {
        let mut builder = sealed(log);
        let mut allotments = HashMap::new();
        let secrets = Secrets::open(&self.secrets)?;
        for (name, placeholder) in secrets.placeholders() {
            builder.env(name, placeholder);
        }
        for (name, value) in &self.environment {
            builder.env(name, value);
        }
        for grant in &self.directories {
            if let Some(allotment) = grant.open(tenant, &mut builder, accounts)? {
                allotments.insert(grant.guest_path(), allotment);
            }
        }
        Ok(Opened {
            wasi: builder.build(),
            secrets,
            allotments,
        })
    }
}

impl DirectoryGrant {
    fn open(
        &self,
        tenant: &TenantId,
        builder: &mut WasiCtxBuilder,
        accounts: &Accounts,
    ) -> Result<Option<Allotment>, GrantError> {
        let (path, is_per_tenant) = for_tenant(&self.path, tenant);
        let failed = |cause: String| GrantError {
            kind: "directory",
            name: self.name.clone(),
            cause: format!("{}: {cause}", path.display()),
        };
        if is_per_tenant && self.write {
            fs::create_dir_all(&path).map_err(|error| failed(error.to_string()))?;
        }
        let permissions = if self.write {
            FsPerms::ReadWrite
        } else {
            FsPerms::ReadOnly
        };
        builder
            .preopened_dir(&path, self.guest_path(), permissions)
            .map_err(|error| failed(format!("{error:#}")))?;
        match self.quota_bytes {
            Some(bytes) if self.write => {
                let opened = accounts.open(&path, bytes);
                opened.map(Some).map_err(|error| failed(error.to_string()))
            }
            Some(_) | None => Ok(None),
        }
    }

    fn guest_path(&self) -> String {
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

/// Puts the tenant's name in; a tenant's name has no separator and no dot, so that it can't leave
/// its place (I4). A path that is not text has no placeholder.
fn for_tenant(path: &Path, tenant: &TenantId) -> (PathBuf, bool) {
    match path.to_str() {
        Some(text) if text.contains(TENANT_PLACEHOLDER) => (
            text.replace(TENANT_PLACEHOLDER, tenant.as_str()).into(),
            true,
        ),
        _ => (path.to_owned(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tenants_name_takes_its_place_in_the_path() {
        let tenant = TenantId::parse("acme").unwrap();
        let (path, is_per_tenant) = for_tenant(Path::new("/data/{tenant}/out"), &tenant);
        assert_eq!(path, Path::new("/data/acme/out"));
        assert!(is_per_tenant);
        assert!(!for_tenant(Path::new("/data"), &tenant).1);
    }

    #[test]
    fn a_tenants_directory_is_created_only_when_it_may_be_written() {
        let root = tempfile::tempdir().unwrap();
        let mut grants = Grants {
            directories: vec![DirectoryGrant {
                name: "out".to_owned(),
                path: root.path().join("{tenant}"),
                write: false,
                quota_bytes: None,
            }],
            ..Grants::default()
        };
        let log = Log::new(None, 0);
        let Err(error) = grants.open(&TenantId::local(), &log, &Accounts::default()) else {
            panic!("a missing directory was opened");
        };
        let path = root.path().to_str().unwrap();
        assert!(!error.to_string().contains(path), "{error}");
        assert!(error.cause.contains(path), "{}", error.cause);

        grants.directories[0].write = true;
        let opened = grants.open(&TenantId::local(), &log, &Accounts::default());
        assert!(opened.is_ok());
        assert!(root.path().join("local").is_dir());
    }
}
