;; Says that it has four thousand million tools.
(module
    (memory (export "memory") 1)
    (data (i32.const 8) "\00\00\00\00\ff\ff\ff\ff")
    (func (export "longshore:plugin/tools@0.1.0#list-tools") (result i32) (i32.const 8))
    (func (export "longshore:plugin/tools@0.1.0#call-tool")
        (param i32 i32 i32 i32) (result i32)
        unreachable)
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))
