//! Several requests at once, no more than a bound of them in flight.

use std::collections::VecDeque;

use super::transport::{self, Flight};
use super::{HttpError, Request, Response};

/// Requests under keys of the tool's choice. It is an iterator over the results in the order they
/// come, and may be given more requests between two of them. Dropping it abandons what is in
/// flight.
pub struct Batch<K> {
    concurrency: usize,
    waiting: VecDeque<(K, Request)>,
    flying: Vec<(K, Flight)>,
}

impl<K> Batch<K> {
    /// A batch with at most `concurrency` requests in flight (at least one).
    pub fn new(concurrency: usize) -> Batch<K> {
        Batch {
            concurrency: concurrency.max(1),
            waiting: VecDeque::new(),
            flying: Vec::new(),
        }
    }

    /// Adds a request. It starts with the next call of [`next`](Iterator::next) that finds room.
    pub fn push(&mut self, key: K, request: Request) {
        self.waiting.push_back((key, request));
    }

    /// Requests that have no result yet.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.flying.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives up the requests that have not started, and returns their keys.
    pub fn drain_waiting(&mut self) -> Vec<K> {
        self.waiting.drain(..).map(|(key, _)| key).collect()
    }

    /// Starts what there is room for; a request that cannot start is a result already.
    fn start(&mut self) -> Option<(K, HttpError)> {
        while self.flying.len() < self.concurrency {
            let (key, request) = self.waiting.pop_front()?;
            match Flight::start(request) {
                Ok(flight) => self.flying.push((key, flight)),
                Err(error) => return Some((key, error)),
            }
        }
        None
    }
}

impl<K> Iterator for Batch<K> {
    type Item = (K, Result<Response, HttpError>);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some((key, error)) = self.start() {
            return Some((key, Err(error)));
        }
        while !self.flying.is_empty() {
            let ended = self
                .flying
                .iter_mut()
                .enumerate()
                .find_map(|(index, (_, flight))| Some((index, flight.advance()?)));
            if let Some((index, result)) = ended {
                // Keeps the order, so that the oldest is looked at first and none is starved.
                let (key, _) = self.flying.remove(index);
                return Some((key, result));
            }
            transport::wait(self.flying.iter().map(|(_, flight)| flight));
        }
        None
    }
}

/// Sends all requests, at most `concurrency` at once; the results are in the order of the requests.
pub fn send_all(
    requests: impl IntoIterator<Item = Request>,
    concurrency: usize,
) -> Vec<Result<Response, HttpError>> {
    let mut batch = Batch::new(concurrency);
    for (index, request) in requests.into_iter().enumerate() {
        batch.push(index, request);
    }
    let mut results: Vec<_> = batch.collect();
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
