//! What is told while a call runs: how far it is, and what its plugin says.

use bytes::Bytes;
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

/// Resolves when there is new progress; never when nobody reports any more. Safe to cancel.
pub async fn reported(progress: &mut Option<watch::Receiver<Option<Progress>>>) {
    if let Some(newest) = progress {
        if newest.changed().await.is_ok() {
            return;
        }
        *progress = None;
    }
    std::future::pending().await
}

/// The next message; never when there is nobody to hear. Safe to cancel.
pub async fn said(heard: &mut Option<mpsc::Receiver<Message>>) -> Message {
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
    use super::*;

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
