//! Starts hosts, runs commands, and speaks as a client would.

mod client;
mod command;
mod compiled;
mod host;

pub use client::{Client, Messages, Reply};
pub use command::{Ended, longshore, run};
pub use host::{Host, Setup};
