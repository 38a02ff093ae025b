//! The sandbox with real guests: what a component may be, what a run gives and takes, and that no
//! guest hurts anything but itself (I5, I6).

mod attacks;
mod behaviour;
pub mod compiler;
mod crafted;
mod egress;
mod fixture;
mod hostile;
mod loading;
mod mutated;
mod neighbours;
mod published;
