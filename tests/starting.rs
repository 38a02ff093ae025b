//! `longshore stdio` while its plugins are compiled: a client hears at once who the host is, and waits
//! for what needs the plugins.

use longshore_guests as guests;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::{Setup, StdioHost};
use crate::sandbox::compiler::{compiler, compiles};

/// A process whose compiler is stopped, so that it goes on loading until the test lets it.
async fn start(setup: &Setup) -> (StdioHost, Pid) {
    setup.keep_compiled_code_apart();
    let host = StdioHost::start(setup);
    let compiler = compiler(Pid::from_raw(i32::try_from(host.pid()).unwrap()).unwrap()).await;
    kill_process(compiler, Signal::STOP).unwrap();
    (host, compiler)
}

fn setup() -> Setup {
    Setup::new(&[("script", &guests::SCRIPT.directory())])
}

fn has_tools(listed: &Value) -> bool {
    let tools = listed["result"]["tools"].as_array();
    tools.is_some_and(|tools| !tools.is_empty())
}

#[tokio::test]
async fn a_legacy_client_is_greeted_at_once_and_gets_a_whole_list() {
    let setup = setup();
    let (mut host, compiler) = start(&setup).await;
    assert_eq!(host.initialize().await["serverInfo"]["name"], "longshore");
    let listing = host.ask_bare("tools/list", json!({})).await;
    let script = json!({"script": [{"do": "say", "text": "called"}]});
    let call = json!({"name": "script_inline", "arguments": script});
    let calling = host.ask_bare("tools/call", call).await;
    let alive = host.ask_bare("ping", json!({})).await;
    // What was asked before it waits.
    assert_eq!(host.next().await.unwrap()["id"], alive);
    kill_process(compiler, Signal::CONT).unwrap();
    let mut answers = Vec::new();
    while answers.len() < 2 {
        let message = host.next().await.unwrap();
        assert!(message.get("method").is_none(), "{message:#}");
        answers.push(message);
    }
    for answer in answers {
        match answer["id"] == listing {
            true => assert!(has_tools(&answer), "{answer:#}"),
            false => {
                assert_eq!(answer["id"], calling);
                assert_eq!(answer["result"]["content"][0]["text"], "called");
            }
        }
    }
    assert!(host.end().await.success());
}

#[tokio::test]
async fn a_modern_client_is_too_also_through_a_bridge() {
    let setup = setup();
    let (mut holder, compiler) = start(&setup).await;
    let mut bridge = StdioHost::start(&setup);
    for host in [&mut holder, &mut bridge] {
        let listing = host.ask("tools/list", json!({})).await;
        let discovering = host.ask("server/discover", json!({})).await;
        let first = host.next().await.unwrap();
        assert_eq!(first["id"], discovering, "{first:#}");
        assert_ne!(first["id"], listing);
    }
    kill_process(compiler, Signal::CONT).unwrap();
    for host in [&mut holder, &mut bridge] {
        let listed = host.next().await.unwrap();
        assert!(has_tools(&listed), "{listed:#}");
    }
    assert!(bridge.end().await.success());
    assert!(holder.end().await.success());
}

#[tokio::test]
async fn a_process_that_is_told_to_stop_while_it_loads_stops_with_its_compiler() {
    let setup = setup();
    let (mut host, compiler) = start(&setup).await;
    host.initialize().await;
    host.ask_bare("tools/list", json!({})).await;
    assert_eq!(host.terminate().await.code(), Some(130));
    while compiles(compiler) {
        tokio::task::yield_now().await;
    }
}

/// Also by hand, with no input at all, before a client that does not wait is set up.
#[tokio::test]
async fn a_process_whose_client_gives_up_while_it_loads_leaves_its_code_to_the_next() {
    let setup = setup();
    let (mut host, compiler) = start(&setup).await;
    host.end_input();
    // Until only whoever asks is left.
    while setup.counts().await["localClients"] != 1 {
        tokio::task::yield_now().await;
    }
    kill_process(compiler, Signal::CONT).unwrap();
    assert!(host.ended().await.success());
    let kept = std::fs::read_dir(setup.path("data/components")).unwrap();
    let names = kept.map(|file| file.unwrap().file_name().into_string().unwrap());
    let compiled = names.filter(|name| name.ends_with(".sha256")).count();
    assert_eq!(compiled, 1);
}
