//! What a plugin with resources and prompts can rely on, seen through the double of the host.

use longshore_plugin::prelude::*;
use longshore_plugin::testing::Host;
use longshore_plugin::{ResourceBody, Role, Subject, guest};
use serde_json::json;

#[derive(Deserialize)]
struct Page {
    book: String,
    page: String,
}

fn page(_: &Context, at: Page) -> Result<Option<String>> {
    let exists = at.book != "missing";
    Ok(exists.then(|| format!("{} of {}", at.page, at.book)))
}

fn chapters(_: &Context) -> Result<Contents> {
    Ok(Contents::new()
        .and_text("book://1", "text/markdown", "# One")
        .and_bytes("book://2", "application/pdf", [1, 2]))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Tone {
    Friendly,
    Formal,
}

#[derive(Deserialize, JsonSchema)]
struct Letter {
    /// To whom it goes.
    receiver: String,
    /// How it sounds.
    tone: Option<Tone>,
}

fn letter(ctx: &Context, args: Letter) -> Result<Conversation> {
    ctx.log(LogLevel::Debug, "a letter is begun");
    if args.receiver.is_empty() {
        return Err(Error::invalid_arguments("nobody gets the letter"));
    }
    let opening = match args.tone {
        Some(Tone::Formal) => "Dear",
        Some(Tone::Friendly) | None => "Hi",
    };
    Ok(Conversation::new()
        .about("a letter")
        .user(format!("Write to {}.", args.receiver))
        .assistant(opening)
        .user(Content::image("image/png", [7])))
}

fn touch(ctx: &Context, _: NoArguments) -> Result<&'static str> {
    ctx.log_as("shelf", LogLevel::Warning, json!({ "dusty": true }));
    ctx.resource_updated("book://index");
    Ok("touched")
}

longshore_plugin::export! {
    tool("touch", "Touches the index.", touch),
    resource("book://index", "Index", |_| Ok("one\ntwo")).mime_type("text/plain").size(7),
    resource("book://chapters", "Chapters", chapters),
    resource("book://lost", "Lost", |_| -> Result<String> { fail!("the shelf fell over") }),
    template("book://{book}/{page}", "Page", page)
        .mime_type("text/plain")
        .complete("page", |_, typed| match typed.chosen("book") {
            Some("emma") => Suggestions::matching(typed, ["one", "two", "Three"]),
            _ => Suggestions::default(),
        }),
    template("book://{book}/{page}.html", "Page on the web", |_, at: Page| {
        Ok(format!("<p>{} of {}</p>", at.page, at.book))
    }),
    prompt("letter", "Begins a letter.", letter)
        .title("A letter")
        .complete("receiver", |_, typed| {
            Suggestions::matching(typed, (0..300).map(|number| format!("person {number}")))
        }),
}

fn read(uri: &str) -> Result<Option<Contents>> {
    Host::new().read(&offer(), uri)
}

#[test]
fn a_resource_is_read_under_its_uri_and_type() {
    let contents = read("book://index").unwrap().unwrap();
    let body = &contents.bodies[0];
    assert_eq!(body.uri.as_deref(), Some("book://index"));
    assert_eq!(body.mime_type.as_deref(), Some("text/plain"));
    assert_eq!(contents.joined_text(), "one\ntwo");
}

#[test]
fn a_resource_of_several_bodies_keeps_their_uris_and_types() {
    let contents = read("book://chapters").unwrap().unwrap();
    let uris: Vec<&str> = contents
        .bodies
        .iter()
        .flat_map(|it| it.uri.as_deref())
        .collect();
    assert_eq!(uris, ["book://1", "book://2"]);
    assert_eq!(contents.bodies[1].body, ResourceBody::Bytes(vec![1, 2]));
}

#[test]
fn a_template_hands_its_variables_over_decoded() {
    let contents = read("book://a%20b/7").unwrap().unwrap();
    assert_eq!(contents.joined_text(), "7 of a b");
    assert_eq!(contents.bodies[0].uri.as_deref(), Some("book://a%20b/7"));
}

#[test]
fn of_two_templates_that_fit_the_one_that_says_more_is_read() {
    let contents = read("book://emma/7.html").unwrap().unwrap();
    assert_eq!(contents.joined_text(), "<p>7 of emma</p>");
}

#[test]
fn a_resource_that_does_not_exist_is_no_failure() {
    assert_eq!(read("book://missing/7"), Ok(None));
    assert_eq!(read("book://a/b/c"), Ok(None));
    assert_eq!(
        read("book://lost"),
        Err(Error::failed("the shelf fell over"))
    );
}

#[test]
fn a_prompt_says_its_messages_in_turn() {
    let host = Host::new();
    let arguments = json!({ "receiver": "Ada", "tone": "formal" });
    let conversation = host.prompt(&offer(), "letter", arguments).unwrap();
    assert_eq!(conversation.joined_text(), "Write to Ada.\nDear");
    let roles: Vec<Role> = conversation.messages.iter().map(|it| it.role).collect();
    assert!(roles == [Role::User, Role::Assistant, Role::User]);
    assert_eq!(host.logged()[0].data, "a letter is begun");
}

#[test]
fn arguments_that_do_not_fit_the_prompt_are_refused() {
    let call = |arguments| {
        Host::new()
            .prompt(&offer(), "letter", arguments)
            .unwrap_err()
    };
    for arguments in [
        json!({}),
        json!({ "receiver": "" }),
        json!({ "receiver": "Ada", "tone": "rude" }),
    ] {
        let error = call(arguments.clone());
        assert!(
            matches!(error, Error::InvalidArguments(_)),
            "{arguments}: {error}"
        );
    }
}

#[test]
fn suggestions_begin_with_what_was_typed() {
    let host = Host::new();
    let page = Subject::Template("book://{book}/{page}");
    let complete = |subject, argument, typed, chosen| {
        host.complete(&offer(), subject, argument, typed, chosen)
    };
    assert_eq!(
        complete(page, "page", "t", &[("book", "emma")]).values,
        ["two", "Three"]
    );
    assert!(complete(page, "page", "t", &[]).values.is_empty());
    assert!(complete(page, "book", "", &[]).values.is_empty());

    let people = complete(Subject::Prompt("letter"), "receiver", "person", &[]);
    assert_eq!(
        (people.values.len(), people.total, people.has_more),
        (100, Some(300), true)
    );
    assert!(
        complete(Subject::Prompt("none"), "receiver", "", &[])
            .values
            .is_empty()
    );
}

#[test]
fn a_change_and_a_message_reach_the_host() {
    let host = Host::new();
    host.call(&tools(), "touch", json!({})).unwrap();
    assert_eq!(host.updated(), ["book://index"]);
    let logged = &host.logged()[0];
    assert!(logged.level == LogLevel::Warning);
    assert_eq!(logged.logger.as_deref(), Some("shelf"));
    assert_eq!(logged.data, json!({ "dusty": true }));
}

#[test]
fn the_lists_tell_what_a_client_is_shown() {
    let resources = guest::list_resources(&offer());
    let uris: Vec<&str> = resources.entries.iter().map(|it| it.uri.as_str()).collect();
    assert_eq!(uris, ["book://index", "book://chapters", "book://lost"]);
    assert_eq!(resources.entries[0].size, Some(7));
    assert_eq!(resources.templates[0].uri_template, "book://{book}/{page}");

    let prompts = guest::list_prompts(&offer());
    assert_eq!(prompts[0].title.as_deref(), Some("A letter"));
    let arguments: Vec<_> = prompts[0]
        .arguments
        .iter()
        .map(|it| (it.name.as_str(), it.description.as_deref(), it.required))
        .collect();
    assert_eq!(
        arguments,
        [
            ("receiver", Some("To whom it goes."), true),
            ("tone", Some("How it sounds."), false),
        ]
    );
}
