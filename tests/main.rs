//! Longshore from the outside: the real binary, real compiled guests, real sled, real HTTP.

mod harness;

mod endurance;
mod layering;
mod mcp;
mod sandbox;
