//! Longshore from the outside: the real binary, real compiled guests, real sled, real HTTP.

mod harness;

mod hot;
mod layering;
mod mcp;
mod sandbox;
