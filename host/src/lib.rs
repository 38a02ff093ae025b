//! Longshore hosts long-running tools: each tool is a sandboxed WebAssembly component, served over
//! MCP as a durable task. `ARCHITECTURE.md` beside this crate has the bird's eye view.

pub mod admin;
pub mod app;
pub mod catalog;
pub mod cli;
pub mod clock;
pub mod config;
#[cfg(test)]
mod harm;
pub mod http;
pub mod local;
pub mod mcp;
pub mod notify;
mod paths;
pub mod plain;
pub mod scheduler;
pub mod schema;
pub mod service;
pub mod store;
pub mod task;
pub mod telemetry;
mod threads;
pub mod wasm;
