//! The handshake revisions over lines, as rmcp's transport: messages are read and written here, so
//! that what is refused over HTTP is refused here in the same words.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::time::Duration;

use bytes::Bytes;
use rmcp::RoleServer;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientJsonRpcMessage, ClientNotification,
    ErrorData, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::Transport;
use tokio::io::AsyncRead;
use tokio::time::{Instant, sleep_until, timeout};

use super::gathering::{Batch, Gathering};
use super::inbound;
use super::server::error_data;
use super::unanswered::{Number, Unanswered, answered, name};
use crate::mcp::envelope::Rejection;
use crate::mcp::error::Refusal;
use crate::mcp::lines::{Line, Paced, REQUESTS_MAX, Room, gone, no_room};
use crate::mcp::wire;

/// Said to whoever waits for a client that will not write any more.
const ENDED: &str = "the client ended its side";

/// One client's lines.
pub struct LineTransport<R> {
    client: Paced<R>,
    /// Of a batch, or read before the session began; handed over before the next line is read.
    incoming: VecDeque<ClientJsonRpcMessage>,
    /// What the host says of lines that go no further.
    unsent: VecDeque<Bytes>,
    unanswered: Unanswered,
    room: Room,
    gathering: Gathering,
    /// Requests of the host that the client has not answered.
    asked: HashSet<RequestId>,
    takes_batches: bool,
    /// How long requests may go on after the client ended its side.
    drain: Duration,
    /// Set once it has.
    ending: Option<Ending>,
}

/// What is left to be done for a client that ended its side.
enum Ending {
    /// To wait for what it asked for.
    Until(Instant),
    /// Nothing: what was under way is stopped.
    Over,
}

impl<R: AsyncRead + Unpin> LineTransport<R> {
    /// `first` was read already.
    pub fn new(first: &[u8], client: Paced<R>, drain: Duration) -> LineTransport<R> {
        let mut transport = LineTransport {
            client,
            incoming: VecDeque::new(),
            unsent: VecDeque::new(),
            unanswered: Unanswered::default(),
            room: Room::default(),
            gathering: Gathering::default(),
            asked: HashSet::new(),
            takes_batches: false,
            drain,
            ending: None,
        };
        transport.take(first);
        transport
    }

    fn take(&mut self, line: &[u8]) {
        if inbound::is_batch(line) {
            return self.take_batch(line);
        }
        match inbound::read(line) {
            Ok(mut message) => match self.admit(&mut message) {
                Ok(_) => self.take_message(message),
                Err(refused) => self.unsent.push_back(refused),
            },
            Err(rejection) => self.unsent.push_back(failure(&rejection)),
        }
    }

    /// Takes a request up, if it may be; else what its client is told. Every other message may come.
    fn admit(&mut self, message: &mut ClientJsonRpcMessage) -> Result<Option<Number>, Bytes> {
        let ClientJsonRpcMessage::Request(request) = message else {
            return Ok(None);
        };
        if self.unanswered.len() >= REQUESTS_MAX {
            return Err(error(no_room(), Some(request.id.clone())));
        }
        let begun = self.unanswered.begin(&mut request.id);
        begun.map(Some).map_err(|refusal| error(refusal, None))
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
            let admitted = match message {
                Ok(mut message) => self.admit(&mut message).map(|number| (number, message)),
                Err(rejection) => Err(failure(&rejection)),
            };
            match admitted {
                Ok((number, message)) => {
                    if let Some(number) = number {
                        batch.expect(number);
                    }
                    accepted.push(message);
                }
                Err(refused) => batch.add(refused),
            }
        }
        let line = self.gathering.begin(batch);
        self.unsent.extend(line);
        for message in accepted {
            self.take_message(message);
        }
    }

    fn take_message(&mut self, mut message: ClientJsonRpcMessage) {
        match &mut message {
            ClientJsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &mut notification.notification
                {
                    self.cancel(&mut cancelled.params);
                }
            }
            ClientJsonRpcMessage::Response(response) => {
                self.asked.remove(&response.id);
            }
            ClientJsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    self.asked.remove(id);
                }
            }
            ClientJsonRpcMessage::Request(_) => {}
        }
        self.incoming.push_back(message);
    }

    fn cancel(&mut self, cancelled: &mut CancelledNotificationParam) {
        let id = cancelled.request_id.take();
        if let Some(number) = id.and_then(|id| self.unanswered.cancel(&id)) {
            cancelled.request_id = Some(number.as_id());
            let line = self.gathering.withdraw(number);
            self.unsent.extend(line);
        }
    }

    fn refuse(&mut self, refusal: Refusal) {
        let rejection = Rejection { id: None, refusal };
        self.unsent.push_back(failure(&rejection));
    }

    fn note(&mut self, message: &ServerJsonRpcMessage) {
        match message {
            ServerJsonRpcMessage::Response(response) => {
                if let ServerResult::InitializeResult(result) = &response.result {
                    self.takes_batches = inbound::has_batches(&result.protocol_version);
                }
            }
            ServerJsonRpcMessage::Request(request) => {
                self.asked.insert(request.id.clone());
                if self.ending.is_some() {
                    self.answer_for_the_client();
                }
            }
            ServerJsonRpcMessage::Error(_) | ServerJsonRpcMessage::Notification(_) => {}
        }
    }

    /// A tool that waits for a client which has ended its side would wait for nothing.
    fn answer_for_the_client(&mut self) {
        for id in std::mem::take(&mut self.asked) {
            let error = ErrorData::internal_error(ENDED, None);
            let answer = ClientJsonRpcMessage::error(error, Some(id));
            self.incoming.push_back(answer);
        }
    }

    /// Has rmcp stop what is under way, which is answered when the transport is closed.
    fn stop_all(&mut self) {
        for number in self.unanswered.numbers() {
            let params = CancelledNotificationParam::new(Some(number.as_id()), None);
            let cancel = CancelledNotification::new(params);
            let cancel = ClientNotification::CancelledNotification(cancel);
            self.incoming
                .push_back(ClientJsonRpcMessage::notification(cancel));
        }
    }

    /// What is to be written for a message of the host.
    fn pass(&mut self, mut message: ServerJsonRpcMessage) -> io::Result<Option<Bytes>> {
        let number = answered(&message);
        if let Some(number) = number
            && let Some(theirs) = self.unanswered.end(number)
        {
            name(&mut message, theirs);
        }
        let json: Bytes = serde_json::to_vec(&message)?.into();
        Ok(match number {
            Some(number) => self.gathering.pass(number, json),
            None => Some(json),
        })
    }

    /// Writes what is unsent; false when the client reads no more.
    async fn flush(&mut self) -> bool {
        while !self.unsent.is_empty() {
            let Some(place) = self.client.place().await else {
                return false;
            };
            if let Some(line) = self.unsent.pop_front() {
                place.send(line);
            }
        }
        true
    }
}

fn failure(rejection: &Rejection) -> Bytes {
    wire::failure(rejection.id.as_ref(), &rejection.refusal.face())
}

/// A refusal under an id as rmcp has it.
fn error(refusal: Refusal, id: Option<RequestId>) -> Bytes {
    let message = ServerJsonRpcMessage::error(error_data(refusal), id);
    let json = serde_json::to_vec(&message);
    json.expect("an error has text keys and writes to memory")
        .into()
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for LineTransport<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.note(&message);
        let line = self.pass(message);
        let outgoing = self.client.outgoing().clone();
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
            if !self.flush().await {
                return None;
            }
            if let Some(message) = self.incoming.pop_front() {
                return Some(message);
            }
            match self.ending {
                None => {}
                Some(Ending::Over) => return None,
                Some(Ending::Until(_)) if self.unanswered.is_empty() => return None,
                Some(Ending::Until(limit)) => {
                    sleep_until(limit).await;
                    self.ending = Some(Ending::Over);
                    self.stop_all();
                    continue;
                }
            }
            if let Some(until) = self.room.pause(self.unanswered.len()) {
                sleep_until(until).await;
            }
            match self.client.next().await.ok()?? {
                Line::Message(line) => self.take(&line),
                Line::TooLong => self.refuse(Refusal::line_too_long()),
                Line::End => {
                    self.ending = Some(Ending::Until(Instant::now() + self.drain));
                    self.answer_for_the_client();
                }
            }
        }
    }

    /// What was under way is over; its client is told (I8), if it still reads.
    async fn close(&mut self) -> io::Result<()> {
        let why = match self.ending {
            Some(_) => ENDED,
            None => "the host stopped",
        };
        for number in self.unanswered.numbers() {
            let stopped = error_data(gone(why));
            let answer = ServerJsonRpcMessage::error(stopped, Some(number.as_id()));
            let line = self.pass(answer)?;
            self.unsent.extend(line);
        }
        let _ = timeout(self.drain, self.flush()).await;
        Ok(())
    }
}
