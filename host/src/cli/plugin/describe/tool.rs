//! Says what a tool is: how it runs, what it takes, what it may ask and what a cancel means.

use serde_json::Value;

use crate::catalog::load::CheckedTool;
use crate::cli::arguments::required;
use crate::cli::page::{Page, accent, title};
use crate::cli::text::{self, plain_line};
use crate::task::Recovery;
use crate::wasm::{Annotations, Execution, Question, Traits, WhenLeft};

pub fn write(page: &mut Page, tool: &CheckedTool) {
    let declaration = &tool.declaration;
    let traits = &declaration.traits;
    let name = title().apply_to(&declaration.name).to_string();
    let mut summary = vec![
        execution_words(traits.execution),
        recovery_words(traits.recovery),
    ];
    summary.extend(hints(&declaration.annotations));
    page.heading_of("TOOL", &name);
    page.prose(2, &declaration.description);
    page.gap();
    page.prose_entry("runs", &summary.join(" · "));
    page.prose_entry("time", &times(traits));
    write_arguments(page, tool.input.text());
    page.prose_entry("cancel", &cancel_words(traits));
    for (index, question) in traits.questions.iter().enumerate() {
        let label = if index == 0 { "may ask" } else { "" };
        write_question(page, label, question);
    }
    if traits.questions.is_empty() {
        page.entry("may ask", "nothing");
    }
    for (index, param) in tool.header_params.iter().enumerate() {
        let label = if index == 0 { "headers" } else { "" };
        page.entry(
            label,
            &format!("Mcp-Param-{} from {}", param.header, param.path.join(".")),
        );
    }
}

fn write_question(page: &mut Page, label: &str, question: &Question) {
    let key = accent().apply_to(plain_line(&question.key, 64));
    page.entry(label, &key.to_string());
    let notes = [
        (question.allows_effect, "a yes allows an effect outside"),
        (question.before_task, "asked before the task starts"),
    ];
    let notes = notes.into_iter().filter(|(is_so, _)| *is_so);
    let notes: Vec<&str> = notes.map(|(_, note)| note).collect();
    let mut decides = plain_line(&question.decides, 600);
    if !notes.is_empty() {
        decides += &format!(" ({})", notes.join(", "));
    }
    page.prose_entry("", &decides);
}

fn write_arguments(page: &mut Page, schema: &str) {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let required = required(&schema);
    let properties = schema["properties"].as_object();
    let mut rows = Vec::new();
    for (name, property) in properties.into_iter().flatten() {
        rows.push([
            accent().apply_to(plain_line(name, 40)).to_string(),
            type_word(property, &schema),
            if required.contains(&name.as_str()) {
                "required"
            } else {
                ""
            }
            .to_owned(),
            plain_line(property["description"].as_str().unwrap_or_default(), 600),
        ]);
    }
    page.table_entry("arguments", &rows);
    if rows.is_empty() {
        page.entry("arguments", "none");
    }
}

/// The type of a property in a word or two.
fn type_word(property: &Value, root: &Value) -> String {
    let target = property["$ref"]
        .as_str()
        .and_then(|reference| root.pointer(reference.strip_prefix('#')?));
    let schema = target.unwrap_or(property);
    if let Some(options) = schema["enum"].as_array() {
        let shown: Vec<&str> = options.iter().filter_map(Value::as_str).take(6).collect();
        return plain_line(&shown.join("|"), 40);
    }
    match &schema["type"] {
        Value::String(kind) if kind == "array" => {
            format!("[{}]", type_word(&schema["items"], root))
        }
        Value::String(kind) => plain_line(kind, 20),
        Value::Array(kinds) => {
            let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            plain_line(&kinds.join("|"), 40)
        }
        _ => "any".to_owned(),
    }
}

fn execution_words(execution: Execution) -> &'static str {
    match execution {
        Execution::Inline => "answered at once",
        Execution::Task => "always a task",
        Execution::Auto => "a task when it takes longer",
    }
}

fn recovery_words(recovery: Recovery) -> &'static str {
    match recovery {
        Recovery::Fail => "fails when interrupted",
        Recovery::Restart => "starts again when interrupted",
        Recovery::Resume => "resumes when interrupted",
    }
}

fn cancel_words(traits: &Traits) -> String {
    let mut words = match traits.cancellation.is_empty() {
        true => "it does not say what a cancel means".to_owned(),
        false => traits.cancellation.clone(),
    };
    if traits.cleanup_on_cancel {
        words += " It runs once more to clean up.";
    }
    if traits.when_left == WhenLeft::Detach {
        words += " A call goes on as a task when its client leaves it.";
    }
    words
}

fn times(traits: &Traits) -> String {
    let told = [
        ("kept", traits.ttl),
        ("polled every", traits.poll_interval),
        ("stopped by force", traits.cancel_grace),
    ];
    let is_whole = told.iter().all(|(_, time)| time.is_some());
    let mut words: Vec<String> = told
        .into_iter()
        .filter_map(|(what, time)| Some(format!("{what} {}", text::span(time?))))
        .collect();
    if traits.cancel_grace.is_some()
        && let Some(last) = words.last_mut()
    {
        last.push_str(" after a cancel");
    }
    if !is_whole {
        words.push("otherwise the host's defaults".to_owned());
    }
    words.join(" · ")
}

fn hints(annotations: &Annotations) -> Vec<&'static str> {
    let hint = |told: Option<bool>, yes: &'static str, no: &'static str| {
        told.map(|told| if told { yes } else { no })
    };
    [
        hint(
            annotations.read_only,
            "says it only reads",
            "says it writes",
        ),
        hint(
            annotations.destructive,
            "says it may destroy",
            "says it only adds",
        ),
        hint(
            annotations.idempotent,
            "says it can be repeated",
            "says it can't be repeated",
        ),
        hint(
            annotations.open_world,
            "says it reaches outside",
            "says it stays inside",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}
