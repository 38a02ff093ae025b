//! Prompts, and what completes their arguments.

use longshore_plugin::prelude::*;

use crate::content::RED_PIXEL;

pub fn simple(_: &Context, _: NoArguments) -> Result<&'static str> {
    Ok("This is a simple prompt for testing.")
}

#[derive(Deserialize, JsonSchema)]
pub struct Two {
    /// First test argument
    arg1: String,
    /// Second test argument
    arg2: String,
}

pub fn with_arguments(_: &Context, args: Two) -> Result<String> {
    Ok(format!(
        "Prompt with arguments: arg1='{}', arg2='{}'",
        args.arg1, args.arg2
    ))
}

/// Words that begin with what was typed; of the second argument, only once the first is chosen.
pub fn first(_: &Context, typed: &Typed) -> Suggestions {
    Suggestions::matching(typed, ["paris", "park", "party", "test"])
}

pub fn second(_: &Context, typed: &Typed) -> Suggestions {
    match typed.chosen("arg1") {
        Some(first) => Suggestions::matching(typed, [format!("{first} at night"), first.into()]),
        None => Suggestions::default(),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Embedded {
    /// URI of the resource to embed
    resource_uri: String,
}

pub fn with_resource(_: &Context, args: Embedded) -> Result<Conversation> {
    let text = "Embedded resource content for testing.";
    Ok(Conversation::new()
        .user(Content::resource_text(
            args.resource_uri,
            "text/plain",
            text,
        ))
        .user("Please process the embedded resource above."))
}

pub fn with_image(_: &Context, _: NoArguments) -> Result<Conversation> {
    Ok(Conversation::new()
        .user(Content::image("image/png", RED_PIXEL))
        .user("Please analyze the image above."))
}

#[derive(Deserialize, JsonSchema)]
struct Situation {
    context: String,
}

pub fn asking(ctx: &Context, _: NoArguments) -> Result<String> {
    let question = "What context should the prompt use?";
    Ok(match ctx.ask::<Situation>("user_context", question)? {
        Response::Accept(Situation { context }) => format!("Use this context: {context}"),
        Response::Decline | Response::Dismiss => "Use no context.".into(),
    })
}
