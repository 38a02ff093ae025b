//! The effective grants: what a plugin asks for *and* the operator gives (I5). Pure; it shows both
//! sides, so that a person sees what is missing and what is given in vain.

use std::collections::BTreeMap;

use super::manifest::{Asked, AskedHttp};
use crate::config::{
    Given, GivenDirectory, GivenSecret, GivenState, HttpPattern, Methods, SecretSource,
};
use crate::wasm::{
    AskGrant, DirectoryGrant, Grants, HttpGrant, SecretGrant, SecretPlace, StateGrant,
};

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
                quota_bytes: directory.quota_bytes,
            })
        })
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

fn directory_rows(asked: &Asked, given: &Given) -> Vec<Row> {
    let shown = |directory: &GivenDirectory| {
        let quota = directory
            .quota_bytes
            .map(|bytes| format!(", at most {bytes} bytes"));
        format!(
            "{} {}{}",
            access_word(directory.write),
            directory.path.display(),
            quota.unwrap_or_default()
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
        let quota = |number: Option<u64>, unit: &str| match number {
            Some(number) => format!("{number} {unit}"),
            None => format!("the host's limit of {unit}"),
        };
        let (bytes, keys) = (state.quota_bytes, state.quota_keys);
        format!("{}, {}", quota(bytes, "bytes"), quota(keys, "keys"))
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
    fn methods_are_those_that_both_sides_name() {
        let table = [
            (None, None, Some("a.example"), Effect::Granted),
            (None, Some("GET"), Some("a.example (GET)"), Effect::Narrowed),
            (Some("GET"), None, Some("a.example (GET)"), Effect::Granted),
            (
                Some("GET\", \"PUT"),
                Some("GET\", \"HEAD"),
                Some("a.example (GET)"),
                Effect::Narrowed,
            ),
            (Some("PUT"), Some("GET"), None, Effect::NotGiven),
        ];
        for (wish, gift, expected, effect) in table {
            let methods = |names: Option<&str>| match names {
                Some(names) => format!(", methods = [\"{names}\"]"),
                None => String::new(),
            };
            let wishes = asked(&format!(
                "http = [{{ host = \"a.example\", why = \"\"{} }}]",
                methods(wish)
            ));
            let gifts = given(&format!(
                "http = [{{ host = \"a.example\"{} }}]",
                methods(gift)
            ));
            let granted = effective(&wishes, &gifts).http;
            let shown: Vec<String> = granted.iter().map(HttpGrant::to_string).collect();
            let expected: Vec<String> = expected
                .map(|text| text.replacen("a.example", "a.example/", 1))
                .into_iter()
                .collect();
            assert_eq!(shown, expected, "{wish:?} {gift:?}");
            assert_eq!(
                compare(&wishes, &gifts)[0].effect,
                effect,
                "{wish:?} {gift:?}"
            );
        }
    }

    #[test]
    fn a_person_is_asked_only_where_both_sides_say_so() {
        let wish = |more: &str| {
            asked(&format!(
                "http = [{{ host = \"*.example.com\", why = \"because\"{more} }}]"
            ))
        };
        let at_run_time = wish(", at_run_time = true");
        let rule =
            given("ask = { http = [\"*\", \"https://api.example.com/v1/\"], remember = true }");
        let ask = effective(&at_run_time, &rule).ask;
        let shown: Vec<String> = ask.iter().map(|ask| ask.http.to_string()).collect();
        assert_eq!(shown, ["*.example.com/", "https://api.example.com/v1/"]);
        assert!(ask[0].remember);
        assert_eq!(ask[0].why, "because");
        let row = &compare(&at_run_time, &rule)[0];
        assert_eq!(row.effect, Effect::Asks);
        assert_eq!(
            row.given.as_deref(),
            Some("ask for *, ask for https://api.example.com/v1/")
        );

        assert_eq!(effective(&wish(""), &rule).ask, []);
        assert_eq!(effective(&at_run_time, &Given::default()).ask, []);
        let elsewhere = given("ask = { http = [\"a.example.org\"] }");
        assert_eq!(effective(&at_run_time, &elsewhere).ask, []);
        let effects: Vec<Effect> = compare(&at_run_time, &elsewhere)
            .iter()
            .map(|row| row.effect)
            .collect();
        assert_eq!(effects, [Effect::NotGiven, Effect::NotAsked]);
        // What may be asked for is not given.
        assert_eq!(effective(&at_run_time, &rule).http, []);
    }

    #[test]
    fn state_and_configuration_need_both_sides() {
        let wishes =
            asked("state = { why = \"\" }\nconfiguration = [{ name = \"region\", why = \"\" }]");
        let gifts = given(
            "state = { quota_bytes = 10 }\nconfiguration = { region = \"eu\", other = \"x\" }",
        );
        let grants = effective(&wishes, &gifts);
        let quota = grants
            .state
            .map(|state| (state.quota_bytes, state.quota_keys));
        assert_eq!(quota, Some((Some(10), None)));
        let values: Vec<_> = grants.configuration.into_iter().collect();
        assert_eq!(values, [("region".to_owned(), "eu".to_owned())]);
        for (asked, given) in [
            (&wishes, &Given::default()),
            (&Asked::default(), &gifts),
            (&wishes, &given("state = false")),
        ] {
            assert_eq!(effective(asked, given), Grants::default());
        }
        let shown: Vec<_> = compare(&wishes, &gifts)
            .into_iter()
            .map(|row| (row.name, row.given, row.effect))
            .collect();
        let set = || Some("set".to_owned());
        let quota = Some("10 bytes, the host's limit of keys".to_owned());
        assert_eq!(
            shown,
            [
                ("region".to_owned(), set(), Effect::Granted),
                ("other".to_owned(), set(), Effect::NotAsked),
                ("state".to_owned(), quota, Effect::Granted),
            ]
        );
    }

    #[test]
    fn a_comparison_never_shows_a_value_of_the_environment() {
        let wishes = asked("environment = [{ name = \"TOKEN\", why = \"to log in\" }]");
        let gifts = given("environment = { TOKEN = \"s3cret\", OTHER = \"s3cret\" }");
        assert_eq!(effective(&wishes, &gifts).environment["TOKEN"], "s3cret");
        assert!(!format!("{:?}", compare(&wishes, &gifts)).contains("s3cret"));
    }
}
