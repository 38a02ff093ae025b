//! What tools can rely on, seen through the double of the host.

use longshore_plugin::prelude::*;
use longshore_plugin::testing::Host;
use longshore_plugin::{IntoOutput, Root};
use serde_json::json;

#[test]
fn a_step_happens_once_in_the_life_of_a_task() {
    let host = Host::new();
    let first = host.context().step("send", || Ok(17)).unwrap();
    let host = host.next_run();
    let second: i32 = host
        .context()
        .step("send", || -> Result<i32> { panic!("sent twice") })
        .unwrap();
    assert_eq!((first, second), (17, 17));
    assert_eq!(host.steps(), ["send"]);
}

#[test]
fn a_step_that_fails_is_not_recorded() {
    let host = Host::new();
    let failed = host
        .context()
        .step("send", || -> Result<i32> { fail!("refused") });
    assert_eq!(failed, Err(Error::failed("refused")));
    assert!(host.steps().is_empty());
}

#[test]
fn a_cancelled_task_begins_no_step_but_still_cleans_up() {
    let host = Host::new().cancelling_at(1);
    let ctx = host.context();
    let sent = ctx.step("send", || -> Result<()> { panic!("sent after the cancel") });
    assert!(sent.unwrap_err().is_stopped());
    ctx.cleanup_step("undo", || Ok(())).unwrap();
    assert_eq!(host.steps(), ["undo"]);
}

#[test]
fn only_a_yes_confirms() {
    let yes = Host::new().answering("go", json!({ "confirm": true }));
    let no = Host::new().answering("go", json!({ "confirm": false }));
    let declined = Host::new().declining("go");
    let dismissed = Host::new().dismissing("go");
    let answers = [yes, no, declined, dismissed].map(|host| host.context().confirm("go", "Go?"));
    assert_eq!(answers, [Ok(true), Ok(false), Ok(false), Ok(false)]);
}

#[test]
fn a_client_that_cannot_answer_is_an_error_the_tool_can_handle() {
    let host = Host::new().without_answers();
    let error = host.context().confirm("go", "Go?").unwrap_err();
    assert_eq!(error, Error::MissingCapability("elicitation".into()));
    assert!(host.asked().is_empty());
}

#[test]
fn sampling_and_roots_come_back_typed() {
    let host = Host::new()
        .returning("roots", json!({ "roots": [{ "uri": "file:///work" }] }))
        .returning(
            "text",
            json!({ "role": "assistant", "content": { "type": "text", "text": "Hi" }, "model": "m" }),
        );
    let ctx = host.context();
    let root = Root {
        uri: "file:///work".into(),
        name: None,
    };
    assert_eq!(ctx.roots("roots"), Ok(vec![root]));
    assert_eq!(
        ctx.sample("text", Sampling::new("Greet", 10))
            .unwrap()
            .text(),
        "Hi"
    );
}

#[derive(Serialize, JsonSchema)]
struct Total {
    rows: u32,
}

#[test]
fn a_structured_result_declares_its_schema() {
    let output = Structured::with_text(Total { rows: 3 }, "3 rows")
        .into_output()
        .unwrap();
    assert_eq!(output.joined_text(), "3 rows");
    assert_eq!(output.structured, Some(json!({ "rows": 3 })));
    let schema = Structured::<Total>::output_schema().unwrap();
    assert_eq!(schema["properties"]["rows"]["maximum"], u32::MAX);
}

#[test]
fn an_error_carries_its_causes() {
    let error: Error = std::io::Error::other("disk full").into();
    assert_eq!(
        error.context("cannot write"),
        Error::failed("cannot write: disk full")
    );
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Nested {
    #[expect(dead_code, reason = "only the schema is read")]
    inner: std::collections::BTreeMap<String, String>,
}

#[test]
fn a_form_no_client_can_show_is_never_asked() {
    let host = Host::new();
    let error = host.context().ask::<Nested>("key", "Fill in").unwrap_err();
    assert!(matches!(error, Error::Rpc { code: -32603, .. }), "{error}");
    assert!(host.asked().is_empty());
}

#[test]
fn state_outlives_a_task_and_is_changed_together() {
    let host = Host::new().with_state("seen", 2).configured("region", "eu");
    let ctx = host.context();
    let seen = ctx
        .state()
        .update("seen", |seen: Option<u32>| Ok(seen.unwrap_or(0) + 1));
    assert_eq!(seen, Ok(3));
    assert_eq!(host.state("seen"), Some(3));
    assert_eq!(ctx.state().insert("seen", &7), Ok(false));
    ctx.state().set("other", &"x").unwrap();
    assert_eq!(ctx.state().keys("").unwrap(), ["other", "seen"]);
    ctx.state().delete("seen").unwrap();
    assert_eq!(ctx.state().get::<u32>("seen"), Ok(None));
    assert_eq!(ctx.configuration("region").as_deref(), Some("eu"));
    assert_eq!(ctx.configuration("other"), None);
}

#[test]
fn state_without_its_grant_says_so() {
    let host = Host::new().without_state();
    let refused = host.context().state().get::<u32>("seen").unwrap_err();
    assert_eq!(refused, Error::failed("the state `seen`: no grant"));
}
