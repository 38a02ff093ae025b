//! Says what a plugin is, for a person or as JSON: what everyone must know before they trust it.

use std::time::Duration;

use serde_json::{Value, json};

use super::offers;
use super::page::{
    accent, cells, entry, faint, heading, line, prose, prose_entry, title, widths, write_table,
};
use crate::catalog::grants::{Effect, Row};
use crate::catalog::load::CheckedTool;
use crate::catalog::manifest::Manifest;
use crate::catalog::offers::Offers;
use crate::cli::text::{self, plain_line};
use crate::task::{Digest, Recovery};
use crate::wasm::{Annotations, Execution, Traits, WhenLeft};

/// Everything there is to say about a plugin or a bare component.
pub struct Description {
    /// None for a component file on its own.
    pub manifest: Option<Manifest>,
    pub file: String,
    pub size_bytes: u64,
    pub digest: Digest,
    pub imports: Vec<String>,
    pub tools: Vec<CheckedTool>,
    pub offers: Offers,
    /// Whether it suggests values for arguments.
    pub completes: bool,
    pub grants: Vec<Row>,
    /// Whether a configuration was read, so that "not given" means something.
    pub has_config: bool,
}

impl Description {
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.manifest.as_ref().map(|manifest| &manifest.name),
            "version": self.manifest.as_ref().map(|manifest| &manifest.version),
            "description": self.manifest.as_ref().map(|manifest| &manifest.description),
            "component": {
                "file": self.file,
                "sizeBytes": self.size_bytes,
                "sha256": self.digest.to_string(),
                "imports": self.imports,
            },
            "tools": self.tools.iter().map(tool_json).collect::<Vec<_>>(),
            "resources": offers::resources_json(&self.offers),
            "resourceTemplates": offers::templates_json(&self.offers),
            "prompts": offers::prompts_json(&self.offers),
            "completes": self.completes,
            "grants": self.grants.iter().map(row_json).collect::<Vec<_>>(),
        })
    }

    /// The page for a person.
    pub fn to_text(&self) -> String {
        let mut page = String::new();
        self.write_head(&mut page);
        for tool in &self.tools {
            page.push('\n');
            write_tool(&mut page, tool);
        }
        offers::write(&mut page, &self.offers, self.completes);
        if self.manifest.is_some() {
            page.push('\n');
            self.write_grants(&mut page);
        }
        page
    }

    fn write_head(&self, page: &mut String) {
        match &self.manifest {
            Some(manifest) => {
                let name = title().apply_to(plain_line(&manifest.name, 64)).to_string();
                let version = faint()
                    .apply_to(plain_line(&manifest.version, 32))
                    .to_string();
                line(page, &format!("{name} {version}"));
                prose(page, 2, &manifest.description);
                page.push('\n');
            }
            None => line(page, &title().apply_to(&self.file).to_string()),
        }
        let size = text::size(self.size_bytes);
        entry(page, "component", &format!("{} · {size}", self.file));
        entry(page, "sha256", &self.digest.to_string());
        for (index, import) in self.imports.iter().enumerate() {
            let label = if index == 0 { "imports" } else { "" };
            entry(page, label, &plain_line(import, 80));
        }
        if self.imports.is_empty() {
            entry(page, "imports", "nothing");
        }
    }

    fn write_grants(&self, page: &mut String) {
        line(page, &heading("GRANTS"));
        if self.grants.is_empty() {
            prose(
                page,
                2,
                "It asks for nothing: no files, no network, no environment, no state.",
            );
            return;
        }
        let mut rows = vec![["", "", "asked", "given", "", "why"].map(str::to_owned)];
        for row in &self.grants {
            let [kind, name, asked, given] = grant_cells(row);
            let why = plain_line(row.why.as_deref().unwrap_or_default(), 72);
            let effect = effect_word(row.effect, self.has_config);
            rows.push([kind, name, asked, given, effect, why]);
        }
        write_table(page, &rows);
        if !self.has_config {
            let note = "Nothing is given without a configuration; see --config.";
            line(page, &format!("  {}", faint().apply_to(note)));
        }
    }
}

/// What a row is about and both its sides, for `list`, too.
pub fn grant_cells(row: &Row) -> [String; 4] {
    let side = |side: &Option<String>| match side {
        Some(text) => plain_line(text, 72),
        None => "–".to_owned(),
    };
    [
        row.kind.as_str().to_owned(),
        plain_line(&row.name, 48),
        side(&row.asked),
        side(&row.given),
    ]
}

fn write_tool(page: &mut String, tool: &CheckedTool) {
    let declaration = &tool.declaration;
    let traits = &declaration.traits;
    let name = title().apply_to(&declaration.name).to_string();
    let mut summary = vec![
        execution_words(traits.execution),
        recovery_words(traits.recovery),
    ];
    summary.extend(hints(&declaration.annotations));
    line(page, &format!("{} {name}", heading("TOOL")));
    prose(page, 2, &declaration.description);
    page.push('\n');
    entry(page, "runs", &summary.join(" · "));
    entry(page, "time", &times(traits));
    write_arguments(page, tool.input.text());
    prose_entry(page, "cancel", &cancel_words(traits));
    for (index, question) in traits.questions.iter().enumerate() {
        let label = if index == 0 { "may ask" } else { "" };
        let key = accent().apply_to(plain_line(&question.key, 64)).to_string();
        entry(
            page,
            label,
            &format!("{key}  {}", plain_line(&question.decides, 200)),
        );
        let mut notes = Vec::new();
        if question.allows_effect {
            notes.push("a yes allows an effect outside");
        }
        if question.before_task {
            notes.push("asked before the task starts");
        }
        if !notes.is_empty() {
            entry(page, "", &faint().apply_to(notes.join(", ")).to_string());
        }
    }
    if traits.questions.is_empty() {
        entry(page, "may ask", "nothing");
    }
    for (index, param) in tool.header_params.iter().enumerate() {
        let label = if index == 0 { "headers" } else { "" };
        entry(
            page,
            label,
            &format!("Mcp-Param-{} from {}", param.header, param.path.join(".")),
        );
    }
}

fn write_arguments(page: &mut String, schema: &str) {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
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
            plain_line(property["description"].as_str().unwrap_or_default(), 72),
        ]);
    }
    let widths = widths(&rows);
    for (index, row) in rows.iter().enumerate() {
        let label = if index == 0 { "arguments" } else { "" };
        entry(page, label, &cells(row, &widths));
    }
    if rows.is_empty() {
        entry(page, "arguments", "none");
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
        .filter_map(|(what, time)| Some(format!("{what} {}", humantime::format_duration(time?))))
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

pub fn effect_word(effect: Effect, has_config: bool) -> String {
    if !has_config {
        return String::new();
    }
    let style = match effect {
        Effect::Granted => text::out().green(),
        Effect::Narrowed | Effect::Asks | Effect::NotAsked => text::out().yellow(),
        Effect::NotGiven | Effect::Missing => text::out().red(),
    };
    style.apply_to(effect.as_str()).to_string()
}

fn tool_json(tool: &CheckedTool) -> Value {
    let declaration = &tool.declaration;
    let traits = &declaration.traits;
    let schema = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let millis =
        |time: Option<Duration>| time.and_then(|time| u64::try_from(time.as_millis()).ok());
    json!({
        "name": declaration.name,
        "title": declaration.title,
        "description": declaration.description,
        "inputSchema": schema(tool.input.text()),
        "outputSchema": tool.output.as_ref().map(|output| schema(output.text())),
        "traits": {
            "execution": match traits.execution {
                Execution::Inline => "inline",
                Execution::Task => "task",
                Execution::Auto => "auto",
            },
            "recovery": match traits.recovery {
                Recovery::Fail => "fail",
                Recovery::Restart => "restart",
                Recovery::Resume => "resume",
            },
            "cancellation": traits.cancellation,
            "cleanupOnCancel": traits.cleanup_on_cancel,
            "whenLeft": traits.when_left.as_str(),
            "cancelGraceMs": millis(traits.cancel_grace),
            "ttlMs": millis(traits.ttl),
            "pollIntervalMs": millis(traits.poll_interval),
            "questions": traits.questions.iter().map(|question| json!({
                "key": question.key,
                "decides": question.decides,
                "allowsEffect": question.allows_effect,
                "beforeTask": question.before_task,
            })).collect::<Vec<_>>(),
        },
    })
}

/// One row of grants as JSON, for `list`, too.
pub fn row_json(row: &Row) -> Value {
    json!({
        "kind": row.kind.as_str(),
        "name": row.name,
        "asked": row.asked,
        "given": row.given,
        "effect": row.effect.as_str(),
        "why": row.why,
    })
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::catalog::grants::Kind;

    #[test]
    fn grants_are_shown_side_by_side() {
        let row = |name: &str, asked: Option<&str>, given: Option<&str>, effect| Row {
            kind: Kind::Directory,
            name: name.to_owned(),
            asked: asked.map(str::to_owned),
            given: given.map(str::to_owned),
            effect,
            why: asked.map(|_| "because".to_owned()),
        };
        let manifest = "name = \"a\"\nversion = \"1.0.0\"\ncomponent = \"a.wasm\"\ndescription = \"Does a.\"\n";
        let description = Description {
            manifest: Some(Manifest::parse(manifest, "plugin.toml".as_ref()).unwrap()),
            file: "a.wasm".to_owned(),
            size_bytes: 2048,
            digest: Digest([0; 32]),
            imports: vec!["longshore:plugin/control@0.1.0".to_owned()],
            tools: Vec::new(),
            offers: Offers::default(),
            completes: false,
            grants: vec![
                row("input", Some("read"), Some("read /data"), Effect::Granted),
                row("output", Some("write"), None, Effect::NotGiven),
                row("more", None, Some("read /more"), Effect::NotAsked),
            ],
            has_config: true,
        };
        dialoguer::console::set_colors_enabled(false);
        assert_snapshot!(description.to_text(), @r#"
        a 1.0.0
          Does a.

          component   a.wasm · 2.00 KiB
          sha256      0000000000000000000000000000000000000000000000000000000000000000
          imports     longshore:plugin/control@0.1.0

        GRANTS
                             asked  given                  why
          directory  input   read   read /data  granted    because
          directory  output  write  –           not given  because
          directory  more    –      read /more  not asked
        "#);
    }
}
