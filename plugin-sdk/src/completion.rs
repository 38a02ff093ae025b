//! Suggestions while a person types an argument of a prompt or a variable of a template.

use std::collections::BTreeMap;

use crate::context::Context;
use crate::server_bindings::exports::longshore::plugin::completion;

/// As many as a client is shown.
const SUGGESTIONS_MAX: usize = 100;

/// What a person has typed so far.
#[derive(Clone, Copy, Debug)]
pub struct Typed<'a> {
    value: &'a str,
    chosen: &'a [(String, String)],
}

impl<'a> Typed<'a> {
    pub(crate) fn new(value: &'a str, chosen: &'a [(String, String)]) -> Typed<'a> {
        Typed { value, chosen }
    }

    /// Of the argument that is being typed.
    pub fn value(&self) -> &'a str {
        self.value
    }

    /// Of another argument that is filled in already.
    pub fn chosen(&self, argument: &str) -> Option<&'a str> {
        let (_, value) = self.chosen.iter().find(|(name, _)| name == argument)?;
        Some(value)
    }
}

/// Values to choose from, the best first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suggestions {
    /// A client is shown the first 100.
    pub values: Vec<String>,
    /// How many there are in all, if that is known.
    pub total: Option<u32>,
    pub has_more: bool,
}

impl Suggestions {
    /// Those candidates that begin with what was typed, whatever its case.
    pub fn matching<S: Into<String>>(
        typed: &Typed,
        candidates: impl IntoIterator<Item = S>,
    ) -> Suggestions {
        let start = typed.value().to_lowercase();
        candidates
            .into_iter()
            .map(Into::into)
            .filter(|candidate| candidate.to_lowercase().starts_with(&start))
            .collect::<Vec<String>>()
            .into()
    }

    pub(crate) fn into_wire(self) -> completion::Suggestions {
        completion::Suggestions {
            values: self.values,
            total: self.total,
            has_more: self.has_more,
        }
    }
}

/// All there are.
impl From<Vec<String>> for Suggestions {
    fn from(mut values: Vec<String>) -> Suggestions {
        let total = u32::try_from(values.len()).ok();
        let has_more = values.len() > SUGGESTIONS_MAX;
        values.truncate(SUGGESTIONS_MAX);
        Suggestions {
            values,
            total,
            has_more,
        }
    }
}

type Suggest = Box<dyn Fn(&Context, &Typed) -> Suggestions>;

/// Who suggests values, by argument.
#[derive(Default)]
pub(crate) struct Completions {
    by_argument: BTreeMap<String, Suggest>,
}

impl Completions {
    pub fn add<S, F>(&mut self, argument: String, suggest: F)
    where
        S: Into<Suggestions>,
        F: Fn(&Context, &Typed) -> S + 'static,
    {
        let suggest = move |context: &Context, typed: &Typed| suggest(context, typed).into();
        self.by_argument.insert(argument, Box::new(suggest));
    }

    /// Nothing for an argument that nobody suggests values of.
    pub fn suggest(&self, context: &Context, argument: &str, typed: &Typed) -> Suggestions {
        match self.by_argument.get(argument) {
            Some(suggest) => suggest(context, typed),
            None => Suggestions::from(Vec::new()),
        }
    }
}
