//! Keeps every message that a host sends to a test, for `tests/protocol/schema.mjs`, where
//! LONGSHORE_TEST_MESSAGES names a directory; otherwise nothing.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process;
use std::sync::{Mutex, OnceLock};

use serde_json::{Value, json};

/// A test that floods would fill the disk.
const MESSAGES_MAX: usize = 50_000;
const MESSAGE_MAX_BYTES: usize = 256 << 10;

struct Record {
    file: File,
    left: usize,
}

/// `method` is that of the request which the message answers, where it is known.
pub fn record(revision: &str, method: Option<&str>, message: &Value) {
    static RECORD: OnceLock<Option<Mutex<Record>>> = OnceLock::new();
    let Some(record) = RECORD.get_or_init(open) else {
        return;
    };
    let line = json!({"revision": revision, "method": method, "message": message}).to_string();
    let mut record = record.lock().unwrap();
    if record.left > 0 && line.len() <= MESSAGE_MAX_BYTES {
        record.left -= 1;
        writeln!(record.file, "{line}").unwrap();
    }
}

fn open() -> Option<Mutex<Record>> {
    let directory = PathBuf::from(std::env::var_os("LONGSHORE_TEST_MESSAGES")?);
    fs::create_dir_all(&directory).unwrap();
    let file = File::create(directory.join(format!("tests-{}.jsonl", process::id()))).unwrap();
    let left = MESSAGES_MAX;
    Some(Mutex::new(Record { file, left }))
}
