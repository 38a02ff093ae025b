//! What the official MCP conformance suite looks for, with the names, keys and texts it expects:
//! tools, resources, prompts and completion. They are written as any plugin's are, and so show what
//! the contract can express.
//!
//! Left out, since the contract has no counterpart: the triggers of list changes. A plugin's lists
//! change when the plugin does.

mod asking;
mod content;
mod prompts;
mod resources;
mod tasks;
#[cfg(test)]
mod tests;
mod waiting;

use longshore_plugin::Recovery;

/// A schema with everything the suite wants to see again, unchanged.
const INPUT_SCHEMA: &str = include_str!("../assets/input-schema.json");

longshore_plugin::export! {
    // The suite tries headers on the first tool of the list, without arguments.
    tool("any_header", "Returns a text.", content::simple_text).inline().read_only(),

    // Content.
    tool("test_simple_text", "Returns a text.", content::simple_text).inline().read_only(),
    tool("test_image_content", "Returns an image.", content::image).inline().read_only(),
    tool("test_audio_content", "Returns a sound.", content::audio).inline().read_only(),
    tool("test_embedded_resource", "Returns a resource.", content::resource).inline().read_only(),
    tool("test_multiple_content_types", "Returns a text, an image and a resource.", content::mixed)
        .inline()
        .read_only(),
    tool("test_error_handling", "Always fails.", content::failure).inline(),
    tool("test_tool_with_progress", "Reports its progress.", content::progress).inline(),
    tool("test_tool_with_logging", "Logs three messages.", content::logging).inline(),
    tool("test_logging_tool", "Logs three messages.", content::logging).inline(),
    tool("test_reconnection", "Takes half a second.", content::reconnection).inline(),
    tool("test_touch_watched_resource", "Says that a resource has changed.", resources::touch)
        .inline(),
    tool("test_custom_header", "Takes an argument from a header.", content::custom_header).inline(),
    tool("json_schema_2020_12_tool", "Takes arguments of a rich schema.", content::rich_schema)
        .inline()
        .input_schema(INPUT_SCHEMA),
    tool("greet", "Greets somebody.", content::greet).inline().read_only(),

    // Questions within a call.
    tool("test_input_required_result_elicitation", "Asks for a name.", asking::name)
        .inline()
        .recovery(Recovery::Resume)
        .asks("user_name", "whom to greet"),
    tool("test_streaming_elicitation", "Asks for a name.", asking::name)
        .inline()
        .recovery(Recovery::Resume)
        .asks("user_name", "whom to greet"),
    tool("test_input_required_result_sampling", "Has the client's model answer.", asking::capital)
        .inline()
        .recovery(Recovery::Resume)
        .asks("capital_question", "what the result says"),
    tool("test_input_required_result_list_roots", "Lists the client's roots.", asking::roots)
        .inline()
        .recovery(Recovery::Resume)
        .asks("client_roots", "what the result lists"),
    tool("test_input_required_result_request_state", "Keeps a state over a round.", asking::state)
        .inline()
        .recovery(Recovery::Resume)
        .asks("confirm", "whether the call goes on"),
    tool("test_input_required_result_tampered_state", "Keeps a state over a round.", asking::state)
        .inline()
        .recovery(Recovery::Resume)
        .asks("confirm", "whether the call goes on"),
    tool("test_input_required_result_multiple_inputs", "Asks three things at once.", asking::three)
        .inline()
        .recovery(Recovery::Resume)
        .asks("user_name", "whom to greet")
        .asks("greeting", "the words of the greeting")
        .asks("client_roots", "how many roots the greeting names"),
    tool("test_input_required_result_multi_round", "Asks twice.", asking::two_rounds)
        .inline()
        .recovery(Recovery::Resume)
        .asks("step1", "whom the result names")
        .asks("step2", "which color the result names"),
    tool("test_input_required_result_capabilities", "Asks what the client offers.", asking::offered)
        .inline()
        .recovery(Recovery::Resume)
        .asks("user_name", "whom to greet")
        .asks("greeting", "the words of the greeting"),
    tool("test_missing_capability", "Needs sampling.", asking::needs_sampling)
        .inline()
        .recovery(Recovery::Resume)
        .asks("needed", "what the result says"),
    tool("test_sampling", "Has the client's model answer a prompt.", asking::prompt)
        .inline()
        .recovery(Recovery::Resume)
        .asks("answer", "what the result says"),
    tool("test_elicitation", "Asks who the user is.", asking::user)
        .inline()
        .recovery(Recovery::Resume)
        .asks("user", "what the result says"),
    tool("test_elicitation_sep1034_defaults", "Asks with defaults.", asking::defaults)
        .inline()
        .recovery(Recovery::Resume)
        .asks("defaults", "what the result says"),
    tool("test_elicitation_sep1330_enums", "Asks with choices of every kind.", asking::enums)
        .inline()
        .recovery(Recovery::Resume)
        .asks("enums", "what the result says"),

    // Tasks.
    tool("slow_compute", "Computes for a while.", tasks::slow_compute)
        .recovery(Recovery::Resume)
        .cancellation("Stops within a tenth of a second. Nothing is left behind."),
    tool("failing_job", "Fails after a second.", tasks::failing).task(),
    tool("protocol_error_job", "Ends with a protocol error.", tasks::protocol_error).task(),
    tool("confirm_delete", "Deletes a file that does not exist, once confirmed.", tasks::confirm_delete)
        .task()
        .recovery(Recovery::Resume)
        .asks_effect("confirm", "whether the file is deleted"),
    tool("multi_input", "Asks two things at once.", tasks::two_at_once)
        .task()
        .recovery(Recovery::Resume)
        .asks("first", "the first name of the result")
        .asks("second", "the second name of the result"),
    tool("test_tool_with_task", "Asks first and then runs as a task.", tasks::ask_first)
        .task()
        .recovery(Recovery::Resume)
        .asks_first("user_name", "whom to greet"),

    // Resources.
    resource("test://static-text", "Static text", resources::text)
        .description("A text that never changes.")
        .mime_type("text/plain"),
    resource("test://static-binary", "Static image", resources::binary)
        .description("An image that never changes.")
        .mime_type("image/png"),
    resource(resources::WATCHED, "Watched resource", resources::watched)
        .description("A text that is said to change.")
        .mime_type("text/plain"),
    template("test://template/{id}/data", "Data by id", resources::data)
        .description("Data about an id.")
        .mime_type("application/json")
        .complete("id", resources::ids),

    // Prompts.
    prompt("test_simple_prompt", "Says a sentence.", prompts::simple),
    prompt("test_prompt_with_arguments", "Says its arguments.", prompts::with_arguments)
        .complete("arg1", prompts::first)
        .complete("arg2", prompts::second),
    prompt("test_prompt_with_embedded_resource", "Holds a resource.", prompts::with_resource),
    prompt("test_prompt_with_image", "Holds an image.", prompts::with_image),
    prompt("test_input_required_result_prompt", "Asks for a context.", prompts::asking),
}
