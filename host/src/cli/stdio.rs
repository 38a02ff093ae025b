//! `longshore stdio`: the host of one client that starts it, over standard input and output. Beside
//! another host of the same data directory it is a bridge to that one. Nothing but the protocol's
//! messages goes to standard output.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use tokio::io::{AsyncWriteExt, copy};
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::exit::{Exit, Failure};
use super::place::ServedArgs;
use super::serve;
use super::stop::Stop;
use super::text;
use crate::app::{LocalHost, introduction, socket_path};
use crate::config::Config;
use crate::store::OpenError;
use crate::task::TenantId;

const EXAMPLES: &str = "\
Examples:
  longshore stdio
  longshore stdio --plugins /opt/plugins --data-dir ~/.local/share/longshore
  longshore stdio --tenant ada               beside a `longshore serve` with tenants

A client starts it: its configuration names this command. Several clients may share a data
directory; one process holds it, the others pass everything on to that one.

It ends when its standard input does. Tasks go on at the next start, also of `longshore serve`.
They belong to the tenant `local`, which is everybody's on a host without tenants, or to the one
that --tenant names.";

/// How often the other host is looked for while it starts or stops.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// How long it is looked for, on top of what a stopping host may take.
const RETRY_MAX: Duration = Duration::from_secs(5);

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct StdioArgs {
    #[command(flatten)]
    pub served: ServedArgs,
    /// Whose tasks the client sees and makes
    #[arg(long, value_name = "NAME", default_value = "local", value_parser = TenantId::parse)]
    pub tenant: TenantId,
}

/// Who serves the client.
enum Served {
    Here(LocalHost),
    There(UnixStream),
}

pub async fn run(args: StdioArgs) -> Result<Exit, Failure> {
    let config = args.served.config(None)?;
    check_tenant(&config, &args.tenant)?;
    // Signals that come while the host starts must not be lost.
    let mut stop = Stop::listen()?;
    let served = tokio::select! {
        served = find(&config) => served?,
        // A client that gives up on a host that starts must not leave it behind.
        () = stop.wait() => return Ok(Exit::Interrupted),
    };
    match served {
        Served::Here(host) => serve(host, args.tenant, stop).await,
        Served::There(stream) => tokio::select! {
            bridged = bridge(stream, &args.tenant) => bridged,
            () = stop.wait() => Ok(Exit::Done),
        },
    }
}

/// A misspelt tenant would have no tasks, and hide those it makes.
fn check_tenant(config: &Config, tenant: &TenantId) -> Result<(), Failure> {
    let names = serve::tenant_names(config);
    let is_known = *tenant == TenantId::local() || names.contains(&tenant.to_string());
    match names.is_empty() || is_known {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "no tenant is called `{tenant}`; the configuration has {}",
            names.join(", ")
        ))),
    }
}

/// Takes the data directory, or finds the host that has it. Both may take a moment: that host may be
/// starting or stopping.
async fn find(config: &Config) -> Result<Served, Failure> {
    let socket = socket_path(config);
    let patience = Duration::from_millis(config.limits.drain_timeout_ms) + RETRY_MAX;
    let deadline = Instant::now() + patience;
    loop {
        let error = match LocalHost::start(config).await {
            Ok(host) => return Ok(Served::Here(host)),
            Err(error) => error,
        };
        if !matches!(error.downcast_ref(), Some(OpenError::InUse(_))) {
            return Err(Failure::usage(format!("{error:#}")));
        }
        if let Ok(stream) = UnixStream::connect(&socket).await {
            return Ok(Served::There(stream));
        }
        if Instant::now() >= deadline {
            return Err(unreachable_host(&socket, &error));
        }
        sleep(RETRY_INTERVAL).await;
    }
}

fn unreachable_host(socket: &Path, error: &anyhow::Error) -> Failure {
    Failure::usage(format!(
        "{error:#}; nor can that process be reached at {}",
        socket.display()
    ))
}

async fn serve(mut host: LocalHost, tenant: TenantId, mut stop: Stop) -> Result<Exit, Failure> {
    let mut serving = tokio::spawn(host.serve_stdio(tenant));
    let mut is_loaded = false;
    let ended = loop {
        tokio::select! {
            // Compiling may take long, and who the host is can be answered meanwhile.
            loaded = until_loaded(&mut host), if !is_loaded => {
                loaded?;
                is_loaded = true;
                print_failures(&host);
            }
            ended = &mut serving => {
                tokio::select! {
                    unneeded = until_unneeded(&mut host) => unneeded?,
                    () = stop.wait() => {}
                }
                break Some(ended);
            }
            // Before it has loaded it was asked for nothing that it began.
            () = stop.wait() => match is_loaded {
                true => break None,
                false => return Ok(Exit::Interrupted),
            },
        }
    };
    tokio::select! {
        () = host.stop() => {}
        () = stop.wait() => return Ok(Exit::Interrupted),
    }
    match ended {
        None => {
            // What the client asked for was answered while the host came to rest.
            serving.abort();
            Ok(Exit::Done)
        }
        Some(Ok(Ok(()))) => Ok(Exit::Done),
        Some(Ok(Err(error))) => Err(Failure::failed(format!("the client broke off: {error}"))),
        Some(Err(error)) => Err(Failure::failed(format!(
            "serving ended unexpectedly: {error}"
        ))),
    }
}

async fn until_loaded(host: &mut LocalHost) -> Result<(), Failure> {
    let loaded = host.until_loaded().await;
    loaded.map_err(|error| Failure::usage(format!("{error:#}")))
}

/// Resolves when nobody has use for the process whose own client has ended its side.
async fn until_unneeded(host: &mut LocalHost) -> Result<(), Failure> {
    // What is compiled is there at the next start, which a client that gave up on this one makes soon.
    until_loaded(host).await?;
    // Other clients' processes go through this one.
    host.until_alone().await;
    Ok(())
}

fn print_failures(host: &LocalHost) {
    for (name, reason) in &host.tools().failures {
        eprintln!(
            "{} {}: {}",
            text::red("failed"),
            text::plain(name),
            text::plain(reason)
        );
    }
}

/// Passes everything on, both ways, until the client or the other host ends.
async fn bridge(stream: UnixStream, tenant: &TenantId) -> Result<Exit, Failure> {
    let (mut from_host, mut to_host) = stream.into_split();
    let introduced = to_host.write_all(introduction(tenant).as_bytes()).await;
    introduced.map_err(|error| Failure::failed(format!("the connection broke: {error}")))?;
    let (ended, mut client_ended) = oneshot::channel();
    let up = tokio::spawn(async move {
        copy(&mut tokio::io::stdin(), &mut to_host).await?;
        // Told before the host can know, which ends its side then.
        let _ = ended.send(());
        to_host.shutdown().await
    });
    let mut output = tokio::io::stdout();
    let down = copy(&mut from_host, &mut output).await;
    let flushed = output.flush().await;
    // The host ends its side after the client has ended its own, or because it stops.
    let is_client_done = client_ended.try_recv().is_ok();
    up.abort();
    match down.and(flushed.map(|()| 0)) {
        Ok(_) if is_client_done => Ok(Exit::Done),
        Ok(_) => Err(Failure::failed(
            "the host that holds the data directory has stopped; start this command again",
        )),
        Err(error) => Err(Failure::failed(format!("the connection broke: {error}"))),
    }
}
