//! The answers to batches that came over lines: each batch is answered with one line, once all of it
//! is. (Over HTTP a batch has a stream of its own, and nothing is gathered.)

use std::collections::HashSet;

use bytes::Bytes;
use rmcp::model::{RequestId, ServerJsonRpcMessage};

/// Batches with requests that are not answered. There are no more than calls may run, because
/// everything else is answered at once, and an id is waited for once.
#[derive(Default)]
pub struct Gathering(Vec<Batch>);

/// One batch.
#[derive(Default)]
pub struct Batch {
    waiting: HashSet<RequestId>,
    answers: Vec<Bytes>,
}

impl Batch {
    pub fn expect(&mut self, id: RequestId) {
        self.waiting.insert(id);
    }

    pub fn add(&mut self, answer: Bytes) {
        self.answers.push(answer);
    }

    /// None when nothing in the batch was to be answered.
    fn line(&self) -> Option<Bytes> {
        (!self.answers.is_empty()).then(|| [b"[", &*self.answers.join(&b','), b"]"].concat().into())
    }
}

impl Gathering {
    /// Takes a batch whose requests are on their way; its line, if all of it is answered already.
    pub fn begin(&mut self, batch: Batch) -> Option<Bytes> {
        if batch.waiting.is_empty() {
            return batch.line();
        }
        self.0.push(batch);
        None
    }

    /// Whether a request of this id is waited for.
    pub fn awaits(&self, id: &RequestId) -> bool {
        self.0.iter().any(|batch| batch.waiting.contains(id))
    }

    /// What is to be written for a message of the host: itself, or the batch that it completes.
    pub fn pass(&mut self, message: &ServerJsonRpcMessage, json: Bytes) -> Option<Bytes> {
        let id = match message {
            ServerJsonRpcMessage::Response(response) => Some(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        match id.and_then(|id| self.take(id)) {
            None => Some(json),
            Some(at) => {
                self.0[at].add(json);
                self.end(at)
            }
        }
    }

    /// A request that its client cancels is not answered; the batch's line, if it was the last.
    pub fn withdraw(&mut self, id: &RequestId) -> Option<Bytes> {
        let at = self.take(id)?;
        self.end(at)
    }

    /// The batch that waited for a request, and does no more.
    fn take(&mut self, id: &RequestId) -> Option<usize> {
        self.0.iter_mut().position(|batch| batch.waiting.remove(id))
    }

    fn end(&mut self, at: usize) -> Option<Bytes> {
        if !self.0[at].waiting.is_empty() {
            return None;
        }
        self.0.swap_remove(at).line()
    }
}
