//! The local socket: how other processes of the same user reach the host that holds the data
//! directory. It accepts and counts clients; what they say is `mcp`'s business.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::mcp::{Endpoint, LineClient, LineLimits, stopping};
use crate::task::TenantId;

/// Clients at once; more wait to be accepted.
const CLIENTS_MAX: usize = 64;

/// How long to wait when the system has no descriptor left for a client.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a client may take to introduce itself, and the most it may say, bytes.
const INTRODUCTION_TIMEOUT: Duration = Duration::from_secs(5);
const INTRODUCTION_MAX_BYTES: u64 = 128;

/// What a tenant's introduction begins with; the tenant follows.
const TENANT: &str = "longshore tenant ";

/// The whole introduction of whoever changes the host's plugins.
const ADMINISTRATOR: &str = "longshore administrator";

/// Only the user who runs the host.
const SOCKET_MODE: u32 = 0o600;

/// Where the host of a data directory listens.
pub fn socket_path(data_dir: &Path) -> PathBuf {
    data_dir.join("longshore.sock")
}

/// The line a tenant's client begins with: whose tasks it sees. Whoever can open the socket owns the
/// data directory, and with it the tasks of every tenant (I4). What comes through a bridge of standard
/// input and output follows this line, so that nobody behind one is an administrator.
pub fn introduction(tenant: &TenantId) -> String {
    format!("{TENANT}{tenant}\n")
}

async fn read_introduction(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<LineClient> {
    let mut line = String::new();
    let mut bounded = reader.take(INTRODUCTION_MAX_BYTES);
    bounded.read_line(&mut line).await?;
    let introduced = match line.strip_suffix('\n') {
        Some(ADMINISTRATOR) => Some(LineClient::Administrator),
        Some(line) => {
            let name = line.strip_prefix(TENANT);
            let tenant = name.and_then(|name| TenantId::parse(name).ok());
            tenant.map(LineClient::Tenant)
        }
        None => None,
    };
    introduced.ok_or_else(|| io::Error::other("a local client did not introduce itself"))
}

/// Listens in `data_dir`, whose store the caller holds: a socket that is there is a dead host's.
pub fn bind(data_dir: &Path) -> io::Result<UnixListener> {
    let path = socket_path(data_dir);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(SOCKET_MODE))?;
    Ok(listener)
}

/// Serves until `shutdown` becomes true, then lets clients get their answers. `open` shows how many
/// there are.
pub async fn serve(
    listener: UnixListener,
    endpoint: Endpoint,
    limits: LineLimits,
    open: watch::Sender<usize>,
    mut shutdown: watch::Receiver<bool>,
) {
    let mut clients = JoinSet::new();
    loop {
        open.send_replace(clients.len());
        let has_room = clients.len() < CLIENTS_MAX;
        tokio::select! {
            () = stopping(&mut shutdown) => break,
            accepted = listener.accept(), if has_room => match accepted {
                Ok((stream, _)) if is_own(&stream) => {
                    clients.spawn(client(stream, endpoint.clone(), limits));
                }
                Ok(_) => tracing::warn!("another user's process was turned away from the socket"),
                Err(error) => {
                    tracing::warn!(%error, "can't accept a local client; trying again");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = clients.join_next() => {}
        }
    }
    drop(listener);
    while clients.join_next().await.is_some() {}
}

/// The file's mode says the same, but only since a moment after it was made.
fn is_own(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own)
}

async fn client(stream: UnixStream, endpoint: Endpoint, limits: LineLimits) {
    let (reader, writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let served = async {
        let introduced = timeout(INTRODUCTION_TIMEOUT, read_introduction(&mut reader));
        let who = introduced.await.map_err(io::Error::from)??;
        let served = endpoint.serve_lines(who, reader, writer, limits);
        served.await
    };
    if let Err(error) = served.await {
        // A client that goes away is no fault of the host.
        tracing::debug!(%error, "a local client ended early");
    }
}
