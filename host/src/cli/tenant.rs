//! `longshore tenant`: says in the configuration who may use the host. Only hashes are kept; a
//! token is shown once.

use std::io::Write;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Args, Subcommand};
use serde_json::json;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

use super::exit::{Exit, Failure};
use super::print::{note, say};
use super::whole::{Readers, Whole};
use super::{render, text};
use crate::config::{Config, DEFAULT_FILE, Overrides, TenantToken};
use crate::task::TenantId;

const TOKEN_BYTES: usize = 32;
/// Marks our tokens, so that a scanner for leaked secrets can know them.
const TOKEN_PREFIX: &str = "longshore_";

const ADD_EXAMPLES: &str = "\
Examples:
  longshore tenant add acme
  TOKEN=$(longshore tenant add ci --config /etc/longshore.toml)

Only the token's hash is written; the token is printed once, on standard output.";

#[derive(Subcommand)]
pub enum TenantCommand {
    /// Add a tenant and print its token
    #[command(after_help = ADD_EXAMPLES)]
    Add(NamedArgs),
    /// List the tenants
    List(ListArgs),
    /// Remove a tenant and its tokens; its tasks are kept until they expire
    Remove(NamedArgs),
}

#[derive(Args)]
pub struct NamedArgs {
    /// 1 to 64 of a-z, 0-9, `-` and `_`
    name: String,
    #[command(flatten)]
    file: FileArgs,
}

#[derive(Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    file: FileArgs,
}

#[derive(Args)]
pub struct FileArgs {
    /// The configuration
    #[arg(long, value_name = "FILE", default_value = DEFAULT_FILE)]
    config: PathBuf,
}

pub fn run(command: TenantCommand) -> Result<Exit, Failure> {
    match command {
        TenantCommand::Add(args) => add(&args),
        TenantCommand::List(args) => list(&args),
        TenantCommand::Remove(args) => remove(&args),
    }
}

fn add(args: &NamedArgs) -> Result<Exit, Failure> {
    let name = parse_name(&args.name)?;
    let path = &args.file.config;
    let text = read(path)?;
    let token = new_token()?;
    let changed = add_to(&text, &name, &token).map_err(|problem| in_file(path, &problem))?;
    // What is written must be what the host would read.
    let config = Config::parse(&changed, path, Overrides::default())?;
    write(path, &changed)?;
    say!("{token}");
    note!(
        "{} tenant `{name}` in {}; the token is shown this once",
        text::green("added"),
        path.display()
    );
    note!("{}", text::dim("a running host reads it at its next start"));
    if config.tenants.len() == 1 && name != TenantId::local() {
        note!(
            "tasks made without a token belong to the tenant `local`; `longshore tenant add local` \
             makes a token that reaches them"
        );
    }
    Ok(Exit::Done)
}

fn list(args: &ListArgs) -> Result<Exit, Failure> {
    let path = &args.file.config;
    let config = Config::parse(&read(path)?, path, Overrides::default())?;
    let mut names: Vec<&str> = config.tenants.iter().map(|t| t.tenant.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    if args.json {
        render::json(&json!({ "tenants": names }));
        return Ok(Exit::Done);
    }
    names.iter().for_each(|name| say!("{name}"));
    if names.is_empty() {
        note!("no tenants: the host serves loopback only, without tokens");
    }
    Ok(Exit::Done)
}

fn remove(args: &NamedArgs) -> Result<Exit, Failure> {
    let name = parse_name(&args.name)?;
    let path = &args.file.config;
    let changed = remove_from(&read(path)?, &name).map_err(|problem| in_file(path, &problem))?;
    write(path, &changed)?;
    note!(
        "{} tenant `{name}` from {}",
        text::green("removed"),
        path.display()
    );
    note!(
        "{}",
        text::dim("a running host reads it at its next start; until then the token works")
    );
    Ok(Exit::Done)
}

fn parse_name(name: &str) -> Result<TenantId, Failure> {
    TenantId::parse(name).map_err(|error| Failure::usage(format!("`{name}`: {error}")))
}

fn new_token() -> Result<String, Failure> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::failed(format!("the system gives no randomness: {error}")))?;
    Ok(format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// The text with the tenant added; comments and order stay.
fn add_to(text: &str, name: &TenantId, token: &str) -> Result<String, String> {
    let mut document = parse(text)?;
    let tenants = tenants(&mut document)?;
    if tenants.iter().any(|tenant| is_named(tenant, name)) {
        return Err(format!(
            "there is a tenant `{name}` already; to change its token: longshore tenant remove {name}"
        ));
    }
    let mut tenant = Table::new();
    tenant.insert("name", value(name.as_str()));
    tenant.insert("token_sha256", value(TenantToken::hash(token).to_string()));
    tenants.push(tenant);
    Ok(document.to_string())
}

fn remove_from(text: &str, name: &TenantId) -> Result<String, String> {
    let mut document = parse(text)?;
    let tenants = tenants(&mut document)?;
    let before = tenants.len();
    tenants.retain(|tenant| !is_named(tenant, name));
    match tenants.len() < before {
        true => Ok(document.to_string()),
        false => Err(format!("there is no tenant `{name}`")),
    }
}

fn parse(text: &str) -> Result<DocumentMut, String> {
    text.parse()
        .map_err(|error: toml_edit::TomlError| error.to_string())
}

fn tenants(document: &mut DocumentMut) -> Result<&mut ArrayOfTables, String> {
    document
        .entry("tenant")
        .or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()))
        .as_array_of_tables_mut()
        .ok_or_else(|| "`tenant` must be written as [[tenant]] tables".to_owned())
}

fn is_named(tenant: &Table, name: &TenantId) -> bool {
    tenant.get("name").and_then(Item::as_str) == Some(name.as_str())
}

fn read(path: &Path) -> Result<String, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(in_file(path, &error.to_string())),
    }
}

/// Replaces the file as a whole, so that a host that starts just now reads the old or the new. A
/// new one is for its owner only.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let replace = || -> std::io::Result<()> {
        let mut file = Whole::create(path, Readers::Owner)?;
        file.write_all(text.as_bytes())?;
        file.finish()
    };
    replace().map_err(|error| in_file(path, &format!("can't be written: {error}")))
}

fn in_file(path: &Path, problem: &str) -> Failure {
    Failure::usage(format!("{}: {problem}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use insta::assert_snapshot;

    use super::*;

    fn name(name: &str) -> TenantId {
        TenantId::parse(name).unwrap()
    }

    #[test]
    fn adding_and_removing_keep_the_rest_of_the_file() {
        let text = "# ours\nlisten = \"127.0.0.1:1\" # low\n\n[limits]\nlog_max_bytes = 1024\n";
        let added = add_to(text, &name("acme"), "secret").unwrap();
        assert_snapshot!(added, @r##"
        # ours
        listen = "127.0.0.1:1" # low

        [limits]
        log_max_bytes = 1024

        [[tenant]]
        name = "acme"
        token_sha256 = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
        "##);
        let config = Config::parse(&added, Path::new("a.toml"), Overrides::default()).unwrap();
        assert_eq!(config.tenants[0].token_sha256, TenantToken::hash("secret"));
        assert_eq!(remove_from(&added, &name("acme")).unwrap(), text);
    }

    #[test]
    fn a_tenant_is_added_once_and_removed_once() {
        let added = add_to("", &name("acme"), "secret").unwrap();
        assert!(add_to(&added, &name("acme"), "other").is_err());
        assert!(remove_from(&added, &name("other")).is_err());
        assert!(remove_from("", &name("acme")).is_err());
    }

    #[test]
    fn a_new_file_is_for_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("longshore.toml");
        write(&path, "a").unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!((mode & 0o777, read(&path).unwrap().as_str()), (0o600, "a"));
    }

    #[test]
    fn every_token_is_another() {
        let (one, other) = (new_token().unwrap(), new_token().unwrap());
        assert_ne!(one, other);
        assert!(one.len() > TOKEN_PREFIX.len() + 40);
    }
}
