//! Longshore from the outside: the real binary, real compiled guests, real sled, real HTTP.

mod harness;

mod abilities;
mod bad_input;
mod batches;
mod cli;
mod connections;
mod detached;
mod durability;
mod endurance;
mod foreign;
mod grants;
mod hostile_host;
mod hot;
mod ids;
mod interleaving;
mod layering;
mod legacy;
mod listen;
mod many_values;
mod mcp;
mod offered;
mod plugins;
mod pressure;
mod results;
mod sandbox;
mod starting;
mod status;
mod stdio;
mod tasks;
mod tenants;
mod traces;
mod world;

/// A guest without a module of tests does not compile.
mod guests {
    use crate::durability as script;
    use crate::foreign as relay;
    use crate::plugins::{conformance, regression_run, release_gate, report_export};
    use crate::sandbox as probe;
    use crate::world;

    macro_rules! has_tests {
        ($name:ident) => {
            #[allow(unused_imports)]
            use $name as _;
        };
    }
    longshore_guests::foreach_guest!(has_tests);
}
