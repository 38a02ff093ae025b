//! How single gifts are written in `longshore.toml`: HTTP hosts with their methods, what may be
//! asked of a person, quotas of state and directories.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};

use super::given::{GivenDirectory, HttpPattern, PatternError, parse_http};

/// HTTP methods, in upper case.
pub type Methods = BTreeSet<String>;

/// What a state's quota may be raised to, bytes and keys. It lives in the store's records, which
/// everything else shares: more belongs into a directory.
const STATE_BYTES_MAX: u64 = 1 << 30;
const STATE_KEYS_MAX: u64 = 1_000_000;

/// A smaller quota than a block of the disk holds not one file, bytes.
const DIRECTORY_BYTES_MIN: u64 = 4_096;

/// A method's name, characters.
const METHOD_MAX_CHARS: usize = 20;

/// What a plugin may ask a person for while it runs. Without it, it may ask for nothing.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct GivenAsk {
    /// Hosts a person may allow; here they may be patterns.
    #[serde(deserialize_with = "http_rules")]
    pub http: Vec<HttpPattern>,
    /// Directories a person may allow, named as the plugin names them.
    pub directories: BTreeMap<String, GivenDirectory>,
    /// Whether a person may allow one for good.
    pub remember: bool,
}

/// A key-value state, with quotas in the place of the host's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenState {
    pub quota_bytes: Option<u64>,
    pub quota_keys: Option<u64>,
}

/// A host as text, or with more to say about it.
enum HttpEntry {
    Text(String),
    Table(HttpTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpTable {
    host: String,
    #[serde(default, deserialize_with = "methods")]
    methods: Option<Methods>,
}

/// Yes or no, or with more to say about it.
enum StateEntry {
    Given(bool),
    Table(StateTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StateTable {
    quota_bytes: Option<u64>,
    quota_keys: Option<u64>,
}

// Both by hand: what serde derives for such an enum says nothing of what is wrong in its table.
impl<'de> Deserialize<'de> for HttpEntry {
    fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<HttpEntry, D::Error> {
        struct Entry;

        impl<'de> Visitor<'de> for Entry {
            type Value = HttpEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a host, or a table with `host` and `methods`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<HttpEntry, E> {
                Ok(HttpEntry::Text(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<HttpEntry, A::Error> {
                HttpTable::deserialize(MapAccessDeserializer::new(table)).map(HttpEntry::Table)
            }
        }

        source.deserialize_any(Entry)
    }
}

impl<'de> Deserialize<'de> for StateEntry {
    fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<StateEntry, D::Error> {
        struct Entry;

        impl<'de> Visitor<'de> for Entry {
            type Value = StateEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, or a table with `quota_bytes` and `quota_keys`")
            }

            fn visit_bool<E: Error>(self, is_given: bool) -> Result<StateEntry, E> {
                Ok(StateEntry::Given(is_given))
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<StateEntry, A::Error> {
                StateTable::deserialize(MapAccessDeserializer::new(table)).map(StateEntry::Table)
            }
        }

        source.deserialize_any(Entry)
    }
}

/// Hosts that were named, never a pattern of hosts.
pub(super) fn http_patterns<'de, D: serde::Deserializer<'de>>(
    source: D,
) -> Result<Vec<HttpPattern>, D::Error> {
    let entries = Vec::<HttpEntry>::deserialize(source)?;
    let named = entries.into_iter().map(|entry| {
        let text = entry.host().to_owned();
        match entry.read()? {
            pattern if pattern.host.contains('*') => Err(PatternError::Wildcard(text)),
            pattern => Ok(pattern),
        }
    });
    named.collect::<Result<_, _>>().map_err(Error::custom)
}

/// Hosts and patterns of hosts.
fn http_rules<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Vec<HttpPattern>, D::Error> {
    let entries = Vec::<HttpEntry>::deserialize(source)?;
    let rules = entries.into_iter().map(HttpEntry::read);
    rules.collect::<Result<_, _>>().map_err(Error::custom)
}

impl HttpEntry {
    fn host(&self) -> &str {
        match self {
            HttpEntry::Text(text) => text,
            HttpEntry::Table(table) => &table.host,
        }
    }

    fn read(self) -> Result<HttpPattern, PatternError> {
        let pattern = parse_http(self.host())?;
        Ok(match self {
            HttpEntry::Text(_) => pattern,
            HttpEntry::Table(table) => HttpPattern {
                methods: table.methods,
                ..pattern
            },
        })
    }
}

/// Reads `methods = ["GET", …]`.
pub(crate) fn methods<'de, D: serde::Deserializer<'de>>(
    source: D,
) -> Result<Option<Methods>, D::Error> {
    let fail = |message: String| Err(Error::custom(message));
    let names = BTreeSet::<String>::deserialize(source)?;
    if names.is_empty() {
        return fail("`methods` names none; leave it out for all".to_owned());
    }
    let is_method = |name: &String| {
        (1..=METHOD_MAX_CHARS).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'-')
    };
    if let Some(name) = names.iter().find(|name| !is_method(name)) {
        return fail(format!(
            "`{name}` is no HTTP method; they are written in upper case, like GET"
        ));
    }
    if names.contains("CONNECT") {
        return fail("CONNECT opens a tunnel, and tunnels are never granted".to_owned());
    }
    Ok(Some(names))
}

/// Reads `state = true`, or a table of quotas.
pub(super) fn state<'de, D: serde::Deserializer<'de>>(
    source: D,
) -> Result<Option<GivenState>, D::Error> {
    let table = match StateEntry::deserialize(source)? {
        StateEntry::Given(false) => return Ok(None),
        StateEntry::Given(true) => return Ok(Some(GivenState::default())),
        StateEntry::Table(table) => table,
    };
    let check = |name: &str, value: Option<u64>, max: u64| match value {
        Some(value) if !(1..=max).contains(&value) => Err(Error::custom(format!(
            "{name} is {value}; it must be from 1 to {max}"
        ))),
        value => Ok(value),
    };
    Ok(Some(GivenState {
        quota_bytes: check("quota_bytes", table.quota_bytes, STATE_BYTES_MAX)?,
        quota_keys: check("quota_keys", table.quota_keys, STATE_KEYS_MAX)?,
    }))
}

/// Reads `quota_bytes` of a directory.
pub(super) fn directory_quota<'de, D: serde::Deserializer<'de>>(
    source: D,
) -> Result<Option<u64>, D::Error> {
    match u64::deserialize(source)? {
        bytes @ DIRECTORY_BYTES_MIN.. => Ok(Some(bytes)),
        bytes => Err(Error::custom(format!(
            "quota_bytes is {bytes}; {DIRECTORY_BYTES_MIN} is the least a file takes"
        ))),
    }
}
