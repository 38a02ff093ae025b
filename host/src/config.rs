//! What the operator configured: `longshore.toml` and the flags that override it, parsed at the
//! edge into types that cannot be wrong. It reads one file, looks where links
//! lead, and touches nothing else.

mod gift;
mod given;
mod limits;
mod nesting;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

pub(crate) use gift::methods;
pub use gift::{GivenAsk, GivenState, Methods};
pub(crate) use given::access;
pub use given::{
    Given, GivenDirectory, GivenSecret, HttpPattern, PatternError, SecretSource, parse_http,
};
pub use limits::Limits;

use crate::task::{Digest, TenantId};

/// The file read when no `--config` names another.
pub const DEFAULT_FILE: &str = "longshore.toml";

/// Everything the host is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    pub listen: SocketAddr,
    pub data_dir: PathBuf,
    /// A directory of plugins, each in its own directory with a `plugin.toml`.
    pub plugins_dir: PathBuf,
    /// Single plugin directories, served beside those of `plugins_dir`.
    pub plugin_dirs: Vec<PathBuf>,
    /// Values of `Origin` accepted beside the host's own.
    pub allowed_origins: Vec<String>,
    /// Values of `Host` accepted beside the loopback names and the listening address.
    pub allowed_hosts: Vec<String>,
    pub limits: Limits,
    /// Empty: one tenant, no credentials, loopback only.
    pub tenants: Vec<TenantToken>,
    /// What the operator gives, by plugin name (I5).
    pub given: BTreeMap<String, Given>,
}

/// A bearer token's SHA-256 and whose it is. A tenant may have several, to change one for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantToken {
    pub tenant: TenantId,
    pub token_sha256: Digest,
}

impl TenantToken {
    /// What is kept of a token.
    pub fn hash(token: &str) -> Digest {
        Digest(Sha256::digest(token.as_bytes()).into())
    }
}

/// Flags of the command line; each takes precedence over the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    pub listen: Option<SocketAddr>,
    pub data_dir: Option<PathBuf>,
    pub plugins_dir: Option<PathBuf>,
    pub plugin_dirs: Vec<PathBuf>,
}

/// Why there is no configuration. Each says where it is wrong and what would be right.
#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("can't read the configuration {}: {source}", path.display())]
    Unreadable {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{}{}: {message}", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
    Invalid {
        path: PathBuf,
        line: Option<usize>,
        message: String,
    },
    #[error(
        "refusing to listen on {0} without tenants: whoever reaches that address could run every \
         tool. Add one with `longshore tenant add NAME`, or listen on 127.0.0.1"
    )]
    OpenToAll(SocketAddr),
}

impl Config {
    /// Where what people allowed for good is kept.
    pub fn decisions_dir(&self) -> PathBuf {
        self.data_dir.join("grants")
    }

    /// Reads `file` (or `longshore.toml` here, when there is one) and lays `overrides` over it.
    pub fn load(file: Option<&Path>, overrides: Overrides) -> Result<Config, ConfigError> {
        let default = Path::new(DEFAULT_FILE);
        let path = file.unwrap_or(default);
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if file.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
                String::new()
            }
            Err(source) => {
                let path = path.to_owned();
                return Err(ConfigError::Unreadable { path, source });
            }
        };
        Config::parse(&text, path, overrides)
    }

    /// Parses the text of the file at `path`; relative paths in it are relative to its directory.
    pub fn parse(text: &str, path: &Path, overrides: Overrides) -> Result<Config, ConfigError> {
        let file: File = toml::from_str(text).map_err(|error| describe(path, text, &error))?;
        let base = path.parent().unwrap_or(Path::new(""));
        let invalid = |keys: &[&str], message: String| ConfigError::Invalid {
            path: path.to_owned(),
            line: line_of(text, keys),
            message,
        };

        file.limits
            .check()
            .map_err(|(name, message)| invalid(&["limits", name], message))?;
        check_tokens(&file.tenant).map_err(|message| invalid(&["tenant"], message))?;
        check_hosts(&file.allowed_hosts).map_err(|message| invalid(&["allowed_hosts"], message))?;
        check_origins(&file.allowed_origins)
            .map_err(|message| invalid(&["allowed_origins"], message))?;

        for (plugin, entry) in &file.plugin {
            if let Some(name) = entry.grants.given_twice() {
                let keys = ["plugin", plugin, "grants", "ask", "directories", name];
                return Err(invalid(
                    &keys,
                    format!(
                        "the directory `{name}` is given, so nobody is asked for it; name it under \
                         `directories` or under `ask.directories`"
                    ),
                ));
            }
        }

        let mut given: BTreeMap<String, Given> = file
            .plugin
            .into_iter()
            .map(|(name, plugin)| (name, plugin.grants.relative_to(base)))
            .collect();
        let mut tenants: Vec<&str> = file
            .tenant
            .iter()
            .map(|entry| entry.name.0.as_str())
            .collect();
        let local = TenantId::local();
        tenants.push(local.as_str());
        let listen = overrides
            .listen
            .or(file.listen.map(|listen| listen.0))
            .unwrap_or(SocketAddr::from(([127, 0, 0, 1], 7331)));
        if !listen.ip().is_loopback() && file.tenant.is_empty() {
            return Err(ConfigError::OpenToAll(listen));
        }
        let in_base = |path: Option<PathBuf>, default: &str| {
            base.join(path.unwrap_or_else(|| PathBuf::from(default)))
        };
        let data_dir = overrides
            .data_dir
            .unwrap_or_else(|| in_base(file.data_dir, "longshore-data"));
        let plugins_dir = overrides
            .plugins_dir
            .unwrap_or_else(|| in_base(file.plugins_dir, "plugins.d"));
        let places = nesting::Places {
            configuration: path,
            data_dir: &data_dir,
            plugins_dir: &plugins_dir,
            plugin_dirs: &overrides.plugin_dirs,
        };
        nesting::check(&mut given, &places, &tenants).map_err(|refused| {
            let (plugin, name) = (&refused.plugin, &refused.name);
            let keys = ["plugin", plugin, "grants", "directories", name];
            invalid(&keys, refused.message)
        })?;
        Ok(Config {
            listen,
            data_dir,
            plugins_dir,
            plugin_dirs: overrides.plugin_dirs,
            allowed_origins: file.allowed_origins,
            allowed_hosts: file.allowed_hosts,
            limits: file.limits,
            tenants: file.tenant.into_iter().map(TenantToken::from).collect(),
            given,
        })
    }
}

/// The file as it is written.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    listen: Option<Listen>,
    data_dir: Option<PathBuf>,
    plugins_dir: Option<PathBuf>,
    allowed_origins: Vec<String>,
    allowed_hosts: Vec<String>,
    limits: Limits,
    tenant: Vec<TenantEntry>,
    plugin: BTreeMap<String, PluginEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TenantEntry {
    name: TenantName,
    token_sha256: TokenHash,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PluginEntry {
    grants: Given,
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Listen(SocketAddr);

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct TenantName(TenantId);

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct TokenHash(Digest);

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(text: String) -> Result<Listen, String> {
        parse_listen(&text).map(Listen)
    }
}

impl TryFrom<String> for TenantName {
    type Error = String;

    fn try_from(text: String) -> Result<TenantName, String> {
        TenantId::parse(&text)
            .map(TenantName)
            .map_err(|error| format!("`{text}` names no tenant: {error}"))
    }
}

impl TryFrom<String> for TokenHash {
    type Error = String;

    fn try_from(text: String) -> Result<TokenHash, String> {
        Digest::parse(&text).map(TokenHash).map_err(|_| {
            "token_sha256 is the SHA-256 of a token, 64 hexadecimal digits; \
             `longshore tenant add NAME` writes it"
                .to_owned()
        })
    }
}

impl From<TenantEntry> for TenantToken {
    fn from(entry: TenantEntry) -> TenantToken {
        TenantToken {
            tenant: entry.name.0,
            token_sha256: entry.token_sha256.0,
        }
    }
}

/// Reads an address to listen on: `127.0.0.1:7331`, `[::1]:0`, `localhost:7331`.
pub fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numeric.parse().map_err(|_| {
        format!("`{text}` is not an address to listen on; write ADDRESS:PORT, like 127.0.0.1:7331")
    })
}

/// One token of two tenants would let one act as the other (I4).
fn check_tokens(tenants: &[TenantEntry]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    match tenants
        .iter()
        .find(|entry| !seen.insert(entry.token_sha256.0))
    {
        Some(entry) => Err(format!(
            "the token of tenant `{}` is listed twice; every token belongs to one tenant",
            entry.name.0
        )),
        None => Ok(()),
    }
}

/// A name that no request can have would look like a rule and be none; a pattern would let a web
/// page choose the name it is served under.
fn check_hosts(hosts: &[String]) -> Result<(), String> {
    match hosts.iter().find(|host| !is_authority(host)) {
        Some(host) => Err(format!(
            "`{host}` is no host; allowed_hosts has names and addresses one by one, with or without \
             a port, like tools.example.com"
        )),
        None => Ok(()),
    }
}

fn check_origins(origins: &[String]) -> Result<(), String> {
    let is_origin = |origin: &str| {
        origin.split_once("://").is_some_and(|(scheme, rest)| {
            scheme.parse::<http::uri::Scheme>().is_ok() && is_authority(rest)
        })
    };
    match origins.iter().find(|origin| !is_origin(origin)) {
        Some(origin) => Err(format!(
            "`{origin}` is no origin; allowed_origins has them one by one and as browsers send them, \
             like https://app.example.com"
        )),
        None => Ok(()),
    }
}

fn is_authority(text: &str) -> bool {
    !text.contains(['*', '@']) && text.parse::<http::uri::Authority>().is_ok()
}

/// Puts the parser's finding at its line; an unknown key gets the one that was probably meant.
pub(crate) fn describe(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    ConfigError::Invalid {
        path: path.to_owned(),
        line: error.span().map(|span| line_at(text, span.start)),
        message: explain(error.message()),
    }
}

fn explain(message: &str) -> String {
    if !message.starts_with("unknown field") {
        return message.to_owned();
    }
    let words: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let Some((unknown, known)) = words.split_first() else {
        return message.to_owned();
    };
    let nearest = known
        .iter()
        .map(|key| (strsim::jaro_winkler(unknown, key), key))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = nearest
        .map(|(_, key)| format!(", did you mean `{key}`?"))
        .unwrap_or_else(|| ".".to_owned());
    format!(
        "unknown key `{unknown}`{hint} Known here: {}",
        known.join(", ")
    )
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|b| *b == b'\n').count()
}

/// The line of the deepest of `keys` that the text has.
fn line_of(text: &str, keys: &[&str]) -> Option<usize> {
    let document = toml_edit::Document::parse(text).ok()?;
    let mut table: &dyn toml_edit::TableLike = document.as_table();
    let mut line = None;
    for name in keys {
        let Some((key, item)) = table.get_key_value(name) else {
            break;
        };
        line = key.span().map(|span| line_at(text, span.start)).or(line);
        match item.as_table_like() {
            Some(inner) => table = inner,
            None => break,
        }
    }
    line
}

#[cfg(test)]
mod tests;
