//! Says what a plugin is, for a person: what everyone must know before they trust it.

mod tool;

use std::collections::BTreeMap;

use super::offers;
use crate::admin::Description;
use crate::catalog::grants::{Effect, Row};
use crate::cli::page::{Page, faint, title};
use crate::cli::text::{self, plain_line};

/// Writes the page of a plugin. Without `has_config`, that nothing is given means nothing.
pub fn write(page: &mut Page, described: &Description, has_config: bool) {
    write_head(page, described);
    for tool in &described.tools {
        page.gap();
        tool::write(page, tool);
    }
    offers::write(page, &described.offers, described.completes);
    if described.manifest.is_some() {
        page.gap();
        write_grants(page, &described.grants, has_config);
    }
}

fn write_head(page: &mut Page, described: &Description) {
    match &described.manifest {
        Some(manifest) => {
            let name = title().apply_to(plain_line(&manifest.name, 64)).to_string();
            let version = faint()
                .apply_to(plain_line(&manifest.version, 32))
                .to_string();
            page.line(&format!("{name} {version}"));
            page.prose(2, &manifest.description);
            page.gap();
        }
        None => page.line(&title().apply_to(&described.file).to_string()),
    }
    let size = text::size(described.size_bytes);
    page.entry("component", &format!("{} · {size}", described.file));
    page.entry("sha256", &described.digest.to_string());
    match described.imports.is_empty() {
        true => page.entry("imports", "nothing"),
        false => page.table_entry("imports", &imports(&described.imports)),
    }
}

fn write_grants(page: &mut Page, grants: &[Row], has_config: bool) {
    page.heading("GRANTS");
    if grants.is_empty() {
        page.prose(
            2,
            "It asks for nothing: no files, no network, no environment, no state.",
        );
        return;
    }
    let mut rows = vec![["", "", "asked", "given", "", "why"].map(str::to_owned)];
    for row in grants {
        let [kind, name, asked, given] = grant_cells(row);
        let why = plain_line(row.why.as_deref().unwrap_or_default(), 400);
        let effect = effect_word(row.effect, has_config);
        rows.push([kind, name, asked, given, effect, why]);
    }
    page.table(&rows);
    if !has_config {
        let note = "Nothing is given without a configuration; see --config.";
        page.line(&format!("  {}", faint().apply_to(note)));
    }
}

/// A row for each package, with its interfaces, of names like `wasi:io/poll@0.2.0`.
fn imports(names: &[String]) -> Vec<[String; 2]> {
    let mut packages: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in names {
        let (path, version) = name.rsplit_once('@').unwrap_or((name, ""));
        let (package, interface) = path.split_once('/').unwrap_or((path, ""));
        let at = if version.is_empty() { "" } else { "@" };
        let package = plain_line(&format!("{package}{at}{version}"), 80);
        let interfaces = packages.entry(package).or_default();
        interfaces.push(plain_line(interface, 80));
    }
    let rows = packages.into_iter();
    rows.map(|(package, interfaces)| [package, interfaces.join(", ")])
        .collect()
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

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::catalog::grants::Kind;
    use crate::catalog::manifest::Manifest;
    use crate::catalog::offers::Offers;
    use crate::task::Digest;

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
            imports: [
                "longshore:plugin/control@0.1.0",
                "wasi:io/poll@0.2.0",
                "wasi:io/streams@0.2.0",
                "bare",
            ]
            .map(str::to_owned)
            .to_vec(),
            tools: Vec::new(),
            offers: Offers::default(),
            completes: false,
            grants: vec![
                row("input", Some("read"), Some("read /data"), Effect::Granted),
                row("output", Some("write"), None, Effect::NotGiven),
                row("more", None, Some("read /more"), Effect::NotAsked),
            ],
        };
        dialoguer::console::set_colors_enabled(false);
        let mut page = Page::of_width(Some(88));
        write(&mut page, &description, true);
        assert_snapshot!(page.into_text(), @r#"
        a 1.0.0
          Does a.

          component   a.wasm · 2.00 KiB
          sha256      0000000000000000000000000000000000000000000000000000000000000000
          imports     bare
                      longshore:plugin@0.1.0  control
                      wasi:io@0.2.0           poll, streams

        GRANTS
                             asked  given                  why
          directory  input   read   read /data  granted    because
          directory  output  write  –           not given  because
          directory  more    –      read /more  not asked
        "#);
    }
}
