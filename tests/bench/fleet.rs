//! Many connections that each ask again as soon as they are answered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::wire::Connection;

pub struct Fleet {
    connections: Vec<Connection>,
    request: Arc<[u8]>,
}

/// What a fleet did.
pub struct Ridden {
    pub per_second: f64,
    pub count: usize,
    pub latencies: Vec<Duration>,
}

impl Fleet {
    pub async fn open(address: SocketAddr, size: usize, request: Vec<u8>) -> anyhow::Result<Fleet> {
        let mut connections = Vec::new();
        for _ in 0..size {
            connections.push(Connection::open(address).await?);
        }
        Ok(Fleet {
            connections,
            request: request.into(),
        })
    }

    /// Asks for `time`, then waits for the last answers.
    pub async fn ride(&mut self, time: Duration) -> anyhow::Result<Ridden> {
        let started = Instant::now();
        let mut riders = JoinSet::new();
        for mut connection in self.connections.drain(..) {
            let request = self.request.clone();
            riders.spawn(async move {
                let mut latencies = Vec::new();
                while started.elapsed() < time {
                    let asked = Instant::now();
                    connection.exchange(&request).await?;
                    latencies.push(asked.elapsed());
                }
                anyhow::Ok((connection, latencies))
            });
        }
        let mut latencies = Vec::new();
        while let Some(rider) = riders.join_next().await {
            let (connection, mut more) = rider??;
            self.connections.push(connection);
            latencies.append(&mut more);
        }
        Ok(Ridden {
            per_second: latencies.len() as f64 / started.elapsed().as_secs_f64(),
            count: latencies.len(),
            latencies,
        })
    }
}
