//! Shows results: text for a person, JSON for a script.

use std::fmt::Write;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::page::Page;
use super::print::say;
use super::wire::{Reference, Runs, TaskState};
use super::{asked, print, questions, text};

/// Prints a `CallToolResult` to standard output.
pub fn result(result: &Value, as_json: bool) {
    if as_json {
        json(result);
        return;
    }
    print::output(&result_text(result));
}

/// The same in words, a block on a line or more.
pub fn result_text(result: &Value) -> String {
    let blocks = result["content"].as_array().into_iter().flatten();
    let text: String = blocks.map(|block| content(block) + "\n").collect();
    match result.get("structuredContent") {
        Some(structured) if text.is_empty() => print::json(structured) + "\n",
        _ => text,
    }
}

/// Prints a value as JSON, of which no text of a tool drives the terminal.
pub fn json(value: &Value) {
    say!("{}", print::json(value));
}

/// Whether the tool says that it failed.
pub fn is_error(result: &Value) -> bool {
    result["isError"] == Value::Bool(true)
}

/// One block of a result in words.
pub fn content(block: &Value) -> String {
    let field = |name: &str| text::plain_line(block[name].as_str().unwrap_or_default(), 300);
    match block["type"].as_str() {
        Some("text") => text::plain(block["text"].as_str().unwrap_or_default()),
        Some(kind @ ("image" | "audio")) => {
            let data = block["data"].as_str().unwrap_or_default();
            format!("[{kind}, {}, {}]", field("mimeType"), decoded_size(data))
        }
        Some("resource_link") => format!("[{}] {}", field("name"), field("uri")),
        Some("resource") => resource(&block["resource"]),
        other => format!("[{}]", text::plain_line(other.unwrap_or("content"), 40)),
    }
}

/// A resource's contents, under its URI.
pub fn resource(resource: &Value) -> String {
    let uri = text::plain_line(resource["uri"].as_str().unwrap_or_default(), 300);
    match (resource["text"].as_str(), resource["blob"].as_str()) {
        (Some(body), _) => format!("[{uri}]\n{}", text::plain(body)),
        (None, Some(blob)) => format!("[{uri}, {}]", decoded_size(blob)),
        (None, None) => format!("[{uri}]"),
    }
}

fn decoded_size(data: &str) -> String {
    match STANDARD.decode(data) {
        Ok(bytes) => text::size(u64::try_from(bytes.len()).unwrap_or(u64::MAX)),
        Err(_) => "not Base64".to_owned(),
    }
}

/// Where a person can look up what was done outside.
pub fn reference(reference: &Reference) -> String {
    let name = text::plain_line(&reference.reference, 200);
    match &reference.url {
        Some(url) => format!("{name} ({})", text::plain_line(url, 400)),
        None => name,
    }
}

/// Where the second column of a task's lines begins.
const COLUMN: &str = "         ";
/// Words of a tool shown in one place.
const WORDS_MAX_CHARS: usize = 2_000;

/// Prints a task as it is now.
pub fn task(state: &TaskState, as_json: bool) {
    if as_json {
        json(&state.raw);
        return;
    }
    let progress = state.progress();
    say!("task     {}", text::name(&state.task_id));
    say!("status   {}", status(state));
    if let Some(message) = &progress.message {
        say!("message  {}", words(message));
    }
    if let (Some(done), Some(total)) = (progress.done, progress.total) {
        say!("done     {done} of {total}");
    }
    say!("created  {}", text::name(&state.created_at));
    say!("updated  {}", text::name(&state.last_updated_at));
    if let Some(told) = state.runs() {
        say!("runs     {}", runs(&told));
    }
    if let Some(ttl_ms) = state.ttl_ms {
        let ttl = text::span(std::time::Duration::from_millis(ttl_ms));
        say!("kept     {ttl} from its creation");
    }
    if let Some(reference) = state.reference() {
        say!("outside  {}", self::reference(&reference));
    }
    for question in questions::questions(&state.input_requests) {
        say!("asks     {}", words(&question.message));
        for line in asked::lines(&question) {
            say!("{COLUMN}{line}");
        }
    }
    if let Some(error) = &state.error {
        say!("error    {} ({})", words(&error.message), error.code);
    }
    if let Some(value) = &state.result {
        say!("");
        result(value, false);
    }
}

/// Tasks for a person to look over, in a table that keeps to the terminal's width.
pub fn task_table(states: &[TaskState]) -> Page {
    let mut rows = vec![["task", "age", "status", "tool"].map(str::to_owned)];
    for state in states {
        let message = state.status_message.as_deref().unwrap_or_default();
        let tool = state.tool().unwrap_or("–");
        rows.push([
            text::name(&state.task_id),
            age(&state.created_at),
            status(state),
            text::plain_line(format!("{tool}: {message}").trim_end_matches(": "), 240),
        ]);
    }
    let mut page = Page::of_terminal();
    page.table(&rows);
    page
}

/// How long ago a time of the wire was.
fn age(at: &str) -> String {
    let at = humantime::parse_rfc3339(at).ok();
    // A clock that was set back makes it now.
    let age = at.map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
    age.map_or_else(|| "–".to_owned(), text::age)
}

/// A task among others, on one line whatever it holds.
pub fn task_line(state: &TaskState) -> String {
    let message = state.status_message.as_deref().unwrap_or_default();
    let created = text::name(&state.created_at);
    let line = format!(
        "{}  {}  {:<17}  {:<24}  {}",
        text::name(&state.task_id),
        created.get(..19).unwrap_or(&created),
        status(state),
        text::plain_line(state.tool().unwrap_or("-"), 40),
        text::plain_line(message, 60),
    );
    line.trim_end().to_owned()
}

/// The status, and of a completed task whether its tool says that it failed.
fn status(state: &TaskState) -> String {
    let mark = if state.is_error() { " (error)" } else { "" };
    format!("{}{mark}", state.status.as_str())
}

fn runs(runs: &Runs) -> String {
    let mut line = runs.count.to_string();
    if let Some(last) = &runs.last_interruption {
        let what = match last.cause.as_str() {
            "crash" => "the host stopped unexpectedly".to_owned(),
            "shutdown" => "the host was stopped".to_owned(),
            other => text::plain_line(other, 40),
        };
        let at = text::plain_line(&last.at, 40);
        let _ = write!(line, "; {what} during run {}, noticed {at}", last.run);
    }
    if runs.host_deaths > 1 {
        let _ = write!(line, "; it did {} times in all", runs.host_deaths);
    }
    line
}

fn words(text: &str) -> String {
    text::plain_lines(text, WORDS_MAX_CHARS, COLUMN)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_happened_to_a_task_is_one_line() {
        let told = |value| runs(&serde_json::from_value(value).unwrap());
        let last = json!({ "run": 2, "cause": "crash", "at": "2026-01-01T00:00:00.000Z" });
        let many = json!({ "count": 3, "hostDeaths": 2, "lastInterruption": last });
        assert_snapshot!(told(many), @"3; the host stopped unexpectedly during run 2, noticed 2026-01-01T00:00:00.000Z; it did 2 times in all");
        assert_snapshot!(told(json!({ "count": 2 })), @"2");
    }

    #[test]
    fn every_kind_of_content_has_words() {
        let blocks = json!([
            { "type": "text", "text": "done\u{1b}[0m" },
            { "type": "image", "mimeType": "image/png", "data": "AAAA" },
            { "type": "resource_link", "name": "report.csv", "uri": "file:///out/report.csv" },
            { "type": "resource", "resource": { "uri": "test://a", "text": "body" } },
            { "type": "resource", "resource": { "uri": "test://b", "blob": "AAAA" } },
            { "type": "hologram" },
        ]);
        let shown: Vec<String> = blocks.as_array().unwrap().iter().map(content).collect();
        assert_snapshot!(shown.join("\n"), @r"
        done[0m
        [image, image/png, 3 B]
        [report.csv] file:///out/report.csv
        [test://a]
        body
        [test://b, 3 B]
        [hologram]
        ");
    }
}
