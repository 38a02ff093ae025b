//! The relay in Rust without the SDK: the same tools as its sisters in JavaScript, Python and C
//! (`tests/foreign`), so that one test holds for all.

wit_bindgen::generate!({
    path: "../../../wit",
    world: "plugin",
});

use exports::longshore::plugin::tools::Guest;
use longshore::plugin::control::{self, Stopped};
use longshore::plugin::types::*;

/// What it lets through is what [`argument`] can read.
const SCHEMA: &str = r#"{"type":"object","properties":{"name":{"type":"string","pattern":"^[a-z]+$"}},"required":["name"]}"#;
const ANSWER: &str =
    r#"{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}"#;

struct Relay;

export!(Relay);

impl Guest for Relay {
    fn list_tools() -> Vec<Tool> {
        let go = Question {
            key: "go".to_owned(),
            decides: "whether it is handed on".to_owned(),
            allows_effect: false,
            before_task: false,
        };
        vec![
            tool("greet", Execution::Inline, Recovery::Fail, Vec::new()),
            tool("relay", Execution::Task, Recovery::Resume, vec![go]),
        ]
    }

    fn call_tool(name: String, arguments: String) -> Result<Output, ToolError> {
        let subject = argument(&arguments);
        match name.as_str() {
            "greet" => {
                // A guest's output belongs in the task's log and nowhere else.
                println!("greeting, {:?}", control::context());
                Ok(text(format!("Hello, {subject}!")))
            }
            _ => relay(subject),
        }
    }
}

fn relay(name: &str) -> Result<Output, ToolError> {
    let Some(half) = control::saved_state() else {
        let Stopped { reason } = first_leg(name);
        return Err(ToolError::Cancelled(Some(format!("stopped: {reason}"))));
    };
    let request = InputRequest {
        key: "go".to_owned(),
        ask: Ask::Form(Form {
            message: format!("Hand {name} on?"),
            schema: ANSWER.to_owned(),
        }),
    };
    let answer = match control::request_input(&[request]).as_deref() {
        Ok([Answer::Accept(Some(content))]) => content.clone(),
        _ => "nothing".to_owned(),
    };
    let half = String::from_utf8_lossy(&half);
    Ok(text(format!("{half}, answered {answer}")))
}

/// Only the next run goes on: this one waits to be killed or cancelled.
fn first_leg(name: &str) -> Stopped {
    let step = |state: Option<&[u8]>| control::checkpoint(state);
    control::progress("begun", Some(0.0), Some(2.0));
    let mut gone = step(Some(format!("half of {name}").as_bytes()));
    control::progress("half way", Some(1.0), Some(2.0));
    loop {
        match gone {
            Ok(()) => gone = step(None),
            Err(stopped) => return stopped,
        }
    }
}

/// The schema leaves nothing between the last two quotes but letters.
fn argument(json: &str) -> &str {
    json.rsplit('"').nth(1).unwrap_or_default()
}

fn text(text: String) -> Output {
    Output {
        content: vec![Content::Text(text)],
        structured: None,
        is_error: false,
    }
}

fn tool(name: &str, execution: Execution, recovery: Recovery, questions: Vec<Question>) -> Tool {
    Tool {
        name: name.to_owned(),
        title: None,
        description: format!("The test of foreign plugins, `{name}`."),
        input_schema: SCHEMA.to_owned(),
        output_schema: None,
        traits: Traits {
            execution,
            recovery,
            cancellation: "It stops at its next checkpoint.".to_owned(),
            cleanup_on_cancel: false,
            cancel_grace_ms: None,
            questions,
            ttl_ms: None,
            poll_interval_ms: None,
            when_left: WhenLeft::Cancel,
        },
        annotations: Annotations {
            read_only: Some(true),
            destructive: None,
            idempotent: None,
            open_world: None,
        },
        icons: Vec::new(),
    }
}
