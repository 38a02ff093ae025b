//! `conformance`: that it loads and answers. What its tools must do is judged by the official suite.

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
