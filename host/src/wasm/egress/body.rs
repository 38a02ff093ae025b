//! A response's body on its way to the guest: bounded in size and in the time between two pieces, and
//! without the run's secrets.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep};
use wasmtime_wasi_http::Error;

use super::RESPONSE_MAX_BYTES;
use super::redact::Redactor;

pub(super) struct ResponseBody {
    incoming: Incoming,
    left_bytes: u64,
    between_bytes: Duration,
    patience: Pin<Box<Sleep>>,
    redactor: Option<Redactor>,
    /// Trailers that wait until what was held back of the body is told.
    trailers: Option<Frame<Bytes>>,
    /// A request counts until its body was read or dropped.
    _permit: OwnedSemaphorePermit,
}

impl ResponseBody {
    pub fn new(
        incoming: Incoming,
        between_bytes: Duration,
        redactor: Option<Redactor>,
        permit: OwnedSemaphorePermit,
    ) -> ResponseBody {
        ResponseBody {
            incoming,
            left_bytes: RESPONSE_MAX_BYTES,
            between_bytes,
            patience: Box::pin(sleep(between_bytes)),
            redactor,
            trailers: None,
            _permit: permit,
        }
    }

    fn count(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, Error> {
        let length = frame.data_ref().map_or(0, |data| data.len() as u64);
        match self.left_bytes.checked_sub(length) {
            Some(left) => {
                self.left_bytes = left;
                Ok(frame)
            }
            None => Err(Error::HttpResponseBodySize(Some(RESPONSE_MAX_BYTES))),
        }
    }
}

impl ResponseBody {
    /// The frame without secrets; None when nothing of it can be told yet.
    fn redact(&mut self, frame: Frame<Bytes>) -> Option<Frame<Bytes>> {
        let Some(redactor) = &mut self.redactor else {
            return Some(frame);
        };
        let mut trailers = match frame.into_data() {
            Ok(data) => {
                let clean = redactor.feed(&data);
                return (!clean.is_empty()).then(|| Frame::data(clean.into()));
            }
            Err(trailers) => trailers,
        };
        let held = self.held_back();
        if let (Some(redactor), Some(headers)) = (&mut self.redactor, trailers.trailers_mut()) {
            redactor.headers(headers);
        }
        match held {
            None => Some(trailers),
            Some(held) => {
                self.trailers = Some(trailers);
                Some(held)
            }
        }
    }

    fn held_back(&mut self) -> Option<Frame<Bytes>> {
        let held = self.redactor.as_mut()?.finish();
        (!held.is_empty()).then(|| Frame::data(held.into()))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Some(trailers) = self.trailers.take() {
            return Poll::Ready(Some(Ok(trailers)));
        }
        loop {
            match Pin::new(&mut self.incoming).poll_frame(context) {
                Poll::Ready(None) => return Poll::Ready(self.held_back().map(Ok)),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error.into()))),
                Poll::Ready(Some(Ok(frame))) => {
                    let deadline = Instant::now() + self.between_bytes;
                    self.patience.as_mut().reset(deadline);
                    match self.count(frame).map(|frame| self.redact(frame)) {
                        // All of it may be the beginning of a secret.
                        Ok(None) => continue,
                        Ok(Some(frame)) => return Poll::Ready(Some(Ok(frame))),
                        Err(error) => return Poll::Ready(Some(Err(error))),
                    }
                }
                Poll::Pending => {
                    return self
                        .patience
                        .as_mut()
                        .poll(context)
                        .map(|()| Some(Err(Error::ConnectionReadTimeout)));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.redactor.is_none() && self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.redactor {
            None => self.incoming.size_hint(),
            // A placeholder has another length.
            Some(_) => SizeHint::default(),
        }
    }
}
