//! What is told while a call runs: how far it is, and what its plugin says.

use std::task::Poll;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::poll;
use tokio::sync::{mpsc, watch};

use super::client::Client;
use super::measure::Measure;
use super::wire;
use crate::service::{Listener, Message};
use crate::task::Progress;

/// Messages that a call may be ahead of its client's reading; more are dropped.
pub const HEARD_MAX: usize = 128;

/// Who hears what a call says, and what was heard: of a request that names a level, and whose
/// sender reads more than the answer.
pub fn hear(
    client: &Client,
    can_stream: bool,
) -> (Option<Listener>, Option<mpsc::Receiver<Message>>) {
    let Some(level) = client.log_level.filter(|_| can_stream) else {
        return (None, None);
    };
    let (sender, heard) = mpsc::channel(HEARD_MAX);
    (Some(Listener { level, sender }), Some(heard))
}

/// A call's course as its client hears it: what is told of it, in order, and then its reply.
/// Dropping it drops the reply's future, which stops the tool.
pub struct Course<'a, R> {
    waiting: BoxFuture<'a, R>,
    /// Set once it is there; what was told before it may still have to be heard.
    reply: Option<R>,
    /// None once nobody reports any more.
    progress: Option<watch::Receiver<Option<Progress>>>,
    /// None when the client does not listen, or nobody speaks any more.
    heard: Option<mpsc::Receiver<Message>>,
}

/// What comes next in a call's course.
pub enum Next<R> {
    /// None when nothing is reported and how the call runs was settled.
    Progress(Option<Progress>),
    Message(Message),
    Reply(R),
}

impl<'a, R> Course<'a, R> {
    pub fn new(
        waiting: BoxFuture<'a, R>,
        mut progress: Option<watch::Receiver<Option<Progress>>>,
        heard: Option<mpsc::Receiver<Message>>,
    ) -> Course<'a, R> {
        if let Some(progress) = progress.as_mut().filter(|newest| newest.borrow().is_some()) {
            // A quick tool may have reported before anyone looked.
            progress.mark_changed();
        }
        Course {
            waiting,
            reply: None,
            progress,
            heard,
        }
    }

    /// Waits for what comes next. Safe to cancel, and not to be asked again after the reply.
    pub async fn next(&mut self) -> Next<R> {
        loop {
            // Looked at also while there is much to tell: the reply's future has clocks of its own.
            if self.reply.is_none()
                && let Poll::Ready(reply) = poll!(&mut self.waiting)
            {
                self.end(reply);
            }
            // A reply may come between two looks, and with it what was told before.
            if let Some(told) = self.told() {
                return told;
            }
            if let Some(reply) = self.reply.take() {
                return Next::Reply(reply);
            }
            tokio::select! {
                biased;
                () = reported(&mut self.progress) => {}
                message = said(&mut self.heard) => return Next::Message(message),
                reply = &mut self.waiting => self.end(reply),
            }
        }
    }

    /// A guest may go on after the reply, which may be a task's id: what it says from here on must not
    /// hold the reply back. What it said before stays to be heard.
    fn end(&mut self, reply: R) {
        self.reply = Some(reply);
        if let Some(heard) = &mut self.heard {
            heard.close();
        }
    }

    /// What is there already; of progress the newest once more when the reply is there, too.
    fn told(&mut self) -> Option<Next<R>> {
        if let Some(progress) = &mut self.progress {
            let newest = progress.borrow_and_update();
            let told = newest.has_changed().then(|| newest.clone());
            drop(newest);
            if self.reply.is_some() {
                self.progress = None;
            }
            if let Some(told) = told {
                return Some(Next::Progress(told));
            }
        }
        let message = self.heard.as_mut()?.try_recv().ok()?;
        Some(Next::Message(message))
    }
}

/// Resolves when there is new progress, which stays new; never when nobody reports any more.
async fn reported(progress: &mut Option<watch::Receiver<Option<Progress>>>) {
    if let Some(newest) = progress {
        if newest.changed().await.is_ok() {
            newest.mark_changed();
            return;
        }
        *progress = None;
    }
    std::future::pending().await
}

/// The next message; never when there is nobody to hear.
async fn said(heard: &mut Option<mpsc::Receiver<Message>>) -> Message {
    if let Some(messages) = heard {
        if let Some(message) = messages.recv().await {
            return message;
        }
        *heard = None;
    }
    std::future::pending().await
}

pub fn write_message(message: &Message) -> Bytes {
    wire::notification("notifications/message", |params| {
        params.text("level", message.level.as_str());
        if let Some(logger) = &message.logger {
            params.text("logger", logger);
        }
        params.raw("data", &message.data);
    })
}

/// Writes a call's progress notifications.
pub struct Meter {
    token: String,
    measure: Measure,
}

impl Meter {
    pub fn new(token: String) -> Meter {
        Meter {
            token,
            measure: Measure::default(),
        }
    }

    pub fn tell(&mut self, done: Option<f64>, total: Option<f64>, message: &str) -> Bytes {
        let (value, total) = self.measure.next(done, total);
        wire::notification("notifications/progress", |params| {
            params
                .raw("progressToken", &self.token)
                .number("progress", value);
            if let Some(total) = total {
                params.number("total", total);
            }
            if !message.is_empty() {
                params.text("message", message);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::service::LogLevel;

    #[tokio::test]
    async fn what_was_told_before_the_reply_is_heard_before_it() {
        let (speaker, heard) = mpsc::channel(HEARD_MAX);
        let progress = watch::Sender::new(None);
        let watched = progress.subscribe();
        // All of it comes between two looks: while the reply is polled.
        let reply = async move {
            for data in ["1", "2"] {
                let message = Message {
                    level: LogLevel::Info,
                    logger: None,
                    data: data.to_owned(),
                };
                speaker.try_send(message).unwrap();
            }
            progress.send_replace(Some(Progress {
                message: "half".to_owned(),
                done: None,
                total: None,
            }));
            "reply"
        };
        let mut course = Course::new(reply.boxed(), Some(watched), Some(heard));
        let mut order = Vec::new();
        loop {
            match course.next().await {
                Next::Progress(progress) => order.push(progress.unwrap().message),
                Next::Message(message) => order.push(message.data),
                Next::Reply(reply) => break order.push(reply.to_owned()),
            }
        }
        assert_eq!(order, ["half", "1", "2", "reply"]);
    }

    #[tokio::test]
    async fn a_call_that_is_always_told_of_goes_on() {
        let progress = watch::Sender::new(None);
        let watched = progress.subscribe();
        let mut looks = 0;
        let reply = std::future::poll_fn(move |_| {
            looks += 1;
            progress.send_replace(Some(Progress {
                message: "on and on".to_owned(),
                done: None,
                total: None,
            }));
            match looks {
                3 => Poll::Ready("reply"),
                _ => Poll::Pending,
            }
        });
        let mut course = Course::new(reply.boxed(), Some(watched), None);
        for _ in 0..3 {
            assert!(matches!(course.next().await, Next::Progress(_)));
        }
        assert!(matches!(course.next().await, Next::Reply("reply")));
    }

    #[tokio::test]
    async fn a_reply_is_not_held_back_by_a_guest_that_goes_on() {
        let (speaker, heard) = mpsc::channel(HEARD_MAX);
        let progress = watch::Sender::new(None);
        let watched = progress.subscribe();
        // Also a task's id is a reply: its guest reports and speaks on.
        let go_on = move || {
            progress.send_replace(Some(Progress {
                message: "on and on".to_owned(),
                done: None,
                total: None,
            }));
            let message = Message {
                level: LogLevel::Info,
                logger: None,
                data: "1".to_owned(),
            };
            let _ = speaker.try_send(message);
        };
        go_on();
        let reply = std::future::ready("reply").boxed();
        let mut course = Course::new(reply, Some(watched), Some(heard));
        let mut order = Vec::new();
        for _ in 0..HEARD_MAX {
            let next = course.next().await;
            go_on();
            match next {
                Next::Progress(progress) => order.push(progress.unwrap().message),
                Next::Message(message) => order.push(message.data),
                Next::Reply(reply) => {
                    order.push(reply.to_owned());
                    break;
                }
            }
        }
        // What was said before the reply came is not lost; what comes after it is not waited for.
        assert_eq!(order, ["on and on", "1", "reply"]);
    }

    fn text(bytes: &Bytes) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_progress_notification_has_the_clients_token() {
        let mut meter = Meter::new("7".into());
        let lines = [
            meter.tell(None, None, "starting"),
            meter.tell(Some(50.0), Some(100.0), "half"),
            meter.tell(None, Some(100.0), ""),
        ];
        insta::assert_snapshot!(lines.iter().map(text).collect::<Vec<_>>().join("\n"), @r###"
{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":0,"message":"starting"}}
{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":50,"total":100,"message":"half"}}
{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":50.00000000005,"total":100}}
"###);
    }
}
