//! `conformance`: that it loads and answers. What it must do is judged by the official suite.

use serde_json::json;

use crate::harness::Setup;

#[tokio::test]
async fn the_fixtures_are_served_and_answer() {
    let guest = longshore_guests::CONFORMANCE;
    let setup = Setup::new(&[(guest.name, &guest.directory())]);
    let host = setup.start().await;
    let result = host.client().call("greet", json!({"name": "Ada"})).await;
    assert_eq!(result["content"][0]["text"], "Hello, Ada!", "{result:#}");
}

#[test]
fn a_plugin_of_tools_alone_exports_nothing_else() {
    let exports = |guest: longshore_guests::Guest, interface: &str| {
        let component = std::fs::read(guest.component()).unwrap();
        let name = format!("longshore:plugin/{interface}@");
        component
            .windows(name.len())
            .any(|it| it == name.as_bytes())
    };
    for interface in ["resources", "prompts", "completion"] {
        assert!(exports(longshore_guests::CONFORMANCE, interface));
        assert!(!exports(longshore_guests::SCRIPT, interface));
    }
}
