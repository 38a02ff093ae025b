//! A `longshore serve` process over a directory that outlives it.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::Client;

/// What a host is started with: its directory, plugins and configuration.
pub struct Setup {
    dir: TempDir,
    config: String,
    log: Option<String>,
    environment: Vec<(String, String)>,
}

impl Setup {
    /// A new directory with the given plugins, each a compiled component with its `plugin.toml`.
    pub fn new(plugins: &[(&str, &Path)]) -> Setup {
        let setup = Setup {
            dir: tempfile::tempdir().unwrap(),
            config: String::new(),
            log: None,
            environment: Vec::new(),
        };
        for (name, built) in plugins {
            let folder = setup.path("plugins").join(name);
            std::fs::create_dir_all(&folder).unwrap();
            for file in std::fs::read_dir(built).unwrap() {
                let file = file.unwrap();
                if file.file_type().unwrap().is_file() {
                    std::fs::copy(file.path(), folder.join(file.file_name())).unwrap();
                }
            }
        }
        std::fs::create_dir_all(setup.path("plugins")).unwrap();
        setup.share_compiled_code();
        setup
    }

    /// Code is kept by the digest of its component, so that all hosts of all tests can share it.
    fn share_compiled_code(&self) {
        let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("components");
        std::fs::create_dir_all(&shared).unwrap();
        std::fs::create_dir_all(self.path("data")).unwrap();
        std::os::unix::fs::symlink(shared, self.path("data/components")).unwrap();
    }

    /// Undoes that: the next host compiles, and what it gives up is its own.
    pub fn keep_compiled_code_apart(&self) {
        let own = self.path("data/components");
        std::fs::remove_file(&own).unwrap();
        std::fs::create_dir(&own).unwrap();
    }

    /// Adds lines to the configuration. Tables come last in TOML, so plain keys come first here.
    pub fn configure(mut self, toml: &str) -> Setup {
        self.config.push_str(toml);
        self.config.push('\n');
        self
    }

    /// Adds tenants, each with its name for a token.
    pub fn tenants(self, names: &[&str]) -> Setup {
        names.iter().fold(self, |setup, name| {
            let hash: String = Sha256::digest(name.as_bytes())
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            setup.configure(&format!(
                "[[tenant]]\nname = \"{name}\"\ntoken_sha256 = \"{hash}\""
            ))
        })
    }

    /// Sets a variable of the host's own environment.
    pub fn environment(mut self, name: &str, value: &str) -> Setup {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Has the host log what the filter says.
    pub fn logging(mut self, filter: &str) -> Setup {
        self.log = Some(filter.to_owned());
        self
    }

    /// A path inside the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The command line of `longshore` with this set-up's configuration written out.
    pub fn serve_command(&self) -> Command {
        let mut command = self.command("serve");
        command.arg("--listen").arg("127.0.0.1:0");
        command.args(self.log.iter().flat_map(|filter| ["--log", filter]));
        command
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// The command line of a host that is not served over HTTP, or not only.
    pub fn command(&self, name: &str) -> Command {
        let config = self.path("longshore.toml");
        std::fs::write(&config, &self.config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_longshore"));
        command.arg(name).arg("--config").arg(config);
        command.arg("--data-dir").arg(self.path("data"));
        command.arg("--plugins").arg(self.path("plugins"));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.kill_on_drop(true);
        command
    }

    /// What the host that runs here has open and under way, as `longshore status` shows it.
    pub async fn counts(&self) -> Value {
        let socket = UnixStream::connect(self.path("data/longshore.sock")).await;
        let mut stream = BufReader::new(socket.expect("the host has a socket"));
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "longshore/status"});
        let lines = format!("longshore tenant local\n{request}\n");
        stream.write_all(lines.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_line(&mut answer).await.unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["result"].clone()
    }

    /// Starts a host and waits until it listens.
    pub async fn start(&self) -> Host {
        Host::start(self.serve_command()).await
    }

    /// The directory everything is in.
    pub fn directory(&self) -> &Path {
        self.dir.path()
    }
}

/// A running host; killed when dropped.
pub struct Host {
    child: Child,
    url: String,
    output: Arc<Mutex<String>>,
    /// Changes with every line of output.
    said: watch::Receiver<Option<String>>,
}

impl Host {
    /// Starts the command, which serves, and waits until it listens.
    pub async fn start(mut command: Command) -> Host {
        let mut child = command.spawn().expect("the binary starts");
        let stderr = child.stderr.take().expect("stderr is piped");
        let output = Arc::new(Mutex::new(String::new()));
        let (announce, mut listening) = watch::channel(None);
        tokio::spawn(keep_output(
            BufReader::new(stderr),
            output.clone(),
            announce,
        ));
        let found = listening
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|url| url.clone());
        let Some(url) = found else {
            panic!("the host did not start:\n{}", output.lock().unwrap());
        };
        Host {
            child,
            url,
            output,
            said: listening,
        }
    }

    /// Where MCP is served.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A client that declares everything: Tasks, both kinds of elicitation, sampling and roots.
    pub fn client(&self) -> Client {
        Client::new(&self.url)
    }

    /// What the host wrote to stderr so far.
    pub fn output(&self) -> String {
        self.output.lock().unwrap().clone()
    }

    pub fn pid(&self) -> u32 {
        self.child.id().expect("the host runs")
    }

    /// SIGKILL, as a crash would be.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// SIGTERM, as a deployment would send it.
    pub async fn terminate(self) -> ExitStatus {
        self.begin_to_stop();
        self.exited().await
    }

    /// Sends SIGTERM and does not wait.
    pub fn begin_to_stop(&self) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// Waits for the process to end.
    pub async fn exited(mut self) -> ExitStatus {
        self.child.wait().await.unwrap()
    }

    /// Waits until the host has written `text` to stderr.
    pub async fn until_said(&self, text: &str) {
        let mut said = self.said.clone();
        let output = &self.output;
        let found = said.wait_for(|_| output.lock().unwrap().contains(text));
        found.await.expect("the host goes on writing");
    }

    /// The most memory the process has had, bytes.
    pub fn memory_peak_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.unwrap().trim().trim_end_matches(" kB");
        kibibytes.parse::<u64>().unwrap() * 1024
    }
}

async fn keep_output(
    mut stderr: BufReader<tokio::process::ChildStderr>,
    output: Arc<Mutex<String>>,
    announce: watch::Sender<Option<String>>,
) {
    let mut line = String::new();
    while let Ok(1..) = stderr.read_line(&mut line).await {
        output.lock().unwrap().push_str(&line);
        announce.send_modify(|found| {
            if let Some((_, url)) = line.split_once("listening on ") {
                let url = url.split_whitespace().next().unwrap_or_default();
                *found = Some(url.to_owned());
            }
        });
        line.clear();
    }
}
