//! A `longshore serve` process with the scripted tools, over a directory that outlives it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::sleep;

use crate::message;
use crate::wire::Connection;

/// How often a task is looked at while something is waited for.
const POLL: Duration = Duration::from_micros(500);

/// What hosts are started with.
pub struct Place {
    dir: TempDir,
    limits: String,
}

impl Place {
    /// On the disk of the build directory, which is a real one where `/tmp` may be memory.
    pub fn new() -> anyhow::Result<Place> {
        let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR"))?;
        // Compiled code is shared, so that the plugin is compiled once.
        let components = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-components");
        std::fs::create_dir_all(&components)?;
        std::fs::create_dir_all(dir.path().join("data"))?;
        std::fs::create_dir_all(dir.path().join("plugins"))?;
        std::os::unix::fs::symlink(components, dir.path().join("data/components"))?;
        let limits = "[limits]\ntasks_unfinished_max = 1_000_000\n".to_owned();
        Ok(Place { dir, limits })
    }

    /// Adds limits to the configuration.
    pub fn limits(mut self, lines: &str) -> Place {
        self.limits.push_str(lines);
        self.limits.push('\n');
        self
    }

    /// Gives up the compiled code that it shares with other places.
    pub fn with_own_code(self) -> anyhow::Result<Place> {
        let components = self.data().join("components");
        std::fs::remove_file(&components)?;
        std::fs::create_dir(&components)?;
        Ok(self)
    }

    /// Where plugins are looked for.
    pub fn plugins(&self) -> PathBuf {
        self.dir.path().join("plugins")
    }

    pub fn config(&self) -> PathBuf {
        self.dir.path().join("longshore.toml")
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Starts a host and waits until it listens.
    pub async fn start(&self) -> anyhow::Result<Host> {
        let config = self.config();
        std::fs::write(&config, &self.limits)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_longshore"));
        command.arg("serve").arg("--config").arg(config);
        command.args(["--listen", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(self.data());
        command
            .arg("--plugin")
            .arg(longshore_guests::SCRIPT.directory());
        command.arg("--plugins").arg(self.plugins());
        Host::start(command).await
    }
}

/// A process that serves; killed when dropped.
pub struct Host {
    child: Child,
    pub address: SocketAddr,
    /// From the start of the process until it listened.
    pub start_time: Duration,
}

impl Host {
    /// Starts `command` and reads where it listens from its stderr.
    pub async fn start(mut command: Command) -> anyhow::Result<Host> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::piped()).kill_on_drop(true);
        let started = Instant::now();
        let mut child = command.spawn().context("the process starts")?;
        let stderr = child.stderr.take().context("stderr is piped")?;
        let mut lines = BufReader::new(stderr).lines();
        let mut said = String::new();
        while let Some(line) = lines.next_line().await? {
            let listening = line.split_once("listening on http://");
            if let Some(address) = listening.and_then(|(_, rest)| rest.split('/').next()) {
                let address = address.parse()?;
                let start_time = started.elapsed();
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Ok(Host {
                    child,
                    address,
                    start_time,
                });
            }
            said.push_str(&line);
            said.push('\n');
        }
        anyhow::bail!("it did not start:\n{said}")
    }

    pub fn pid(&self) -> u32 {
        self.child.id().expect("it runs until it is dropped")
    }

    pub async fn connect(&self) -> anyhow::Result<Connection> {
        Connection::open(self.address).await
    }

    /// SIGKILL, and waits until it is gone.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }
}

/// Starts a task; its id.
pub async fn start_task(
    connection: &mut Connection,
    tool: &str,
    script: Value,
) -> anyhow::Result<String> {
    let created = connection.result(&message::call(tool, script)).await?;
    let id = created["taskId"].as_str();
    Ok(id
        .with_context(|| format!("no task: {created}"))?
        .to_owned())
}

/// Looks at a task until it is as `holds` says.
pub async fn until(
    connection: &mut Connection,
    task: &str,
    holds: impl Fn(&Value) -> bool,
) -> anyhow::Result<Value> {
    let request = message::get(task);
    loop {
        let task = connection.result(&request).await?;
        if holds(&task) {
            return Ok(task);
        }
        sleep(POLL).await;
    }
}

/// Waits until everything queued before has run.
pub async fn settle(connection: &mut Connection) -> anyhow::Result<()> {
    let last = start_task(connection, "script_resume", json!([])).await?;
    until(connection, &last, |task| task["status"] == "completed").await?;
    Ok(())
}
