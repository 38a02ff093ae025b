//! What a list shows of one tool, prompt, resource or template.

use super::wire::{Object, object};
use crate::task::Recovery;
use crate::wasm::{
    Annotations, Declaration, Execution, Icon, PromptEntry, ResourceEntry, TemplateEntry, Traits,
};

/// A tool, under the name that clients see.
pub fn write_tool(name: &str, declaration: &Declaration) -> String {
    written(|tool| {
        tool.text("name", name);
        write_optional(tool, "title", declaration.title.as_deref());
        tool.text("description", &declaration.description)
            .raw("inputSchema", &declaration.input_schema);
        if let Some(schema) = &declaration.output_schema {
            tool.raw("outputSchema", schema);
        }
        write_annotations(tool, &declaration.annotations);
        write_icons(tool, &declaration.icons);
        tool.object("_meta", |meta| {
            meta.object("longshore/traits", |out| {
                write_traits(out, &declaration.traits);
            });
        });
    })
}

fn write_annotations(tool: &mut Object, annotations: &Annotations) {
    let hints = [
        ("readOnlyHint", annotations.read_only),
        ("destructiveHint", annotations.destructive),
        ("idempotentHint", annotations.idempotent),
        ("openWorldHint", annotations.open_world),
    ];
    if hints.iter().all(|(_, hint)| hint.is_none()) {
        return;
    }
    tool.object("annotations", |out| {
        for (name, hint) in hints {
            if let Some(hint) = hint {
                out.flag(name, hint);
            }
        }
    });
}

fn write_icon(out: &mut Object, icon: &Icon) {
    out.text("src", &icon.src);
    if let Some(mime_type) = &icon.mime_type {
        out.text("mimeType", mime_type);
    }
    if !icon.sizes.is_empty() {
        out.texts("sizes", icon.sizes.iter().map(String::as_str));
    }
}

/// What people must know before they trust a tool, in the contract's words.
fn write_traits(out: &mut Object, traits: &Traits) {
    out.text(
        "execution",
        match traits.execution {
            Execution::Inline => "inline",
            Execution::Task => "task",
            Execution::Auto => "auto",
        },
    )
    .text(
        "recovery",
        match traits.recovery {
            Recovery::Fail => "fail",
            Recovery::Restart => "restart",
            Recovery::Resume => "resume",
        },
    )
    .text("cancellation", &traits.cancellation)
    .flag("cleanupOnCancel", traits.cleanup_on_cancel)
    .text("whenLeft", traits.when_left.as_str());
    for (key, duration) in [
        ("cancelGraceMs", traits.cancel_grace),
        ("ttlMs", traits.ttl),
        ("pollIntervalMs", traits.poll_interval),
    ] {
        if let Some(duration) = duration {
            let millis = i128::try_from(duration.as_millis()).unwrap_or(i128::MAX);
            out.integer(key, millis);
        }
    }
    out.objects("questions", &traits.questions, |out, question| {
        out.text("key", &question.key)
            .text("decides", &question.decides)
            .flag("allowsEffect", question.allows_effect)
            .flag("beforeTask", question.before_task);
    });
}

/// A prompt, under the name that clients see.
pub fn write_prompt(name: &str, prompt: &PromptEntry) -> String {
    written(|out| {
        out.text("name", name);
        write_optional(out, "title", prompt.title.as_deref());
        write_optional(out, "description", prompt.description.as_deref());
        out.objects("arguments", &prompt.arguments, |out, argument| {
            out.text("name", &argument.name);
            write_optional(out, "title", argument.title.as_deref());
            write_optional(out, "description", argument.description.as_deref());
            out.flag("required", argument.required);
        });
        write_icons(out, &prompt.icons);
    })
}

pub fn write_resource(resource: &ResourceEntry) -> String {
    written(|out| {
        out.text("uri", &resource.uri).text("name", &resource.name);
        write_optional(out, "title", resource.title.as_deref());
        write_optional(out, "description", resource.description.as_deref());
        write_optional(out, "mimeType", resource.mime_type.as_deref());
        if let Some(size) = resource.size {
            out.integer("size", size.into());
        }
        write_icons(out, &resource.icons);
    })
}

pub fn write_template(template: &TemplateEntry) -> String {
    written(|out| {
        out.text("uriTemplate", &template.uri_template)
            .text("name", &template.name);
        write_optional(out, "title", template.title.as_deref());
        write_optional(out, "description", template.description.as_deref());
        write_optional(out, "mimeType", template.mime_type.as_deref());
        write_icons(out, &template.icons);
    })
}

fn written(fill: impl FnOnce(&mut Object)) -> String {
    let mut out = Vec::new();
    object(&mut out, fill);
    // `object` writes strings and text that was a string.
    String::from_utf8_lossy(&out).into_owned()
}

fn write_optional(out: &mut Object, key: &str, text: Option<&str>) {
    if let Some(text) = text {
        out.text(key, text);
    }
}

fn write_icons(out: &mut Object, icons: &[Icon]) {
    if !icons.is_empty() {
        out.objects("icons", icons, write_icon);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wasm::{Argument, Question, WhenLeft};

    fn declaration() -> Declaration {
        Declaration {
            name: "export".into(),
            title: Some("Export".into()),
            description: "Exports a report.".into(),
            input_schema:
                "{\n  \"type\": \"object\",\n  \"$defs\": {\"a\": {\"$anchor\": \"x\"}}\n}".into(),
            output_schema: Some(r#"{"type":"array"}"#.into()),
            traits: Traits {
                execution: Execution::Auto,
                recovery: Recovery::Resume,
                cancellation: "stops after the row".into(),
                cleanup_on_cancel: true,
                cancel_grace: Some(Duration::from_secs(5)),
                questions: vec![Question {
                    key: "overwrite".into(),
                    decides: "whether the old report is replaced".into(),
                    allows_effect: true,
                    before_task: false,
                }],
                ttl: None,
                poll_interval: Some(Duration::from_secs(1)),
                when_left: WhenLeft::Cancel,
            },
            annotations: Annotations {
                read_only: Some(false),
                ..Annotations::default()
            },
            icons: vec![Icon {
                src: "data:image/png;base64,AA==".into(),
                mime_type: None,
                sizes: vec!["48x48".into()],
            }],
        }
    }

    #[test]
    fn a_tool_shows_its_schemas_as_written_and_what_to_know_before_trusting_it() {
        insta::assert_snapshot!(write_tool("report__export", &declaration()), @r###"{"name":"report__export","title":"Export","description":"Exports a report.","inputSchema":{   "type": "object",   "$defs": {"a": {"$anchor": "x"}} },"outputSchema":{"type":"array"},"annotations":{"readOnlyHint":false},"icons":[{"src":"data:image/png;base64,AA==","sizes":["48x48"]}],"_meta":{"longshore/traits":{"execution":"auto","recovery":"resume","cancellation":"stops after the row","cleanupOnCancel":true,"whenLeft":"cancel","cancelGraceMs":5000,"pollIntervalMs":1000,"questions":[{"key":"overwrite","decides":"whether the old report is replaced","allowsEffect":true,"beforeTask":false}]}}}"###);
    }

    #[test]
    fn a_tool_says_nothing_its_author_did_not_say() {
        let mut declaration = declaration();
        declaration.title = None;
        declaration.output_schema = None;
        declaration.annotations = Annotations::default();
        declaration.icons.clear();
        let json = write_tool("export", &declaration);
        for key in ["title", "outputSchema", "annotations", "icons"] {
            assert!(!json.contains(&format!("\"{key}\"")), "{key} in {json}");
        }
    }

    #[test]
    fn prompts_resources_and_templates_show_what_their_author_said() {
        let icons = vec![Icon {
            src: "data:image/png;base64,AA==".into(),
            mime_type: None,
            sizes: vec![],
        }];
        let argument = |name: &str, description: Option<&str>, required| Argument {
            name: name.into(),
            title: None,
            description: description.map(str::to_owned),
            required,
        };
        let prompt = PromptEntry {
            name: "summarise".into(),
            title: Some("Summarise".into()),
            description: None,
            arguments: vec![
                argument("text", Some("What to read."), true),
                argument("tone", None, false),
            ],
            icons: icons.clone(),
        };
        let resource = ResourceEntry {
            uri: "notes://1".into(),
            name: "1".into(),
            title: None,
            description: Some("The first.".into()),
            mime_type: Some("text/plain".into()),
            size: Some(7),
            icons: Vec::new(),
        };
        let template = TemplateEntry {
            uri_template: "notes://{id}".into(),
            name: "note".into(),
            title: None,
            description: None,
            mime_type: None,
            icons,
        };
        let lines = [
            write_prompt("wiki__summarise", &prompt),
            write_resource(&resource),
            write_template(&template),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r#"
        {"name":"wiki__summarise","title":"Summarise","arguments":[{"name":"text","description":"What to read.","required":true},{"name":"tone","required":false}],"icons":[{"src":"data:image/png;base64,AA=="}]}
        {"uri":"notes://1","name":"1","description":"The first.","mimeType":"text/plain","size":7}
        {"uriTemplate":"notes://{id}","name":"note","icons":[{"src":"data:image/png;base64,AA=="}]}
        "#);
    }
}
