//! A response's body on its way to the guest: bounded in size and in the time between two pieces.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep};
use wasmtime_wasi_http::Error;

use super::RESPONSE_MAX_BYTES;

pub(super) struct ResponseBody {
    incoming: Incoming,
    left_bytes: u64,
    between_bytes: Duration,
    patience: Pin<Box<Sleep>>,
    /// A request counts until its body was read or dropped.
    _permit: OwnedSemaphorePermit,
}

impl ResponseBody {
    pub fn new(
        incoming: Incoming,
        between_bytes: Duration,
        permit: OwnedSemaphorePermit,
    ) -> ResponseBody {
        ResponseBody {
            incoming,
            left_bytes: RESPONSE_MAX_BYTES,
            between_bytes,
            patience: Box::pin(sleep(between_bytes)),
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

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match Pin::new(&mut self.incoming).poll_frame(context) {
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(Some(Ok(frame))) => {
                let deadline = Instant::now() + self.between_bytes;
                self.patience.as_mut().reset(deadline);
                Poll::Ready(Some(self.count(frame)))
            }
            Poll::Pending => self
                .patience
                .as_mut()
                .poll(context)
                .map(|()| Some(Err(Error::ConnectionReadTimeout))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
