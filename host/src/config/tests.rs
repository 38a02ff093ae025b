use insta::assert_snapshot;

use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("etc/longshore.toml"), Overrides::default())
}

fn error(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn an_empty_file_gives_a_host_on_loopback() {
    let config = parse("").unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:7331");
    assert_eq!(config.limits, Limits::default());
    assert!(config.tenants.is_empty());
}

#[test]
fn relative_paths_are_relative_to_the_file() {
    let config = parse(
        r#"
        data_dir = "data"
        plugins_dir = "/srv/plugins"
        [plugin.a.grants]
        directories.out = { path = "{tenant}/out", access = "write" }
        ask.directories.desk = { path = "desk", access = "read" }
        "#,
    )
    .unwrap();
    assert_eq!(config.data_dir, Path::new("etc/data"));
    assert_eq!(config.plugins_dir, Path::new("/srv/plugins"));
    let given = &config.given["a"].directories["out"];
    assert_eq!(given.path, Path::new("etc/{tenant}/out"));
    assert!(given.write);
    let ask = config.given["a"].ask.as_ref().unwrap();
    assert_eq!(ask.directories["desk"].path, Path::new("etc/desk"));
}

#[test]
fn a_flag_takes_precedence_over_the_file() {
    let overrides = Overrides {
        listen: Some("127.0.0.1:0".parse().unwrap()),
        data_dir: Some("here".into()),
        ..Overrides::default()
    };
    let text = "listen = \"127.0.0.1:9\"\ndata_dir = \"there\"\n";
    let config = Config::parse(text, Path::new("longshore.toml"), overrides).unwrap();
    assert_eq!(config.listen.port(), 0);
    assert_eq!(config.data_dir, Path::new("here"));
}

#[test]
fn a_mistake_is_shown_with_its_line_and_what_would_be_right() {
    assert_snapshot!(error("\nlisen = \"127.0.0.1:1\"\n"), @"etc/longshore.toml:2: unknown key `lisen`, did you mean `listen`? Known here: listen, data_dir, plugins_dir, allowed_origins, allowed_hosts, limits, tenant, plugin");
    assert_snapshot!(error("listen = \"everywhere\"\n"), @"etc/longshore.toml:1: `everywhere` is not an address to listen on; write ADDRESS:PORT, like 127.0.0.1:7331");
    assert_snapshot!(error("listen = 7331\n"), @"etc/longshore.toml:1: invalid type: integer `7331`, expected a string");
    assert_snapshot!(error("listen = \n"), @"etc/longshore.toml:1: string values must be quoted, expected literal string");
    assert_snapshot!(error("[limits]\nmemory_max_byte = 1\n").split(" Known").next().unwrap(), @"etc/longshore.toml:2: unknown key `memory_max_byte`, did you mean `memory_max_bytes`?");
    assert_snapshot!(error("[limits]\nlog_max_bytes = 1\nresult_max_bytes = 0\n"), @"etc/longshore.toml:3: result_max_bytes is 0; it must be from 1024 to 67108864");
    assert_snapshot!(error("[limits]\ntask_ttl_max_ms = 2000\n"), @"etc/longshore.toml:1: task_ttl_default_ms is 86400000, more than task_ttl_max_ms, 2000");
    assert_snapshot!(error("[[tenant]]\nname = \"Acme Inc\"\ntoken_sha256 = \"\"\n"), @"etc/longshore.toml:2: `Acme Inc` names no tenant: a tenant name is 1 to 64 of a-z, 0-9, `-` and `_`");
    assert_snapshot!(error("[[tenant]]\nname = \"acme\"\ntoken_sha256 = \"secret\"\n"), @"etc/longshore.toml:3: token_sha256 is the SHA-256 of a token, 64 hexadecimal digits; `longshore tenant add NAME` writes it");
    assert_snapshot!(error("allowed_hosts = [\"a.example\", \"*\"]\n"), @"etc/longshore.toml:1: `*` is no host; allowed_hosts has names and addresses one by one, with or without a port, like tools.example.com");
    assert_snapshot!(error("allowed_origins = [\"*\"]\n"), @"etc/longshore.toml:1: `*` is no origin; allowed_origins has them one by one and as browsers send them, like https://app.example.com");
    assert_snapshot!(error("[plugin.a]\ngrant.http = []\n"), @"etc/longshore.toml:2: unknown key `grant`, did you mean `grants`? Known here: grants");
    assert_snapshot!(error("[plugin.a.grants]\nhttp = [\n  \"a.example\",\n  \"*.example.com\",\n]\n"), @"etc/longshore.toml:2: `*.example.com` gives a pattern of hosts; name each host");
    assert_snapshot!(error("[plugin.a.grants]\nhttp = [\"https://a.example/v1\"]\n"), @"etc/longshore.toml:2: the path of `https://a.example/v1` must end with `/`: as a prefix it would also allow longer names");
    assert_snapshot!(error("[plugin.a.grants.directories]\nout = { path = \"out\", access = \"rw\" }\n"), @"etc/longshore.toml:2: unknown variant `rw`, expected `read` or `write`");
    let granting = |text: &str| error(&format!("[plugin.a.grants]\n{text}\n"));
    assert_snapshot!(granting("http = [{ host = \"a.example\", methods = [\"get\"] }]"), @"etc/longshore.toml:2: `get` is no HTTP method; they are written in upper case, like GET");
    assert_snapshot!(granting("http = [{ host = \"a.example\", methods = [] }]"), @"etc/longshore.toml:2: `methods` names none; leave it out for all");
    assert_snapshot!(granting("http = [{ host = \"a.example\", methods = [\"CONNECT\"] }]"), @"etc/longshore.toml:2: CONNECT opens a tunnel, and tunnels are never granted");
    assert_snapshot!(granting("state = { quota_keys = 0 }"), @"etc/longshore.toml:2: quota_keys is 0; it must be from 1 to 1000000");
    assert_snapshot!(granting("directories.out = { path = \"out\", access = \"write\", quota_bytes = 7 }"), @"etc/longshore.toml:2: quota_bytes is 7; 4096 is the least a file takes");
    assert_snapshot!(granting("directories.out = { path = \"a\", access = \"read\" }\nask.directories.out = { path = \"a\", access = \"write\" }"), @"etc/longshore.toml:3: the directory `out` is given, so nobody is asked for it; name it under `directories` or under `ask.directories`");
    assert_snapshot!(granting("ask = { http = [\"ftp://a.example\"] }"), @"etc/longshore.toml:2: `ftp://a.example` has a scheme other than http and https");
}

#[test]
fn hosts_and_origins_are_names_that_a_request_can_have() {
    for (host, fits) in [
        ("tools.example.com", true),
        ("10.0.0.5:8080", true),
        ("[::1]:80", true),
        ("*", false),
        ("*.example.com", false),
        ("http://a.example", false),
        ("user@a.example", false),
        ("a.example/mcp", false),
        ("", false),
    ] {
        assert_eq!(check_hosts(&[host.to_owned()]).is_ok(), fits, "{host}");
    }
    for (origin, fits) in [
        ("https://app.example.com", true),
        ("http://10.0.0.5:8080", true),
        ("*", false),
        ("null", false),
        ("app.example.com", false),
        ("https://*.example.com", false),
        ("https://app.example.com/", false),
    ] {
        assert_eq!(
            check_origins(&[origin.to_owned()]).is_ok(),
            fits,
            "{origin}"
        );
    }
}

#[test]
fn one_token_of_two_tenants_is_refused() {
    let hash = "00".repeat(32);
    let entry = |name| format!("[[tenant]]\nname = \"{name}\"\ntoken_sha256 = \"{hash}\"\n");
    assert_snapshot!(error(&(entry("a") + &entry("b"))), @"etc/longshore.toml:1: the token of tenant `b` is listed twice; every token belongs to one tenant");
}

#[test]
fn listening_to_all_without_tenants_is_refused() {
    assert_snapshot!(error("listen = \"0.0.0.0:7331\"\n"), @"refusing to listen on 0.0.0.0:7331 without tenants: whoever reaches that address could run every tool. Add one with `longshore tenant add NAME`, or listen on 127.0.0.1");
    let hash = "00".repeat(32);
    let tenant =
        format!("listen = \"0.0.0.0:7331\"\n[[tenant]]\nname = \"a\"\ntoken_sha256 = \"{hash}\"\n");
    assert!(parse(&tenant).is_ok());
}

#[test]
fn a_missing_file_is_an_error_only_when_it_was_named() {
    let error = Config::load(Some(Path::new("no-such.toml")), Overrides::default()).unwrap_err();
    assert!(matches!(error, ConfigError::Unreadable { .. }));
}

#[test]
fn http_hosts_are_read_as_they_are_written_in_a_url() {
    let table = [
        (
            "https://api.example.com/v1/",
            Ok((Some("https"), "api.example.com", None, "/v1/")),
        ),
        ("127.0.0.1:8081", Ok((None, "127.0.0.1", Some(8081), "/"))),
        (
            "http://[::1]:80",
            Ok((Some("http"), "[::1]", Some(80), "/")),
        ),
        ("LOCALHOST", Ok((None, "localhost", None, "/"))),
        ("ftp://a", Err(PatternError::Scheme("ftp://a".into()))),
        ("https://", Err(PatternError::Host("https://".into()))),
        ("a b", Err(PatternError::Host("a b".into()))),
        ("a:0", Err(PatternError::Port("a:0".into()))),
        ("a:99999", Err(PatternError::Port("a:99999".into()))),
        ("u:p@a", Err(PatternError::Credentials("u:p@a".into()))),
        ("a/v1", Err(PatternError::PathEnd("a/v1".into()))),
        ("a/../", Err(PatternError::Path("a/../".into()))),
    ];
    for (text, expected) in table {
        let parsed = parse_http(text);
        let parsed = parsed.as_ref().map(|grant| {
            let scheme = grant.scheme.as_deref();
            (
                scheme,
                grant.host.as_str(),
                grant.port,
                grant.path_prefix.as_str(),
            )
        });
        assert_eq!(parsed, expected.as_ref().copied(), "{text}");
    }
}

#[test]
fn a_directory_in_one_that_may_be_written_is_refused_by_name() {
    let nested = |access: &str, place: &str| {
        format!(
            r#"
            [plugin.a.grants]
            directories.work = {{ path = "/srv/{{tenant}}", access = "{access}" }}
            [plugin.b.grants]
            {place}.out = {{ path = "/srv/{{tenant}}/out", access = "read" }}
            "#
        )
    };
    for place in ["directories", "ask.directories"] {
        let refused = error(&nested("write", place));
        assert!(refused.contains("`out` lies in `work` of `a`"), "{refused}");
        assert!(parse(&nested("read", place)).is_ok());
    }
}

#[test]
fn no_directory_is_where_a_link_says_that_a_tool_could_make() {
    let folder = tempfile::tempdir().unwrap();
    let root = std::fs::canonicalize(folder.path()).unwrap();
    for directory in ["w/in", "real", "each"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    for (link, target) in [
        ("inner", "w/in"),
        ("outer", "w"),
        ("w/away", "../real"),
        ("twice", "w/away"),
        ("each/ada", "../w/in"),
        ("good", "real"),
    ] {
        std::os::unix::fs::symlink(target, root.join(link)).unwrap();
    }
    let parse = |writes: &str, reads: &str| {
        let text = format!(
            r#"
            [[tenant]]
            name = "ada"
            token_sha256 = "{}"
            [plugin.a.grants]
            directories.work = {{ path = "{writes}", access = "write" }}
            [plugin.b.grants]
            {reads}
            "#,
            "0".repeat(64)
        );
        Config::parse(&text, &root.join("longshore.toml"), Overrides::default())
    };
    let reads =
        |path: &str| format!("directories.out = {{ path = \"{path}\", access = \"read\" }}");
    for writes in ["w", "outer"] {
        for (path, expected) in [
            ("inner", "lies in"),
            ("outer/in", "lies in"),
            ("each/{tenant}", "lies in"),
            ("w/away", "is reached through"),
            ("twice", "is reached through"),
            ("w/in/../../real", "is reached through"),
        ] {
            let refused = parse(writes, &reads(path)).unwrap_err().to_string();
            assert!(refused.contains(expected), "{path} in {writes}: {refused}");
        }
        let secret = r#"secrets.key = { file = "w/away/key", hosts = ["api.example.com"] }"#;
        let refused = parse(writes, secret).unwrap_err().to_string();
        assert!(
            refused.contains("a link on the way to the secret"),
            "{refused}"
        );
    }
    let config = parse("w", &reads("good")).unwrap();
    let led = &config.given["b"].directories["out"].led;
    assert_eq!(led.away(&root.join("good")), Some(&*root.join("real")));
}

/// A directory `work` that is given at `path` beside the host's own places.
fn giving(root: &Path, path: &str, access: &str) -> Result<Config, ConfigError> {
    let text = format!(
        r#"
        data_dir = "host/data"
        plugins_dir = "host/plugins"
        [plugin.a.grants]
        directories.work = {{ path = "{path}", access = "{access}" }}
        secrets.key = {{ file = "keys/key", hosts = ["api.example.com"] }}
        "#
    );
    let overrides = Overrides {
        plugin_dirs: vec![root.join("single")],
        ..Overrides::default()
    };
    Config::parse(&text, &root.join("etc/longshore.toml"), overrides)
}

#[test]
fn no_directory_is_given_that_reaches_what_is_the_hosts_own() {
    let folder = tempfile::tempdir().unwrap();
    let root = std::fs::canonicalize(folder.path()).unwrap();
    std::fs::create_dir_all(root.join("links")).unwrap();
    let link = |name: &str, target: PathBuf| {
        std::os::unix::fs::symlink(target, root.join("links").join(name)).unwrap();
    };
    link("data", root.join("etc/host/data"));
    link("local", root.join("etc/host/data/store"));
    std::fs::create_dir_all(root.join("etc/host/data")).unwrap();
    link("../etc/host/data/components", root.join("disk/code"));
    for (path, read, write) in [
        (
            "host/data",
            "is the data directory",
            "is the data directory",
        ),
        ("host/data/store", "lies in the data", "lies in the data"),
        (
            "host",
            "holds the data directory",
            "holds the data directory",
        ),
        (
            "../links/data",
            "is the data directory",
            "is the data directory",
        ),
        ("../links/{tenant}", "lies in the data", "lies in the data"),
        (
            "../disk",
            "holds the data directory",
            "holds the data directory",
        ),
        ("host/plugins", "", "is the plugins directory"),
        ("host/plugins/a/out", "", "lies in the plugins directory"),
        ("../single", "", "is a plugin's directory"),
        ("keys", "holds the secret `key` of `a`", "holds the secret"),
        ("host/database", "", ""),
        ("../links", "", ""),
    ] {
        for (access, expected) in [("read", read), ("write", write)] {
            match giving(&root, path, access) {
                Ok(_) => assert_eq!(expected, "", "{path} {access}"),
                Err(error) => {
                    let error = error.to_string();
                    assert!(
                        !expected.is_empty() && error.contains(expected),
                        "{path} {access}: {error}"
                    );
                }
            }
        }
    }
    let told = giving(&root, ".", "write").unwrap_err().to_string();
    assert_snapshot!(told.replace(root.to_str().unwrap(), "ROOT"), @"ROOT/etc/longshore.toml:5: the directory `work` (ROOT/etc) holds the data directory (ROOT/etc/host/data), and keys, tasks and answers of every tenant are in there; give it a place that is apart from the host's own");
    let text = "[plugin.a.grants]\ndirectories.work = { path = \"../x\", access = \"read\" }";
    let elsewhere = |file: &str| {
        let overrides = Overrides {
            data_dir: Some(root.join("data")),
            ..Overrides::default()
        };
        Config::parse(text, &root.join(file), overrides)
    };
    assert!(elsewhere("y/longshore.toml").is_ok());
    let told = elsewhere("x/longshore.toml").unwrap_err().to_string();
    assert!(told.contains("holds the configuration"), "{told}");
}
