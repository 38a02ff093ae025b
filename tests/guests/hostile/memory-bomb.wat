;; Grows its memory while it is let, and touches all it got.
(module
    (memory (export "memory") 1)
    (func (export "longshore:plugin/tools@0.1.0#list-tools") (result i32)
        (block $refused
            (loop $more
                (br_if $refused (i32.eq (memory.grow (i32.const 16)) (i32.const -1)))
                (br $more)))
        (memory.fill (i32.const 1024) (i32.const 1)
            (i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 1024)))
        (i32.const 8))
    (func (export "longshore:plugin/tools@0.1.0#call-tool")
        (param i32 i32 i32 i32) (result i32)
        unreachable)
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))
