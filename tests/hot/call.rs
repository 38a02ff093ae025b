//! The administrator's call over the local socket: it does what the command does and says the same, and
//! nobody but an administrator reaches it.

use longshore_guests::{REPORT_EXPORT, SCRIPT, WORLD};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::{
    LOOK, finish, plugin, plugin_done, said, script, start_asking, text, tools, until_serving,
    version,
};
use crate::harness::{Host, Setup, StdioHost};
use crate::world::install_variant;

const ADMINISTRATOR: &str = "longshore administrator";

/// A connection to the host's socket.
struct Socket {
    stream: BufReader<UnixStream>,
    next_id: u64,
}

impl Socket {
    async fn open(setup: &Setup, introduction: &str) -> Socket {
        let socket = UnixStream::connect(setup.path("data/longshore.sock")).await;
        let mut stream = BufReader::new(socket.expect("the host has a socket"));
        let line = format!("{introduction}\n");
        stream.write_all(line.as_bytes()).await.unwrap();
        Socket { stream, next_id: 1 }
    }

    async fn administrator(setup: &Setup) -> Socket {
        Socket::open(setup, ADMINISTRATOR).await
    }

    async fn send(&mut self, method: &str, params: &Value) {
        let request = json!({
            "jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params,
        });
        self.next_id += 1;
        let line = format!("{request}\n");
        self.stream.write_all(line.as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(method, &params).await;
        let answer = self.next().await;
        assert_eq!(answer["id"], self.next_id - 1, "{answer:#}");
        answer
    }

    /// The result of `longshore/plugins/<what>`, without what every result has.
    async fn plugins(&mut self, what: &str, params: Value) -> Value {
        let answer = self.ask(&format!("longshore/plugins/{what}"), params).await;
        let mut result = answer["result"].clone();
        let members = result
            .as_object_mut()
            .unwrap_or_else(|| panic!("{answer:#}"));
        assert_eq!(members.remove("resultType"), Some(json!("complete")));
        assert!(members.remove("_meta").is_some());
        result
    }
}

/// What a host sends that follows its lists of tools.
async fn follow_tools(host: &Host) -> crate::harness::Messages {
    let params = json!({"notifications": {"toolsListChanged": true}});
    let mut messages = host.client().stream("subscriptions/listen", params).await;
    messages.next().await.unwrap();
    messages
}

#[tokio::test]
async fn plugins_are_added_replaced_and_removed_over_the_socket() {
    let setup = Setup::new(&[]).configure("[plugin.p.grants]\nenvironment = { GIVEN = \"yes\" }");
    let [first, second] =
        [(&SCRIPT, 1), (&REPORT_EXPORT, 2)].map(|(guest, salt)| version(&setup, guest, "p", salt));
    let host = setup.start().await;
    let client = host.client();
    let mut messages = follow_tools(&host).await;
    let mut admin = Socket::administrator(&setup).await;

    let added = admin.plugins("add", json!({"path": first})).await;
    assert_eq!(added["state"], "served", "{added:#}");
    assert_eq!(
        (&added["name"], &added["version"]),
        (&json!("p"), &json!("0.0.1"))
    );
    assert_eq!(
        added["message"],
        format!("p 0.0.1 is served at {}", host.url())
    );
    assert_eq!(added["grants"][0]["name"], "GIVEN");
    assert_eq!(added["grants"][0]["effect"], "granted");
    assert_eq!(added["failures"], json!({}));
    let changed = messages.next().await.unwrap();
    assert_eq!(changed["method"], "notifications/tools/list_changed");

    let id = start_asking(&client).await;
    let replaced = admin.plugins("replace", json!({"path": second})).await;
    assert_eq!(replaced["state"], "served", "{replaced:#}");
    assert_eq!(replaced["version"], "0.0.2");
    let changed = messages.next().await.unwrap();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert!(!tools(&client).await.contains(&"script_resume".to_owned()));
    let task = finish(&client, &id).await;
    let words = said(&task["result"]);
    assert!(words.contains("step first of attempt 1"), "{words}");

    let removed = admin.plugins("remove", json!({"name": "p"})).await;
    assert_eq!(removed["state"], "removed", "{removed:#}");
    assert_eq!(removed["tasksCancelled"], false);
    let changed = messages.next().await.unwrap();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert!(tools(&client).await.is_empty());
    assert!(host.output().contains("p 0.0.2 is served"), "it is logged");

    // Each change was told once.
    assert!(host.terminate().await.success());
    let last = messages.next().await.unwrap();
    assert_eq!(last["result"]["resultType"], "complete", "{last:#}");
}

#[tokio::test]
async fn a_removal_lets_tasks_go_on_or_cancels_them() {
    let setup = Setup::new(&[]);
    let folder = version(&setup, &SCRIPT, "p", 1);
    let host = setup.start().await;
    let client = host.client();
    let mut admin = Socket::administrator(&setup).await;
    admin.plugins("add", json!({"path": folder})).await;
    let id = start_asking(&client).await;
    admin.plugins("remove", json!({"name": "p"})).await;
    finish(&client, &id).await;

    admin.plugins("add", json!({"path": folder})).await;
    let id = start_asking(&client).await;
    let params = json!({"name": "p", "now": true});
    let removed = admin.plugins("remove", params).await;
    assert_eq!(removed["tasksCancelled"], true, "{removed:#}");
    client.until_status(&id, "cancelled").await;
}

#[tokio::test]
async fn the_call_lists_and_inspects_as_the_command_does() {
    let setup = Setup::new(&[("script", &SCRIPT.directory())]);
    let broken = setup.path("plugins/broken");
    std::fs::create_dir_all(&broken).unwrap();
    std::fs::write(broken.join("plugin.toml"), "name = \"broken\"").unwrap();
    let host = setup.start().await;
    let mut admin = Socket::administrator(&setup).await;
    let command = async |arguments: &[&str]| -> Value {
        let output = plugin(&setup, arguments).await;
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let listed = admin.plugins("list", json!({})).await;
    assert_eq!(listed, command(&["list", "--json"]).await);
    assert_eq!(listed["plugins"][0]["name"], "script");
    assert!(listed["failures"]["broken"].is_string(), "{listed:#}");
    // The log has told it once, at the start.
    assert_eq!(host.output().matches("plugin not loaded").count(), 1);

    for params in [
        json!({"path": WORLD.directory()}),
        json!({"path": SCRIPT.component()}),
        json!({"path": SCRIPT.component(), "name": "lone"}),
    ] {
        let inspected = admin.plugins("inspect", params.clone()).await;
        assert!(inspected["tools"][0]["name"].is_string(), "{inspected:#}");
        let mut arguments = vec!["inspect", params["path"].as_str().unwrap(), "--json"];
        if let Some(name) = params["name"].as_str() {
            assert_eq!(inspected["name"], name);
            arguments.extend(["--name", name]);
        }
        assert_eq!(inspected, inspect(&arguments).await);
    }
}

/// `inspect` is of no host.
async fn inspect(arguments: &[&str]) -> Value {
    let arguments = [&["plugin"], arguments].concat();
    let ended = crate::harness::run(crate::harness::longshore(&arguments)).await;
    serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stderr))
}

#[tokio::test]
async fn what_the_call_can_not_do_it_says_and_leaves_the_directory_as_it_is() {
    let setup = Setup::new(&[]);
    let beside = version(&setup, &SCRIPT, "beside", 9);
    let mut command = setup.serve_command();
    command.arg("--plugin").arg(&beside);
    let _host = Host::start(command).await;
    let mut admin = Socket::administrator(&setup).await;
    let folder = version(&setup, &REPORT_EXPORT, "p", 1);
    admin.plugins("add", json!({"path": folder})).await;
    let cut = version(&setup, &REPORT_EXPORT, "cut", 2);
    let whole = std::fs::read(cut.join("plugin.wasm")).unwrap();
    std::fs::write(cut.join("plugin.wasm"), &whole[..1_000]).unwrap();
    let lone = setup.path("lone.wasm");
    std::fs::copy(SCRIPT.component(), &lone).unwrap();
    let other = version(&setup, &REPORT_EXPORT, "q", 3);

    let mut told = Vec::new();
    for (method, params) in [
        ("add", Value::Null),
        ("add", json!({"path": 7})),
        ("add", json!({"path": "target/plugins/p"})),
        ("add", json!({"path": folder, "force": true})),
        ("add", json!({"path": folder})),
        ("add", json!({"path": beside})),
        ("add", json!({"path": other, "name": "r"})),
        ("add", json!({"path": lone, "name": "No name"})),
        ("add", json!({"path": setup.path("nothing")})),
        ("add", json!({"path": setup.path("nothing.wasm")})),
        ("add", json!({"path": cut})),
        ("replace", json!({"path": other})),
        ("remove", json!({"name": "q"})),
        ("remove", json!({"name": "p", "now": "yes"})),
        ("inspect", json!({"path": cut})),
        ("list", json!({"all": true})),
        ("upgrade", json!({})),
    ] {
        let answer = admin
            .ask(&format!("longshore/plugins/{method}"), params)
            .await;
        let error = &answer["error"];
        let message = error["message"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer:#}"));
        let message = message.replace(text(setup.directory()), "DIR");
        told.push(format!("{} {message}", error["code"]));
    }
    insta::assert_snapshot!(told.join("\n"), @r#"
    -32602 params has to be an object
    -32602 params: invalid type: integer `7`, expected path string at line 1 column 9
    -32602 params.path has to be absolute: it is one of the host's machine
    -32602 params: unknown field `force`, expected one of `path`, `name`, `_meta` at line 1 column 8
    -32602 a plugin `p` is there already; `longshore plugin replace` puts another version in its place
    -32602 the host serves a plugin `beside` from outside its plugins directory (--plugin); give this one another name
    -32602 a name is for a component on its own, a file that ends in `.wasm`; a plugin's directory has its name in plugin.toml
    -32602 DIR/lone.wasm: No name can't name a plugin: a component on its own is called after its file, and a plugin's name is 1 to 48 of a-z, 0-9 and `-`
    -32602 DIR/nothing: DIR/nothing has no plugin.toml; build the plugin with `longshore plugin build`
    -32602 DIR/nothing.wasm: the component DIR/nothing.wasm is missing; build the plugin with `longshore plugin build`
    -32602 DIR/versions/cut-2: the component is not valid, or has what this host does not know: failed to parse WebAssembly module: unexpected end-of-file (at offset 0xb); build it for WASI 0.2 with a released toolchain
    -32602 no plugin `q` is in DIR/plugins; `longshore plugin add` brings a new one
    -32602 no plugin `q` is in DIR/plugins; `longshore plugin list` shows those that are
    -32602 params: invalid type: string "yes", expected a boolean at line 1 column 23
    -32602 DIR/versions/cut-2: the component is not valid, or has what this host does not know: failed to parse WebAssembly module: unexpected end-of-file (at offset 0xb); build it for WASI 0.2 with a released toolchain
    -32602 params: unknown field `all`, expected `_meta` at line 1 column 6
    -32601 `longshore/plugins/upgrade` is nothing for an administrator, whose methods are longshore/plugins/list, longshore/plugins/inspect, longshore/plugins/add, longshore/plugins/replace, longshore/plugins/remove, longshore/status; other methods are a tenant's, on a connection of its own
    "#);
    let entries = std::fs::read_dir(setup.path("plugins")).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["p"]);
    let listed = admin.plugins("list", json!({})).await;
    assert_eq!(listed["failures"], json!({}), "{listed:#}");
}

#[tokio::test]
async fn a_plugin_that_is_in_place_and_can_not_be_served_says_why() {
    let setup = Setup::new(&[("world", &WORLD.directory())]);
    let _host = setup.start().await;
    // Its URIs are the other's.
    install_variant(setup.path("versions"), "rival", "more-resources");
    let mut admin = Socket::administrator(&setup).await;
    let params = json!({"path": setup.path("versions/rival")});
    let added = admin.plugins("add", params).await;
    assert_eq!(added["state"], "refused", "{added:#}");
    let message = added["message"].as_str().unwrap();
    assert!(
        message.contains("rival 0.2.0 is in place, but"),
        "{message}"
    );
    assert!(message.contains("the plugin `world` serves"), "{message}");
    assert!(added["failures"]["rival"].is_string(), "{added:#}");
    let removed = admin.plugins("remove", json!({"name": "rival"})).await;
    assert_eq!(removed["state"], "removed", "{removed:#}");
}

#[tokio::test]
async fn nobody_but_an_administrator_reaches_the_call() {
    let setup = Setup::new(&[("script", &SCRIPT.directory())]);
    let host = setup.start().await;
    let methods = ["list", "inspect", "add", "replace", "remove"];
    let methods = methods.map(|method| format!("longshore/plugins/{method}"));
    let params = json!({"path": version(&setup, &SCRIPT, "p", 1), "name": "script"});
    let client = host.client();
    let mut tenant = Socket::open(&setup, "longshore tenant local").await;
    let mut bridge = StdioHost::start(&setup);
    // The bridge has said whose it is before.
    bridge.send_line(ADMINISTRATOR).await;
    assert_eq!(bridge.next().await.unwrap()["error"]["code"], -32700);
    for method in &methods {
        let reply = client.request(method, params.clone()).await;
        assert_eq!((reply.status, reply.code()), (404, -32601), "{method}");
        let answer = bridge.request(method, params.clone()).await;
        assert_eq!(answer["error"]["code"], -32601, "{answer:#}");
        let mut own = params.clone();
        own["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let answer = tenant.ask(method, own).await;
        assert_eq!(answer["error"]["code"], -32601, "{answer:#}");
    }
    // Nor has an administrator what is a tenant's, in either era.
    let mut admin = Socket::administrator(&setup).await;
    for method in ["tools/list", "tasks/get", "initialize", "server/discover"] {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}});
        let answer = admin.ask(method, params).await;
        assert_eq!(answer["error"]["code"], -32601, "{answer:#}");
    }
    let status = admin.ask("longshore/status", json!({})).await;
    assert_eq!(status["result"]["pid"], host.pid(), "{status:#}");
    for introduction in ["longshore administrator x", "longshore tenant", "{}"] {
        let mut socket = Socket::open(&setup, introduction).await;
        let mut rest = Vec::new();
        socket.stream.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"", "{introduction}");
    }
    assert!(bridge.end().await.success());
}

#[tokio::test]
async fn two_administrators_at_once_are_each_told_what_became_of_theirs() {
    let setup = Setup::new(&[]);
    let versions = [1, 2].map(|salt| version(&setup, &SCRIPT, "p", salt));
    let _host = setup.start().await;
    let (mut one, mut two) = (
        Socket::administrator(&setup).await,
        Socket::administrator(&setup).await,
    );
    let add = "longshore/plugins/add";
    let added = tokio::join!(
        one.ask(add, json!({"path": versions[0]})),
        two.ask(add, json!({"path": versions[1]})),
    );
    let added = [added.0, added.1];
    let served = added
        .iter()
        .filter(|answer| answer["result"]["state"] == "served");
    assert_eq!(served.count(), 1, "{added:#?}");
    let refused = added
        .iter()
        .find_map(|answer| answer["error"]["message"].as_str());
    assert!(refused.unwrap().contains("a plugin `p` is there already"));

    for _ in 0..3 {
        let replaced = tokio::join!(
            one.plugins("replace", json!({"path": versions[0]})),
            two.plugins("replace", json!({"path": versions[1]})),
        );
        assert_eq!(
            replaced.0["message"]
                .as_str()
                .unwrap()
                .find("0.0.1 is served"),
            Some(2)
        );
        assert_eq!(
            replaced.1["message"]
                .as_str()
                .unwrap()
                .find("0.0.2 is served"),
            Some(2)
        );
    }
    let listed = one.plugins("list", json!({})).await;
    assert_eq!(listed["plugins"].as_array().unwrap().len(), 1, "{listed:#}");
    assert_eq!(listed["failures"], json!({}), "{listed:#}");
}

#[tokio::test]
async fn a_host_that_dies_in_a_change_leaves_the_old_version_or_the_new() {
    let setup = Setup::new(&[]);
    setup.keep_compiled_code_apart();
    let mut served = version(&setup, &SCRIPT, "p", 0);
    let mut host = setup.start().await;
    let mut admin = Socket::administrator(&setup).await;
    admin.plugins("add", json!({"path": served})).await;
    let manifest = |folder: &std::path::Path| std::fs::read(folder.join("plugin.toml")).unwrap();
    let place = setup.path("plugins/p");
    // Killed while the new version is checked, and as soon as it is in place.
    for (salt, is_placed) in [(1, false), (2, true), (3, false), (4, true)] {
        let next = version(&setup, &SCRIPT, "p", salt);
        admin
            .send("longshore/plugins/replace", &json!({"path": next}))
            .await;
        let is_there = || match is_placed {
            true => manifest(&place) == manifest(&next),
            false => std::fs::read_dir(setup.path("plugins")).unwrap().count() > 1,
        };
        while !is_there() {
            tokio::time::sleep(LOOK).await;
        }
        host.kill().await;
        if is_placed {
            served = next;
        }
        assert_eq!(manifest(&place), manifest(&served));
        host = setup.start().await;
        // A host that was killed leaves what it said.
        let serving = until_serving(&setup, |serving| serving["url"] == host.url()).await;
        assert_eq!(serving["failures"], json!({}));
        let expected = if is_placed { salt } else { salt - 1 };
        assert_eq!(
            serving["plugins"]["p"]["version"],
            format!("0.0.{expected}")
        );
        let says = script(json!([{"do": "say", "text": "hi"}]));
        assert_eq!(said(&host.client().call("script_inline", says).await), "hi");
        admin = Socket::administrator(&setup).await;
        // What was left does not stand in the way.
        let again = admin.plugins("replace", json!({"path": served})).await;
        assert_eq!(again["state"], "served", "{again:#}");
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_leaves_a_whole_plugin_or_none() {
    let setup = Setup::new(&[]);
    setup.keep_compiled_code_apart();
    let _host = setup.start().await;
    let entries = || {
        let entries = std::fs::read_dir(setup.path("plugins")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect::<Vec<_>>()
    };
    let is_under_way = || entries().iter().any(|name| name.starts_with(".longshore-"));
    for (name, leaves) in [("one", false), ("two", true)] {
        let mut admin = Socket::administrator(&setup).await;
        let folder = version(&setup, &SCRIPT, name, 1);
        admin
            .send("longshore/plugins/add", &json!({"path": folder}))
            .await;
        while !is_under_way() {
            tokio::time::sleep(LOOK).await;
        }
        if leaves {
            drop(admin);
        } else {
            let cancels = json!({
                "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1},
            });
            let line = format!("{cancels}\n");
            admin.stream.write_all(line.as_bytes()).await.unwrap();
        }
        while is_under_way() {
            tokio::time::sleep(LOOK).await;
        }
        let is_there = entries().contains(&name.to_owned());
        let mut admin = Socket::administrator(&setup).await;
        let listed = admin.plugins("list", json!({})).await;
        let plugins = listed["plugins"].as_array().unwrap();
        let is_listed = plugins.iter().any(|plugin| plugin["name"] == name);
        assert_eq!(is_listed, is_there, "{listed:#}");
        assert_eq!(listed["failures"], json!({}), "{listed:#}");
    }
}

#[tokio::test]
async fn a_host_over_pipes_takes_the_command_and_the_call() {
    let setup = Setup::new(&[]);
    let mut host = StdioHost::start(&setup);
    host.request("tools/list", json!({})).await;
    until_serving(&setup, |serving| serving["url"].is_string()).await;
    let folder = version(&setup, &SCRIPT, "p", 1);
    let added = plugin_done(&setup, &["add", text(&folder)]).await;
    assert!(added.contains("p 0.0.1 is served at unix:"), "{added}");
    let mut admin = Socket::administrator(&setup).await;
    let removed = admin.plugins("remove", json!({"name": "p"})).await;
    assert_eq!(removed["state"], "removed", "{removed:#}");
    drop(admin);
    assert!(host.end().await.success());
}
