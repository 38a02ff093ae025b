//! What an operator may set of the HTTP side, with defaults that suit a host on loopback.

use std::time::Duration;

/// Limits and names of the HTTP side. Those of the body and of connections are configuration keys; the
/// head's are as they are here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpOptions {
    /// Origins of web pages that may call, as `scheme://host[:port]`. Pages of this machine may
    /// always.
    pub allowed_origins: Vec<String>,
    /// Names and addresses, with or without a port, under which clients reach the host. Loopback
    /// is always among them.
    pub allowed_hosts: Vec<String>,
    /// A request's body, bytes.
    pub body_max_bytes: usize,
    /// How long a request's body may take to arrive.
    pub body_timeout: Duration,
    /// How long a request's head may take to arrive, and an idle connection may stay.
    pub head_timeout: Duration,
    /// A request's head, bytes.
    pub head_max_bytes: usize,
    /// Connections open at once. One more ends one of whoever has most: the one that has kept the
    /// host waiting longest for a request. While all are busy it waits to be accepted.
    pub connections_max: usize,
    /// Those of one tenant; None where there is one tenant only.
    pub tenant_connections_max: Option<usize>,
    /// How long a client may leave what it is sent unread.
    pub write_timeout: Duration,
    /// How long open requests may go on after the shutdown began.
    pub drain_timeout: Duration,
}

impl Default for HttpOptions {
    fn default() -> HttpOptions {
        HttpOptions {
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            body_max_bytes: 1024 * 1024,
            body_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(10),
            head_max_bytes: 32 * 1024,
            connections_max: 1024,
            tenant_connections_max: None,
            write_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(10),
        }
    }
}
