//! Plugins that are whole servers: resources, templates, prompts, completion and messages, over real
//! HTTP in both eras, from a guest that also does what it should not.

#[path = "world/catalog.rs"]
mod catalog;
#[path = "world/legacy.rs"]
mod legacy;
#[path = "world/messages.rs"]
mod messages;
#[path = "world/modern.rs"]
mod modern;
#[path = "world/updates.rs"]
mod updates;

use std::path::PathBuf;

use longshore_guests as guests;
use serde_json::{Value, json};

use crate::harness::{Client, Messages, Reply, Setup};

fn world() -> Setup {
    Setup::new(&[("world", &guests::WORLD.directory())])
}

/// The folder of a plugin that is another version of the guest; `into` is a directory of plugins.
pub fn install_variant(into: PathBuf, name: &str, variant: &str) {
    let folder = into.join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let mut wasm = std::fs::read(guests::WORLD.component()).unwrap();
    let marker = b"variant=plain---------------";
    let at = wasm
        .windows(marker.len())
        .position(|window| window == marker)
        .expect("the guest has its marker");
    let wanted = format!("variant={variant:-<20}");
    assert_eq!(wanted.len(), marker.len());
    wasm[at..at + marker.len()].copy_from_slice(wanted.as_bytes());
    // A host that watches must not see half a component, so the manifest comes last.
    std::fs::write(folder.join("world.wasm"), wasm).unwrap();
    let manifest = format!("name = \"{name}\"\nversion = \"0.2.0\"\ncomponent = \"world.wasm\"\n");
    std::fs::write(folder.join("plugin.toml"), manifest).unwrap();
}

async fn read(client: &Client, uri: &str) -> Reply {
    client.request("resources/read", json!({"uri": uri})).await
}

async fn text_of(client: &Client, uri: &str) -> String {
    let result = read(client, uri).await.result();
    result["contents"][0]["text"].as_str().unwrap().to_owned()
}

async fn prompt(client: &Client, name: &str, arguments: Value) -> Reply {
    let params = json!({"name": name, "arguments": arguments});
    client.request("prompts/get", params).await
}

/// The members `key` of all items of a list.
async fn list(client: &Client, method: &str, member: &str, key: &str) -> Vec<String> {
    let listed = client.request(method, json!({})).await.result();
    let items = listed[member].as_array().unwrap();
    items
        .iter()
        .map(|item| item[key].as_str().unwrap().to_owned())
        .collect()
}

/// An open subscription and what was agreed to.
async fn listen(client: &Client, filter: Value) -> (Messages, Value) {
    let params = json!({"notifications": filter});
    let mut messages = client.stream("subscriptions/listen", params).await;
    let acknowledged = messages.next().await.expect("the stream begins");
    let agreed = acknowledged["params"]["notifications"].clone();
    (messages, agreed)
}
