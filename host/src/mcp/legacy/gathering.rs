//! The answers to batches that came over lines: each batch is answered with one line, once all of it
//! is. (Over HTTP a batch has a stream of its own, and nothing is gathered.)

use std::collections::HashSet;

use bytes::Bytes;

use super::unanswered::Number;

/// Batches with requests that are not answered, which bounds them: a request is of one batch.
#[derive(Default)]
pub struct Gathering(Vec<Batch>);

/// One batch.
#[derive(Default)]
pub struct Batch {
    waiting: HashSet<Number>,
    answers: Vec<Bytes>,
}

impl Batch {
    pub fn expect(&mut self, number: Number) {
        self.waiting.insert(number);
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

    /// What is to be written for an answer: itself, or the batch that it completes.
    pub fn pass(&mut self, number: Number, answer: Bytes) -> Option<Bytes> {
        match self.take(number) {
            None => Some(answer),
            Some(at) => {
                self.0[at].add(answer);
                self.end(at)
            }
        }
    }

    /// A request that its client cancels is not answered; the batch's line, if it was the last.
    pub fn withdraw(&mut self, number: Number) -> Option<Bytes> {
        let at = self.take(number)?;
        self.end(at)
    }

    /// The batch that waited for a request, and does no more.
    fn take(&mut self, number: Number) -> Option<usize> {
        self.0
            .iter_mut()
            .position(|batch| batch.waiting.remove(&number))
    }

    fn end(&mut self, at: usize) -> Option<Bytes> {
        if !self.0[at].waiting.is_empty() {
            return None;
        }
        self.0.swap_remove(at).line()
    }
}
