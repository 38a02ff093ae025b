//! Tenants are apart (I4): whatever one tenant has looks to another exactly like nothing.

use longshore_guests::{REPORT_EXPORT, SCRIPT, WORLD};
use serde_json::{Value, json};

use crate::harness::{Client, Host, Setup, longshore, run};

/// No task has this id.
const UNKNOWN: &str = "0123456789abcdef0123456789abcdef";

/// Two tenants of one host, as the real command adds them.
struct Two {
    setup: Setup,
    tokens: [String; 2],
}

impl Two {
    async fn new(setup: Setup) -> Two {
        let file = setup.path("tenants.toml");
        let file = file.to_str().unwrap().to_owned();
        let mut tokens = Vec::new();
        for name in ["acme", "globex"] {
            let added = run(longshore(&["tenant", "add", name, "--config", &file])).await;
            assert_eq!(added.code, 0, "{}", added.stderr);
            tokens.push(added.stdout.trim().to_owned());
        }
        let tenants = std::fs::read_to_string(file).unwrap();
        for token in &tokens {
            assert!(!tenants.contains(token), "only hashes are kept");
        }
        Two {
            setup: setup.configure(&tenants),
            tokens: tokens.try_into().unwrap(),
        }
    }

    fn clients(&self, host: &Host) -> [Client; 2] {
        let client = |token: &String| host.client().with_token(token);
        self.tokens.each_ref().map(client)
    }
}

fn scripts() -> Setup {
    Setup::new(&[("script", &SCRIPT.directory())])
}

async fn asking(client: &Client) -> String {
    let operations = json!([{"do": "confirm", "key": "go", "message": "Go?"}]);
    let id = client
        .start("script_resume", json!({"script": operations}))
        .await;
    client.until_asked(&id).await;
    id
}

/// Status and whole body of the answer, under an id that is always the same.
async fn answer(client: &Client, method: &str, params: Value) -> (u16, Value) {
    let mut body = client.body(method, params);
    body["id"] = json!(1);
    let version = ("mcp-protocol-version", "2026-07-28");
    let headers = [version, ("mcp-method", method)];
    let reply = client.raw(body.to_string(), &headers).await;
    (reply.status, reply.body)
}

#[tokio::test]
async fn a_foreign_task_looks_exactly_like_an_unknown_one() {
    let two = Two::new(scripts()).await;
    let host = two.setup.start().await;
    let [owner, other] = two.clients(&host);
    let id = asking(&owner).await;
    let before = owner.task(&id).await;
    let go = json!({"go": {"action": "accept", "content": {"confirm": true}}});
    for (method, more) in [
        ("tasks/get", json!({})),
        ("tasks/update", json!({"inputResponses": go})),
        ("tasks/cancel", json!({})),
        ("longshore/tasks/log", json!({})),
    ] {
        let about = |id: &str| {
            let mut params = more.clone();
            params["taskId"] = json!(id);
            params
        };
        let foreign = answer(&other, method, about(&id)).await;
        let unknown = answer(&other, method, about(UNKNOWN)).await;
        assert_eq!(foreign, unknown, "{method}");
        assert_eq!(foreign.1["error"]["code"], -32602, "{method}");
    }
    let mut told = Vec::new();
    for id in [id.as_str(), UNKNOWN] {
        let params = json!({"notifications": {"taskIds": [id]}});
        let mut messages = other.stream("subscriptions/listen", params).await;
        let mut first = messages.next().await.unwrap();
        first["params"]["_meta"] = Value::Null;
        told.push(first);
    }
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0]["params"]["notifications"], json!({"taskIds": []}));

    const LIST: &str = "longshore/tasks/list";
    let own = owner.request(LIST, json!({})).await.result();
    assert_eq!(own["tasks"][0]["taskId"], id);
    let foreign = other.request(LIST, json!({})).await.result();
    assert_eq!(foreign["tasks"], json!([]));

    // And nothing of it touched the task.
    assert_eq!(owner.task(&id).await, before);
}

#[tokio::test]
async fn without_a_valid_token_nothing_is_answered() {
    let two = Two::new(scripts()).await;
    let host = two.setup.start().await;
    let nobody = host.client();
    let close = two.tokens[0][..two.tokens[0].len() - 1].to_owned();
    for client in [
        nobody.clone(),
        nobody.with_token("wrong"),
        nobody.with_token(&close),
        nobody.with_header("authorization", &format!("Basic {}", two.tokens[0])),
    ] {
        let reply = client.request("tools/list", json!({})).await;
        assert_eq!(reply.status, 401);
        assert_eq!(reply.headers["www-authenticate"], "Bearer");
        assert_eq!(reply.body.get("result"), None);
        let message = reply.body["error"]["message"].as_str().unwrap();
        assert!(message.contains("longshore tenant add"), "{message}");
    }
    let tenant = nobody.with_token(&two.tokens[0]);
    let reply = tenant.request("tools/list", json!({})).await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn one_tenants_quota_is_not_anothers() {
    let setup = scripts().configure("[limits]\ntasks_unfinished_max = 1");
    let two = Two::new(setup).await;
    let host = two.setup.start().await;
    let [one, other] = two.clients(&host);
    let id = asking(&one).await;
    let call = json!({"name": "script_resume", "arguments": {"script": []}});
    let reply = one.request("tools/call", call.clone()).await;
    assert_eq!((reply.status, reply.code()), (200, -31000));
    insta::assert_snapshot!(reply.body["error"]["message"].as_str().unwrap(), @"1 tasks of this tenant have not ended yet, which is the limit; cancel some or wait for them");

    asking(&other).await;
    // An ended task makes room.
    one.cancel(&id).await.result();
    one.until_status(&id, "cancelled").await;
    let result = one.request("tools/call", call).await.result();
    assert_eq!(result["resultType"], "task");
}

#[tokio::test]
async fn a_request_state_is_good_for_its_tenant_only() {
    let two = Two::new(scripts()).await;
    let host = two.setup.start().await;
    let [one, other] = two.clients(&host);
    let operations = json!([{"do": "confirm", "key": "go", "message": "Go?"}]);
    let params = json!({"name": "script_inline", "arguments": {"script": operations}});
    let asked = one.request("tools/call", params.clone()).await.result();
    let mut params = params;
    params["requestState"] = asked["requestState"].clone();
    params["inputResponses"] = json!({"go": {"action": "accept", "content": {"confirm": true}}});
    let reply = other.request("tools/call", params.clone()).await;
    assert_eq!((reply.status, reply.code()), (200, -32602));
    let result = one.request("tools/call", params).await.result();
    assert_eq!(result["content"][0]["text"], "go: true");
}

#[tokio::test]
async fn a_resource_that_changes_for_one_tenant_changes_for_no_other() {
    let two = Two::new(Setup::new(&[("world", &WORLD.directory())])).await;
    let host = two.setup.start().await;
    let [one, other] = two.clients(&host);
    let params = json!({"notifications": {"resourceSubscriptions": ["world://text"]}});
    let mut streams = Vec::new();
    for client in [&one, &other] {
        let mut stream = client.stream("subscriptions/listen", params.clone()).await;
        stream.next().await.expect("the stream begins");
        streams.push(stream);
        let uri = json!({"uri": "world://text"});
        let read = client.request("resources/read", uri).await.result();
        let name = if streams.len() == 1 { "acme" } else { "globex" };
        assert_eq!(read["contents"][0]["text"], format!("read for {name}"));
    }
    let touch = json!({"uris": ["world://text"]});
    let touched = one.call("touch", touch).await;
    assert_eq!(touched["isError"], false, "{touched:#}");
    let told = streams[0].next().await.unwrap();
    assert_eq!(told["method"], "notifications/resources/updated");

    // What was told to one would be before what both are told when the host stops.
    let stopping = tokio::spawn(host.terminate());
    let last = streams[1].next().await.unwrap();
    assert_eq!(last["result"]["resultType"], "complete", "{last:#}");
    assert!(stopping.await.unwrap().success());
}

/// Calls the tool and waits for its result, whether or not it became a task.
async fn result_of(client: &Client, tool: &str, arguments: Value) -> Value {
    let result = client.call(tool, arguments).await;
    match result["taskId"].as_str() {
        Some(id) => client.until_status(id, "completed").await["result"].clone(),
        None => result,
    }
}

#[tokio::test]
async fn a_directory_grant_keeps_the_tenants_files_apart() {
    let setup = Setup::new(&[("report-export", &REPORT_EXPORT.directory())]);
    let granted = setup.path("files/{tenant}");
    let granted = granted.to_str().unwrap().to_owned();
    let setup = setup.configure(&format!(
        "[plugin.report-export.grants.directories]\n\
         input = {{ path = \"{granted}/in\", access = \"read\" }}\n\
         output = {{ path = \"{granted}/out\", access = \"write\" }}"
    ));
    for (tenant, name) in [("acme", "north"), ("globex", "south")] {
        let folder = setup.path("files").join(tenant).join("in");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("sales.csv"), format!("region\n{name}\n")).unwrap();
    }
    std::fs::write(setup.path("files/acme/in/secret.csv"), "region\nx\n").unwrap();
    let two = Two::new(setup).await;
    let host = two.setup.start().await;
    let [acme, globex] = two.clients(&host);
    let report = json!({"file": "sales.csv", "group_by": ["region"], "output": "report"});
    for client in [&acme, &globex] {
        let result = result_of(client, "report-export", report.clone()).await;
        assert_ne!(result["isError"], true, "{result:#}");
    }
    let written = |tenant: &str| {
        let file = two.setup.path("files").join(tenant).join("out/report.csv");
        std::fs::read_to_string(file).unwrap()
    };
    assert!(written("acme").contains("north") && !written("acme").contains("south"));
    assert!(written("globex").contains("south"));

    for file in ["secret.csv", "../../acme/in/secret.csv"] {
        let arguments = json!({"file": file, "group_by": ["region"], "output": "stolen"});
        let result = result_of(&globex, "report-export", arguments).await;
        assert_eq!(result["isError"], true, "{file}: {result:#}");
    }
}

#[tokio::test]
async fn parts_of_a_large_result_are_their_tenants() {
    let two = Two::new(scripts()).await;
    let host = two.setup.start().await;
    let [acme, globex] = two.clients(&host);
    let script = json!([{"do": "repeat", "text": "x", "times": 2 << 20}]);
    let result = acme.call("script_inline", json!({"script": script})).await;
    let uri = result["content"][1]["uri"].as_str().unwrap().to_owned();
    acme.request("resources/read", json!({"uri": uri}))
        .await
        .result();
    let unknown = format!("longshore://result/{UNKNOWN}/1");
    let read = async |uri: &str| {
        let reply = globex.request("resources/read", json!({"uri": uri})).await;
        (reply.status, reply.body["error"].to_string())
    };
    let (foreign, nothing) = (read(&uri).await, read(&unknown).await);
    assert!(foreign.1.contains("no resource"), "{foreign:?}");
    assert_eq!((foreign.0, foreign.1.replace(&uri, &unknown)), nothing);
}

#[tokio::test]
async fn what_a_plugin_keeps_for_one_tenant_is_not_there_for_another() {
    let two = Two::new(scripts().configure("[plugin.script.grants]\nstate = true")).await;
    let host = two.setup.start().await;
    let [owner, other] = two.clients(&host);
    let kept = json!({"script": [{"do": "keep", "key": "mine", "bytes": 9}]});
    owner.call("script_inline", kept).await;
    let keys = json!({"script": [{"do": "keys", "prefix": ""}]});
    for (client, expected) in [(owner, "mine"), (other, "")] {
        let result = client.call("script_inline", keys.clone()).await;
        assert_eq!(result["content"][0]["text"], expected, "{result:#}");
    }
}

#[tokio::test]
async fn tools_of_one_tenant_that_wait_in_memory_leave_room_for_anothers() {
    let setup = scripts().configure("[limits]\ntenant_held_instances_max = 2");
    let two = Two::new(setup).await;
    let host = two.setup.start().await;
    let [many, other] = two.clients(&host);
    let asks = json!({"script": [{"do": "confirm", "key": "go", "message": "Go?"}]});
    for client in [&many, &many, &other] {
        let id = client.start("script_fail", asks.clone()).await;
        client.until_asked(&id).await;
    }
    let id = many.start("script_fail", asks).await;
    let refused = many.until(&id, |task| task["status"] != "working").await;
    assert!(
        refused.to_string().contains("2 tools of this tenant wait"),
        "{refused:#}"
    );
}
