//! `plugin.toml`: what a plugin says of itself and what it asks for. Asking gives nothing (I5).

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::config::{
    ConfigError, HttpPattern, Methods, PatternError, access, describe, methods, parse_http,
};

/// The manifest's name in a plugin's directory.
pub const MANIFEST_FILE: &str = "plugin.toml";

/// The version of a component that comes without a manifest.
const BARE_VERSION: &str = "0.0.0";

/// Names are at most this long, so that `plugin__tool` always fits MCP's 128 characters.
const PLUGIN_NAME_MAX: usize = 48;

/// A plugin's description of itself.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    #[serde(deserialize_with = "plugin_name")]
    pub name: String,
    pub version: String,
    #[serde(default)]
    pub description: String,
    /// The component's file, beside the manifest.
    #[serde(deserialize_with = "component_file")]
    pub component: PathBuf,
    #[serde(default)]
    pub grants: Asked,
}

/// What a plugin asks for, each with the reason a person reads before giving it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Asked {
    pub directories: Vec<AskedDirectory>,
    pub http: Vec<AskedHttp>,
    pub environment: Vec<AskedEnvironment>,
    pub configuration: Vec<AskedConfiguration>,
    pub secrets: Vec<AskedSecret>,
    pub state: Option<AskedState>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct AskedDirectory {
    /// The guest sees it as `/<name>`.
    #[serde(deserialize_with = "directory_name")]
    pub name: String,
    #[serde(rename = "access", deserialize_with = "access")]
    pub write: bool,
    /// Whether a person may be asked for it while the tool runs, if the operator lets them.
    #[serde(default)]
    pub at_run_time: bool,
    pub why: String,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "HttpEntry")]
pub struct AskedHttp {
    /// A host, `*.example.com`, or `*` for whichever hosts the operator gives.
    pub host: HostPattern,
    /// Whether a person may be asked for it while the tool runs, if the operator lets them.
    pub at_run_time: bool,
    pub why: String,
}

/// The same as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpEntry {
    host: String,
    #[serde(default, deserialize_with = "methods")]
    methods: Option<Methods>,
    #[serde(default)]
    at_run_time: bool,
    why: String,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct AskedEnvironment {
    pub name: String,
    pub why: String,
}

/// A value of the operator's that is no secret.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct AskedConfiguration {
    pub name: String,
    pub why: String,
}

/// A key-value state that outlives tasks.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct AskedState {
    pub why: String,
}

/// A secret the guest would like to use; it never sees more than a placeholder.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct AskedSecret {
    pub name: String,
    pub why: String,
}

/// Hosts a plugin would like to reach. What the text leaves out (scheme, port) is left to who gives.
#[derive(Clone, Debug, PartialEq)]
pub struct HostPattern {
    pub text: String,
    pub(super) parsed: HttpPattern,
}

impl TryFrom<HttpEntry> for AskedHttp {
    type Error = PatternError;

    fn try_from(entry: HttpEntry) -> Result<AskedHttp, PatternError> {
        let parsed = HttpPattern {
            methods: entry.methods,
            ..parse_http(&entry.host)?
        };
        let text = match &parsed.methods {
            None => entry.host,
            Some(methods) => {
                let methods: Vec<&str> = methods.iter().map(String::as_str).collect();
                format!("{} ({})", entry.host, methods.join(", "))
            }
        };
        Ok(AskedHttp {
            host: HostPattern { text, parsed },
            at_run_time: entry.at_run_time,
            why: entry.why,
        })
    }
}

impl Manifest {
    /// The text of a manifest for a component on its own, which asks for nothing; None if the name
    /// can't be a plugin's.
    pub fn bare(name: &str, component: &Path) -> Option<String> {
        let file = component.file_name()?.to_str()?;
        is_plugin_name(name).then(|| {
            format!(
                "name = {}\nversion = \"{BARE_VERSION}\"\ncomponent = {}\n",
                toml::Value::from(name),
                toml::Value::from(file)
            )
        })
    }

    /// Parses the text of the manifest at `path`.
    pub fn parse(text: &str, path: &Path) -> Result<Manifest, ConfigError> {
        toml::from_str(text).map_err(|error| describe(path, text, &error))
    }
}

/// Names of plugins: `a-z`, `0-9` and `-`. An underscore would blur where the plugin's name ends
/// in `plugin__tool`.
pub fn is_plugin_name(name: &str) -> bool {
    (1..=PLUGIN_NAME_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

fn plugin_name<'de, D: serde::Deserializer<'de>>(source: D) -> Result<String, D::Error> {
    checked(
        source,
        is_plugin_name,
        "a plugin's name is 1 to 48 of a-z, 0-9 and `-`",
    )
}

fn directory_name<'de, D: serde::Deserializer<'de>>(source: D) -> Result<String, D::Error> {
    checked(
        source,
        is_plugin_name,
        "a directory's name is 1 to 48 of a-z, 0-9 and `-`",
    )
}

fn component_file<'de, D: serde::Deserializer<'de>>(source: D) -> Result<PathBuf, D::Error> {
    // A path out of the plugin's directory would make the host read, and compile, any file.
    // The ending is how a change of it is noticed.
    let is_plain = |name: &str| name.ends_with(".wasm") && !name.contains(['/', '\\']);
    let rule = "the component is a `.wasm` file beside plugin.toml, named without a path";
    checked(source, is_plain, rule).map(PathBuf::from)
}

fn checked<'de, D: serde::Deserializer<'de>>(
    source: D,
    fits: impl Fn(&str) -> bool,
    rule: &str,
) -> Result<String, D::Error> {
    let text = String::deserialize(source)?;
    match fits(&text) {
        true => Ok(text),
        false => Err(serde::de::Error::custom(format!("`{text}`: {rule}"))),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn error(text: &str) -> String {
        Manifest::parse(text, Path::new("plugin.toml"))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_full_manifest_is_read() {
        let text = r#"
            name = "report-export"
            version = "0.1.0"
            description = "Exports reports."
            component = "report_export.wasm"
            [grants]
            directories = [{ name = "input", access = "read", why = "the CSV files" }]
            http = [{ host = "*", why = "the host under test" }]
            environment = [{ name = "API_TOKEN", why = "to log in" }]
        "#;
        let manifest = Manifest::parse(text, Path::new("plugin.toml")).unwrap();
        assert_eq!(manifest.name, "report-export");
        assert!(!manifest.grants.directories[0].write);
        assert_eq!(manifest.grants.http[0].host.parsed.host, "*");
    }

    #[test]
    fn an_unknown_key_is_named_with_the_one_that_was_meant() {
        let text = "name = \"a\"\nversion = \"1\"\ncomponent = \"a.wasm\"\ndescripton = \"\"\n";
        assert_snapshot!(error(text), @"plugin.toml:4: unknown key `descripton`, did you mean `description`? Known here: name, version, description, component, grants");
    }

    #[test]
    fn a_component_elsewhere_is_refused() {
        let text = "name = \"a\"\nversion = \"1\"\ncomponent = \"../a.wasm\"\n";
        assert_snapshot!(error(text), @"plugin.toml:3: `../a.wasm`: the component is a `.wasm` file beside plugin.toml, named without a path");
    }

    #[test]
    fn a_name_that_could_not_be_told_from_a_tool_is_refused() {
        let text = "name = \"a_b\"\nversion = \"1\"\ncomponent = \"a.wasm\"\n";
        assert_snapshot!(error(text), @"plugin.toml:1: `a_b`: a plugin's name is 1 to 48 of a-z, 0-9 and `-`");
    }

    #[test]
    fn a_wish_without_a_reason_is_refused() {
        let text = "name = \"a\"\nversion = \"1\"\ncomponent = \"a.wasm\"\n[grants]\nhttp = [{ host = \"*\" }]\n";
        assert_snapshot!(error(text), @"plugin.toml:5: missing field `why`");
    }

    #[test]
    fn a_manifest_without_a_component_is_refused() {
        assert_snapshot!(error("name = \"a\"\nversion = \"1\"\n"), @"plugin.toml:1: missing field `component`");
    }

    /// Pieces of a manifest, so that a random order of them is one now and then.
    fn any_manifest() -> impl proptest::strategy::Strategy<Value = String> {
        use proptest::prelude::*;
        let piece = prop_oneof![
            8 => prop::sample::select(vec![
                "name = \"a\"\n",
                "version = \"1\"\n",
                "component = \"a.wasm\"\n",
                "[grants]\n",
                "http = [{ host = \"https://a.example/v1/\", why = \"w\" }]\n",
                "directories = [{ name = \"d\", access = \"write\", why = \"w\" }]\n",
                "environment = [{ name = \"E\", why = \"w\" }]\n",
                "secrets = [{ name = \"S\", why = \"w\" }]\n",
                "component = \"../a.wasm\"\n",
                "[[grants.http]]\nhost = \"",
                "why = ",
                "\"\n",
            ]).prop_map(str::to_owned),
            1 => ".{0,6}",
        ];
        prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_manifest_or_refused_in_words(text in any_manifest(), noise: String) {
            for text in [text, noise] {
                match Manifest::parse(&text, Path::new("plugin.toml")) {
                    Ok(manifest) => {
                        proptest::prop_assert!(is_plugin_name(&manifest.name));
                        // Beside its manifest, wherever that is.
                        proptest::prop_assert_eq!(manifest.component.components().count(), 1);
                    }
                    Err(error) => proptest::prop_assert!(!error.to_string().is_empty()),
                }
            }
        }
    }
}
