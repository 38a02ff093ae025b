//! Secrets of one run. The guest holds placeholders; the values stay here, and are handed out only
//! for a request that goes where the secret may go.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use super::grants::{CREATE, GrantError, HttpGrant, SecretGrant, SecretPlace};

/// How placeholders begin; random digits follow, so that nobody has one by accident.
const PLACEHOLDER_PREFIX: &str = "longshore-secret-";

/// A secret's value, bytes.
const VALUE_MAX_BYTES: u64 = 16 << 10;

/// The secrets of one run.
#[derive(Default)]
pub(super) struct Secrets(Vec<Secret>);

/// No part of it may be printed.
pub(super) struct Secret {
    pub name: String,
    pub placeholder: String,
    pub value: String,
    pub hosts: Vec<HttpGrant>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.name)
    }
}

impl Secrets {
    /// Reads the values. It may block.
    pub fn open(grants: &[SecretGrant]) -> Result<Secrets, GrantError> {
        let secrets = grants.iter().map(|grant| {
            let failed = |cause: String| GrantError {
                kind: "secret",
                name: grant.name.clone(),
                remedy: CREATE,
                cause,
            };
            let value = read(&grant.place).map_err(|error| failed(error.to_string()))?;
            Ok(Secret {
                name: grant.name.clone(),
                placeholder: placeholder().map_err(failed)?,
                value,
                hosts: grant.hosts.clone(),
            })
        });
        Ok(Secrets(secrets.collect::<Result<_, GrantError>>()?))
    }

    /// Values with their placeholders.
    #[cfg(test)]
    pub fn of(pairs: impl IntoIterator<Item = (String, String)>) -> Secrets {
        let secrets = pairs.into_iter().map(|(value, placeholder)| Secret {
            name: String::new(),
            placeholder,
            value,
            hosts: Vec::new(),
        });
        Secrets(secrets.collect())
    }

    /// What the guest's environment holds instead of them.
    pub fn placeholders(&self) -> impl Iterator<Item = (&str, &str)> {
        let secrets = self.0.iter();
        secrets.map(|secret| (secret.name.as_str(), secret.placeholder.as_str()))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Secret> {
        self.0.iter()
    }
}

fn placeholder() -> Result<String, String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| error.to_string())?;
    Ok(format!(
        "{PLACEHOLDER_PREFIX}{:032x}",
        u128::from_be_bytes(random)
    ))
}

fn read(place: &SecretPlace) -> io::Result<String> {
    let value = match place {
        SecretPlace::Environment(name) => {
            std::env::var(name).map_err(|error| io::Error::other(format!("{name}: {error}")))?
        }
        SecretPlace::File(path) => {
            let mut value = String::new();
            let file = File::open(path)?;
            file.take(VALUE_MAX_BYTES + 1).read_to_string(&mut value)?;
            value
        }
    };
    // Editors end files with a line break, and what fills variables from files leaves it there.
    let value = value.trim_end_matches(['\r', '\n']).to_owned();
    match value.len() as u64 {
        0 => Err(io::Error::other("it is empty")),
        1..=VALUE_MAX_BYTES => Ok(value),
        _ => Err(io::Error::other(format!(
            "it has more than {VALUE_MAX_BYTES} bytes"
        ))),
    }
}
