//! What a plugin says to a session's client, as `notifications/message`. rmcp sends them on the
//! session's own stream: in these revisions they belong to no request.
#![expect(
    deprecated,
    reason = "the newest revision drops logging; these revisions have it"
)]

use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use rmcp::{Peer, RoleServer};
use serde_json::Value;

use crate::service::{LogLevel, Message};

/// What a client hears that never set a level.
pub const LEVEL_DEFAULT: LogLevel = LogLevel::Info;

/// Sends a message; a client that is gone hears nothing.
pub async fn send(peer: &Peer<RoleServer>, message: Message) {
    // It was checked when it entered the host.
    let data: Value = serde_json::from_str(&message.data).unwrap_or_default();
    let mut told = LoggingMessageNotificationParam::new(theirs(message.level), data);
    told.logger = message.logger;
    let _ = peer.notify_logging_message(told).await;
}

pub fn ours(level: LoggingLevel) -> LogLevel {
    match level {
        LoggingLevel::Debug => LogLevel::Debug,
        LoggingLevel::Info => LogLevel::Info,
        LoggingLevel::Notice => LogLevel::Notice,
        LoggingLevel::Warning => LogLevel::Warning,
        LoggingLevel::Error => LogLevel::Error,
        LoggingLevel::Critical => LogLevel::Critical,
        LoggingLevel::Alert => LogLevel::Alert,
        LoggingLevel::Emergency => LogLevel::Emergency,
    }
}

fn theirs(level: LogLevel) -> LoggingLevel {
    match level {
        LogLevel::Debug => LoggingLevel::Debug,
        LogLevel::Info => LoggingLevel::Info,
        LogLevel::Notice => LoggingLevel::Notice,
        LogLevel::Warning => LoggingLevel::Warning,
        LogLevel::Error => LoggingLevel::Error,
        LogLevel::Critical => LoggingLevel::Critical,
        LogLevel::Alert => LoggingLevel::Alert,
        LogLevel::Emergency => LoggingLevel::Emergency,
    }
}
