//! What may be loaded, and what is said of everything else.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use std::time::Duration;

use longshore::task::Digest;
use longshore::wasm::{Compiler, Execution, LoadError, Sandbox, WorldError};

use super::fixture::{limits, probe, sandbox};

async fn refusal(wasm: &[u8]) -> LoadError {
    let dir = tempfile::tempdir().unwrap();
    match sandbox(dir.path(), limits()).load(wasm).await {
        Ok(_) => panic!("it was loaded"),
        Err(error) => error,
    }
}

async fn refusal_of_text(wat: &str) -> String {
    refusal(&wat::parse_str(wat).unwrap()).await.to_string()
}

#[tokio::test]
async fn a_plugin_is_loaded_and_declares_its_tools() {
    let dir = tempfile::tempdir().unwrap();
    let sandbox = sandbox(dir.path(), limits());
    let wasm = std::fs::read(probe()).unwrap();
    let component = sandbox.load(&wasm).await.unwrap();
    assert_eq!(component.size_bytes(), wasm.len() as u64);
    assert!(
        component
            .imports()
            .contains(&"longshore:plugin/control@0.1.0".to_owned())
    );
    assert!(component.imports().is_sorted());

    let tools = sandbox.list(&component).await.unwrap().tools;
    let echo = tools.iter().find(|tool| tool.name == "echo").unwrap();
    assert_eq!(echo.traits.execution, Execution::Auto);
    assert_eq!(echo.traits.cancel_grace, Some(Duration::from_millis(1_500)));
    assert!(echo.traits.questions[0].before_task);
}

#[tokio::test]
async fn exports_that_are_not_what_their_names_promise_are_refused_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let sandbox = sandbox(dir.path(), limits());
    let text = r#"(component
        (core module $m (func (export "f") (result i32) i32.const 0))
        (core instance $i (instantiate $m))
        (func $f (result u32) (canon lift (core func $i "f")))
        (instance $tools (export "list-tools" (func $f)) (export "call-tool" (func $f)))
        (export "longshore:plugin/tools@0.1.0" (instance $tools)))"#;
    let component = sandbox.load(&wat::parse_str(text).unwrap()).await.unwrap();
    let error = sandbox.list(&component).await.err().unwrap();
    assert!(matches!(error, LoadError::Contract(_)), "{error}");
}

#[tokio::test]
async fn a_component_is_compiled_once_and_comes_back_by_digest() {
    let dir = tempfile::tempdir().unwrap();
    let wasm = std::fs::read(probe()).unwrap();
    let digest = sandbox(dir.path(), limits())
        .load(&wasm)
        .await
        .unwrap()
        .digest();

    // A compiler that does not exist shows that nothing is compiled again.
    let compiler = Compiler::Child(PathBuf::from("/nonexistent"));
    let later = Sandbox::with_compiler(limits(), dir.path(), compiler).unwrap();
    let component = later
        .load_digest(digest)
        .await
        .unwrap()
        .expect("it was kept");
    assert_eq!(component.digest(), digest);
    assert!(later.load_digest(Digest([7; 32])).await.unwrap().is_none());
}

#[tokio::test]
async fn harmed_code_is_compiled_again_into_another_file() {
    let dir = tempfile::tempdir().unwrap();
    let wasm = std::fs::read(probe()).unwrap();
    let first = sandbox(dir.path(), limits());
    let _mapped = first.load(&wasm).await.unwrap();
    let code = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| {
            path.extension()
                .is_some_and(|extension| extension == "cwasm")
        })
        .expect("the code is cached");
    let inode = std::fs::metadata(&code).unwrap().ino();
    // As a bad disk would, but not in the file that is mapped.
    let mut bytes = std::fs::read(&code).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::remove_file(&code).unwrap();
    std::fs::write(&code, bytes).unwrap();

    sandbox(dir.path(), limits()).load(&wasm).await.unwrap();
    assert_ne!(std::fs::metadata(&code).unwrap().ino(), inode);
}

#[tokio::test]
async fn what_is_no_plugin_is_refused_with_what_it_is() {
    assert!(matches!(refusal(b"#!/bin/sh").await, LoadError::NotWasm));
    assert!(matches!(
        refusal(&wat::parse_str("(module)").unwrap()).await,
        LoadError::CoreModule
    ));
    let broken = b"\0asm\x0d\0\x01\0\xff\xff\xff\xff".as_slice();
    assert!(matches!(refusal(broken).await, LoadError::Invalid(_)));

    let exports = refusal_of_text(r#"(component (instance $i) (export "a:b/c" (instance $i)))"#);
    insta::assert_snapshot!(exports.await, @"the component does not export `longshore:plugin/tools@0.1.0`; it exports a:b/c; build it against this host's `wit/`");
    insta::assert_snapshot!(refusal_of_text("(component)").await, @"the component does not export `longshore:plugin/tools@0.1.0`; it exports nothing; build it against this host's `wit/`");
}

#[tokio::test]
async fn a_plugin_for_another_contract_is_told_from_no_plugin() {
    let text = refusal_of_text(
        r#"(component (instance $i) (export "longshore:plugin/tools@0.2.0" (instance $i)))"#,
    );
    let text = text.await;
    assert!(
        text.contains("exports `longshore:plugin/tools@0.2.0`"),
        "{text}"
    );
    let text = refusal_of_text(
        r#"(component (instance $i) (export "longshore:plugin/tools@0.1.0" (instance $i)))"#,
    );
    let text = text.await;
    assert!(text.contains("does not fit the contract"), "{text}");
}

#[tokio::test]
async fn imports_that_the_host_does_not_offer_are_named() {
    let text = refusal_of_text(
        r#"(component
            (import "wasi:nn/graph@0.2.0" (instance))
            (import "wasi:io/poll@0.2.0" (instance))
            (import "mine" (func))
            (instance $i) (export "longshore:plugin/tools@0.1.0" (instance $i)))"#,
    );
    let text = text.await;
    assert!(text.contains("mine, wasi:nn/graph@0.2.0;"), "{text}");
}

#[tokio::test]
async fn a_component_that_is_too_large_is_not_even_parsed() {
    let dir = tempfile::tempdir().unwrap();
    let mut limits = limits();
    limits.component_max_bytes = 10;
    let error = sandbox(dir.path(), limits)
        .load(&[0; 11])
        .await
        .err()
        .unwrap();
    assert!(matches!(
        error,
        LoadError::TooLarge {
            size_bytes: 11,
            max_bytes: 10
        }
    ));
}

/// A component whose world is right, with this inside.
fn plugin_with(inside: &str) -> String {
    format!(
        r#"(component {inside} (instance $i) (export "longshore:plugin/tools@0.1.0" (instance $i)))"#
    )
}

#[tokio::test]
async fn a_component_that_declares_too_much_is_refused() {
    let text = refusal_of_text(&plugin_with(
        "(core module $m (memory 60000)) (core instance (instantiate $m))",
    ))
    .await;
    assert!(text.contains("needs more than a guest may have"), "{text}");
    let text = refusal_of_text(&plugin_with(
        "(core module $m (table 10000000 funcref)) (core instance (instantiate $m))",
    ))
    .await;
    assert!(text.contains("needs more than a guest may have"), "{text}");
}

#[tokio::test]
async fn many_memories_are_as_much_as_one() {
    let modules: String = (0..10)
        .map(|index| {
            format!("(core module $m{index} (memory 100)) (core instance (instantiate $m{index}))")
        })
        .collect();
    let text = refusal_of_text(&plugin_with(&modules)).await;
    assert!(text.contains("needs more than a guest may have"), "{text}");
}

#[tokio::test]
async fn a_harmed_component_is_loaded_or_refused_and_never_a_crash() {
    let cases = match std::env::var_os("LONGSHORE_LONG") {
        Some(_) => 2_000,
        None => 24,
    };
    let dir = tempfile::tempdir().unwrap();
    let sandbox = sandbox(dir.path(), limits());
    let whole = std::fs::read(probe()).unwrap();
    // The same harm in every run; multiples of a prime reach every part.
    for case in 0..cases {
        let at = (case * 7_919_321) % whole.len();
        let mut wasm = whole.clone();
        if case % 3 == 0 {
            wasm[at] ^= 0x55;
        } else {
            wasm.truncate(at);
        }
        match sandbox.load(&wasm).await {
            Ok(component) => {
                // What still compiles may do anything but harm.
                let _ = sandbox.list(&component).await;
            }
            Err(LoadError::Compiler(what)) => panic!("case {case}: the compiler failed: {what}"),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// A function whose compilation takes memory and time out of all proportion to its size.
pub fn bomb(blocks: usize) -> Vec<u8> {
    let locals = "i64 ".repeat(5_000);
    let body: String = (0..blocks)
        .map(|index| {
            let (from, to) = (index % 5_000 + 1, index * 7 % 5_000 + 1);
            format!(
                "(loop (br_if 0 (local.get $p)) \
                 (local.set {to} (i64.add (local.get {from}) (i64.const {index}))))\n"
            )
        })
        .collect();
    let module = format!("(core module (func (param $p i32) (local {locals}) {body}))");
    wat::parse_str(plugin_with(&module)).unwrap()
}

#[tokio::test]
async fn a_component_of_another_world_is_refused_before_it_is_compiled() {
    let dir = tempfile::tempdir().unwrap();
    let mut limits = limits();
    // What takes the compiler longer than it may have is refused for its world, and with time to
    // spare: only the process has to start.
    limits.compile_memory_max_bytes = 256 << 20;
    let mut wasm = bomb(20_000);
    let name = b"longshore:plugin/tools@0.1.0";
    let place = wasm.windows(name.len()).position(|window| window == name);
    wasm[place.unwrap()..][..name.len()].copy_from_slice(b"somebody:other/tools@0.1.000");
    let error = sandbox(dir.path(), limits).load(&wasm).await.err().unwrap();
    let exports = vec!["somebody:other/tools@0.1.000".to_owned()];
    assert!(
        matches!(error, LoadError::World(WorldError::NotAPlugin { exports: found }) if found == exports)
    );
}

#[tokio::test]
async fn a_compilation_that_takes_too_long_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let mut limits = limits();
    limits.compile_timeout = Duration::from_millis(100);
    let error = sandbox(dir.path(), limits)
        .load(&bomb(20_000))
        .await
        .err()
        .unwrap();
    assert!(matches!(error, LoadError::CompileTime(_)), "{error}");
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 0, "nothing is left behind");
}

#[tokio::test]
async fn a_compilation_that_takes_too_much_memory_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let mut limits = limits();
    limits.compile_memory_max_bytes = 256 << 20;
    let error = sandbox(dir.path(), limits)
        .load(&bomb(20_000))
        .await
        .err()
        .unwrap();
    assert!(matches!(error, LoadError::CompileMemory(_)), "{error}");
}
