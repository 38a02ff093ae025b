//! HTTP/1 with as little of a client as keeps a connection alive, so that the client is not what
//! is measured.

use std::net::SocketAddr;

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One kept connection.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let buffer = Vec::with_capacity(64 << 10);
        Ok(Connection { stream, buffer })
    }

    /// Sends a whole request; the body of the answer, whose status has to be 200.
    pub async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<&[u8]> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let (start, length) = loop {
            self.read().await?;
            if let Some(found) = read_head(&self.buffer)? {
                break found;
            }
        };
        while self.buffer.len() < start + length {
            self.read().await?;
        }
        Ok(&self.buffer[start..start + length])
    }

    /// The result of a JSON-RPC request.
    pub async fn result(&mut self, request: &[u8]) -> anyhow::Result<Value> {
        let body: Value = serde_json::from_slice(self.exchange(request).await?)?;
        match body.get("result") {
            Some(result) => Ok(result.clone()),
            None => bail!("no result: {body}"),
        }
    }

    async fn read(&mut self) -> anyhow::Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => bail!("the connection closed"),
            _ => Ok(()),
        }
    }
}

/// Where the body starts and how long it is, once the head is whole.
fn read_head(bytes: &[u8]) -> anyhow::Result<Option<(usize, usize)>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..end])?;
    if !head.starts_with("HTTP/1.1 200 ") {
        bail!("not answered: {}", String::from_utf8_lossy(bytes));
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().ok())?
    });
    let length = length.context("an answer without a length")?;
    Ok(Some((end + 4, length)))
}
