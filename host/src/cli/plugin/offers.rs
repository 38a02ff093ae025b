//! Says which resources and prompts a plugin has, for a person.

use crate::catalog::offers::Offers;
use crate::cli::page::{Page, accent};
use crate::cli::text::plain_line;
use crate::wasm::PromptEntry;

/// Their part of a plugin's page; nothing for a plugin with tools only.
pub fn write(page: &mut Page, offers: &Offers, completes: bool) {
    write_resources(page, offers);
    for prompt in &offers.prompts {
        page.gap();
        write_prompt(page, prompt, completes);
    }
}

fn write_resources(page: &mut Page, offers: &Offers) {
    if offers.resources.is_empty() && offers.templates.is_empty() {
        return;
    }
    page.gap();
    page.heading("RESOURCES");
    let mut rows = vec![["uri", "type", "what"].map(str::to_owned)];
    let resources = offers.resources.iter().map(|resource| {
        let what = resource.description.as_ref().unwrap_or(&resource.name);
        (&resource.uri, &resource.mime_type, what)
    });
    let templates = offers.templates.iter().map(|template| {
        let entry = &template.entry;
        let what = entry.description.as_ref().unwrap_or(&entry.name);
        (&entry.uri_template, &entry.mime_type, what)
    });
    for (uri, mime_type, what) in resources.chain(templates) {
        rows.push([
            accent().apply_to(plain_line(uri, 72)).to_string(),
            plain_line(mime_type.as_deref().unwrap_or_default(), 32),
            plain_line(what, 400),
        ]);
    }
    page.table(&rows);
}

fn write_prompt(page: &mut Page, prompt: &PromptEntry, completes: bool) {
    let name = accent().apply_to(plain_line(&prompt.name, 64)).to_string();
    page.heading_of("PROMPT", &name);
    if let Some(description) = &prompt.description {
        page.prose(2, description);
    }
    let rows: Vec<[String; 3]> = prompt
        .arguments
        .iter()
        .map(|argument| {
            let required = if argument.required { "required" } else { "" };
            [
                accent()
                    .apply_to(plain_line(&argument.name, 40))
                    .to_string(),
                required.to_owned(),
                plain_line(argument.description.as_deref().unwrap_or_default(), 400),
            ]
        })
        .collect();
    page.table_entry("arguments", &rows);
    if completes && !prompt.arguments.is_empty() {
        page.entry("", "values are suggested");
    }
}
