//! Both sides of every grant as rows for people. It never shows a value that may be a secret.

use std::collections::BTreeMap;

use super::{effective, intersect};
use crate::catalog::manifest::{Asked, AskedHttp};
use crate::config::{Given, GivenDirectory, GivenSecret, GivenState, HttpPattern};

/// One thing asked, given, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub kind: Kind,
    pub name: String,
    pub asked: Option<String>,
    pub given: Option<String>,
    pub effect: Effect,
    /// The plugin's reason.
    pub why: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Directory,
    Http,
    Environment,
    Configuration,
    Secret,
    State,
}

/// What comes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Granted,
    /// Granted, and less than was asked.
    Narrowed,
    /// A person is asked while the tool runs.
    Asks,
    NotGiven,
    NotAsked,
    /// Granted, and the host has no such directory or file.
    Missing,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Directory => "directory",
            Kind::Http => "http",
            Kind::Environment => "environment",
            Kind::Configuration => "configuration",
            Kind::Secret => "secret",
            Kind::State => "state",
        }
    }
}

impl Effect {
    pub fn as_str(self) -> &'static str {
        match self {
            Effect::Granted => "granted",
            Effect::Narrowed => "narrowed",
            Effect::Asks => "asks a person",
            Effect::NotGiven => "not given",
            Effect::NotAsked => "not asked",
            Effect::Missing => "missing on the host",
        }
    }
}

/// As [`compare`], and whether what is granted is there. It may block.
pub fn compare_with_host(asked: &Asked, given: &Given) -> Vec<Row> {
    let mut rows = compare(asked, given);
    for missing in effective(asked, given).missing() {
        let is_meant = |row: &&mut Row| {
            row.kind.as_str() == missing.kind && row.name == missing.name && row.asked.is_some()
        };
        if let Some(row) = rows.iter_mut().find(is_meant) {
            row.effect = Effect::Missing;
        }
    }
    rows
}

/// Both sides, one row for each thing: first what was asked, then what was given without being asked.
pub fn compare(asked: &Asked, given: &Given) -> Vec<Row> {
    let mut rows = directory_rows(asked, given);
    rows.extend(http_rows(asked, given));
    rows.extend(value_rows(
        Kind::Environment,
        asked.environment.iter().map(|wish| (&wish.name, &wish.why)),
        &given.environment,
    ));
    rows.extend(value_rows(
        Kind::Configuration,
        asked
            .configuration
            .iter()
            .map(|wish| (&wish.name, &wish.why)),
        &given.configuration,
    ));
    rows.extend(secret_rows(asked, given));
    rows.extend(state_row(asked, given));
    rows
}

/// Bytes in the largest unit that says them exactly: rounded, it would not be what the operator wrote.
fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let fits = |(unit, _): &(u64, &str)| bytes > 0 && bytes.is_multiple_of(*unit);
    match units.into_iter().find(fits) {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} bytes"),
    }
}

fn directory_rows(asked: &Asked, given: &Given) -> Vec<Row> {
    let shown = |directory: &GivenDirectory| {
        let quota = directory
            .quota_bytes
            .map(|bytes| format!(", at most {}", size(bytes)));
        format!(
            "{} {}{}",
            access_word(directory.write),
            directory.path.display(),
            quota.unwrap_or_default()
        )
    };
    let rule = given.ask.as_ref().map(|ask| &ask.directories);
    let wishes = asked.directories.iter().map(|wish| {
        let directory = given.directories.get(&wish.name);
        let askable = rule.and_then(|rule| rule.get(&wish.name));
        let askable = askable.filter(|_| wish.at_run_time);
        Row {
            kind: Kind::Directory,
            name: wish.name.clone(),
            asked: Some(match wish.at_run_time {
                true => format!("{}, at run time", access_word(wish.write)),
                false => access_word(wish.write).to_owned(),
            }),
            given: match (directory, askable) {
                (Some(directory), _) => Some(shown(directory)),
                (None, askable) => askable.map(|rule| format!("ask for {}", shown(rule))),
            },
            effect: match (directory, askable) {
                (None, None) => Effect::NotGiven,
                (None, Some(_)) => Effect::Asks,
                (Some(directory), _) if wish.write && !directory.write => Effect::Narrowed,
                (Some(_), _) => Effect::Granted,
            },
            why: Some(wish.why.clone()),
        }
    });
    let is_wished = |name: &String| asked.directories.iter().any(|wish| wish.name == *name);
    let given_in_vain = given
        .directories
        .iter()
        .filter(|(name, _)| !is_wished(name))
        .map(|(name, directory)| unasked(Kind::Directory, name, shown(directory)));
    let is_asked_for = |name: &String| {
        let mut wishes = asked.directories.iter();
        wishes.any(|wish| wish.name == *name && wish.at_run_time)
    };
    let askable_in_vain = rule
        .into_iter()
        .flatten()
        .filter(|(name, _)| !is_asked_for(name))
        .map(|(name, rule)| unasked(Kind::Directory, name, format!("ask for {}", shown(rule))));
    wishes.chain(given_in_vain).chain(askable_in_vain).collect()
}

fn http_rows(asked: &Asked, given: &Given) -> Vec<Row> {
    let is_met =
        |wish: &AskedHttp, grant: &HttpPattern| intersect(&wish.host.parsed, grant).is_some();
    let rules = given.ask.iter().flat_map(|ask| &ask.http);
    let wishes = asked.http.iter().map(|wish| {
        let granted: Vec<&HttpPattern> = given
            .http
            .iter()
            .filter(|grant| is_met(wish, grant))
            .collect();
        let askable = rules
            .clone()
            .filter(|rule| wish.at_run_time && is_met(wish, rule));
        let mut shown: Vec<String> = granted.iter().map(|grant| grant.to_string()).collect();
        shown.extend(askable.map(|rule| format!("ask for {rule}")));
        Row {
            kind: Kind::Http,
            name: wish.host.text.clone(),
            asked: Some(match wish.at_run_time {
                true => format!("{}, at run time", wish.host.text),
                false => wish.host.text.clone(),
            }),
            effect: match (granted.is_empty(), shown.is_empty()) {
                (true, true) => Effect::NotGiven,
                (true, false) => Effect::Asks,
                (false, _) if granted.iter().any(|grant| has_methods(wish, grant)) => {
                    Effect::Granted
                }
                (false, _) => Effect::Narrowed,
            },
            given: (!shown.is_empty()).then(|| shown.join(", ")),
            why: Some(wish.why.clone()),
        }
    });
    let given_in_vain = given
        .http
        .iter()
        .filter(|grant| !asked.http.iter().any(|wish| is_met(wish, grant)))
        .map(HttpPattern::to_string);
    let askable_in_vain = rules
        .clone()
        .filter(|rule| {
            let mut wishes = asked.http.iter().filter(|wish| wish.at_run_time);
            !wishes.any(|wish| is_met(wish, rule))
        })
        .map(|rule| format!("ask for {rule}"));
    let unasked = given_in_vain
        .chain(askable_in_vain)
        .map(|text| unasked(Kind::Http, &text, text.clone()));
    wishes.chain(unasked).collect()
}

/// Whether a grant has all the methods that a wish names.
fn has_methods(wish: &AskedHttp, grant: &HttpPattern) -> bool {
    match (&wish.host.parsed.methods, &grant.methods) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(wished), Some(given)) => wished.is_subset(given),
    }
}

/// Rows of environment and configuration. Values stay unsaid: they may be secrets.
fn value_rows<'a>(
    kind: Kind,
    asked: impl Iterator<Item = (&'a String, &'a String)> + Clone,
    given: &BTreeMap<String, String>,
) -> Vec<Row> {
    let wishes = asked.clone().map(|(name, why)| {
        let is_given = given.contains_key(name);
        Row {
            kind,
            name: name.clone(),
            asked: Some("value".to_owned()),
            given: is_given.then(|| "set".to_owned()),
            effect: match is_given {
                true => Effect::Granted,
                false => Effect::NotGiven,
            },
            why: Some(why.clone()),
        }
    });
    let unasked = given
        .keys()
        .filter(|name| !asked.clone().any(|(wished, _)| wished == *name))
        .map(|name| unasked(kind, name, "set".to_owned()));
    wishes.chain(unasked).collect()
}

fn state_row(asked: &Asked, given: &Given) -> Option<Row> {
    let shown = |state: &GivenState| {
        let bytes = state.quota_bytes.map(size);
        let keys = state.quota_keys.map(|keys| format!("{keys} keys"));
        let limit = |unit: &str| format!("the host's limit of {unit}");
        format!(
            "{}, {}",
            bytes.unwrap_or_else(|| limit("bytes")),
            keys.unwrap_or_else(|| limit("keys"))
        )
    };
    let name = "state";
    match (&asked.state, &given.state) {
        (None, None) => None,
        (None, Some(state)) => Some(unasked(Kind::State, name, shown(state))),
        (Some(wish), state) => Some(Row {
            kind: Kind::State,
            name: name.to_owned(),
            asked: Some("values".to_owned()),
            given: state.as_ref().map(shown),
            effect: match state {
                Some(_) => Effect::Granted,
                None => Effect::NotGiven,
            },
            why: Some(wish.why.clone()),
        }),
    }
}

/// Where a secret is kept is the operator's business; where it may go is what matters.
fn secret_rows(asked: &Asked, given: &Given) -> Vec<Row> {
    let shown = |secret: &GivenSecret| {
        let hosts: Vec<String> = secret.hosts.iter().map(HttpPattern::to_string).collect();
        format!("for {}", hosts.join(", "))
    };
    let wishes = asked.secrets.iter().map(|wish| {
        let secret = given.secrets.get(&wish.name);
        Row {
            kind: Kind::Secret,
            name: wish.name.clone(),
            asked: Some("use".to_owned()),
            given: secret.map(shown),
            effect: match secret {
                Some(_) => Effect::Granted,
                None => Effect::NotGiven,
            },
            why: Some(wish.why.clone()),
        }
    });
    let unasked = given
        .secrets
        .iter()
        .filter(|(name, _)| !asked.secrets.iter().any(|wish| wish.name == **name))
        .map(|(name, secret)| unasked(Kind::Secret, name, shown(secret)));
    wishes.chain(unasked).collect()
}

fn unasked(kind: Kind, name: &str, given: String) -> Row {
    Row {
        kind,
        name: name.to_owned(),
        asked: None,
        given: Some(given),
        effect: Effect::NotAsked,
        why: None,
    }
}

fn access_word(write: bool) -> &'static str {
    if write { "write" } else { "read" }
}
