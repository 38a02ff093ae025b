//! What the suite checks, as far as a tool alone decides it.

use longshore_plugin::testing::Host;
use longshore_plugin::{Error, form_schema};
use serde_json::{Value, json};

use crate::{INPUT_SCHEMA, tools};

#[test]
fn every_tool_has_a_description_and_schemas_that_are_json() {
    for tool in tools() {
        let declared = tool.declaration();
        assert!(!declared.description.is_empty(), "{}", declared.name);
        let schema: Value = serde_json::from_str(&declared.input_schema).unwrap();
        assert_eq!(schema["type"], "object", "{}", declared.name);
        assert_eq!(schema["additionalProperties"], false, "{}", declared.name);
    }
}

#[test]
fn a_schema_written_by_hand_comes_back_unchanged() {
    let tools = tools();
    let tool = tools
        .iter()
        .find(|tool| tool.name() == "json_schema_2020_12_tool")
        .unwrap();
    assert_eq!(tool.declaration().input_schema, INPUT_SCHEMA);
}

#[test]
fn a_header_parameter_is_marked_in_the_schema() {
    let tools = tools();
    let tool = tools
        .iter()
        .find(|tool| tool.name() == "test_custom_header")
        .unwrap();
    let schema: Value = serde_json::from_str(&tool.declaration().input_schema).unwrap();
    assert_eq!(schema["properties"]["value"]["x-mcp-header"], "Value");
}

#[test]
fn the_form_is_the_one_the_suite_shows() {
    assert_eq!(
        form_schema::<crate::asking::Name>().unwrap(),
        json!({
            "type": "object",
            "properties": { "name": { "type": "string" } },
            "required": ["name"]
        })
    );
}

#[test]
fn a_state_survives_the_round() {
    let host = Host::new().answering("confirm", json!({ "ok": true }));
    for _ in 0..2 {
        let output = host.call(
            &tools(),
            "test_input_required_result_request_state",
            json!({}),
        );
        assert_eq!(output.unwrap().joined_text(), "state-ok: confirmed");
    }
    assert_eq!(host.checkpoints::<String>().len(), 1);
}

#[test]
fn a_client_without_sampling_is_refused() {
    let host = Host::new().without_answers();
    let error = host
        .call(&tools(), "test_missing_capability", json!({}))
        .unwrap_err();
    assert_eq!(error, Error::MissingCapability("sampling".into()));
}

#[test]
fn a_cancelled_computation_stops() {
    let host = Host::new().cancelling_at(2);
    let arguments = json!({ "seconds": 3600, "label": "long" });
    assert!(
        host.call(&tools(), "slow_compute", arguments)
            .unwrap_err()
            .is_stopped()
    );
}

#[test]
fn a_declined_deletion_keeps_the_file() {
    let host = Host::new().declining("confirm");
    let output = host
        .call(&tools(), "confirm_delete", json!({ "filename": "a.txt" }))
        .unwrap();
    assert_eq!(output.joined_text(), "a.txt was kept.");
    assert_eq!(host.message("confirm").as_deref(), Some("Delete a.txt?"));
}
