//! What the suite checks, as far as a tool alone decides it.

use longshore_plugin::testing::Host;
use longshore_plugin::{Content, Error, LogLevel, Subject, form_schema};
use serde_json::{Value, json};

use crate::{INPUT_SCHEMA, offer, tools};

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

#[test]
fn every_resource_and_prompt_has_a_description_and_answers() {
    let host = Host::new().declining("user_context");
    for resource in offer().resources {
        let declared = resource.declaration();
        assert!(declared.description.is_some(), "{}", declared.uri);
        let contents = host.read(&offer(), &declared.uri).unwrap().unwrap();
        assert_eq!(contents.bodies[0].mime_type, declared.mime_type);
    }
    for prompt in offer().prompts {
        let declared = prompt.declaration();
        assert!(declared.description.is_some(), "{}", declared.name);
        let arguments: serde_json::Map<String, Value> = declared
            .arguments
            .into_iter()
            .map(|argument| (argument.name, "value".into()))
            .collect();
        let conversation = host.prompt(&offer(), prompt.name(), arguments).unwrap();
        assert!(!conversation.messages.is_empty(), "{}", prompt.name());
    }
}

#[test]
fn the_template_substitutes_its_id() {
    let contents = Host::new().read(&offer(), "test://template/123/data");
    let text = contents.unwrap().unwrap().joined_text();
    let data: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        data,
        json!({ "id": "123", "templateTest": true, "data": "Data for ID: 123" })
    );
}

#[test]
fn a_prompt_embeds_the_resource_it_is_given() {
    let arguments = json!({ "resourceUri": "test://example-resource" });
    let conversation =
        Host::new().prompt(&offer(), "test_prompt_with_embedded_resource", arguments);
    let first = &conversation.unwrap().messages[0].content;
    assert!(matches!(first, Content::Resource { uri, .. } if uri == "test://example-resource"));
}

#[test]
fn a_prompt_uses_the_answer_to_its_question() {
    let host = Host::new().answering("user_context", json!({ "context": "a test" }));
    let conversation = host.prompt(&offer(), "test_input_required_result_prompt", json!({}));
    assert_eq!(
        conversation.unwrap().joined_text(),
        "Use this context: a test"
    );
}

#[test]
fn arguments_are_completed_from_what_is_typed_and_chosen() {
    let host = Host::new();
    let complete = |argument, typed, chosen| {
        let prompt = Subject::Prompt("test_prompt_with_arguments");
        host.complete(&offer(), prompt, argument, typed, chosen)
            .values
    };
    assert_eq!(complete("arg1", "par", &[]), ["paris", "park", "party"]);
    assert_eq!(
        complete("arg2", "", &[("arg1", "park")]),
        ["park at night", "park"]
    );
    assert!(complete("arg2", "", &[]).is_empty());
    let template = Subject::Template("test://template/{id}/data");
    let ids = host.complete(&offer(), template, "id", "", &[]);
    assert_eq!(
        (ids.values.len(), ids.total, ids.has_more),
        (100, Some(150), true)
    );
}

#[test]
fn three_messages_are_logged_and_a_change_is_told() {
    let host = Host::new();
    host.call(&tools(), "test_tool_with_logging", json!({}))
        .unwrap();
    let logged = host.logged();
    assert_eq!(logged.len(), 3);
    assert!(logged.iter().all(|it| it.level == LogLevel::Info));
    host.call(&tools(), "test_touch_watched_resource", json!({}))
        .unwrap();
    assert_eq!(host.updated(), ["test://watched-resource"]);
}
