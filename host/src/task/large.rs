//! A result that is too large for one message: it is kept beside its task in parts, and the message
//! names them. Pure, as all of `task` is.

use std::fmt;

use super::{CallResult, TaskId};

/// The host's own scheme: no plugin may serve a URI of it, or return one.
pub const OWN_SCHEME: &str = "longshore";

/// What the URI of a part begins with, which is of the host's own scheme.
const URI_START: &str = "longshore://result/";

/// Whether a URI is of the host's own scheme, however that is written.
pub fn is_own_uri(uri: &str) -> bool {
    let scheme = uri.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(OWN_SCHEME))
}

/// A result with its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeResult {
    /// What is shown. Its links name a task that is not known yet by `placeholder`, which nothing
    /// else in it holds.
    json: String,
    is_error: bool,
    placeholder: TaskId,
    pub parts: Vec<ResultPart>,
}

/// What one read gets of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultPart {
    pub mime_type: Option<String>,
    pub body: PartBody,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartBody {
    Text(String),
    Blob(Vec<u8>),
}

/// Where a part is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartUri {
    pub task: TaskId,
    /// Counted from 1.
    pub part: u32,
}

impl LargeResult {
    /// `json` names `placeholder`, which is drawn by chance, where the task's id belongs.
    pub fn new(
        json: String,
        is_error: bool,
        placeholder: TaskId,
        parts: Vec<ResultPart>,
    ) -> LargeResult {
        LargeResult {
            json,
            is_error,
            placeholder,
            parts,
        }
    }

    /// What is shown, before the task is known.
    pub fn shown(&self) -> (&str, bool) {
        (&self.json, self.is_error)
    }

    /// The result of the task that keeps the parts.
    pub fn of_task(&self, id: &TaskId) -> CallResult {
        CallResult {
            json: self.json.replace(self.placeholder.as_str(), id.as_str()),
            is_error: self.is_error,
        }
    }
}

impl ResultPart {
    pub fn size_bytes(&self) -> usize {
        match &self.body {
            PartBody::Text(text) => text.len(),
            PartBody::Blob(bytes) => bytes.len(),
        }
    }
}

impl PartUri {
    /// None for everything that is no such URI, also for one that a part never has.
    pub fn parse(uri: &str) -> Option<PartUri> {
        let (task, part) = uri.strip_prefix(URI_START)?.split_once('/')?;
        let parsed = PartUri {
            task: TaskId::parse(task).ok()?,
            part: part.parse().ok()?,
        };
        (parsed.part > 0 && parsed.to_string() == uri).then_some(parsed)
    }
}

impl fmt::Display for PartUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{URI_START}{}/{}", self.task, self.part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_uri_of_a_part_is_one() {
        let uri = PartUri {
            task: TaskId::from_random([7; 16]),
            part: 12,
        };
        assert_eq!(PartUri::parse(&uri.to_string()), Some(uri));
        for text in [
            "longshore://result/abc/0",
            "longshore://result/abc/01",
            "longshore://result/abc/+1",
            "longshore://result/abc/1/2",
            "longshore://result/abc/",
            "longshore://result//1",
            "longshore://result/a%20b/1",
            "longshore://results/abc/1",
            "LONGSHORE://result/abc/1",
        ] {
            assert_eq!(PartUri::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_result_names_the_task_that_keeps_it() {
        let placeholder = TaskId::from_random([1; 16]);
        let json = format!("[\"longshore://result/{placeholder}/1\"]");
        let large = LargeResult::new(json, true, placeholder, Vec::new());
        let id = TaskId::from_random([2; 16]);
        let expected = format!("[\"longshore://result/{id}/1\"]");
        assert_eq!(large.of_task(&id).json, expected);
    }
}
