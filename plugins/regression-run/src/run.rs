//! Runs the cases that are not done yet and keeps the journal. How requests are sent is its
//! caller's business.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use longshore_plugin::prelude::*;

use crate::arguments::Arguments;
use crate::case::{Case, FILE_MAX_BYTES};
use crate::check::{self, Answer, Failure};
use crate::journal::{Failing, Journal};
use crate::report::{self, Report};
use crate::text::excerpt;
use crate::{curl, discover};

/// Cases read ahead of their requests, and the size of their files, bytes.
const GROUP_MAX: usize = 64;
const GROUP_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Of a case's own name that is shown, bytes.
const NAME_MAX_BYTES: usize = 200;

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Answered(Answer),
    /// Not answered within the case's time.
    TimedOut,
    /// Not answered at all.
    Failed(String),
    /// Not sent, since this plugin may not.
    Denied(String),
}

/// Sends requests, at most so many at once, and tells of each as soon as it ends, by its place in
/// the list. After a break it begins no more, and still tells of those under way.
pub trait Sender {
    fn send(
        &mut self,
        base_url: &str,
        cases: &[&Case],
        concurrency: usize,
        ended: &mut dyn FnMut(usize, Reply) -> ControlFlow<()>,
    );
}

/// A case that was read and is to be sent.
struct Ready {
    path: String,
    case: Case,
}

/// A run of all selected cases.
struct Run<'a> {
    ctx: &'a Context,
    base_url: &'a str,
    total: usize,
    journal: Journal,
    /// When this run began, and the time of the runs before it, ms.
    began: Instant,
    earlier_ms: u64,
    /// Cases whose requests this run was not allowed to send.
    denied: usize,
    /// Why no more cases are begun: a cancel, or a host that no longer takes what is saved.
    ended: Option<Error>,
}

/// Runs the cases below `root` from where an earlier run left off.
pub fn run(
    ctx: &Context,
    arguments: &Arguments,
    root: &Path,
    sender: &mut impl Sender,
) -> Result<Report> {
    if let Some(fault) = arguments.fault() {
        return Err(Error::invalid_arguments(fault));
    }
    let paths = discover::cases(root, arguments.filter().as_ref())?;
    if paths.is_empty() {
        // Nothing that runs would pass, and look like a success.
        return Err(Error::invalid_arguments(match &arguments.filter {
            Some(filter) => format!("filter {filter:?} selects no case"),
            None => "there is no `.toml` file in the granted directory `cases`".to_owned(),
        }));
    }
    let saved = ctx.saved_bytes();
    let mut journal = saved
        .and_then(|saved| Journal::read(&saved))
        .unwrap_or_default();
    journal.keep_only(&paths);
    let mut run = Run {
        ctx,
        base_url: &arguments.base_url,
        total: paths.len(),
        earlier_ms: journal.elapsed_ms,
        journal,
        began: Instant::now(),
        denied: 0,
        ended: None,
    };
    run.tell();
    run.all(root, paths, arguments.concurrency, sender);
    match run.ended {
        // Nothing was tested, which must not look like a host that is broken.
        None if run.denied == run.total => fail!(
            "none of the {} cases may be sent: no grant covers {}, or the person who was asked said no; \
             the operator gives it as `http` under [plugin.regression-run.grants]",
            run.total,
            arguments.base_url
        ),
        None => Ok(Report::new(&run.journal)),
        Some(error) if error.is_stopped() => {
            Err(Error::cancelled(report::stopped(&run.journal, run.total)))
        }
        Some(error) => Err(error),
    }
}

impl Run<'_> {
    fn all(
        &mut self,
        root: &Path,
        paths: Vec<String>,
        concurrency: usize,
        sender: &mut impl Sender,
    ) {
        let mut pending: VecDeque<String> = paths
            .into_iter()
            .filter(|path| !self.journal.is_done(path))
            .collect();
        while self.ended.is_none() && !pending.is_empty() {
            let group = self.take_group(root, &mut pending);
            if !group.is_empty() && self.ended.is_none() {
                self.send(&group, concurrency, sender);
            }
        }
    }

    /// The next cases that may run beside each other; a serial case is alone. Files that are no
    /// cases fail on the way.
    fn take_group(&mut self, root: &Path, pending: &mut VecDeque<String>) -> Vec<Ready> {
        let mut group = Vec::new();
        let mut bytes = 0;
        while let Some(path) = pending.pop_front() {
            let (case, size) = match read(root, &path) {
                Ok(read) => read,
                Err(cause) => {
                    self.journal
                        .fail(Failing::new(&path, None, check::broken(&cause), None));
                    if self.save().is_break() {
                        break;
                    }
                    continue;
                }
            };
            bytes += size;
            let serial = case.serial;
            if serial && !group.is_empty() {
                pending.push_front(path);
                break;
            }
            group.push(Ready { path, case });
            if serial || group.len() >= GROUP_MAX || bytes >= GROUP_MAX_BYTES {
                break;
            }
        }
        group
    }

    fn send(&mut self, group: &[Ready], concurrency: usize, sender: &mut impl Sender) {
        let cases: Vec<&Case> = group.iter().map(|ready| &ready.case).collect();
        let base_url = self.base_url;
        sender.send(base_url, &cases, concurrency, &mut |index, reply| {
            self.take(&group[index], &reply);
            self.save()
        });
    }

    fn take(&mut self, ready: &Ready, reply: &Reply) {
        self.denied += usize::from(matches!(reply, Reply::Denied(_)));
        let Some(failure) = judge(&ready.case, reply) else {
            return self.journal.pass(&ready.path);
        };
        let name = ready.case.name.as_deref();
        let name = name.map(|name| excerpt(name, NAME_MAX_BYTES));
        let curl = curl::command(self.base_url, &ready.case);
        self.journal
            .fail(Failing::new(&ready.path, name, failure, Some(curl)));
    }

    fn save(&mut self) -> ControlFlow<()> {
        let elapsed = self.began.elapsed().as_millis();
        self.journal.elapsed_ms = self
            .earlier_ms
            .saturating_add(u64::try_from(elapsed).unwrap_or(u64::MAX));
        self.tell();
        if let Err(error) = self.ctx.checkpoint(&self.journal) {
            self.ended = Some(error);
        }
        match self.ended {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }

    fn tell(&self) {
        self.ctx.progress_of(
            self.journal.done() as u64,
            self.total as u64,
            report::progress(&self.journal, self.total),
        );
    }
}

fn judge(case: &Case, reply: &Reply) -> Option<Failure> {
    match reply {
        Reply::Answered(answer) => check::judge(case, answer),
        Reply::TimedOut => Some(check::too_slow(case)),
        Reply::Failed(cause) | Reply::Denied(cause) => Some(check::without_answer(case, cause)),
    }
}

/// A case and its file's size; the error is for whoever wrote the file.
fn read(root: &Path, path: &str) -> Result<(Case, usize), String> {
    let file = root.join(path);
    let size = std::fs::metadata(&file)
        .map_err(|error| format!("cannot be read: {error}"))?
        .len();
    if size > FILE_MAX_BYTES as u64 {
        return Err(format!(
            "has {size} bytes, and a case may have {FILE_MAX_BYTES}"
        ));
    }
    let text =
        std::fs::read_to_string(&file).map_err(|error| format!("cannot be read: {error}"))?;
    let case = Case::parse(&text).map_err(|error| error.to_string())?;
    Ok((case, text.len()))
}
