//! Tools that answer at once.

use std::time::Duration;

use longshore_plugin::prelude::*;
use serde_json::Value;

pub const RED_PIXEL: &[u8] = include_bytes!("../assets/red.png");
const SILENCE: &[u8] = include_bytes!("../assets/silence.wav");

pub fn simple_text(_: &Context, _: NoArguments) -> Result<&'static str> {
    Ok("This is a simple text response for testing.")
}

pub fn image(_: &Context, _: NoArguments) -> Result<Output> {
    Ok(Output::new().and_image("image/png", RED_PIXEL))
}

pub fn audio(_: &Context, _: NoArguments) -> Result<Output> {
    Ok(Output::new().and_audio("audio/wav", SILENCE))
}

pub fn resource(_: &Context, _: NoArguments) -> Result<Output> {
    Ok(Output::new().and_resource_text(
        "test://embedded-resource",
        "text/plain",
        "This is an embedded resource content.",
    ))
}

pub fn mixed(_: &Context, _: NoArguments) -> Result<Output> {
    Ok(Output::text("Multiple content types test:")
        .and_image("image/png", RED_PIXEL)
        .and_resource_text(
            "test://mixed-content-resource",
            "application/json",
            r#"{"test":"data","value":123}"#,
        ))
}

pub fn failure(_: &Context, _: NoArguments) -> Result<String> {
    fail!("This tool intentionally returns an error for testing")
}

pub fn progress(ctx: &Context, _: NoArguments) -> Result<String> {
    for done in [0, 50, 100] {
        ctx.progress_of(done, 100, format!("{done} of 100"));
        if done < 100 {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok("Progress was reported three times.".into())
}

pub fn logging(ctx: &Context, _: NoArguments) -> Result<&'static str> {
    let messages = [
        "Tool execution started",
        "Tool processing data",
        "Tool execution completed",
    ];
    for (number, message) in messages.into_iter().enumerate() {
        if number > 0 {
            std::thread::sleep(Duration::from_millis(50));
        }
        ctx.log(LogLevel::Info, message);
    }
    Ok("Three messages were logged.")
}

/// Long enough for a client to go away and come back to its stream.
pub fn reconnection(ctx: &Context, _: NoArguments) -> Result<&'static str> {
    ctx.progress_of(0, 1, "waiting");
    std::thread::sleep(Duration::from_millis(500));
    Ok("The call outlived its first stream.")
}

#[derive(Deserialize, JsonSchema)]
pub struct CustomHeader {
    /// Travels in the header `Mcp-Param-Value` too.
    #[schemars(extend("x-mcp-header" = "Value"))]
    value: String,
}

pub fn custom_header(_: &Context, args: CustomHeader) -> Result<String> {
    Ok(format!("The value is {}.", args.value))
}

pub fn rich_schema(_: &Context, args: Value) -> Result<String> {
    Ok(format!("The arguments are {args}."))
}

#[derive(Deserialize, JsonSchema)]
pub struct Greet {
    /// Whom to greet.
    name: String,
}

pub fn greet(_: &Context, args: Greet) -> Result<String> {
    Ok(format!("Hello, {}!", args.name))
}
