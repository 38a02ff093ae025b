//! Components that no compiler makes (`tests/guests/hostile`): each is refused with its reason, and
//! another tenant is answered meanwhile (I6).

use super::neighbours::{Neighbour, failures, setup};
use crate::foreign::built;

#[tokio::test]
async fn what_is_made_by_hand_to_harm_is_refused_with_the_reason() {
    let components = built("hostile").await.join("hostile");
    let setup = setup();
    let host = setup.start().await;
    let neighbour = Neighbour::of(&host).await;
    let mut count = 0;
    for file in std::fs::read_dir(components).unwrap() {
        let file = file.unwrap();
        let place = setup.path("plugins").join(file.file_name());
        std::fs::copy(file.path(), place).unwrap();
        count += 1;
    }
    let failures = loop {
        neighbour.is_answered().await;
        let failures = failures(&setup);
        if failures.len() == count {
            break failures;
        }
    };
    let told: Vec<String> = failures
        .iter()
        .map(|(plugin, reason)| format!("{plugin}: {reason}"))
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    endless-fill: the component can't say what it has: its listings did not return within 5s
    endless-list: the component can't say what it has: its listings did not return within 5s
    endless-start: the component can't say what it has: its listings did not return within 5s
    huge-memory: the component needs more than a guest may have: memory has a minimum byte size of 4259840000 which exceeds the limit of 0x4000000 bytes
    huge-table: the component needs more than a guest may have: table index 0 has a minimum element size of 10000000 which exceeds the limit of 20000
    list-nowhere: the component can't say what it has: list-tools: the tool handed its host what is no value of the contract (pointer out of bounds of memory)
    list-out-of-bounds: the component can't say what it has: list-tools: the tool handed its host what is no value of the contract (list pointer/length out of bounds of memory)
    list-without-end: the component can't say what it has: list-tools: the tool handed its host what is no value of the contract (list pointer/length out of bounds of memory)
    memory-bomb: the component declares no tool; list-tools must return at least one
    table-bomb: the component declares no tool; list-tools must return at least one
    ten-memories: the component needs more than a guest may have: defined memories count of 10 exceeds the per-instance limit of 4
    text-no-utf8: the component can't say what it has: list-tools: the tool handed its host what is no value of the contract (invalid utf-8 sequence of 1 bytes from index 0)
    two-large-memories: the component can't say what it has: its start: the tool needed more than the 64 MiB of memory it may have
    ");
    neighbour.is_answered().await;
}
