//! A client's lines, read no faster than it reads what they are answered with. What comes in is bounded
//! by what goes out.

use std::io;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tokio::sync::mpsc::OwnedPermit;

use super::reader::{Line, Lines};

/// A place in the queue of what is to be written.
pub type Place = OwnedPermit<Bytes>;

/// Both sides of one client.
pub struct Paced<R> {
    lines: Lines<R>,
    outgoing: mpsc::Sender<Bytes>,
    /// Read, and not handed out before there is a place.
    line: Option<Line>,
    /// Kept, so that its turn does not go to whoever comes later: a guest that reports in a loop would
    /// always be first.
    waiting: Option<BoxFuture<'static, Option<Place>>>,
    place: Option<Place>,
}

impl<R: AsyncRead + Unpin> Paced<R> {
    pub fn new(lines: Lines<R>, outgoing: mpsc::Sender<Bytes>) -> Paced<R> {
        Paced {
            lines,
            outgoing,
            line: None,
            waiting: None,
            place: None,
        }
    }

    /// Where messages go that are made beside the reading.
    pub fn outgoing(&self) -> &mpsc::Sender<Bytes> {
        &self.outgoing
    }

    /// The next line, once there is a place for an answer to it; None when the client reads no more. The
    /// end needs no place: a client may end its side without reading what is left. Safe to cancel.
    pub async fn next(&mut self) -> io::Result<Option<Line>> {
        if self.line.is_none() {
            // Of the line before, which was answered beside the reading.
            self.place = None;
            self.line = tokio::select! {
                line = self.lines.next() => Some(line?),
                () = self.outgoing.closed() => return Ok(None),
            };
        }
        if self.line != Some(Line::End) && !self.reserve().await {
            return Ok(None);
        }
        Ok(self.line.take())
    }

    /// The place that came with the line, or another one; None when the client reads no more. Safe to
    /// cancel.
    pub async fn place(&mut self) -> Option<Place> {
        self.reserve().await;
        self.place.take()
    }

    /// Whether there is a place now.
    async fn reserve(&mut self) -> bool {
        if self.place.is_none() {
            let outgoing = &self.outgoing;
            let waiting = self.waiting.get_or_insert_with(|| {
                let reserving = outgoing.clone().reserve_owned();
                async { reserving.await.ok() }.boxed()
            });
            self.place = waiting.await;
            self.waiting = None;
        }
        self.place.is_some()
    }
}
