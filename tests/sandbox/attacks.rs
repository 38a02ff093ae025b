//! Guests that look for a way out, by the network and by the file system, and schemas that mean harm:
//! what each gets, and that another tenant is answered meanwhile (I5, I6).

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::egress::server;
use super::neighbours::{Neighbour, failures, setup, words};
use crate::harness::Client;
use crate::world::install_variant;

/// What a tool of the probe says, while the neighbour is answered.
async fn said(
    neighbour: &Neighbour,
    client: &Client,
    tool: &'static str,
    argument: &str,
) -> String {
    let (client, arguments) = (client.clone(), json!({"t": argument}));
    let attack = tokio::spawn(async move { words(&client, tool, arguments).await });
    neighbour.is_answered().await;
    attack.await.unwrap()
}

#[tokio::test]
async fn requests_to_where_no_grant_leads_are_refused_while_a_neighbour_is_answered() {
    let (granted, at_granted) = server().await;
    let (other, at_other) = server().await;
    let port = other.port();
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let name = name.trim();
    let setup = setup().configure(&format!(
        "[plugin.probe.grants]\nhttp = [\"http://{granted}/api/\", \"http://{name}:{port}/\"]"
    ));
    let host = setup.start().await;
    let neighbour = Neighbour::of(&host).await;
    let mallory = host.client().with_token("mallory");

    for url in [
        // Where a redirect would lead: it is a request of its own.
        format!("http://{other}/api"),
        format!("http://{granted}/"),
        format!("http://{granted}/api/../admin"),
        format!("http://localhost:{port}/api"),
        format!("http://2130706433:{port}/api"),
        format!("http://0x7f000001:{port}/api"),
        format!("http://0177.0.0.1:{port}/api"),
        format!("http://127.0.0.1.:{port}/api"),
        format!("http://[::1]:{port}/api"),
        format!("http://[::ffff:127.0.0.1]:{port}/api"),
        "http://169.254.169.254/latest/meta-data".to_owned(),
        "http://10.0.0.1/".to_owned(),
    ] {
        let words = said(&neighbour, &mallory, "fetch", &url).await;
        assert!(words.contains("HttpRequestDenied"), "{url}: {words}");
    }
    // A name that is granted, and leads into the host's own networks.
    let url = format!("http://{name}:{port}/");
    let words = said(&neighbour, &mallory, "fetch", &url).await;
    let refused = ["DestinationIpProhibited", "DnsError"];
    assert!(refused.iter().any(|word| words.contains(word)), "{words}");
    for target in [
        format!("http://{other}/api"),
        format!("//{other}/api"),
        format!("@{other}/api"),
    ] {
        let argument = format!("{granted} {target}");
        said(&neighbour, &mallory, "fetch-target", &argument).await;
    }
    assert_eq!(at_other.load(Ordering::SeqCst), 0);
    assert_eq!(at_granted.load(Ordering::SeqCst), 0);

    let words = said(
        &neighbour,
        &mallory,
        "fetch",
        &format!("http://{granted}/api"),
    )
    .await;
    assert!(words.contains("200 GET /api"), "{words}");
}

#[tokio::test]
async fn ways_out_of_a_directory_lead_nowhere_while_a_neighbour_is_answered() {
    let setup = setup();
    let out = setup.path("out");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(setup.path("secret"), "not granted").unwrap();
    std::os::unix::fs::symlink("../secret", out.join("given")).unwrap();
    let setup = setup.configure(&format!(
        "[plugin.probe.grants.directories]\n\
         out = {{ path = \"{}\", access = \"write\", quota_bytes = 1048576 }}",
        out.display()
    ));
    let host = setup.start().await;
    let neighbour = Neighbour::of(&host).await;
    let mallory = host.client().with_token("mallory");
    for (tool, argument) in [
        ("read", "/out/../secret"),
        ("read", "/out/given"),
        ("write", "/out/given"),
        ("read", "/out/../../../../../etc/passwd"),
        ("read", "/proc/self/environ"),
        ("read", "/out/../../proc/self/environ"),
        ("write", "/out/../escaped"),
        ("write", "/escaped"),
        ("hard-link", "/out/../secret /out/linked"),
        ("hard-link", "/etc/passwd /out/linked"),
        ("soft-link", "/etc/passwd /out/absolute"),
        ("read", "/out/absolute"),
        ("grow", "/out/huge"),
    ] {
        let words = said(&neighbour, &mallory, tool, argument).await;
        assert!(words.contains("error: "), "{tool} {argument}: {words}");
        assert!(!words.contains("not granted"), "{tool} {argument}: {words}");
    }
    // It may make links; following one is another matter.
    for link in ["../secret /out/own", "own /out/chained"] {
        said(&neighbour, &mallory, "soft-link", link).await;
    }
    for path in ["/out/own", "/out/chained"] {
        for tool in ["read", "write"] {
            let words = said(&neighbour, &mallory, tool, path).await;
            assert!(words.contains("error: "), "{tool} {path}: {words}");
        }
    }
    let secret = std::fs::read_to_string(setup.path("secret")).unwrap();
    assert_eq!(secret, "not granted");
    assert!(!setup.path("escaped").exists());
    let words = said(&neighbour, &mallory, "write", "/out/allowed").await;
    assert!(words.contains("written"), "{words}");
}

#[tokio::test]
async fn hostile_schemas_are_refused_with_the_reason_while_a_neighbour_is_answered() {
    let setup = setup();
    let host = setup.start().await;
    let neighbour = Neighbour::of(&host).await;
    let variants = [
        "schema-deep",
        "schema-nested",
        "schema-reference",
        "schema-doubling",
        "schema-repeats",
    ];
    for variant in variants {
        install_variant(setup.path("plugins"), variant, variant);
    }
    let failures = loop {
        neighbour.is_answered().await;
        let failures = failures(&setup);
        if failures.len() == variants.len() {
            break failures;
        }
    };
    let told: Vec<String> = failures
        .iter()
        .map(|(plugin, reason)| format!("{plugin}: {reason}"))
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    schema-deep: tool `touch`: its input schema: the schema is 80026 bytes long, and 65536 is the most
    schema-doubling: tool `touch`: its input schema: /: the schema asks for too much work; use fewer nested `allOf`, `anyOf`, `oneOf` and `$ref`
    schema-nested: tool `touch`: its input schema: the schema nests deeper than 32 levels; move parts of it to `$defs`
    schema-reference: tool `touch`: its input schema: /$ref: only references within the schema are taken (`#/$defs/name`)
    schema-repeats: tool `touch`: its input schema: /properties/a/pattern: is not a pattern that is taken: one without look-around, and not too large
    ");
}

/// These may be served: what they ask for without end is settled when a value comes.
#[tokio::test]
async fn values_that_make_a_schema_work_without_end_are_refused_while_a_neighbour_is_answered() {
    let setup = setup();
    for variant in ["schema-pattern", "schema-recursion"] {
        install_variant(setup.path("plugins"), variant, variant);
    }
    let host = setup.start().await;
    let neighbour = Neighbour::of(&host).await;
    let mallory = host.client().with_token("mallory");
    let nested = (0..90).fold(json!({}), |inner, _| json!({"a": inner}));
    let almost = format!("{}!", "a".repeat(500_000));
    for (variant, arguments, expected) in [
        ("schema-pattern", json!({"a": almost}), "does not match"),
        ("schema-recursion", nested, "nests too deeply"),
    ] {
        let attacker = mallory.clone();
        let params = json!({"name": format!("{variant}__touch"), "arguments": arguments});
        let attack = tokio::spawn(async move { attacker.request("tools/call", params).await.body });
        neighbour.is_answered().await;
        let body: Value = attack.await.unwrap();
        assert!(
            body.to_string().contains(expected),
            "{variant}: {body:.200}"
        );
    }
}
