//! The double's part for resources, prompts, completion and messages.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::{Host, json_of};
use crate::Offer;
use crate::completion::{Suggestions, Typed};
use crate::contents::Contents;
use crate::context::LogLevel;
use crate::error::Result;
use crate::offer::Subject;
use crate::prompt::Conversation;

/// One message of [`Context::log`](crate::Context::log).
#[derive(Clone, Debug, PartialEq)]
pub struct Logged {
    pub level: LogLevel,
    pub logger: Option<String>,
    pub data: Value,
}

/// Runs.
impl Host {
    /// Reads one of a plugin's resources by its URI; None if there is no such one.
    pub fn read(&self, offer: &Offer, uri: &str) -> Result<Option<Contents>> {
        offer.read(&self.context(), uri)
    }

    /// Writes one of a plugin's prompts, with arguments as a struct or an object of strings.
    ///
    /// # Panics
    /// When an argument is no string: clients send nothing else.
    pub fn prompt(
        &self,
        offer: &Offer,
        name: &str,
        arguments: impl Serialize,
    ) -> Result<Conversation> {
        let arguments: BTreeMap<String, String> =
            serde_json::from_str(&json_of(arguments)).expect("a prompt's arguments are strings");
        let arguments: Vec<(String, String)> = arguments.into_iter().collect();
        offer.prompt(&self.context(), name, &arguments)
    }

    /// Suggests values of the prompt's or the template's `argument`, of which `typed` is there.
    pub fn complete(
        &self,
        offer: &Offer,
        subject: Subject,
        argument: &str,
        typed: &str,
        chosen: &[(&str, &str)],
    ) -> Suggestions {
        let chosen: Vec<(String, String)> = chosen
            .iter()
            .map(|(name, value)| (String::from(*name), String::from(*value)))
            .collect();
        let typed = Typed::new(typed, &chosen);
        offer.complete(&self.context(), subject, argument, &typed)
    }
}

/// What happened.
impl Host {
    pub fn logged(&self) -> Vec<Logged> {
        self.state.borrow().logged.clone()
    }

    /// The URIs of the resources that were said to have changed.
    pub fn updated(&self) -> Vec<String> {
        self.state.borrow().updated.clone()
    }
}
