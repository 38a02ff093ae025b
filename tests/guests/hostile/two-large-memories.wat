;; Each of its memories is within the limit, and both together are not.
(module
    (memory (export "memory") 1000)
    (memory 1000)
    (func (export "longshore:plugin/tools@0.1.0#list-tools") (result i32) (i32.const 8))
    (func (export "longshore:plugin/tools@0.1.0#call-tool")
        (param i32 i32 i32 i32) (result i32)
        unreachable)
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))
