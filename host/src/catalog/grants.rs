//! The effective grants: what a plugin asks for *and* the operator gives (I5). It shows both sides, so
//! that a person sees what is missing and what is given in vain. Pure, save that
//! [`compare_with_host`] looks for what is granted.

mod compare;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::manifest::{Asked, AskedDirectory};
use crate::config::{Given, GivenDirectory, HttpPattern, Methods, SecretSource};
use crate::wasm::{
    AskDirectory, AskGrant, DirectoryGrant, Grants, HttpGrant, SecretGrant, SecretPlace, StateGrant,
};

pub use self::compare::{Effect, Kind, Row, compare, compare_with_host};

/// What the guest may reach.
pub fn effective(asked: &Asked, given: &Given) -> Grants {
    let directories = asked
        .directories
        .iter()
        .filter_map(|wish| Some(directory(wish, given.directories.get(&wish.name)?)))
        .collect();
    let wished = |value: &BTreeMap<String, String>, name: &String| {
        let value = value.get(name)?;
        Some((name.clone(), value.clone()))
    };
    let environment = asked.environment.iter();
    let configuration = asked.configuration.iter();
    let secrets = asked
        .secrets
        .iter()
        .filter_map(|wish| {
            let secret = given.secrets.get(&wish.name)?;
            Some(SecretGrant {
                name: wish.name.clone(),
                place: match &secret.source {
                    SecretSource::Environment(name) => SecretPlace::Environment(name.clone()),
                    SecretSource::File(path) => SecretPlace::File(path.clone()),
                },
                hosts: secret.hosts.iter().cloned().map(HttpGrant::from).collect(),
            })
        })
        .collect();
    Grants {
        directories,
        http: effective_http(asked, given),
        ask: effective_ask(asked, given),
        ask_directories: effective_ask_directories(asked, given),
        environment: environment
            .filter_map(|wish| wished(&given.environment, &wish.name))
            .collect(),
        configuration: configuration
            .filter_map(|wish| wished(&given.configuration, &wish.name))
            .collect(),
        secrets,
        state: asked
            .state
            .as_ref()
            .and(given.state.as_ref())
            .map(|state| StateGrant {
                quota_bytes: state.quota_bytes,
                quota_keys: state.quota_keys,
            }),
    }
}

fn effective_http(asked: &Asked, given: &Given) -> Vec<HttpGrant> {
    let mut http = Vec::new();
    for grant in &given.http {
        for wish in &asked.http {
            match intersect(&wish.host.parsed, grant) {
                Some(both) if !http.contains(&both) => http.push(both),
                Some(_) | None => {}
            }
        }
    }
    http.into_iter().map(HttpGrant::from).collect()
}

/// What a person may be asked for: only wishes that say so, only what the operator's rule covers.
fn effective_ask(asked: &Asked, given: &Given) -> Vec<AskGrant> {
    let Some(rule) = &given.ask else {
        return Vec::new();
    };
    let wishes = asked.http.iter().filter(|wish| wish.at_run_time);
    wishes
        .flat_map(|wish| {
            let both = rule
                .http
                .iter()
                .filter_map(|grant| intersect(&wish.host.parsed, grant));
            both.map(|both| AskGrant {
                http: HttpGrant::from(both),
                remember: rule.remember,
                why: wish.why.clone(),
            })
        })
        .collect()
}

fn effective_ask_directories(asked: &Asked, given: &Given) -> Vec<AskDirectory> {
    let Some(rule) = &given.ask else {
        return Vec::new();
    };
    let wishes = asked.directories.iter().filter(|wish| wish.at_run_time);
    wishes
        .filter_map(|wish| {
            Some(AskDirectory {
                directory: directory(wish, rule.directories.get(&wish.name)?),
                remember: rule.remember,
                why: wish.why.clone(),
            })
        })
        .collect()
}

/// What both allow.
fn directory(wish: &AskedDirectory, given: &GivenDirectory) -> DirectoryGrant {
    DirectoryGrant {
        name: wish.name.clone(),
        path: given.path.clone(),
        write: wish.write && given.write,
        quota_bytes: given.quota_bytes,
        led: given.led.clone(),
    }
}

impl From<HttpPattern> for HttpGrant {
    fn from(pattern: HttpPattern) -> HttpGrant {
        HttpGrant {
            scheme: pattern.scheme,
            host: pattern.host,
            port: pattern.port,
            path_prefix: pattern.path_prefix,
            methods: pattern.methods,
        }
    }
}

/// What both allow. A port the plugin leaves out is any; one the operator leaves out is only the
/// scheme's own.
fn intersect(wish: &HttpPattern, given: &HttpPattern) -> Option<HttpPattern> {
    // Either side may be a pattern, where a person is asked.
    let host = match host_fits(&wish.host, &given.host) {
        true => &given.host,
        false if host_fits(&given.host, &wish.host) => &wish.host,
        false => return None,
    };
    let methods = both_methods(&wish.methods, &given.methods)?;
    let mut scheme = both(&wish.scheme, &given.scheme)?;
    let port = match (wish.port, given.port) {
        (Some(wanted), None) => {
            let own = match wanted {
                443 => "https",
                80 => "http",
                _ => return None,
            };
            scheme = both(&scheme, &Some(own.to_owned()))?;
            Some(wanted)
        }
        (wanted, given) => both(&wanted, &given)?,
    };
    let (shorter, longer) = match wish.path_prefix.len() < given.path_prefix.len() {
        true => (&wish.path_prefix, &given.path_prefix),
        false => (&given.path_prefix, &wish.path_prefix),
    };
    longer.starts_with(shorter.as_str()).then(|| HttpPattern {
        scheme,
        host: host.clone(),
        port,
        path_prefix: longer.clone(),
        methods,
    })
}

/// What both allow, where None is all; None when that is nothing.
fn both_methods(a: &Option<Methods>, b: &Option<Methods>) -> Option<Option<Methods>> {
    match (a, b) {
        (Some(a), Some(b)) => {
            let both: Methods = a.intersection(b).cloned().collect();
            (!both.is_empty()).then_some(Some(both))
        }
        (some, None) | (None, some) => Some(some.clone()),
    }
}

/// The stricter of two conditions, where None is no condition; None when they exclude each other.
fn both<T: Clone + PartialEq>(a: &Option<T>, b: &Option<T>) -> Option<Option<T>> {
    match (a, b) {
        (Some(a), Some(b)) if a != b => None,
        (Some(value), _) | (None, Some(value)) => Some(Some(value.clone())),
        (None, None) => Some(None),
    }
}

fn host_fits(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some("") => true,
        Some(suffix) => host.len() > suffix.len() && host.ends_with(suffix),
        None => pattern == host,
    }
}
