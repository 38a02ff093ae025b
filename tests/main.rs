//! Longshore from the outside: the real binary, real compiled guests, real sled, real HTTP.

mod harness;

mod bad_input;
mod cli;
mod layering;
mod listen;
mod mcp;
mod sandbox;
mod tasks;
mod tenants;
