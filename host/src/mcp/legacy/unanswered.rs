//! The requests of one client that are not answered. rmcp knows each by a number of the host's own: it
//! mixes up two that have the same id, and a client may use one again as soon as it is free.

use std::collections::BTreeMap;

use rmcp::model::{RequestId, ServerJsonRpcMessage};

use crate::mcp::error::Refusal;

/// What rmcp knows a request by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(i64);

impl Number {
    pub fn as_id(self) -> RequestId {
        RequestId::Number(self.0)
    }
}

/// By their numbers, with their clients' ids.
#[derive(Default)]
pub struct Unanswered {
    ids: BTreeMap<Number, RequestId>,
    newest: i64,
}

impl Unanswered {
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub fn contains(&self, id: &RequestId) -> bool {
        self.find(id).is_some()
    }

    /// Takes a request up, and gives it its number. Refused while another has its id.
    pub fn begin(&mut self, id: &mut RequestId) -> Result<Number, Refusal> {
        if self.contains(id) {
            return Err(Refusal::same_id());
        }
        self.newest += 1;
        let number = Number(self.newest);
        let theirs = std::mem::replace(id, number.as_id());
        self.ids.insert(number, theirs);
        Ok(number)
    }

    /// The number of a request that its client cancels; none when it is answered, or never was.
    pub fn cancel(&mut self, id: &RequestId) -> Option<Number> {
        let number = self.find(id)?;
        self.end(number);
        Some(number)
    }

    /// The id of a request whose answer is on its way, or that is given up.
    pub fn end(&mut self, number: Number) -> Option<RequestId> {
        self.ids.remove(&number)
    }

    pub fn numbers(&self) -> Vec<Number> {
        self.ids.keys().copied().collect()
    }

    fn find(&self, id: &RequestId) -> Option<Number> {
        let mut all = self.ids.iter();
        all.find_map(|(number, theirs)| (theirs == id).then_some(*number))
    }
}

/// What an answer of rmcp is to.
pub fn answered(message: &ServerJsonRpcMessage) -> Option<Number> {
    let id = match message {
        ServerJsonRpcMessage::Response(response) => &response.id,
        ServerJsonRpcMessage::Error(error) => error.id.as_ref()?,
        ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => return None,
    };
    match id {
        RequestId::Number(number) => Some(Number(*number)),
        RequestId::String(_) => None,
    }
}

/// Puts the id of its client into an answer.
pub fn name(answer: &mut ServerJsonRpcMessage, theirs: RequestId) {
    match answer {
        ServerJsonRpcMessage::Response(response) => response.id = theirs,
        ServerJsonRpcMessage::Error(error) => error.id = Some(theirs),
        ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => {}
    }
}
