//! What a component says it has, and its tools. Only their form is checked here; names, schemas and
//! collisions are the catalog's.

use std::time::Duration;

use super::LoadError;
use super::bindings::longshore::plugin::types;
use super::offers::{PromptEntry, ResourceEntry, TemplateEntry, read_prompts, read_resources};
use super::runner::Told;
use crate::task::Recovery;

/// Tools of one component.
const TOOLS_MAX: usize = 256;

/// A name, a title or a key, bytes.
pub(super) const NAME_MAX_BYTES: usize = 256;

/// A description, or another text for people, bytes.
pub(super) const TEXT_MAX_BYTES: usize = 16 << 10;

/// A schema, bytes.
const SCHEMA_MAX_BYTES: usize = 256 << 10;

/// An icon's address, which may hold the image itself, bytes.
const ICON_MAX_BYTES: usize = 64 << 10;

/// Questions, and icons, of one tool.
const ITEMS_MAX: usize = 64;

/// A tool as its component declares it (`types.tool`), not yet checked beyond its form.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    pub name: String,
    pub title: Option<String>,
    pub description: String,
    /// JSON text, as the guest wrote it.
    pub input_schema: String,
    pub output_schema: Option<String>,
    pub traits: Traits,
    pub annotations: Annotations,
    pub icons: Vec<Icon>,
}

/// Where a call's answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    Inline,
    Task,
    Auto,
}

/// What people must know before they trust a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traits {
    pub execution: Execution,
    pub recovery: Recovery,
    pub cancellation: String,
    pub cleanup_on_cancel: bool,
    pub cancel_grace: Option<Duration>,
    pub questions: Vec<Question>,
    pub ttl: Option<Duration>,
    pub poll_interval: Option<Duration>,
    pub when_left: WhenLeft,
}

/// What becomes of a call answered within its request when its client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenLeft {
    Cancel,
    Detach,
}

impl WhenLeft {
    pub fn as_str(self) -> &'static str {
        match self {
            WhenLeft::Cancel => "cancel",
            WhenLeft::Detach => "detach",
        }
    }
}

/// A question the tool may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub key: String,
    pub decides: String,
    pub allows_effect: bool,
    /// Asked within the call, before a task exists.
    pub before_task: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Icon {
    pub src: String,
    pub mime_type: Option<String>,
    pub sizes: Vec<String>,
}

/// Everything a component says it has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declared {
    pub tools: Vec<Declaration>,
    pub resources: Vec<ResourceEntry>,
    pub templates: Vec<TemplateEntry>,
    pub prompts: Vec<PromptEntry>,
}

/// Takes what a component told.
pub(super) fn read_all(told: Told) -> Result<Declared, LoadError> {
    let (resources, templates) = read_resources(told.resources)?;
    Ok(Declared {
        tools: read(told.tools)?,
        resources,
        templates,
        prompts: read_prompts(told.prompts)?,
    })
}

/// Takes what `list-tools` returned.
fn read(tools: Vec<types::Tool>) -> Result<Vec<Declaration>, LoadError> {
    if tools.is_empty() {
        return Err(LoadError::Declaration(
            "the component declares no tool; list-tools must return at least one".to_owned(),
        ));
    }
    if tools.len() > TOOLS_MAX {
        return Err(LoadError::Declaration(format!(
            "the component declares {} tools; {TOOLS_MAX} are allowed",
            tools.len()
        )));
    }
    tools.into_iter().map(read_tool).collect()
}

fn read_tool(tool: types::Tool) -> Result<Declaration, LoadError> {
    check_sizes(&tool).map_err(|what| {
        let name: String = tool.name.chars().take(64).collect();
        LoadError::Declaration(format!("tool `{name}`: {what}"))
    })?;
    Ok(Declaration {
        name: tool.name,
        title: tool.title,
        description: tool.description,
        input_schema: tool.input_schema,
        output_schema: tool.output_schema,
        traits: read_traits(tool.traits),
        annotations: Annotations {
            read_only: tool.annotations.read_only,
            destructive: tool.annotations.destructive,
            idempotent: tool.annotations.idempotent,
            open_world: tool.annotations.open_world,
        },
        icons: tool.icons.into_iter().map(read_icon).collect(),
    })
}

fn read_traits(traits: types::Traits) -> Traits {
    let millis = |millis: Option<u32>| millis.map(|millis| Duration::from_millis(millis.into()));
    Traits {
        execution: match traits.execution {
            types::Execution::Inline => Execution::Inline,
            types::Execution::Task => Execution::Task,
            types::Execution::Auto => Execution::Auto,
        },
        recovery: match traits.recovery {
            types::Recovery::Fail => Recovery::Fail,
            types::Recovery::Restart => Recovery::Restart,
            types::Recovery::Resume => Recovery::Resume,
        },
        cancellation: traits.cancellation,
        cleanup_on_cancel: traits.cleanup_on_cancel,
        cancel_grace: millis(traits.cancel_grace_ms),
        questions: traits.questions.into_iter().map(read_question).collect(),
        ttl: traits.ttl_ms.map(Duration::from_millis),
        poll_interval: millis(traits.poll_interval_ms),
        when_left: match traits.when_left {
            types::WhenLeft::Cancel => WhenLeft::Cancel,
            types::WhenLeft::Detach => WhenLeft::Detach,
        },
    }
}

fn read_question(question: types::Question) -> Question {
    Question {
        key: question.key,
        decides: question.decides,
        allows_effect: question.allows_effect,
        before_task: question.before_task,
    }
}

pub(super) fn read_icon(icon: types::Icon) -> Icon {
    Icon {
        src: icon.src,
        mime_type: icon.mime_type,
        sizes: icon.sizes,
    }
}

fn check_sizes(tool: &types::Tool) -> Result<(), String> {
    at_most("its name", &tool.name, NAME_MAX_BYTES)?;
    at_most(
        "its title",
        tool.title.as_deref().unwrap_or(""),
        NAME_MAX_BYTES,
    )?;
    at_most("its description", &tool.description, TEXT_MAX_BYTES)?;
    at_most("its input schema", &tool.input_schema, SCHEMA_MAX_BYTES)?;
    let output_schema = tool.output_schema.as_deref().unwrap_or("");
    at_most("its output schema", output_schema, SCHEMA_MAX_BYTES)?;
    at_most(
        "what a cancel means",
        &tool.traits.cancellation,
        TEXT_MAX_BYTES,
    )?;
    if tool.traits.when_left == types::WhenLeft::Detach
        && tool.traits.execution == types::Execution::Inline
    {
        return Err(
            "it declares when-left `detach`, which a tool with execution `inline` may not: it is \
             never a task"
                .to_owned(),
        );
    }
    at_most_items("questions", tool.traits.questions.len())?;
    for question in &tool.traits.questions {
        at_most("a question's key", &question.key, NAME_MAX_BYTES)?;
        at_most("what a question decides", &question.decides, TEXT_MAX_BYTES)?;
    }
    check_icons(&tool.icons)
}

pub(super) fn check_icons(icons: &[types::Icon]) -> Result<(), String> {
    at_most_items("icons", icons.len())?;
    for icon in icons {
        at_most("an icon", &icon.src, ICON_MAX_BYTES)?;
        at_most_items("sizes of an icon", icon.sizes.len())?;
    }
    Ok(())
}

pub(super) fn at_most(what: &str, text: &str, max_bytes: usize) -> Result<(), String> {
    if text.len() <= max_bytes {
        return Ok(());
    }
    Err(format!(
        "{what} has {} bytes; {max_bytes} are allowed",
        text.len()
    ))
}

pub(super) fn at_most_items(what: &str, count: usize) -> Result<(), String> {
    if count <= ITEMS_MAX {
        return Ok(());
    }
    Err(format!("it has {count} {what}; {ITEMS_MAX} are allowed"))
}
