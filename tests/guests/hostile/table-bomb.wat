;; Grows its table while it is let, and believes itself past a million elements.
(module
    (memory (export "memory") 1)
    (table $table 1 funcref)
    (func (export "longshore:plugin/tools@0.1.0#list-tools") (result i32)
        (block $refused
            (loop $more
                (br_if $refused
                    (i32.eq (table.grow $table (ref.null func) (i32.const 1000)) (i32.const -1)))
                (if (i32.gt_u (table.size $table) (i32.const 1000000)) (then (unreachable)))
                (br $more)))
        ;; An empty list.
        (i32.const 8))
    (func (export "longshore:plugin/tools@0.1.0#call-tool")
        (param i32 i32 i32 i32) (result i32)
        unreachable)
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))
