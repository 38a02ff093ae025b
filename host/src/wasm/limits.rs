//! What one instance may take: memory and tables, summed over all that it has. The engine's own
//! limits are per memory and per table, and a component may have several.

use wasmtime::ResourceLimiter;

use super::engine::{CORE_INSTANCES_MAX, MEMORIES_MAX, TABLE_ELEMENTS_MAX, TABLES_MAX};

/// Table elements of one instance, all its tables together.
const ELEMENTS_SUM_MAX: usize = 2 * TABLE_ELEMENTS_MAX;

/// Counts what an instance takes, and refuses more than its share.
pub(super) struct Allowance {
    memory_max_bytes: usize,
    memory_bytes: usize,
    elements: usize,
    /// Whether memory was refused, which most guests turn into a panic soon after.
    pub memory_refused: bool,
}

impl Allowance {
    pub fn new(memory_max_bytes: usize) -> Allowance {
        Allowance {
            memory_max_bytes,
            memory_bytes: 0,
            elements: 0,
            memory_refused: false,
        }
    }

    /// What the instance has now.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes as u64
    }

    pub fn memory_max_bytes(&self) -> usize {
        self.memory_max_bytes
    }
}

impl ResourceLimiter for Allowance {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let sum = self
            .memory_bytes
            .saturating_add(desired.saturating_sub(current));
        if sum > self.memory_max_bytes {
            self.memory_refused = true;
            return Ok(false);
        }
        self.memory_bytes = sum;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let sum = self
            .elements
            .saturating_add(desired.saturating_sub(current));
        if sum > ELEMENTS_SUM_MAX {
            return Ok(false);
        }
        self.elements = sum;
        Ok(true)
    }

    fn instances(&self) -> usize {
        CORE_INSTANCES_MAX as usize
    }

    fn memories(&self) -> usize {
        MEMORIES_MAX as usize
    }

    fn tables(&self) -> usize {
        TABLES_MAX as usize
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::{Engine, Instance, Module, Store};

    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn memories_are_summed() {
        let mut allowance = Allowance::new(4 * MIB);
        assert!(allowance.memory_growing(0, 3 * MIB, None).unwrap());
        assert!(!allowance.memory_growing(0, 2 * MIB, None).unwrap());
        assert!(allowance.memory_refused);
        assert!(allowance.memory_growing(0, MIB, None).unwrap());
        assert!(
            !allowance
                .memory_growing(3 * MIB, 3 * MIB + 1, None)
                .unwrap()
        );
    }

    #[test]
    fn tables_are_summed() {
        let mut allowance = Allowance::new(MIB);
        assert!(allowance.table_growing(0, ELEMENTS_SUM_MAX, None).unwrap());
        assert!(!allowance.table_growing(0, 1, None).unwrap());
        assert!(!allowance.memory_refused);
    }

    #[test]
    fn a_table_that_grows_past_its_share_is_told_no() {
        let wasm = wat::parse_str(
            r#"(module (table 1 funcref)
                (func (export "grow") (param i32) (result i32)
                    (table.grow (ref.null func) (local.get 0))))"#,
        )
        .unwrap();
        let engine = Engine::default();
        let module = Module::new(&engine, wasm).unwrap();
        let mut store = Store::new(&engine, Allowance::new(MIB));
        store.limiter(|allowance| allowance);
        let instance = Instance::new(&mut store, &module, &[]).unwrap();
        let grow = instance
            .get_typed_func::<i32, i32>(&mut store, "grow")
            .unwrap();
        let rest = i32::try_from(ELEMENTS_SUM_MAX - 1).unwrap();
        assert_eq!(grow.call(&mut store, rest).unwrap(), 1);
        assert_eq!(grow.call(&mut store, 1).unwrap(), -1);
    }
}
