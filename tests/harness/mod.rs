//! Starts hosts, runs commands, and speaks as a client would.

mod client;
mod command;
mod host;
mod legacy;
mod random;
mod record;
mod server;
mod stdio;

pub use client::{Client, Messages, Reply};
pub use command::{Ended, longshore, run};
pub use host::{Host, Setup};
pub use legacy::{LegacyClient, LegacyStream};
pub use random::Random;
pub use server::{Seen, Server};
pub use stdio::StdioHost;
