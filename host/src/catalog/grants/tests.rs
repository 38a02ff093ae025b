//! What comes of two sides.

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
    let rule = given("ask = { http = [\"*\", \"https://api.example.com/v1/\"], remember = true }");
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
    let gifts =
        given("state = { quota_bytes = 10 }\nconfiguration = { region = \"eu\", other = \"x\" }");
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

#[test]
fn a_directory_is_asked_for_only_when_both_sides_say_so() {
    let wish = |at_run_time: bool| {
        asked(&format!(
            "directories = [{{ name = \"d\", access = \"write\", at_run_time = {at_run_time}, why = \"because\" }}]"
        ))
    };
    let rule = given("ask.directories.d = { path = \"/data\", access = \"read\" }");
    let ask = effective(&wish(true), &rule).ask_directories;
    assert_eq!(ask[0].directory.path.to_str(), Some("/data"));
    // Never more than either side says.
    assert!(!ask[0].directory.write);
    assert!(!ask[0].remember);
    assert_eq!(ask[0].why, "because");
    assert!(effective(&wish(true), &rule).directories.is_empty());
    let rows = compare(&wish(true), &rule);
    assert_eq!(rows[0].effect, Effect::Asks);
    assert_eq!(rows[0].given.as_deref(), Some("ask for read /data"));

    assert_eq!(effective(&wish(false), &rule).ask_directories, []);
    let effects: Vec<Effect> = compare(&wish(false), &rule)
        .iter()
        .map(|row| row.effect)
        .collect();
    assert_eq!(effects, [Effect::NotGiven, Effect::NotAsked]);
    let none = Given::default();
    assert_eq!(effective(&wish(true), &none).ask_directories, []);
    // What is given needs no question.
    let both = given("directories.d = { path = \"/data\", access = \"write\" }");
    assert_eq!(compare(&wish(true), &both)[0].effect, Effect::Granted);
}
