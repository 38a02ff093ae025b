//! Tools that ask within a call.

use longshore_plugin::prelude::*;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
pub struct Name {
    pub name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Color {
    color: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirmed {
    ok: bool,
}

pub fn name(ctx: &Context, _: NoArguments) -> Result<String> {
    let answer = ctx.ask::<Name>("user_name", "What is your name?")?;
    Ok(greeting(answer))
}

pub fn greeting(answer: Response<Name>) -> String {
    match answer {
        Response::Accept(Name { name }) => format!("Hello, {name}!"),
        Response::Decline | Response::Dismiss => "Hello, whoever you are!".into(),
    }
}

pub fn capital(ctx: &Context, _: NoArguments) -> Result<String> {
    let question = Sampling::new("What is the capital of France?", 100);
    Ok(ctx.sample("capital_question", question)?.text())
}

pub fn roots(ctx: &Context, _: NoArguments) -> Result<String> {
    let roots = ctx.roots("client_roots")?;
    let uris: Vec<&str> = roots.iter().map(|root| root.uri.as_str()).collect();
    Ok(format!("The roots are: {}", uris.join(", ")))
}

/// What the first round saves and the last one must find.
const STATE: &str = "a state of the first round";

pub fn state(ctx: &Context, _: NoArguments) -> Result<String> {
    let state = match ctx.saved_state::<String>()? {
        Some(state) => state,
        None => {
            ctx.checkpoint(&STATE)?;
            STATE.into()
        }
    };
    let answer = ctx.ask::<Confirmed>("confirm", "Please confirm")?;
    if state != STATE {
        fail!("the state came back as `{state}`");
    }
    match answer {
        Response::Accept(Confirmed { ok: true }) => Ok("state-ok: confirmed".into()),
        _ => Ok("state-ok: not confirmed".into()),
    }
}

pub fn three(ctx: &Context, _: NoArguments) -> Result<String> {
    let answers = ctx.ask_all([
        InputRequest::form::<Name>("user_name", "What is your name?"),
        InputRequest::sampling("greeting", Sampling::new("Generate a greeting", 50)),
        InputRequest::roots("client_roots"),
    ])?;
    let name = answers.form::<Name>("user_name")?.accepted();
    let name = name.map_or("nobody".into(), |form| form.name);
    let greeting = answers.sampled("greeting")?.text();
    let roots = answers.roots("client_roots")?.len();
    Ok(format!("{name}: {greeting} ({roots} roots)"))
}

pub fn two_rounds(ctx: &Context, _: NoArguments) -> Result<String> {
    let Response::Accept(Name { name }) = ctx.ask("step1", "Step 1: What is your name?")? else {
        return Ok("No name was given.".into());
    };
    match ctx.ask("step2", "Step 2: What is your favorite color?")? {
        Response::Accept(Color { color }) => Ok(format!("{name} likes {color}.")),
        _ => Ok(format!("{name} likes no color.")),
    }
}

/// Asks nothing the client did not declare.
pub fn offered(ctx: &Context, _: NoArguments) -> Result<String> {
    let mut requests = Vec::new();
    if ctx.can_ask() {
        requests.push(InputRequest::form::<Name>(
            "user_name",
            "What is your name?",
        ));
    }
    if ctx.can_sample() {
        let prompt = Sampling::new("Generate a greeting", 50);
        requests.push(InputRequest::sampling("greeting", prompt));
    }
    if requests.is_empty() {
        return Ok("The client can answer nothing.".into());
    }
    let asked = requests.len();
    ctx.ask_all(requests)?;
    Ok(format!("{asked} questions were answered."))
}

/// Leaves it to the contract to refuse a client without sampling.
pub fn needs_sampling(ctx: &Context, _: NoArguments) -> Result<String> {
    let sampled = ctx.sample("needed", Sampling::new("Say something", 50))?;
    Ok(sampled.text())
}

#[derive(Deserialize, JsonSchema)]
pub struct Prompt {
    /// What the client's model is asked.
    prompt: String,
}

pub fn prompt(ctx: &Context, args: Prompt) -> Result<String> {
    let sampled = ctx.sample("answer", Sampling::new(args.prompt, 100))?;
    Ok(format!("LLM response: {}", sampled.text()))
}

#[derive(Deserialize, JsonSchema)]
pub struct Message {
    /// What the user is shown.
    message: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct User {
    /// User's response
    username: String,
    /// User's email address
    email: String,
}

pub fn user(ctx: &Context, args: Message) -> Result<String> {
    let (action, content) = told(ctx.ask::<User>("user", args.message)?)?;
    Ok(format!("User response: action={action}, content={content}"))
}

pub fn defaults(ctx: &Context, _: NoArguments) -> Result<String> {
    completed(
        ctx,
        "defaults",
        &json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "default": "John Doe" },
                "age": { "type": "integer", "default": 30 },
                "score": { "type": "number", "default": 95.5 },
                "status": {
                    "type": "string",
                    "enum": ["active", "inactive", "pending"],
                    "default": "active"
                },
                "verified": { "type": "boolean", "default": true }
            }
        }),
    )
}

pub fn enums(ctx: &Context, _: NoArguments) -> Result<String> {
    let titled = |words: [&str; 3]| -> Vec<Value> {
        ["value1", "value2", "value3"]
            .iter()
            .zip(words)
            .map(|(value, title)| json!({ "const": value, "title": title }))
            .collect()
    };
    completed(
        ctx,
        "enums",
        &json!({
            "type": "object",
            "properties": {
                "untitledSingle": { "type": "string", "enum": ["option1", "option2", "option3"] },
                "titledSingle": {
                    "type": "string",
                    "oneOf": titled(["First Option", "Second Option", "Third Option"])
                },
                "legacyEnum": {
                    "type": "string",
                    "enum": ["opt1", "opt2", "opt3"],
                    "enumNames": ["Option One", "Option Two", "Option Three"]
                },
                "untitledMulti": {
                    "type": "array",
                    "items": { "type": "string", "enum": ["option1", "option2", "option3"] }
                },
                "titledMulti": {
                    "type": "array",
                    "items": { "anyOf": titled(["First Choice", "Second Choice", "Third Choice"]) }
                }
            }
        }),
    )
}

fn completed(ctx: &Context, key: &str, schema: &Value) -> Result<String> {
    let request = InputRequest::form_of(key, "Please fill in the form", schema);
    let (action, content) = told(ctx.ask_all([request])?.form::<Value>(key)?)?;
    Ok(format!(
        "Elicitation completed: action={action}, content={content}"
    ))
}

/// A response in MCP's own words.
fn told(response: Response<impl Serialize>) -> Result<(&'static str, Value)> {
    Ok(match response {
        Response::Accept(content) => ("accept", serde_json::to_value(content)?),
        Response::Decline => ("decline", json!({})),
        Response::Dismiss => ("cancel", json!({})),
    })
}
