//! What an operator gives a plugin: the `grants` table of `[plugin.NAME]`. It is half of a grant;
//! the plugin's manifest is the other (I5).

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use super::gift::{self, GivenAsk, GivenState, Methods};
use crate::paths::Led;

/// What an operator gives one plugin.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct Given {
    pub directories: BTreeMap<String, GivenDirectory>,
    #[serde(deserialize_with = "gift::http_patterns")]
    pub http: Vec<HttpPattern>,
    /// What a person may be asked for while it runs.
    pub ask: Option<GivenAsk>,
    pub environment: BTreeMap<String, String>,
    pub configuration: BTreeMap<String, String>,
    pub secrets: BTreeMap<String, GivenSecret>,
    #[serde(deserialize_with = "gift::state")]
    pub state: Option<GivenState>,
}

/// A secret: where the host finds it, and where it may be sent. The value is not kept here.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "SecretEntry")]
pub struct GivenSecret {
    pub source: SecretSource,
    pub hosts: Vec<HttpPattern>,
}

/// Where a secret's value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// A variable of the host's own environment.
    Environment(String),
    /// A file, without the line break at its end.
    File(PathBuf),
}

/// A secret as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretEntry {
    env: Option<String>,
    file: Option<PathBuf>,
    #[serde(deserialize_with = "gift::http_patterns")]
    hosts: Vec<HttpPattern>,
}

impl TryFrom<SecretEntry> for GivenSecret {
    type Error = &'static str;

    fn try_from(entry: SecretEntry) -> Result<GivenSecret, &'static str> {
        let source = match (entry.env, entry.file) {
            (Some(name), None) => SecretSource::Environment(name),
            (None, Some(path)) => SecretSource::File(path),
            _ => {
                return Err(
                    "a secret has either `env`, a variable of the host's environment, or `file`",
                );
            }
        };
        if entry.hosts.is_empty() {
            return Err("a secret needs `hosts`: the only places it may be sent to");
        }
        let hosts = entry.hosts.into_iter().map(|mut host| {
            // Nobody means to send a secret in the clear without saying so.
            host.scheme.get_or_insert_with(|| "https".to_owned());
            host
        });
        Ok(GivenSecret {
            source,
            hosts: hosts.collect(),
        })
    }
}

/// A directory on the host.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct GivenDirectory {
    pub path: PathBuf,
    #[serde(rename = "access", deserialize_with = "access")]
    pub write: bool,
    /// What its files may take, bytes; None: as much as the disk has.
    #[serde(default, deserialize_with = "gift::directory_quota")]
    pub quota_bytes: Option<u64>,
    /// Where the path led when it was checked.
    #[serde(skip)]
    pub led: Led,
}

/// Where HTTP requests may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpPattern {
    /// `http` or `https`; None leaves it open.
    pub scheme: Option<String>,
    /// A name or an address (an IPv6 one in brackets), in lower case.
    pub host: String,
    pub port: Option<u16>,
    /// Begins and ends with `/`.
    pub path_prefix: String,
    /// None allows all.
    pub methods: Option<Methods>,
}

/// Why a text names no HTTP host.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PatternError {
    #[error("`{0}` has a scheme other than http and https")]
    Scheme(String),
    #[error("`{0}` names no host; write one like https://api.example.com/v1/ or 127.0.0.1:8081")]
    Host(String),
    #[error("`{0}` has a port that is not from 1 to 65535")]
    Port(String),
    #[error("the path of `{0}` must end with `/`: as a prefix it would also allow longer names")]
    PathEnd(String),
    #[error("the path of `{0}` holds `..`, `?`, `#`, `%` or `\\`, which a prefix can't have")]
    Path(String),
    #[error("`{0}` holds credentials; give them as a secret")]
    Credentials(String),
    #[error("`{0}` gives a pattern of hosts; name each host")]
    Wildcard(String),
}

impl Given {
    /// Resolves relative directories against that of the configuration file.
    pub(super) fn relative_to(mut self, base: &Path) -> Given {
        for (_, directory) in self.all_directories() {
            directory.path = base.join(&directory.path);
        }
        for secret in self.secrets.values_mut() {
            if let SecretSource::File(path) = &mut secret.source {
                *path = base.join(&*path);
            }
        }
        self
    }

    /// Those that are given and those to be asked for, with their names.
    pub(super) fn all_directories(&mut self) -> impl Iterator<Item = (&str, &mut GivenDirectory)> {
        let asked = self.ask.iter_mut().flat_map(|ask| &mut ask.directories);
        let all = self.directories.iter_mut().chain(asked);
        all.map(|(name, directory)| (name.as_str(), directory))
    }

    /// A directory that is given and to be asked for, too.
    pub(super) fn given_twice(&self) -> Option<&str> {
        let ask = self.ask.as_ref()?;
        let mut names = ask.directories.keys();
        let name = names.find(|name| self.directories.contains_key(*name))?;
        Some(name)
    }
}

/// Parses `[scheme://]host[:port][/prefix/]`. The host may be a pattern here; who gives, may not.
pub fn parse_http(text: &str) -> Result<HttpPattern, PatternError> {
    let fail = |error: fn(String) -> PatternError| error(text.to_owned());
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => {
            let scheme = scheme.to_ascii_lowercase();
            if scheme != "http" && scheme != "https" {
                return Err(fail(PatternError::Scheme));
            }
            (Some(scheme), rest)
        }
        None => (None, text),
    };
    let (authority, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, "/"),
    };
    if authority.contains('@') {
        return Err(fail(PatternError::Credentials));
    }
    let (host, port) = split_port(authority);
    let port = match port {
        Some(digits) => match digits.parse() {
            Ok(port @ 1..) => Some(port),
            _ => return Err(fail(PatternError::Port)),
        },
        None => None,
    };
    if !is_host(host) {
        return Err(fail(PatternError::Host));
    }
    if path.contains(['?', '#', '%', '\\']) || path.split('/').any(|part| part == "..") {
        return Err(fail(PatternError::Path));
    }
    if !path.ends_with('/') {
        return Err(fail(PatternError::PathEnd));
    }
    Ok(HttpPattern {
        scheme,
        host: host.to_ascii_lowercase(),
        port,
        path_prefix: path.to_owned(),
        methods: None,
    })
}

impl fmt::Display for HttpPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scheme) = &self.scheme {
            write!(f, "{scheme}://")?;
        }
        f.write_str(&self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        match self.path_prefix.as_str() {
            "/" => {}
            path => f.write_str(path)?,
        }
        match &self.methods {
            None => Ok(()),
            Some(methods) => {
                let methods: Vec<&str> = methods.iter().map(String::as_str).collect();
                write!(f, " ({})", methods.join(", "))
            }
        }
    }
}

fn split_port(authority: &str) -> (&str, Option<&str>) {
    // The colons of an IPv6 address are inside its brackets.
    let address_end = authority.find(']').map_or(0, |bracket| bracket + 1);
    match authority[address_end..].find(':') {
        Some(colon) => {
            let (host, port) = authority.split_at(address_end + colon);
            (host, Some(&port[1..]))
        }
        None => (authority, None),
    }
}

fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let name = host.strip_prefix("*.").unwrap_or(host);
    let is_name = !name.is_empty()
        && name
            .split('.')
            .all(|label| !label.is_empty() && label.bytes().all(is_label_byte));
    host == "*" || is_name
}

fn is_label_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// Reads `access = "read"` or `"write"`; true for write, which includes read.
pub(crate) fn access<'de, D: serde::Deserializer<'de>>(source: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Access {
        Read,
        Write,
    }

    Ok(matches!(Access::deserialize(source)?, Access::Write))
}
