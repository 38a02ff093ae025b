//! Things to read.

use longshore_plugin::prelude::*;
use serde_json::json;

use crate::content::RED_PIXEL;

/// What is said to change, by [`touch`]. Its text never does: the plugin keeps nothing.
pub const WATCHED: &str = "test://watched-resource";

pub fn text(_: &Context) -> Result<&'static str> {
    Ok("This is the content of the static text resource.")
}

pub fn binary(_: &Context) -> Result<&'static [u8]> {
    Ok(RED_PIXEL)
}

pub fn watched(_: &Context) -> Result<&'static str> {
    Ok("This is the content of the watched resource.")
}

#[derive(Deserialize)]
pub struct Data {
    id: String,
}

pub fn data(_: &Context, args: Data) -> Result<String> {
    let Data { id } = args;
    let data = format!("Data for ID: {id}");
    Ok(json!({ "id": id, "templateTest": true, "data": data }).to_string())
}

/// An id to choose, for who completes the template.
pub fn ids(_: &Context, typed: &Typed) -> Suggestions {
    Suggestions::matching(typed, (1..=150).map(|id| id.to_string()))
}

pub fn touch(ctx: &Context, _: NoArguments) -> Result<String> {
    ctx.resource_updated(WATCHED);
    Ok(format!("{WATCHED} is said to have changed."))
}
