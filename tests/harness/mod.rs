//! Starts hosts, runs commands, and speaks as a client would.

mod client;
mod command;
mod host;
mod server;

pub use client::{Client, Messages, Reply};
pub use command::{Ended, longshore, run};
pub use host::{Host, Setup};
pub use server::{Seen, Server};
