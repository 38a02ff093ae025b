//! `longshore serve`: the host, in the foreground, until it is told to stop.

use std::net::SocketAddr;

use clap::Args;

use super::exit::{Exit, Failure};
use super::place::ServedArgs;
use super::print::note;
use super::stop::Stop;
use super::text;
use crate::app::Host;
use crate::catalog::Snapshot;
use crate::config::{Config, parse_listen};

const EXAMPLES: &str = "\
Examples:
  longshore serve
  longshore serve --plugins target/plugins --data-dir /var/lib/longshore
  longshore serve --config /etc/longshore.toml --listen 127.0.0.1:0

Without a configuration it listens on 127.0.0.1:7331 for one tenant and asks for no token. To
listen on any other address, add a tenant first: longshore tenant add NAME

SIGTERM or Ctrl-C stops it: runs are brought to a safe place and go on at the next start. A second
signal stops it at once.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    #[command(flatten)]
    pub served: ServedArgs,
    /// The address to listen on; port 0 takes a free one [default: 127.0.0.1:7331]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_listen)]
    pub listen: Option<SocketAddr>,
}

pub async fn run(args: ServeArgs) -> Result<Exit, Failure> {
    let config = args.served.config(args.listen)?;
    // Signals that come while the host starts must not be lost.
    let mut stop = Stop::listen()?;
    let host = tokio::select! {
        started = start(config.clone()) => started?,
        // Nobody was promised anything yet, and a plugin may take long to compile.
        () = stop.wait() => {
            note!("stopped before it had started");
            return Ok(Exit::Done);
        }
    };
    print_summary(&host, &config);
    stop.wait().await;
    stop_host(host, stop).await;
    Ok(Exit::Done)
}

/// Starts a host; what keeps it from starting is the operator's to change.
pub async fn start(config: Config) -> Result<Host, Failure> {
    let started = Host::start(config).await;
    started.map_err(|error| Failure::usage(format!("{error:#}")))
}

/// Brings the host to rest; a second signal ends the process where it is, which loses no task.
pub async fn stop_host(host: Host, mut stop: Stop) {
    note!("stopping; again to stop at once");
    tokio::select! {
        () = host.stop() => note!("stopped"),
        () = stop.wait() => std::process::exit(130),
    }
}

/// Says where the host listens and what it serves.
pub fn print_summary(host: &Host, config: &Config) {
    let snapshot = host.tools();
    note!("listening on {}", text::bold(&host.url()));
    let tenants = match config.tenants.len() {
        0 => "one, without a token (loopback only)".to_owned(),
        _ => tenant_names(config).join(", "),
    };
    for (name, value) in [
        ("plugins", plugins_line(&snapshot, config)),
        ("tools", tools_line(&snapshot)),
        ("tenants", tenants),
        ("data", text::path(&config.data_dir)),
    ] {
        note!("  {} {value}", text::dim(&format!("{name:<8}")));
    }
    for (name, reason) in &snapshot.failures {
        note!(
            "  {} {}: {}",
            text::red("failed  "),
            text::plain_line(name, 200),
            text::plain_lines(reason, 2_000, "           ")
        );
    }
    // A name that is misspelt gives nothing to anybody.
    for name in config.given.keys() {
        if !snapshot.plugins.contains_key(name) && !snapshot.failures.contains_key(name) {
            let name = text::plain_line(name, 60);
            note!(
                "  {} the configuration has [plugin.{name}], and no plugin is called that",
                text::yellow("unused  ")
            );
        }
    }
}

fn plugins_line(snapshot: &Snapshot, config: &Config) -> String {
    let plugins = snapshot.plugins.values();
    let names: Vec<String> = plugins
        .map(|plugin| format!("{} {}", plugin.name, text::plain_line(&plugin.version, 32)))
        .collect();
    match names.is_empty() {
        true => format!(
            "none in {}; build one with `longshore plugin build`",
            config.plugins_dir.display()
        ),
        false => names.join(", "),
    }
}

fn tools_line(snapshot: &Snapshot) -> String {
    let names: Vec<&str> = snapshot.tools.keys().map(String::as_str).collect();
    match names.len() {
        0 => "none".to_owned(),
        1..=12 => names.join(", "),
        count => format!("{count}, from {} to {}", names[0], names[count - 1]),
    }
}

pub fn tenant_names(config: &Config) -> Vec<String> {
    let mut names: Vec<String> = config
        .tenants
        .iter()
        .map(|token| token.tenant.to_string())
        .collect();
    names.sort();
    names.dedup();
    names
}
