//! What a host offers, from the command line: the list of it, resources and prompts.

use longshore_guests::{SCRIPT, WORLD};
use serde_json::Value;

use crate::harness::{Ended, Host, Setup, longshore, run};

struct Desk {
    setup: Setup,
    host: Host,
}

impl Desk {
    async fn new() -> Desk {
        let setup = Setup::new(&[
            ("script", &SCRIPT.directory()),
            ("world", &WORLD.directory()),
        ]);
        let host = setup.start().await;
        Desk { setup, host }
    }

    async fn run(&self, arguments: &[&str]) -> Ended {
        let mut command = longshore(arguments);
        command.env("LONGSHORE_URL", self.host.url());
        run(command).await
    }
}

#[tokio::test]
async fn all_that_a_host_offers_is_listed_with_what_it_takes() {
    let desk = Desk::new().await;
    let listed = desk.run(&["list"]).await;
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let from = |word: &str| listed.stdout.find(word).expect(word);
    let page = &listed.stdout;
    assert!(page.starts_with("TOOLS\n"), "{page}");
    assert!(page.contains("  script_auto script=\n      Runs a script.\n"));
    insta::assert_snapshot!(&page[from("RESOURCES")..], @r"
    RESOURCES
      world://ask
      world://binary
      world://huge
      world://speak
      world://spin
      world://text
      world://trap

    TEMPLATES
      world://item/{id}
      world://{room}/x/{y}

    PROMPTS
      ask
          The prompt ask.
      greet name= [tone=]
          The prompt greet.
      wrong
          The prompt wrong.
    ");

    let listed = desk.run(&["list", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    for (kind, key, first) in [
        ("tools", "name", "hand_over"),
        ("resources", "uri", "world://ask"),
        ("resourceTemplates", "uriTemplate", "world://item/{id}"),
        ("prompts", "name", "ask"),
    ] {
        assert_eq!(listed[kind][0][key], first);
    }
}

#[tokio::test]
async fn a_host_that_offers_nothing_says_so() {
    let setup = Setup::new(&[]);
    let host = setup.start().await;
    let listed = run(longshore(&["list", "--url", host.url()])).await;
    assert_eq!((listed.code, listed.stdout.as_str()), (0, ""));
    insta::assert_snapshot!(listed.stderr.trim(), @"the host offers nothing; give it plugins with --plugins");
}

#[tokio::test]
async fn a_resource_is_written_byte_for_byte() {
    let desk = Desk::new().await;
    let read = desk.run(&["read", "world://text"]).await;
    assert_eq!((read.code, read.stdout.as_str()), (0, "read for local"));

    let made = desk.run(&["read", "world://item/7"]).await;
    assert_eq!(made.stdout, "made of world://item/7");

    let file = desk.setup.path("read");
    let out = file.to_str().unwrap();
    let read = desk.run(&["read", "world://binary", "--out", out]).await;
    assert_eq!((read.code, read.stdout.as_str()), (0, ""));
    assert_eq!(std::fs::read(&file).unwrap(), b"\x00\x01\xff");

    let read = desk.run(&["read", "world://binary", "--json"]).await;
    let read: Value = serde_json::from_str(&read.stdout).unwrap();
    assert_eq!(read["contents"][0]["blob"], "AAE=");
}

#[tokio::test]
async fn a_prompt_shows_who_says_what() {
    let desk = Desk::new().await;
    let told = desk.run(&["prompt", "greet", "name=42", "tone=warm"]).await;
    assert_eq!((told.code, told.stderr.as_str()), (0, "the prompt greet\n"));
    insta::assert_snapshot!(told.stdout, @r#"
    user:
    [("name", "42"), ("tone", "warm")]

    assistant:
    and then?
    "#);
    let told = desk.run(&["prompt", "greet", "name=42", "--json"]).await;
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(told["messages"][1]["role"], "assistant");
}

#[tokio::test]
async fn what_can_not_be_read_says_why_and_leaves_the_file_alone() {
    let desk = Desk::new().await;
    let file = desk.setup.path("kept");
    std::fs::write(&file, "kept").unwrap();
    let out = file.to_str().unwrap();
    let mut told = Vec::new();
    for (arguments, code) in [
        (vec!["read", "world:no", "--out", out], 3),
        (vec!["read", "world://trap", "--out", out], 3),
        (vec!["read", "world://ask", "--out", out], 1),
        (vec!["read", "world://ask", "--yes", "--out", out], 1),
        (vec!["prompt", "nope"], 3),
        (vec!["prompt", "greet"], 3),
        (vec!["prompt", "greet", "name"], 2),
        (vec!["prompt", "greet", "name=a", "name=b"], 2),
    ] {
        let ended = desk.run(&arguments).await;
        assert_eq!(ended.code, code, "{arguments:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{arguments:?}");
        told.push(ended.stderr.trim().to_owned());
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    insta::assert_snapshot!(told.join("\n"), @r"
    error: no resource `world:no`; resources/list has them
    error: the tool panicked: the page is torn
    error: `world://ask` asks first, and there is no terminal to ask on:
      What name?
        name.name: text
    give the command from a terminal, or confirm everything with --yes
    error: `world://ask` asks first, and `name` asks for `name`, which has no default:
      What name?
        name.name: text
    give the command from a terminal
    error: no prompt is called `nope`; prompts/list has the names
    error: the arguments of the prompt `greet` do not fit: `name` is missing
    error: `name` is not KEY=VALUE
    error: `name` is given twice
    ");
}
