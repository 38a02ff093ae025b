//! What a list shows of one prompt, resource or template.

use super::list::write_icon;
use super::wire::{Object, object};
use crate::wasm::{Icon, PromptEntry, ResourceEntry, TemplateEntry};

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
    use super::*;
    use crate::wasm::Argument;

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
