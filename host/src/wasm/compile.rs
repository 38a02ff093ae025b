//! Compilation, in a process of its own: a small component can keep the compiler busy for minutes,
//! or make it ask for so much memory that the process is aborted, and nothing inside a process
//! contains that (I6). The child has limits, one runs at a time, and its end is put into words. It is
//! in a process group of its own, so that a signal to the host's does not look like a component's fault,
//! and ends when the host does, however that came about.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::timeout;
use wasmtime::Engine;

use super::engine::{Reservation, settings};
use super::{LoadError, SandboxLimits, world};

/// The first argument that makes this program a compiler; see [`compile_worker`].
pub const COMPILE_COMMAND: &str = "__compile";

/// Threads of one compilation.
const THREADS: u32 = 2;

/// What is read of the compiler's complaints, bytes. What a component wrongly has fits.
const COMPLAINT_MAX_BYTES: u64 = 16 << 10;

/// What is shown of them, characters.
const COMPLAINT_MAX_CHARS: usize = 600;

/// Compiled code, bytes; it is some ten times as large as its component.
const CODE_MAX_BYTES: u64 = 1 << 30;

/// How much the compiler gives way to everything else.
const NICENESS: i32 = 10;

/// The child's ways to end. Anything else is a crash.
const EXIT_INVALID: i32 = 65;
const EXIT_WORLD: i32 = 66;
const EXIT_FAILED: i32 = 70;

/// Stack of the thread that waits for the host's end, bytes: it counts as the compiler's memory.
const WATCH_STACK_BYTES: usize = 64 << 10;

/// Signals by which limits end a process; the same numbers on every Linux.
const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;

/// Who compiles.
#[derive(Clone, Debug)]
pub enum Compiler {
    /// A process of this program, called as `PROGRAM __compile …` with the limits.
    Child(PathBuf),
    /// This process, without limits: only for components the caller trusts, as tests do.
    InProcess,
}

impl Compiler {
    /// Compiles the component in `input` into `output`.
    pub(super) async fn compile(
        &self,
        input: &Path,
        output: &Path,
        limits: &SandboxLimits,
    ) -> Result<(), LoadError> {
        let reservation = Reservation::of(limits);
        match self {
            Compiler::Child(program) => {
                compile_in_child(program, input, output, limits, reservation).await
            }
            Compiler::InProcess => {
                let (input, output) = (input.to_owned(), output.to_owned());
                tokio::task::spawn_blocking(move || compile(&input, &output, reservation))
                    .await
                    .map_err(|error| LoadError::Compiler(error.to_string()))?
            }
        }
    }
}

async fn compile_in_child(
    program: &Path,
    input: &Path,
    output: &Path,
    limits: &SandboxLimits,
    reservation: Reservation,
) -> Result<(), LoadError> {
    let reserved_bytes = match reservation {
        Reservation::Roomy => 0,
        Reservation::Narrow(bytes) => bytes,
    };
    let cpu_seconds = limits.compile_timeout.as_secs().max(1) * u64::from(THREADS);
    let mut child = Command::new(program)
        .arg(COMPILE_COMMAND)
        .args([input, output])
        .arg(limits.compile_memory_max_bytes.to_string())
        .arg(cpu_seconds.to_string())
        .arg(reserved_bytes.to_string())
        // The compiler needs nothing of the host's, least of all its secrets.
        .env_clear()
        .env("RAYON_NUM_THREADS", THREADS.to_string())
        // Every arena takes address space, which the memory limit counts.
        .env("MALLOC_ARENA_MAX", THREADS.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| LoadError::Compiler(format!("its process can't be started: {error}")))?;
    // Held until the child has ended: its end of the pipe tells it that the host is there.
    let _presence = child.stdin.take();
    let stderr = child.stderr.take();
    let ending = async {
        let mut complaint = Vec::new();
        if let Some(stderr) = stderr {
            stderr
                .take(COMPLAINT_MAX_BYTES)
                .read_to_end(&mut complaint)
                .await?;
        }
        let status = child.wait().await?;
        io::Result::Ok((status, complaint))
    };
    match timeout(limits.compile_timeout, ending).await {
        Ok(Ok((status, complaint))) => judge(status, &complaint, limits),
        Ok(Err(error)) => Err(LoadError::Compiler(format!(
            "its process was lost: {error}"
        ))),
        // The child is killed when it is dropped.
        Err(_) => Err(LoadError::CompileTime(limits.compile_timeout)),
    }
}

/// Puts the child's end into words.
fn judge(status: ExitStatus, complaint: &[u8], limits: &SandboxLimits) -> Result<(), LoadError> {
    if status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(complaint);
    let complaint = complaint.trim();
    let shown: String = complaint.chars().take(COMPLAINT_MAX_CHARS).collect();
    match (status.code(), status.signal()) {
        (Some(EXIT_INVALID), _) => Err(LoadError::Invalid(shown)),
        (Some(EXIT_WORLD), _) => Err(match serde_json::from_str(complaint) {
            Ok(error) => LoadError::World(error),
            Err(_) => LoadError::Compiler(shown),
        }),
        (_, Some(SIGXCPU | SIGKILL)) => Err(LoadError::CompileTime(limits.compile_timeout)),
        (_, Some(SIGABRT)) if complaint.contains("memory allocation of") => {
            Err(LoadError::CompileMemory(limits.compile_memory_max_bytes))
        }
        _ => {
            tracing::warn!(%status, complaint, "the compiler failed");
            Err(LoadError::Compiler(if shown.is_empty() {
                status.to_string()
            } else {
                format!("{status}: {shown}")
            }))
        }
    }
}

/// The compiler's process: `INPUT OUTPUT MEMORY_MAX_BYTES CPU_SECONDS RESERVED_BYTES`, as
/// [`Compiler::Child`] passes them after [`COMPILE_COMMAND`]. Returns the exit code.
pub fn compile_worker(arguments: impl IntoIterator<Item = OsString>) -> i32 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let number = |index: usize| arguments.get(index)?.to_str()?.parse::<u64>().ok();
    let (Some(memory_max_bytes), Some(cpu_seconds), Some(reserved_bytes)) =
        (number(2), number(3), number(4))
    else {
        complain("this command is the host's own and takes the host's arguments");
        return EXIT_FAILED;
    };
    let reservation = match reserved_bytes {
        0 => Reservation::Roomy,
        bytes => Reservation::Narrow(bytes),
    };
    let confined = end_with_the_host().and_then(|()| confine(memory_max_bytes, cpu_seconds));
    if let Err(error) = confined {
        complain(&format!("the compiler's limits can't be set: {error}"));
        return EXIT_FAILED;
    }
    match compile(
        Path::new(&arguments[0]),
        Path::new(&arguments[1]),
        reservation,
    ) {
        Ok(()) => 0,
        Err(LoadError::Invalid(what)) => {
            complain(&what);
            EXIT_INVALID
        }
        Err(LoadError::World(error)) => {
            complain(&serde_json::to_string(&error).unwrap_or_default());
            EXIT_WORLD
        }
        Err(error) => {
            complain(&error.to_string());
            EXIT_FAILED
        }
    }
}

/// Standard error may be closed; then nobody reads the complaint.
fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "{what}");
}

/// Ends this process as soon as the host is gone. Standard input is a pipe that only the host holds,
/// and never writes to; the kernel closes it whatever became of the host. A signal at the parent's death
/// would come when the thread ends that started this process, too.
fn end_with_the_host() -> io::Result<()> {
    let watch = std::thread::Builder::new().stack_size(WATCH_STACK_BYTES);
    watch.spawn(|| {
        let _ = io::stdin().read_exact(&mut [0]);
        std::process::exit(EXIT_FAILED);
    })?;
    Ok(())
}

fn confine(memory_max_bytes: u64, cpu_seconds: u64) -> io::Result<()> {
    let limit = |resource: Resource, current: u64, maximum: u64| {
        // Only root may have more than the host has.
        let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let limit = Rlimit {
            current: Some(current.min(most)),
            maximum: Some(maximum.min(most)),
        };
        setrlimit(resource, limit)
    };
    limit(Resource::As, memory_max_bytes, memory_max_bytes)?;
    limit(Resource::Cpu, cpu_seconds, cpu_seconds + 1)?;
    limit(Resource::Fsize, CODE_MAX_BYTES, CODE_MAX_BYTES)?;
    limit(Resource::Core, 0, 0)?;
    nice(NICENESS)?;
    Ok(())
}

fn compile(input: &Path, output: &Path, reservation: Reservation) -> Result<(), LoadError> {
    let wasm = std::fs::read(input)
        .map_err(|error| LoadError::Compiler(format!("the component can't be read: {error}")))?;
    world::check_file(&wasm)?;
    let engine = Engine::new(&settings(reservation))
        .map_err(|error| LoadError::Compiler(format!("{error:#}")))?;
    let code = engine
        .precompile_component(&wasm)
        .map_err(|error| LoadError::Invalid(format!("{error:#}")))?;
    let write = || File::create(output)?.write_all(&code);
    write().map_err(|error| LoadError::Compiler(format!("the code can't be written: {error}")))
}
