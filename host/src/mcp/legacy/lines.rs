//! The handshake revisions over lines, as rmcp's transport: messages are read and written here, so
//! that what is refused over HTTP is refused here in the same words.

use std::collections::VecDeque;
use std::io;

use bytes::Bytes;
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, ServerJsonRpcMessage, ServerResult};
use rmcp::transport::Transport;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;

use super::gathering::{Batch, Gathering};
use super::inbound;
use crate::mcp::envelope::Rejection;
use crate::mcp::error::Refusal;
use crate::mcp::lines::{Line, Lines};
use crate::mcp::wire;

/// One client's lines.
pub struct LineTransport<R> {
    lines: Lines<R>,
    outgoing: mpsc::Sender<Bytes>,
    /// Of a batch, or read before the session began; handed over before the next line is read.
    incoming: VecDeque<ClientJsonRpcMessage>,
    /// What the host says of lines that go no further.
    unsent: VecDeque<Bytes>,
    gathering: Gathering,
    takes_batches: bool,
}

impl<R> LineTransport<R> {
    /// `first` was read already.
    pub fn new(first: &[u8], lines: Lines<R>, outgoing: mpsc::Sender<Bytes>) -> LineTransport<R> {
        let mut transport = LineTransport {
            lines,
            outgoing,
            incoming: VecDeque::new(),
            unsent: VecDeque::new(),
            gathering: Gathering::default(),
            takes_batches: false,
        };
        transport.take(first);
        transport
    }

    fn take(&mut self, line: &[u8]) {
        if inbound::is_batch(line) {
            return self.take_batch(line);
        }
        match inbound::read(line) {
            Ok(message) => match self.awaited(&message) {
                Some(refusal) => self.refuse(refusal),
                None => self.take_message(message),
            },
            Err(rejection) => self.unsent.push_back(failure(&rejection)),
        }
    }

    /// Why a request can't be taken whose id one of a batch has that is not answered: rmcp answers
    /// only one of them, and the batch would wait for ever.
    fn awaited(&self, message: &ClientJsonRpcMessage) -> Option<Refusal> {
        let ClientJsonRpcMessage::Request(request) = message else {
            return None;
        };
        let is_awaited = self.gathering.awaits(&request.id);
        is_awaited.then(|| Refusal::NotARequest(inbound::SAME_ID.to_owned()))
    }

    fn take_batch(&mut self, line: &[u8]) {
        let messages = match self.takes_batches {
            true => inbound::read_batch(line),
            false => Err(Refusal::NotARequest(inbound::NO_BATCHES.to_owned())),
        };
        let messages = match messages {
            Ok(messages) => messages,
            Err(refusal) => return self.refuse(refusal),
        };
        let mut batch = Batch::default();
        let mut accepted = Vec::with_capacity(messages.len());
        for message in messages {
            match message {
                Ok(message) => {
                    if let Some(refusal) = self.awaited(&message) {
                        batch.add(failure(&Rejection { id: None, refusal }));
                        continue;
                    }
                    if let ClientJsonRpcMessage::Request(request) = &message {
                        batch.expect(request.id.clone());
                    }
                    accepted.push(message);
                }
                Err(rejection) => batch.add(failure(&rejection)),
            }
        }
        let line = self.gathering.begin(batch);
        self.unsent.extend(line);
        for message in accepted {
            self.take_message(message);
        }
    }

    fn take_message(&mut self, message: ClientJsonRpcMessage) {
        if let ClientJsonRpcMessage::Notification(notification) = &message
            && let ClientNotification::CancelledNotification(cancelled) = &notification.notification
            && let Some(id) = &cancelled.params.request_id
        {
            let line = self.gathering.withdraw(id);
            self.unsent.extend(line);
        }
        self.incoming.push_back(message);
    }

    fn refuse(&mut self, refusal: Refusal) {
        let rejection = Rejection { id: None, refusal };
        self.unsent.push_back(failure(&rejection));
    }

    fn note_revision(&mut self, message: &ServerJsonRpcMessage) {
        if let ServerJsonRpcMessage::Response(response) = message
            && let ServerResult::InitializeResult(result) = &response.result
        {
            self.takes_batches = inbound::has_batches(&result.protocol_version);
        }
    }
}

fn failure(rejection: &Rejection) -> Bytes {
    wire::failure(rejection.id.as_ref(), &rejection.refusal.face())
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for LineTransport<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.note_revision(&message);
        let line = serde_json::to_vec(&message)
            .map(|json| self.gathering.pass(&message, json.into()))
            .map_err(io::Error::from);
        let outgoing = self.outgoing.clone();
        async move {
            if let Some(line) = line? {
                let sent = outgoing.send(line).await;
                sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            }
            Ok(())
        }
    }

    /// May be dropped at any time, and called again: nothing is out of a queue before it is passed on.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            while !self.unsent.is_empty() {
                let permit = self.outgoing.reserve().await.ok()?;
                if let Some(line) = self.unsent.pop_front() {
                    permit.send(line);
                }
            }
            if let Some(message) = self.incoming.pop_front() {
                return Some(message);
            }
            let line = tokio::select! {
                line = self.lines.next() => line.ok()?,
                () = self.outgoing.closed() => return None,
            };
            match line {
                Line::Message(line) => self.take(&line),
                Line::TooLong => self.refuse(Refusal::line_too_long()),
                Line::End => return None,
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}
