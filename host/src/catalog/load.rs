//! Reads one plugin: manifest, component, tools. It checks everything a plugin says before anyone
//! sees it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use super::manifest::{MANIFEST_FILE, Manifest};
use super::naming::{TOOL_NAME_MAX, is_tool_name};
use super::offers::{OfferError, Offers};
use super::place::{ENTRIES_MAX, PLUGINS_MAX, component_path, is_bare, place_name};
use super::{HeaderParam, Plugin};
use crate::config::ConfigError;
use crate::schema::{self, Schema, SchemaError};
use crate::task::InputKey;
use crate::wasm::{Component, Declaration, Declared, Grants, LoadError, Sandbox, is_reserved};

const MANIFEST_MAX_BYTES: u64 = 64 << 10;

/// A plugin that passed every check, before its tools have the names clients see.
pub struct LoadedPlugin {
    pub plugin: Arc<Plugin>,
    pub manifest: Manifest,
    pub tools: Vec<CheckedTool>,
    pub offers: Offers,
}

/// A declaration whose parts were parsed.
pub struct CheckedTool {
    pub declaration: Declaration,
    pub header_params: Vec<HeaderParam>,
    pub input: Schema,
    pub output: Option<Schema>,
}

/// Why a plugin does not serve.
#[derive(Debug, Error)]
pub enum PluginError {
    #[error("{} has no {MANIFEST_FILE}; build the plugin with `longshore plugin build`", .0.display())]
    NoManifest(PathBuf),
    #[error("can't read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} is no regular file; put the file itself there", .0.display())]
    NotAFile(PathBuf),
    #[error(transparent)]
    Manifest(#[from] ConfigError),
    #[error(
        "{} can't name a plugin: a component on its own is called after its file, and a plugin's \
         name is 1 to 48 of a-z, 0-9 and `-`",
        .0.display()
    )]
    FileName(PathBuf),
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
    #[error(transparent)]
    Offer(#[from] OfferError),
    #[error("the plugin `{owner}` serves `{uri}` already; change the URI in one of them")]
    TakenUri { uri: String, owner: String },
    #[error("another plugin is called `{0}`, too; change the name in one {MANIFEST_FILE}")]
    DuplicatePlugin(String),
    #[error(
        "it is left out: a host takes {PLUGINS_MAX} plugins of a directory, those first that it has \
         already; remove others"
    )]
    LeftOut,
    #[error(
        "{} has too much: {} left out; a host takes {PLUGINS_MAX} plugins of a directory, of which it \
         looks at {ENTRIES_MAX} entries; remove others",
        root.display(),
        left_out(*plugins, *has_more)
    )]
    TooMany {
        root: PathBuf,
        plugins: usize,
        has_more: bool,
    },
}

fn left_out(plugins: usize, has_more: bool) -> String {
    match (plugins, has_more) {
        (0, _) => "whatever was not looked at is".to_owned(),
        (1, false) => "1 plugin is".to_owned(),
        (more, false) => format!("{more} plugins are"),
        (more, true) => format!("{more} plugins and whatever was not looked at are"),
    }
}

/// How often a component is asked what it has while it takes too long: the machine may be busy, or
/// the component endless, and each time costs the listing's whole time.
const LISTINGS_MAX: u32 = 5;

impl PluginError {
    /// Whether it may be different next time although the plugin's files are the same, and it came
    /// `times` in a row.
    pub fn is_passing(&self, times: u32) -> bool {
        match self {
            PluginError::Component(LoadError::ListingTime(_)) => times < LISTINGS_MAX,
            PluginError::Unreadable { .. }
            | PluginError::DuplicatePlugin(_)
            | PluginError::TakenUri { .. }
            | PluginError::Component(LoadError::Cache { .. } | LoadError::Engine(_)) => true,
            PluginError::NoManifest(_)
            | PluginError::Manifest(_)
            | PluginError::FileName(_)
            | PluginError::NotAFile(_)
            | PluginError::NoComponent(_)
            | PluginError::TooLarge { .. }
            | PluginError::Component(_)
            | PluginError::DuplicateTool(_)
            | PluginError::ToolName(_)
            | PluginError::Schema { .. }
            | PluginError::Offer(_)
            // Looked at with every listing anyway.
            | PluginError::LeftOut
            | PluginError::TooMany { .. }
            | PluginError::Traits { .. } => false,
        }
    }
}

/// Loads the plugin at `place`.
pub async fn load_plugin(
    sandbox: &Sandbox,
    place: &Path,
    manifest: Manifest,
    grants: Arc<Grants>,
    component_max_bytes: u64,
) -> Result<LoadedPlugin, PluginError> {
    let path = component_path(place, &manifest);
    let wasm = read_component(&path, component_max_bytes).await?;
    let component = sandbox.load(&wasm).await?;
    let (tools, offers) = check_all(sandbox.list(&component).await?)?;
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
        offers,
    })
}

/// Loads a component file on its own, without a manifest.
pub async fn load_component(
    sandbox: &Sandbox,
    path: &Path,
    component_max_bytes: u64,
) -> Result<(Component, Vec<CheckedTool>, Offers), PluginError> {
    let wasm = read_component(path, component_max_bytes).await?;
    let component = sandbox.load(&wasm).await?;
    let (tools, offers) = check_all(sandbox.list(&component).await?)?;
    Ok((component, tools, offers))
}

/// Reads the manifest of a plugin's directory, or makes the one of a component on its own.
pub fn read_manifest(place: &Path) -> Result<Manifest, PluginError> {
    let (text, path) = read_manifest_text(place)?;
    Ok(Manifest::parse(&text, &path)?)
}

/// The manifest's text and where it is.
pub fn read_manifest_text(place: &Path) -> Result<(String, PathBuf), PluginError> {
    if is_bare(place) {
        let name = place_name(place);
        let text =
            Manifest::bare(&name, place).ok_or_else(|| PluginError::FileName(place.to_owned()))?;
        return Ok((text, place.to_owned()));
    }
    let path = place.join(MANIFEST_FILE);
    let unreadable = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => PluginError::NoManifest(place.to_owned()),
        _ => PluginError::Unreadable {
            path: path.clone(),
            source,
        },
    };
    let metadata = std::fs::metadata(&path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(PluginError::NotAFile(path));
    }
    let size_bytes = metadata.len();
    if size_bytes > MANIFEST_MAX_BYTES {
        return Err(PluginError::TooLarge {
            path,
            size_bytes,
            max_bytes: MANIFEST_MAX_BYTES,
        });
    }
    let text = std::fs::read_to_string(&path).map_err(unreadable)?;
    Ok((text, path))
}

async fn read_component(path: &Path, max_bytes: u64) -> Result<Vec<u8>, PluginError> {
    component_size(path, max_bytes)?;
    tokio::fs::read(path)
        .await
        .map_err(|error| unreadable(path, error))
}

/// The size of a component's file, which is one and not too large. A pipe would never end, and a
/// device never stop (I6).
pub fn component_size(path: &Path, max_bytes: u64) -> Result<u64, PluginError> {
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(path, error))?;
    if !metadata.is_file() {
        return Err(PluginError::NotAFile(path.to_owned()));
    }
    let size_bytes = metadata.len();
    if size_bytes > max_bytes {
        return Err(PluginError::TooLarge {
            path: path.to_owned(),
            size_bytes,
            max_bytes,
        });
    }
    Ok(size_bytes)
}

fn unreadable(path: &Path, source: io::Error) -> PluginError {
    match source.kind() {
        io::ErrorKind::NotFound => PluginError::NoComponent(path.to_owned()),
        _ => PluginError::Unreadable {
            path: path.to_owned(),
            source,
        },
    }
}

fn check_all(mut declared: Declared) -> Result<(Vec<CheckedTool>, Offers), PluginError> {
    let tools = check_tools(std::mem::take(&mut declared.tools))?;
    Ok((tools, Offers::check(declared)?))
}

fn check_tools(declarations: Vec<Declaration>) -> Result<Vec<CheckedTool>, PluginError> {
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
        if is_reserved(&question.key) {
            return bad(format!(
                "question `{}`: keys that begin with `longshore.` are the host's own",
                question.key
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

    #[tokio::test]
    async fn a_pipe_or_a_device_is_neither_a_component_nor_a_manifest() {
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/zero", directory.path().join("x.wasm")).unwrap();
        let component = read_component(&directory.path().join("x.wasm"), 1 << 20).await;
        assert!(matches!(component, Err(PluginError::NotAFile(_))));

        std::os::unix::fs::symlink("/dev/zero", directory.path().join(MANIFEST_FILE)).unwrap();
        let manifest = read_manifest_text(directory.path());
        assert!(matches!(manifest, Err(PluginError::NotAFile(_))));
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
}
