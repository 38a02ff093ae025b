//! What a request declares of its client: which questions it can answer, and whether it takes tasks.

use serde_json::value::RawValue;

use super::json::{is_object, parse};
use crate::service::LogLevel;
use crate::task::{Abilities, Trace};

/// What this very request says of its client; no other request counts (basic/index,
/// "Statelessness").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    pub abilities: Abilities,
    pub takes_tasks: bool,
    /// JSON text, for progress notifications.
    pub progress_token: Option<String>,
    /// The trace the request belongs to.
    pub trace: Option<Trace>,
    /// The least of what the plugin says that it wants to hear; nothing without one.
    pub log_level: Option<LogLevel>,
}

#[derive(serde::Deserialize)]
struct Capabilities<'a> {
    #[serde(borrow, default)]
    elicitation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    sampling: Option<&'a RawValue>,
    #[serde(borrow, default)]
    roots: Option<&'a RawValue>,
    #[serde(borrow, default)]
    extensions: Option<&'a RawValue>,
}

#[derive(serde::Deserialize)]
struct Elicitation<'a> {
    #[serde(borrow, default)]
    form: Option<&'a RawValue>,
    #[serde(borrow, default)]
    url: Option<&'a RawValue>,
}

#[derive(serde::Deserialize)]
struct Extensions<'a> {
    #[serde(borrow, default, rename = "io.modelcontextprotocol/tasks")]
    tasks: Option<&'a RawValue>,
}

impl Client {
    /// Reads the capabilities that a request declares.
    pub fn read(raw: &RawValue) -> Result<Client, String> {
        const AT: &str = "params._meta[\"io.modelcontextprotocol/clientCapabilities\"]";
        let capabilities: Capabilities = parse(raw, AT)?;
        let declares = |capability: Option<&RawValue>, name: &str| match capability {
            None => Ok(false),
            Some(raw) if is_object(raw) => Ok(true),
            Some(_) => Err(format!("{AT}.{name} has to be an object")),
        };
        let mut abilities = Abilities {
            form: false,
            url: false,
            sampling: declares(capabilities.sampling, "sampling")?,
            roots: declares(capabilities.roots, "roots")?,
        };
        if let Some(raw) = capabilities.elicitation {
            let modes: Elicitation = parse(raw, &format!("{AT}.elicitation"))?;
            abilities.url = declares(modes.url, "elicitation.url")?;
            // An empty declaration means forms, as it did before there were modes.
            abilities.form = declares(modes.form, "elicitation.form")? || !abilities.url;
        }
        let takes_tasks = match capabilities.extensions {
            None => false,
            Some(raw) => {
                let extensions: Extensions = parse(raw, &format!("{AT}.extensions"))?;
                declares(
                    extensions.tasks,
                    "extensions[\"io.modelcontextprotocol/tasks\"]",
                )?
            }
        };
        Ok(Client {
            abilities,
            takes_tasks,
            progress_token: None,
            trace: None,
            log_level: None,
        })
    }
}
