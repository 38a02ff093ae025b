//! (m) Thousands of clients that listen: what a stream costs in memory, and how long a change takes
//! to the last of them. Sessions of the handshake revisions: what each costs, and where they end.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::host::{Host, Place, until};
use crate::machine::resident_kib;
use crate::message;
use crate::table::{Samples, Table};
use crate::wire::Connection;

const STREAMS: usize = 5_000;
/// Streams of a tenant are limited, so there are many tenants.
const TENANT_STREAMS: usize = 64;
const TENANTS: usize = STREAMS.div_ceil(TENANT_STREAMS);
/// Tenants whose tasks change one after the other, before those of all others do at once.
const ALONE: usize = 9;
const SESSIONS: usize = 256;

pub async fn measure(table: &mut Table) -> anyhow::Result<()> {
    streams(table).await?;
    sessions(table).await
}

async fn streams(table: &mut Table) -> anyhow::Result<()> {
    let mut configuration = "connections_max = 6000\ntasks_running_max = 100\n".to_owned();
    for tenant in 0..TENANTS {
        let hash: String = Sha256::digest(token(tenant))
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        write!(
            configuration,
            "[[tenant]]\nname = \"t{tenant}\"\ntoken_sha256 = \"{hash}\"\n"
        )?;
    }
    let place = Place::new()?.limits(&configuration);
    let host = place.start().await?;
    let mut connection = host.connect().await?;
    let mut tasks = Vec::new();
    for tenant in 0..TENANTS {
        let asks = json!([{"do": "confirm", "key": "go", "message": "Go on?"}]);
        let call = with_token(message::call("script_resume", asks), tenant);
        let created = connection.result(&call).await?;
        let id = created["taskId"].as_str().context("a task")?.to_owned();
        let get = with_token(message::get(&id), tenant);
        while connection.result(&get).await?["status"] != "input_required" {}
        tasks.push(id);
    }

    let before = resident_kib(host.pid())?;
    let (told, mut heard) = mpsc::channel(STREAMS);
    for index in 0..STREAMS {
        let tenant = index / TENANT_STREAMS;
        let stream = listen(host.address, tenant, &tasks[tenant]).await?;
        tokio::spawn(follow(stream, tenant, told.clone()));
    }
    let grown = (resident_kib(host.pid())? - before) / STREAMS as f64;
    let what = format!("an open stream, of {STREAMS}");
    table.row('m', &what, "KiB", &Samples(vec![grown]));

    // One task changes: all streams of its tenant hear it, with every other one open beside them.
    let mut one = Samples::default();
    for (tenant, task) in tasks.iter().enumerate().take(ALONE) {
        let started = Instant::now();
        cancel(&mut connection, tenant, task).await?;
        for _ in 0..TENANT_STREAMS {
            ensure!(
                heard.recv().await == Some(tenant),
                "another's stream heard it"
            );
        }
        one.0.push(started.elapsed().as_secs_f64() * 1e3);
    }
    let what = format!("from a cancel to the last of {TENANT_STREAMS} that watch");
    table.row('m', &what, "ms", &one);
    let rest = STREAMS - ALONE * TENANT_STREAMS;
    let started = Instant::now();
    for (tenant, task) in tasks.iter().enumerate().skip(ALONE) {
        cancel(&mut connection, tenant, task).await?;
    }
    for _ in 0..rest {
        heard.recv().await.context("a stream ended")?;
    }
    let all = started.elapsed().as_secs_f64() * 1e3;
    let what = format!(
        "{} changes, to the last of {rest} that watch",
        TENANTS - ALONE
    );
    table.row('m', &what, "ms", &Samples(vec![all]));
    Ok(())
}

fn token(tenant: usize) -> String {
    format!("token-{tenant}")
}

fn with_token(request: Vec<u8>, tenant: usize) -> Vec<u8> {
    let text = String::from_utf8(request).expect("requests are text");
    let header = format!("\r\nauthorization: Bearer {}\r\n", token(tenant));
    text.replacen("\r\n", &header, 1).into_bytes()
}

async fn cancel(connection: &mut Connection, tenant: usize, task: &str) -> anyhow::Result<()> {
    let request = with_token(message::cancel(task), tenant);
    connection.result(&request).await?;
    Ok(())
}

/// Opens a stream and waits until it is acknowledged.
async fn listen(address: SocketAddr, tenant: usize, task: &str) -> anyhow::Result<TcpStream> {
    let watched = json!({"notifications": {"taskIds": [task]}});
    let request = with_token(message::request("subscriptions/listen", watched), tenant);
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(&request).await?;
    read_until(&mut stream, "subscriptions/acknowledged").await?;
    Ok(stream)
}

/// Tells when the first change came.
async fn follow(mut stream: TcpStream, tenant: usize, told: mpsc::Sender<usize>) {
    if read_until(&mut stream, "\"cancelled\"").await.is_ok() {
        let _ = told.send(tenant).await;
    }
}

async fn read_until(stream: &mut TcpStream, words: &str) -> anyhow::Result<String> {
    let mut text = Vec::new();
    loop {
        let read = stream.read_buf(&mut text).await?;
        let all = String::from_utf8_lossy(&text);
        if all.contains(words) {
            return Ok(all.into_owned());
        }
        ensure!(read > 0, "the stream ended: {all}");
    }
}

async fn sessions(table: &mut Table) -> anyhow::Result<()> {
    let place = Place::new()?.limits(&format!("tenant_legacy_sessions_max = {SESSIONS}"));
    let host = place.start().await?;
    let mut connection = host.connect().await?;
    let ended = crate::host::start_task(&mut connection, "script_resume", json!([])).await?;
    until(&mut connection, &ended, |task| {
        task["status"] == "completed"
    })
    .await?;
    // The first one also makes what all share.
    open_session(&host).await?;
    let before = resident_kib(host.pid())?;
    for _ in 1..SESSIONS {
        open_session(&host).await?;
    }
    let grown = (resident_kib(host.pid())? - before) / (SESSIONS - 1) as f64;
    let what = format!("a session of a handshake revision, of {SESSIONS}");
    table.row('m', &what, "KiB", &Samples(vec![grown]));
    let refused = open_session(&host).await;
    ensure!(
        refused.is_err_and(|error| error.to_string().contains("503")),
        "one session more than allowed was not refused with 503"
    );
    Ok(())
}

async fn open_session(host: &Host) -> anyhow::Result<()> {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "bench", "version": "1"},
    });
    let body: Value = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let body = body.to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(host.address).await?;
    stream.write_all(request.as_bytes()).await?;
    read_until(&mut stream, "\"serverInfo\"").await?;
    Ok(())
}
