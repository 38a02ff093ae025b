//! Reads plugin directories: manifest, component, tools. It checks everything a plugin says before
//! anyone sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use super::manifest::{MANIFEST_FILE, Manifest};
use super::{HeaderParam, Plugin, Sources, grants};
use crate::config::{ConfigError, Given};
use crate::schema::{self, Schema, SchemaError};
use crate::task::InputKey;
use crate::wasm::{Component, Declaration, Grants, LoadError, Sandbox};

/// MCP allows 128; a prefix of the plugin's name must fit, too.
const TOOL_NAME_MAX: usize = 64;
/// Tools of one plugin.
const TOOLS_MAX: usize = 256;
/// Plugins of a directory.
const PLUGINS_MAX: usize = 1_000;
const MANIFEST_MAX_BYTES: u64 = 64 << 10;

/// A plugin that passed every check, before its tools have the names clients see.
pub struct LoadedPlugin {
    pub plugin: Arc<Plugin>,
    pub manifest: Manifest,
    pub tools: Vec<CheckedTool>,
}

/// A declaration whose parts were parsed.
pub struct CheckedTool {
    pub declaration: Declaration,
    pub header_params: Vec<HeaderParam>,
    pub input: Schema,
    pub output: Option<Schema>,
}

/// What became of the sources.
#[derive(Default)]
pub struct Loaded {
    pub plugins: Vec<LoadedPlugin>,
    pub failures: BTreeMap<String, String>,
    pub grants: BTreeMap<String, Arc<Grants>>,
}

/// Why a plugin does not serve.
#[derive(Debug, Error)]
pub enum PluginError {
    #[error("{} has no {MANIFEST_FILE}; build the plugin with `longshore plugin build`", .0.display())]
    NoManifest(PathBuf),
    #[error("can't read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Manifest(#[from] ConfigError),
    #[error(
        "the component {} is missing; build the plugin with `longshore plugin build`",
        .0.display()
    )]
    NoComponent(PathBuf),
    #[error("{} has {size_bytes} bytes, more than the allowed {max_bytes}", path.display())]
    TooLarge {
        path: PathBuf,
        size_bytes: u64,
        max_bytes: u64,
    },
    #[error(transparent)]
    Component(#[from] LoadError),
    #[error("it has no tools")]
    NoTools,
    #[error("it has {0} tools, more than the allowed {TOOLS_MAX}")]
    TooManyTools(usize),
    #[error("it has two tools called `{0}`")]
    DuplicateTool(String),
    #[error(
        "tool `{0}`: a tool's name is 1 to {TOOL_NAME_MAX} letters, digits, `.`, `-` and `_`, \
         without `__`"
    )]
    ToolName(String),
    #[error("tool `{tool}`: its {which} schema: {source}")]
    Schema {
        tool: String,
        which: &'static str,
        source: SchemaError,
    },
    #[error("tool `{tool}`: {problem}")]
    Traits { tool: String, problem: String },
    #[error("another plugin is called `{0}`, too; change the name in one {MANIFEST_FILE}")]
    DuplicatePlugin(String),
}

/// Loads every plugin of the sources, one after the other: compilation is bounded to one anyway.
pub async fn load_all(
    sandbox: &Sandbox,
    sources: &Sources,
    given: &BTreeMap<String, Given>,
) -> Loaded {
    let mut loaded = Loaded::default();
    let mut names = BTreeSet::new();
    let directories = match plugin_directories(sources) {
        Ok(directories) => directories,
        Err(error) => {
            loaded.fail("plugins", &error);
            Vec::new()
        }
    };
    for directory in directories.iter().chain(&sources.plugin_dirs) {
        let fallback_name = directory_name(directory);
        let manifest = match read_manifest(directory) {
            Ok(manifest) => manifest,
            Err(error) => {
                loaded.fail(&fallback_name, &error);
                continue;
            }
        };
        if !names.insert(manifest.name.clone()) {
            let key = format!("{} ({fallback_name})", manifest.name);
            loaded.fail(&key, &PluginError::DuplicatePlugin(manifest.name));
            continue;
        }
        let none = Given::default();
        let given = given.get(&manifest.name).unwrap_or(&none);
        let effective = Arc::new(grants::effective(&manifest.grants, given));
        loaded
            .grants
            .insert(manifest.name.clone(), effective.clone());
        let name = manifest.name.clone();
        let max_bytes = sources.component_max_bytes;
        match load_plugin(sandbox, directory, manifest, effective, max_bytes).await {
            Ok(plugin) => loaded.plugins.push(plugin),
            Err(error) => loaded.fail(&name, &error),
        }
    }
    loaded
}

impl Loaded {
    fn fail(&mut self, name: &str, error: &PluginError) {
        let reason = error.to_string();
        tracing::error!(plugin = name, "plugin not loaded: {reason}");
        self.failures.insert(name.to_owned(), reason);
    }
}

/// Loads the plugin of one directory.
pub async fn load_plugin(
    sandbox: &Sandbox,
    directory: &Path,
    manifest: Manifest,
    grants: Arc<Grants>,
    component_max_bytes: u64,
) -> Result<LoadedPlugin, PluginError> {
    let path = directory.join(&manifest.component);
    let wasm = read_component(&path, component_max_bytes).await?;
    let component = sandbox.load(&wasm).await?;
    let tools = check_tools(sandbox.list_tools(&component).await?)?;
    let plugin = Arc::new(Plugin {
        name: manifest.name.clone(),
        version: manifest.version.clone(),
        digest: component.digest(),
        component,
        grants,
    });
    Ok(LoadedPlugin {
        plugin,
        manifest,
        tools,
    })
}

/// Loads a component file on its own, without a manifest.
pub async fn load_component(
    sandbox: &Sandbox,
    path: &Path,
    component_max_bytes: u64,
) -> Result<(Component, Vec<CheckedTool>), PluginError> {
    let wasm = read_component(path, component_max_bytes).await?;
    let component = sandbox.load(&wasm).await?;
    let tools = check_tools(sandbox.list_tools(&component).await?)?;
    Ok((component, tools))
}

/// Reads the manifest of a plugin's directory.
pub fn read_manifest(directory: &Path) -> Result<Manifest, PluginError> {
    let path = directory.join(MANIFEST_FILE);
    let unreadable = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => PluginError::NoManifest(directory.to_owned()),
        _ => PluginError::Unreadable {
            path: path.clone(),
            source,
        },
    };
    let size_bytes = std::fs::metadata(&path).map_err(unreadable)?.len();
    if size_bytes > MANIFEST_MAX_BYTES {
        return Err(PluginError::TooLarge {
            path,
            size_bytes,
            max_bytes: MANIFEST_MAX_BYTES,
        });
    }
    let text = std::fs::read_to_string(&path).map_err(unreadable)?;
    Ok(Manifest::parse(&text, &path)?)
}

async fn read_component(path: &Path, max_bytes: u64) -> Result<Vec<u8>, PluginError> {
    let unreadable = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => PluginError::NoComponent(path.to_owned()),
        _ => PluginError::Unreadable {
            path: path.to_owned(),
            source,
        },
    };
    let size_bytes = tokio::fs::metadata(path).await.map_err(unreadable)?.len();
    if size_bytes > max_bytes {
        return Err(PluginError::TooLarge {
            path: path.to_owned(),
            size_bytes,
            max_bytes,
        });
    }
    tokio::fs::read(path).await.map_err(unreadable)
}

/// The plugins of the directory, by name, so that every start sees them in the same order.
fn plugin_directories(sources: &Sources) -> Result<Vec<PathBuf>, PluginError> {
    let Some(root) = &sources.plugins_dir else {
        return Ok(Vec::new());
    };
    let unreadable = |source| PluginError::Unreadable {
        path: root.clone(),
        source,
    };
    let entries = match std::fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut directories = Vec::new();
    for entry in entries.take(PLUGINS_MAX) {
        let path = entry.map_err(unreadable)?.path();
        if path.join(MANIFEST_FILE).is_file() {
            directories.push(path);
        }
    }
    directories.sort();
    Ok(directories)
}

fn directory_name(directory: &Path) -> String {
    match directory.file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => directory.display().to_string(),
    }
}

fn check_tools(declarations: Vec<Declaration>) -> Result<Vec<CheckedTool>, PluginError> {
    match declarations.len() {
        0 => return Err(PluginError::NoTools),
        count if count > TOOLS_MAX => return Err(PluginError::TooManyTools(count)),
        _ => {}
    }
    let mut names = BTreeSet::new();
    let mut tools = Vec::with_capacity(declarations.len());
    for declaration in declarations {
        if !names.insert(declaration.name.clone()) {
            return Err(PluginError::DuplicateTool(declaration.name));
        }
        tools.push(check_tool(declaration)?);
    }
    Ok(tools)
}

fn check_tool(declaration: Declaration) -> Result<CheckedTool, PluginError> {
    if !is_tool_name(&declaration.name) {
        // What is not a name may be anything; it goes to a terminal and a log.
        let shown = declaration.name.escape_debug().take(80).collect();
        return Err(PluginError::ToolName(shown));
    }
    check_traits(&declaration)?;
    let bad_schema = |which| {
        let tool = declaration.name.clone();
        move |source| PluginError::Schema {
            tool,
            which,
            source,
        }
    };
    let input = Schema::parse(&declaration.input_schema).map_err(bad_schema("input"))?;
    let header_params = schema::header_params(&input).map_err(bad_schema("input"))?;
    let header_params = header_params
        .into_iter()
        .map(|(header, path)| HeaderParam { header, path })
        .collect();
    let output = declaration
        .output_schema
        .as_deref()
        .map(Schema::parse)
        .transpose()
        .map_err(bad_schema("output"))?;
    Ok(CheckedTool {
        declaration,
        header_params,
        input,
        output,
    })
}

/// `__` is what stands between the plugin and the tool where two plugins have the same name.
fn is_tool_name(name: &str) -> bool {
    (1..=TOOL_NAME_MAX).contains(&name.len())
        && !name.contains("__")
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
}

fn check_traits(declaration: &Declaration) -> Result<(), PluginError> {
    let bad = |problem: String| {
        Err(PluginError::Traits {
            tool: declaration.name.clone(),
            problem,
        })
    };
    let traits = &declaration.traits;
    if traits.ttl.is_some_and(|ttl| ttl.is_zero()) {
        return bad("its time to live is zero; leave it out for the host's own".to_owned());
    }
    if traits
        .poll_interval
        .is_some_and(|interval| interval.is_zero())
    {
        return bad("its poll interval is zero; leave it out for the host's own".to_owned());
    }
    let mut keys = BTreeSet::new();
    for question in &traits.questions {
        if let Err(error) = InputKey::parse(&question.key) {
            return bad(format!(
                "question `{}`: {error}",
                question.key.escape_debug()
            ));
        }
        if !keys.insert(&question.key) {
            return bad(format!("it declares the question `{}` twice", question.key));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_names_are_those_every_client_takes() {
        for name in ["greet", "getUser", "admin.tools-list_2", "a_b_"] {
            assert!(is_tool_name(name), "{name}");
        }
        for name in ["", "a b", "a__b", "ü", "a/b", &"x".repeat(65)] {
            assert!(!is_tool_name(name), "{name}");
        }
    }

    #[test]
    fn a_directory_without_a_manifest_is_no_plugin() {
        let directory = tempfile::tempdir().unwrap();
        let error = read_manifest(directory.path()).unwrap_err();
        assert!(matches!(error, PluginError::NoManifest(_)));
    }

    #[test]
    fn an_oversized_manifest_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(directory.path().join(MANIFEST_FILE)).unwrap();
        file.set_len(MANIFEST_MAX_BYTES + 1).unwrap();
        let error = read_manifest(directory.path()).unwrap_err();
        assert!(matches!(error, PluginError::TooLarge { .. }));
    }

    #[test]
    fn a_plugins_directory_that_is_missing_has_no_plugins() {
        let sources = Sources {
            plugins_dir: Some("no-such-directory".into()),
            plugin_dirs: Vec::new(),
            component_max_bytes: 1,
        };
        assert!(plugin_directories(&sources).unwrap().is_empty());
    }
}
