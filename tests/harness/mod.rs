//! Starts hosts, and speaks to them as a client would.

mod client;
mod host;
mod server;

pub use client::{Client, Messages, Reply};
pub use host::{Host, Setup};
pub use server::{Seen, Server};
