;; Computes for ever when it is asked for its tools.
(module
    (memory (export "memory") 1)
    (func (export "longshore:plugin/tools@0.1.0#list-tools") (result i32)
        (loop $more (br $more))
        unreachable)
    (func (export "longshore:plugin/tools@0.1.0#call-tool")
        (param i32 i32 i32 i32) (result i32)
        unreachable)
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))
