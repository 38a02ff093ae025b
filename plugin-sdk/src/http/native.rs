//! The transport of native tests: a function answers instead of a network.

use std::cell::RefCell;
use std::marker::PhantomData;

use super::{HttpError, Request, Response, url};

type Answer = Box<dyn FnMut(&Request) -> Result<Response, HttpError>>;

thread_local! {
    static ANSWER: RefCell<Option<Answer>> = const { RefCell::new(None) };
}

/// Answers all requests of this thread with `answer` until the returned value is dropped.
#[must_use = "requests are answered only while this value lives"]
pub fn answer_http(
    answer: impl FnMut(&Request) -> Result<Response, HttpError> + 'static,
) -> HttpAnswers {
    ANSWER.set(Some(Box::new(answer)));
    HttpAnswers {
        of_thread: PhantomData,
    }
}

/// Keeps the answers of [`answer_http`].
pub struct HttpAnswers {
    of_thread: PhantomData<*const ()>,
}

impl Drop for HttpAnswers {
    fn drop(&mut self) {
        ANSWER.set(None);
    }
}

pub(super) struct Flight {
    request: Request,
}

impl Flight {
    pub fn start(request: Request) -> Result<Flight, HttpError> {
        url::split(&request.url)?;
        Ok(Flight { request })
    }

    pub fn advance(&mut self) -> Option<Result<Response, HttpError>> {
        let result = ANSWER.with_borrow_mut(|answer| match answer {
            Some(answer) => answer(&self.request),
            None => Err(HttpError::Denied),
        });
        Some(result.and_then(|response| {
            let limit = self.request.body_max_bytes;
            match response.body.len() > limit {
                true => Err(HttpError::BodyTooLarge(limit)),
                false => Ok(response),
            }
        }))
    }
}

/// Native flights end at once: there is nothing to wait for.
pub(super) fn wait<'a>(_: impl Iterator<Item = &'a Flight>) {}
