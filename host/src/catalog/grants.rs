//! The effective grants: what a plugin asks for *and* the operator gives (I5). Pure; it shows both
//! sides, so that a person sees what is missing and what is given in vain.

use super::manifest::{Asked, AskedHttp};
use crate::config::{Given, GivenDirectory, GivenSecret, HttpPattern, SecretSource};
use crate::wasm::{DirectoryGrant, Grants, HttpGrant, SecretGrant, SecretPlace};

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
    Secret,
}

/// What comes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Granted,
    /// Granted, and less than was asked.
    Narrowed,
    NotGiven,
    NotAsked,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Directory => "directory",
            Kind::Http => "http",
            Kind::Environment => "environment",
            Kind::Secret => "secret",
        }
    }
}

impl Effect {
    pub fn as_str(self) -> &'static str {
        match self {
            Effect::Granted => "granted",
            Effect::Narrowed => "narrowed",
            Effect::NotGiven => "not given",
            Effect::NotAsked => "not asked",
        }
    }
}

/// What the guest may reach.
pub fn effective(asked: &Asked, given: &Given) -> Grants {
    let directories = asked
        .directories
        .iter()
        .filter_map(|wish| {
            let directory = given.directories.get(&wish.name)?;
            Some(DirectoryGrant {
                name: wish.name.clone(),
                path: directory.path.clone(),
                write: wish.write && directory.write,
            })
        })
        .collect();
    let mut http = Vec::new();
    for grant in &given.http {
        for wish in &asked.http {
            match intersect(&wish.host.parsed, grant) {
                Some(both) if !http.contains(&both) => http.push(both),
                Some(_) | None => {}
            }
        }
    }
    let environment = asked
        .environment
        .iter()
        .filter_map(|wish| {
            let value = given.environment.get(&wish.name)?;
            Some((wish.name.clone(), value.clone()))
        })
        .collect();
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
        http: http.into_iter().map(HttpGrant::from).collect(),
        environment,
        secrets,
    }
}

impl From<HttpPattern> for HttpGrant {
    fn from(pattern: HttpPattern) -> HttpGrant {
        HttpGrant {
            scheme: pattern.scheme,
            host: pattern.host,
            port: pattern.port,
            path_prefix: pattern.path_prefix,
        }
    }
}

/// Both sides, one row for each thing: first what was asked, then what was given without being asked.
pub fn compare(asked: &Asked, given: &Given) -> Vec<Row> {
    let mut rows = directory_rows(asked, given);
    rows.extend(http_rows(asked, given));
    rows.extend(environment_rows(asked, given));
    rows.extend(secret_rows(asked, given));
    rows
}

fn directory_rows(asked: &Asked, given: &Given) -> Vec<Row> {
    let shown = |directory: &GivenDirectory| {
        format!(
            "{} {}",
            access_word(directory.write),
            directory.path.display()
        )
    };
    let wishes = asked.directories.iter().map(|wish| {
        let directory = given.directories.get(&wish.name);
        Row {
            kind: Kind::Directory,
            name: wish.name.clone(),
            asked: Some(access_word(wish.write).to_owned()),
            given: directory.map(shown),
            effect: match directory {
                None => Effect::NotGiven,
                Some(directory) if wish.write && !directory.write => Effect::Narrowed,
                Some(_) => Effect::Granted,
            },
            why: Some(wish.why.clone()),
        }
    });
    let unasked = given
        .directories
        .iter()
        .filter(|(name, _)| !asked.directories.iter().any(|wish| wish.name == **name))
        .map(|(name, directory)| unasked(Kind::Directory, name, shown(directory)));
    wishes.chain(unasked).collect()
}

fn http_rows(asked: &Asked, given: &Given) -> Vec<Row> {
    let is_met =
        |wish: &AskedHttp, grant: &HttpPattern| intersect(&wish.host.parsed, grant).is_some();
    let wishes = asked.http.iter().map(|wish| {
        let matching: Vec<String> = given
            .http
            .iter()
            .filter(|grant| is_met(wish, grant))
            .map(|grant| grant.to_string())
            .collect();
        Row {
            kind: Kind::Http,
            name: wish.host.text.clone(),
            asked: Some(wish.host.text.clone()),
            effect: match matching.is_empty() {
                true => Effect::NotGiven,
                false => Effect::Granted,
            },
            given: (!matching.is_empty()).then(|| matching.join(", ")),
            why: Some(wish.why.clone()),
        }
    });
    let unasked = given
        .http
        .iter()
        .filter(|grant| !asked.http.iter().any(|wish| is_met(wish, grant)))
        .map(|grant| {
            let text = grant.to_string();
            unasked(Kind::Http, &text, text.clone())
        });
    wishes.chain(unasked).collect()
}

/// Values stay unsaid: they may be secrets.
fn environment_rows(asked: &Asked, given: &Given) -> Vec<Row> {
    let wishes = asked.environment.iter().map(|wish| {
        let is_given = given.environment.contains_key(&wish.name);
        Row {
            kind: Kind::Environment,
            name: wish.name.clone(),
            asked: Some("value".to_owned()),
            given: is_given.then(|| "set".to_owned()),
            effect: match is_given {
                true => Effect::Granted,
                false => Effect::NotGiven,
            },
            why: Some(wish.why.clone()),
        }
    });
    let unasked = given
        .environment
        .keys()
        .filter(|name| !asked.environment.iter().any(|wish| wish.name == **name))
        .map(|name| unasked(Kind::Environment, name, "set".to_owned()));
    wishes.chain(unasked).collect()
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

/// What both allow. A port the plugin leaves out is any; one the operator leaves out is only the
/// scheme's own.
fn intersect(wish: &HttpPattern, given: &HttpPattern) -> Option<HttpPattern> {
    if !host_fits(&wish.host, &given.host) {
        return None;
    }
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
        host: given.host.clone(),
        port,
        path_prefix: longer.clone(),
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse_http;

    fn intersection(wish: &str, given: &str) -> Option<String> {
        let grant = intersect(&parse_http(wish).unwrap(), &parse_http(given).unwrap())?;
        Some(grant.to_string())
    }

    #[test]
    fn an_http_grant_is_what_both_sides_name() {
        let table = [
            ("*", "127.0.0.1:8081", Some("127.0.0.1:8081")),
            (
                "*",
                "https://api.example.com/v1/",
                Some("https://api.example.com/v1/"),
            ),
            (
                "api.example.com",
                "API.example.com",
                Some("api.example.com"),
            ),
            ("api.example.com", "example.com", None),
            ("*.example.com", "api.example.com", Some("api.example.com")),
            ("*.example.com", "example.com", None),
            ("*.example.com", "badexample.com", None),
            ("https://a.example", "a.example", Some("https://a.example")),
            ("https://a.example", "http://a.example", None),
            ("a.example", "a.example:8443", Some("a.example:8443")),
            ("a.example:8443", "a.example", None),
            ("a.example:443", "a.example", Some("https://a.example:443")),
            ("http://a.example:443", "a.example", None),
            ("a.example/v1/", "a.example", Some("a.example/v1/")),
            ("a.example", "a.example/v1/", Some("a.example/v1/")),
            ("a.example/v1/", "a.example/v2/", None),
            ("[::1]:80", "[::1]:80", Some("[::1]:80")),
        ];
        for (wish, given, expected) in table {
            assert_eq!(
                intersection(wish, given).as_deref(),
                expected,
                "asked {wish}, given {given}"
            );
        }
    }

    fn asked(text: &str) -> Asked {
        toml::from_str(text).unwrap()
    }

    fn given(text: &str) -> Given {
        toml::from_str(text).unwrap()
    }

    fn directories(asked_access: &str, given_access: &str) -> (Asked, Given) {
        (
            asked(&format!(
                "directories = [{{ name = \"d\", access = \"{asked_access}\", why = \"\" }}]"
            )),
            given(&format!(
                "directories.d = {{ path = \"/data\", access = \"{given_access}\" }}"
            )),
        )
    }

    #[test]
    fn a_directory_is_writable_only_when_both_sides_say_so() {
        let table = [
            ("read", "read", false, Effect::Granted),
            ("read", "write", false, Effect::Granted),
            ("write", "read", false, Effect::Narrowed),
            ("write", "write", true, Effect::Granted),
        ];
        for (asked, given, write, effect) in table {
            let (asked, given) = directories(asked, given);
            assert_eq!(effective(&asked, &given).directories[0].write, write);
            assert_eq!(compare(&asked, &given)[0].effect, effect);
        }
    }

    #[test]
    fn nothing_is_granted_that_only_one_side_names() {
        let wishes = asked(
            r#"
            directories = [{ name = "a", access = "write", why = "" }]
            http = [{ host = "a.example", why = "" }]
            environment = [{ name = "A", why = "" }]
            "#,
        );
        let gifts = given(
            r#"
            directories.b = { path = "/b", access = "write" }
            http = ["b.example"]
            environment = { B = "secret" }
            "#,
        );
        assert_eq!(effective(&wishes, &gifts), Grants::default());
        assert_eq!(effective(&wishes, &Given::default()), Grants::default());
        assert_eq!(effective(&Asked::default(), &gifts), Grants::default());
        let effects: Vec<Effect> = compare(&wishes, &gifts)
            .iter()
            .map(|row| row.effect)
            .collect();
        use Effect::{NotAsked, NotGiven};
        assert_eq!(
            effects,
            [NotGiven, NotAsked, NotGiven, NotAsked, NotGiven, NotAsked]
        );
    }

    #[test]
    fn a_secret_is_asked_given_and_bound_to_its_hosts() {
        let wishes = asked("secrets = [{ name = \"TOKEN\", why = \"to log in\" }]");
        let gifts = given(
            "secrets.TOKEN = { env = \"T\", hosts = [\"a.example\"] }\n\
             secrets.OTHER = { file = \"o\", hosts = [\"http://b.example\"] }",
        );
        let secrets = effective(&wishes, &gifts).secrets;
        assert_eq!(secrets.len(), 1);
        assert_eq!(secrets[0].hosts[0].scheme.as_deref(), Some("https"));
        let rows = compare(&wishes, &gifts);
        assert_eq!(rows[0].given.as_deref(), Some("for https://a.example"));
        assert_eq!(rows[1].effect, Effect::NotAsked);
        assert_eq!(effective(&wishes, &Given::default()), Grants::default());
        for wrong in ["{ env = \"T\", hosts = [] }", "{ hosts = [\"a.example\"] }"] {
            assert!(toml::from_str::<Given>(&format!("secrets.A = {wrong}")).is_err());
        }
    }

    #[test]
    fn a_comparison_never_shows_a_value_of_the_environment() {
        let wishes = asked("environment = [{ name = \"TOKEN\", why = \"to log in\" }]");
        let gifts = given("environment = { TOKEN = \"s3cret\", OTHER = \"s3cret\" }");
        assert_eq!(effective(&wishes, &gifts).environment["TOKEN"], "s3cret");
        assert!(!format!("{:?}", compare(&wishes, &gifts)).contains("s3cret"));
    }
}
