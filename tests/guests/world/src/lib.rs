//! A guest that is a whole server: a resource, prompt or tool for each thing that tests look at.
//! [`VARIANT`] can be overwritten in the built component, which makes another version of it.

mod bindings {
    wit_bindgen::generate!({
        path: "../../../wit",
        world: "server",
    });
}

use std::hint::black_box;

use bindings::exports::longshore::plugin::completion::{self, Subject, Suggestions};
use bindings::exports::longshore::plugin::prompts::{
    self, Conversation, Prompt, PromptArgument, PromptError, PromptMessage, Role,
};
use bindings::exports::longshore::plugin::resources::{
    self, ResourceEntry, ResourceError, ResourceList, ResourceTemplate,
};
use bindings::exports::longshore::plugin::tools;
use bindings::longshore::plugin::control;
use bindings::longshore::plugin::types::*;
use serde_json::Value;

/// What a test overwrites, with something as long.
static VARIANT: &str = "variant=plain---------------";

struct World;

bindings::export!(World with_types_in bindings);

/// Whether this is the version of that name.
fn is_variant(name: &str) -> bool {
    black_box(VARIANT).trim_end_matches('-') == format!("variant={name}")
}

impl resources::Guest for World {
    fn list_resources() -> ResourceList {
        if is_variant("endless-list") {
            spin();
        }
        let mut uris = vec![
            "world://text",
            "world://binary",
            "world://ask",
            "world://speak",
            "world://spin",
            "world://huge",
            "world://trap",
        ];
        if is_variant("prompts-only") || hostile_schema().is_some() {
            return ResourceList {
                entries: Vec::new(),
                templates: Vec::new(),
            };
        }
        if is_variant("narrow-template") {
            uris.clear();
        }
        if is_variant("more-resources") {
            uris.push("world://more");
        }
        if is_variant("bad-uri") {
            uris.push("world://not a uri");
        }
        if is_variant("too-many") {
            uris = vec!["world://text"; 2_000];
        }
        ResourceList {
            entries: uris.into_iter().map(resource).collect(),
            templates: match is_variant("narrow-template") {
                true => vec![template("world://item/1{id}")],
                false => vec![
                    template("world://item/{id}"),
                    template("world://{room}/x/{y}"),
                ],
            },
        }
    }

    fn read_resource(uri: String) -> Result<Vec<EmbeddedResource>, ResourceError> {
        let text = match uri.as_str() {
            "world://text" => format!("read for {}", control::context().tenant),
            "world://binary" => {
                let (one, two) = (blob(&uri, b"\x00\x01"), blob("world://second", b"\xff"));
                return Ok(vec![one, two]);
            }
            "world://ask" => match ask("name") {
                Ok(answer) => format!("answered {answer}"),
                Err(error) => return Err(ResourceError::Failed(error)),
            },
            "world://speak" => {
                control::log(LogLevel::Info, Some("reader"), r#"{"reading": "it"}"#);
                control::progress("reading", Some(1.0), Some(2.0));
                "spoken".to_owned()
            }
            "world://spin" => spin(),
            "world://huge" => "x".repeat(2 << 20),
            "world://trap" => panic!("the page is torn"),
            "world://item/none" => return Err(ResourceError::Unknown),
            "world://item/broken" => {
                return Err(ResourceError::Failed(RpcError {
                    code: 7,
                    message: "the shelf is broken".to_owned(),
                    data: None,
                }));
            }
            other => format!("made of {other}"),
        };
        Ok(vec![EmbeddedResource {
            uri,
            mime_type: Some("text/plain".to_owned()),
            body: ResourceBody::Text(text),
        }])
    }
}

impl prompts::Guest for World {
    fn list_prompts() -> Vec<Prompt> {
        let mut listed = vec![
            prompt("greet", &[("name", true), ("tone", false)]),
            prompt("ask", &[]),
            prompt("wrong", &[]),
        ];
        if is_variant("more-prompts") {
            listed.push(prompt("another", &[]));
        }
        listed
    }

    fn get_prompt(
        name: String,
        arguments: Vec<(String, String)>,
    ) -> Result<Conversation, PromptError> {
        let said = match name.as_str() {
            "greet" => format!("{arguments:?}"),
            "ask" => ask("who").map_err(PromptError::Failed)?,
            _ => {
                return Err(PromptError::InvalidArguments(
                    "nothing pleases it".to_owned(),
                ));
            }
        };
        Ok(Conversation {
            description: Some(format!("the prompt {name}")),
            messages: vec![
                PromptMessage {
                    role: Role::User,
                    content: Content::Text(said),
                },
                PromptMessage {
                    role: Role::Assistant,
                    content: Content::Text("and then?".to_owned()),
                },
            ],
        })
    }
}

impl completion::Guest for World {
    fn complete(
        subject: Subject,
        argument: String,
        value: String,
        chosen: Vec<(String, String)>,
    ) -> Suggestions {
        let values: Vec<String> = match subject {
            Subject::Prompt(name) if argument == "name" => ["ada", "alan", "grace"]
                .into_iter()
                .filter(|name| name.starts_with(&value))
                .map(str::to_owned)
                .chain([format!("{name} {chosen:?}")])
                .collect(),
            Subject::Prompt(_) => spin(),
            Subject::Template(_) => (0..150).map(|n| format!("{value}{n}")).collect(),
        };
        Suggestions {
            total: u32::try_from(values.len()).ok(),
            values,
            has_more: false,
        }
    }
}

impl tools::Guest for World {
    fn list_tools() -> Vec<Tool> {
        if let Some(schema) = hostile_schema() {
            let mut tool = tool("touch", Execution::Inline);
            tool.input_schema = schema;
            return vec![tool];
        }
        vec![
            tool("speak", Execution::Auto),
            tool("speak_task", Execution::Task),
            tool("touch", Execution::Inline),
            tool("touch_task", Execution::Task),
            tool("hand_over", Execution::Task),
        ]
    }

    fn call_tool(name: String, arguments: String) -> Result<Output, ToolError> {
        let arguments: Value = serde_json::from_str(&arguments).unwrap();
        match name.as_str() {
            "touch" | "touch_task" => {
                for uri in arguments["uris"].as_array().unwrap() {
                    control::resource_updated(uri.as_str().unwrap());
                }
            }
            "hand_over" => {
                let uris = arguments["uris"].as_array().unwrap().iter();
                let links = uris.map(|uri| link(uri.as_str().unwrap()));
                let content = every_kind().into_iter().chain(links);
                return Ok(Output {
                    content: content.collect(),
                    structured: None,
                    is_error: false,
                });
            }
            _ => {
                for message in arguments["messages"].as_array().unwrap() {
                    let level = level(message["level"].as_str().unwrap());
                    let data = match message["raw"].as_str() {
                        Some(raw) => raw.to_owned(),
                        None => message["data"].to_string(),
                    };
                    for _ in 0..message["times"].as_u64().unwrap_or(1) {
                        control::log(level, message["logger"].as_str(), &data);
                    }
                }
            }
        }
        Ok(Output {
            content: vec![Content::Text("done".to_owned())],
            structured: None,
            is_error: false,
        })
    }
}

/// Schemas that mean to take down whoever compiles them or checks a value.
fn hostile_schema() -> Option<String> {
    let root = |inside: &str| format!(r#"{{"type":"object",{inside}}}"#);
    if is_variant("schema-deep") {
        let deep = format!("{}{{}}{}", r#"{"not":"#.repeat(10_000), "}".repeat(10_000));
        return Some(root(&format!(r#""not":{deep}"#)));
    }
    if is_variant("schema-nested") {
        let deep = format!("{}{{}}{}", r#"{"not":"#.repeat(100), "}".repeat(100));
        return Some(root(&format!(r#""not":{deep}"#)));
    }
    if is_variant("schema-reference") {
        return Some(root(r#""$ref":"https://evil.example/schema""#));
    }
    if is_variant("schema-doubling") {
        let step = |n: usize| format!(r##"{{"$ref":"#/$defs/d{n}"}}"##);
        let defs = (0..40).map(|n| {
            let next = step(n + 1);
            format!(r#""d{n}":{{"anyOf":[{next},{next}]}}"#)
        });
        let defs = defs.collect::<Vec<_>>().join(",");
        let inside = format!(r#""anyOf":[{}],"$defs":{{{defs},"d40":{{}}}}"#, step(0));
        return Some(root(&inside));
    }
    if is_variant("schema-recursion") {
        let down = r##"{"properties":{"a":{"$ref":"#"}}}"##;
        return Some(root(&format!(r#""anyOf":[{down},{down}]"#)));
    }
    if is_variant("schema-pattern") {
        return Some(root(r#""properties":{"a":{"pattern":"^(a+)+$"}}"#));
    }
    if is_variant("schema-repeats") {
        let pattern = "((a{100}){100}){100}";
        return Some(root(&format!(
            r#""properties":{{"a":{{"pattern":"{pattern}"}}}}"#
        )));
    }
    None
}

fn spin() -> ! {
    loop {
        black_box(VARIANT);
    }
}

fn ask(key: &str) -> Result<String, RpcError> {
    let schema = r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}"#;
    let request = InputRequest {
        key: key.to_owned(),
        ask: Ask::Form(Form {
            message: "What name?".to_owned(),
            schema: schema.to_owned(),
        }),
    };
    match control::request_input(&[request]) {
        Ok(answers) => match answers.first() {
            Some(Answer::Accept(Some(content))) => Ok(content.clone()),
            other => Ok(format!("{other:?}")),
        },
        Err(error) => Err(RpcError {
            code: 8,
            message: format!("{error:?}"),
            data: None,
        }),
    }
}

fn blob(uri: &str, bytes: &[u8]) -> EmbeddedResource {
    EmbeddedResource {
        uri: uri.to_owned(),
        mime_type: None,
        body: ResourceBody::Blob(bytes.to_vec()),
    }
}

/// A block of each kind that holds something.
fn every_kind() -> Vec<Content> {
    let media = |data: &[u8], mime_type: &str| Media {
        data: data.to_vec(),
        mime_type: mime_type.to_owned(),
    };
    vec![
        Content::Text("a text\n".to_owned()),
        Content::Image(media(b"\x89PNG", "image/png")),
        Content::Audio(media(b"\x00\xff", "audio/wav")),
        Content::Resource(blob("world://binary", b"\xfe\x00")),
        Content::Resource(EmbeddedResource {
            uri: "world://text".to_owned(),
            mime_type: None,
            body: ResourceBody::Text("\u{1b}the end".to_owned()),
        }),
    ]
}

fn link(uri: &str) -> Content {
    Content::ResourceLink(ResourceLink {
        uri: uri.to_owned(),
        name: "a link".to_owned(),
        title: None,
        description: None,
        mime_type: None,
    })
}

fn resource(uri: &str) -> ResourceEntry {
    ResourceEntry {
        uri: uri.to_owned(),
        name: uri.trim_start_matches("world://").to_owned(),
        title: None,
        description: None,
        mime_type: Some("text/plain".to_owned()),
        size: None,
        icons: Vec::new(),
    }
}

fn template(text: &str) -> ResourceTemplate {
    ResourceTemplate {
        uri_template: text.to_owned(),
        name: "item".to_owned(),
        title: None,
        description: None,
        mime_type: None,
        icons: Vec::new(),
    }
}

fn prompt(name: &str, arguments: &[(&str, bool)]) -> Prompt {
    let arguments = arguments.iter().map(|(name, required)| PromptArgument {
        name: (*name).to_owned(),
        title: None,
        description: None,
        required: *required,
    });
    Prompt {
        name: name.to_owned(),
        title: None,
        description: Some(format!("The prompt {name}.")),
        arguments: arguments.collect(),
        icons: Vec::new(),
    }
}

fn tool(name: &str, execution: Execution) -> Tool {
    Tool {
        name: name.to_owned(),
        title: None,
        description: format!("The tool {name}."),
        input_schema: r#"{"type":"object","properties":{"messages":{},"uris":{}}}"#.to_owned(),
        output_schema: None,
        traits: Traits {
            execution,
            recovery: Recovery::Fail,
            cancellation: String::new(),
            cleanup_on_cancel: false,
            cancel_grace_ms: Some(0),
            questions: Vec::new(),
            ttl_ms: None,
            poll_interval_ms: None,
            when_left: WhenLeft::Cancel,
        },
        annotations: Annotations {
            read_only: None,
            destructive: None,
            idempotent: None,
            open_world: None,
        },
        icons: Vec::new(),
    }
}

fn level(word: &str) -> LogLevel {
    match word {
        "debug" => LogLevel::Debug,
        "warning" => LogLevel::Warning,
        "error" => LogLevel::Error,
        _ => LogLevel::Info,
    }
}
