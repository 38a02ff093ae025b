//! Grants that a person gives while a tool runs. The host asks, not the guest: what no grant covers,
//! and the operator's rule lets the plugin ask for, waits inside the guest's call for a form that the
//! host wrote. It is a question of the task like any other, so a tool that resumes is unloaded
//! meanwhile, and nobody is asked twice (I7). Whatever is answered, nothing goes further than the
//! operator's rule (I5). What is asked for is not decided here: requests are in `http`, directories in
//! `files`.

mod http;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::guest::Guest;
use super::{Decision, Decisions};
use crate::plain::drives_display;
use crate::scheduler::{Abandoned, InputError, Run, StepError};
use crate::task::{Answer, Ask, Digest, InputKey, InputRequest};

pub(super) use self::http::add_to_linker;

/// What keys and steps of the host's own begin with. No guest may use it.
const RESERVED_PREFIX: &str = "longshore.";

/// What the keys of questions about access begin with.
const GRANT_PREFIX: &str = "longshore.grant/";

/// Characters of a wish's digest that make a key.
const TARGET_CHARS: usize = 32;

/// An author's reason as it is shown, characters.
const WHY_MAX_CHARS: usize = 300;

/// What runs as it is shown, characters: it may be the address of a resource.
const TOOL_MAX_CHARS: usize = 128;

/// What the guest is about to do, as it is shown, characters: it may name a file.
const ABOUT_MAX_CHARS: usize = 300;

/// What the step of an answer holds that is used up: for the one use that it allowed, or for all of a
/// call that is no task, whose later rounds find it here.
const USED: &[u8] = b"used";
const USED_BY_CALL: &[u8] = b"call";

/// Single uses that can be allowed one by one; a task has no more questions anyway.
const ASKED_MAX: usize = 64;

/// What asking takes, for one run.
pub(super) struct Permission {
    plugin: String,
    tool: String,
    decisions: Option<Arc<Decisions>>,
    /// What holds for the rest of the run, by what is kept of a wish.
    settled: BTreeMap<String, bool>,
}

/// What a person is asked for.
pub(super) struct Wish {
    /// As they read it.
    pub target: String,
    /// As it is kept when it is allowed for good. It may name what a client must not read, and it
    /// changes when the operator's rule leads elsewhere.
    pub kept_as: String,
    /// What the guest is about to do.
    pub about: String,
    /// The author's reason.
    pub why: String,
    /// Whether it may be allowed for good.
    pub remember: bool,
    /// What allowing it once means to a task.
    pub once: &'static str,
}

/// Why what was asked for is not to be.
pub(super) type Verdict = Result<(), String>;

/// What a person chose.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Once,
    Task,
    Always,
    No,
}

impl Permission {
    /// `tool` is what runs: a tool, or what else the plugin has.
    pub fn new(plugin: &str, tool: &str, decisions: Option<Arc<Decisions>>) -> Permission {
        Permission {
            plugin: plugin.to_owned(),
            tool: plain(tool, TOOL_MAX_CHARS),
            decisions,
            settled: BTreeMap::new(),
        }
    }
}

impl Guest {
    /// Has a person decide, unless that was done before. A guest that is only asked what it has may
    /// ask nobody.
    pub(super) async fn decide(&mut self, wish: &Wish) -> Result<Verdict, Abandoned> {
        match self.run.clone() {
            Some(run) => decide(&mut self.permission, &run, wish).await,
            None => Ok(Err("there is nobody to ask".to_owned())),
        }
    }
}

async fn decide(permission: &mut Permission, run: &Run, wish: &Wish) -> Result<Verdict, Abandoned> {
    let Wish {
        target, kept_as, ..
    } = wish;
    // Looked at every time, so that taking it back takes effect.
    if wish.remember && permission.is_kept(run, kept_as).await {
        return Ok(Ok(()));
    }
    match permission.settled.get(kept_as) {
        Some(true) => return Ok(Ok(())),
        Some(false) => return Ok(Err(refused(target))),
        None => {}
    }
    let is_task = run.asks_as_task().await;
    let (key, used) = match open_key(run, kept_as, is_task).await? {
        Open::Key(key, used) => (key, used),
        Open::Allowed => {
            permission.settled.insert(kept_as.clone(), true);
            return Ok(Ok(()));
        }
        Open::Nothing => {
            return Ok(Err(format!(
                "access to {target} was asked for {ASKED_MAX} times, one by one, which is the limit"
            )));
        }
    };
    let request = InputRequest {
        key,
        ask: form(permission, wish, is_task),
    };
    let answer = match run.request_input(vec![request]).await? {
        Ok(answers) => answers.into_iter().next(),
        Err(error) => return Ok(Err(unasked(error, target))),
    };
    let choice = answer.map_or(Choice::No, |answer| read_answer(&answer));
    match choice {
        // Used up before it is used: a run that starts again must not take it for another.
        Choice::Once if is_task => return use_up(run, used, USED).await,
        // The next round may be that of a client that takes tasks, for which it is used up.
        Choice::Once => {
            if let Err(why) = use_up(run, used, USED_BY_CALL).await? {
                return Ok(Err(why));
            }
        }
        // The file speaks from now on; the answer must not bring it back when it is taken away.
        Choice::Always if wish.remember && permission.keep(run, kept_as).await => {
            return use_up(run, used, USED).await;
        }
        // One that could not be kept, or may not be any more, holds for the task.
        Choice::Task | Choice::Always | Choice::No => {}
    }
    let is_allowed = choice != Choice::No;
    permission.settled.insert(kept_as.clone(), is_allowed);
    Ok(match is_allowed {
        true => Ok(()),
        false => Err(refused(target)),
    })
}

/// Marks an answer as used.
async fn use_up(run: &Run, used: String, by: &[u8]) -> Result<Verdict, Abandoned> {
    match run.record_step(used, by.to_vec()).await {
        Ok(Ok(())) => Ok(Ok(())),
        Ok(Err(_)) => Ok(Err("the task is being cancelled".to_owned())),
        Err(StepError::Abandoned(abandoned)) => Err(abandoned),
        Err(StepError::TooMany(why)) => Ok(Err(why)),
    }
}

/// What can be asked.
enum Open {
    /// The first key of the wish that was not used up, and the step that will say so.
    Key(InputKey, String),
    /// Nothing: an earlier round of the call was allowed.
    Allowed,
    /// Nothing: all are used up.
    Nothing,
}

async fn open_key(run: &Run, kept_as: &str, is_task: bool) -> Result<Open, Abandoned> {
    let digest = Digest(Sha256::digest(kept_as.as_bytes()).into()).to_string();
    for number in 1..=ASKED_MAX {
        let name = format!("{GRANT_PREFIX}{}/{number}", &digest[..TARGET_CHARS]);
        match run.step_result(&name).await? {
            None => {
                let key = InputKey::parse(&name).expect("it is short and has no spaces");
                return Ok(Open::Key(key, name));
            }
            Some(by) if !is_task && by == USED_BY_CALL => return Ok(Open::Allowed),
            Some(_) => {}
        }
    }
    Ok(Open::Nothing)
}

impl Permission {
    async fn is_kept(&self, run: &Run, target: &str) -> bool {
        let Some(decisions) = self.decisions.clone() else {
            return false;
        };
        let (tenant, plugin) = (run.tenant().clone(), self.plugin.clone());
        let target = target.to_owned();
        let kept =
            tokio::task::spawn_blocking(move || decisions.is_allowed(&tenant, &plugin, &target));
        kept.await.unwrap_or(false)
    }

    /// Whether it is kept now.
    async fn keep(&self, run: &Run, target: &str) -> bool {
        let Some(decisions) = self.decisions.clone() else {
            return false;
        };
        let (tenant, plugin) = (run.tenant().clone(), self.plugin.clone());
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let decision = Decision {
            target: target.to_owned(),
            tool: self.tool.clone(),
            decided_at: now.unwrap_or_default().as_secs(),
        };
        tracing::info!(%tenant, plugin, target, "a person granted access for good");
        let kept =
            tokio::task::spawn_blocking(move || decisions.keep(&tenant, &plugin, &decision)).await;
        match kept {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::warn!(%error, "a grant was not remembered and holds for its task only");
                false
            }
            Err(_) => false,
        }
    }
}

fn form(permission: &Permission, wish: &Wish, is_task: bool) -> Ask {
    let why = plain(&wish.why, WHY_MAX_CHARS);
    let message = format!(
        "The plugin `{}` asks for access to {}, which its `{}` is about to use: {}. Its author's \
         reason: \"{why}\"",
        permission.plugin,
        wish.target,
        permission.tool,
        plain(&wish.about, ABOUT_MAX_CHARS)
    );
    let mut choices = match is_task {
        true => vec![
            json!({ "const": "once", "title": wish.once }),
            json!({ "const": "task", "title": "Allow for this task" }),
        ],
        false => vec![json!({ "const": "once", "title": "Allow for this call" })],
    };
    if wish.remember {
        choices.push(json!({ "const": "always", "title": "Always allow" }));
    }
    choices.push(json!({ "const": "no", "title": "No" }));
    let schema = json!({
        "type": "object",
        "properties": {
            // Nobody allows anything by a careless return, or by a client's `--yes` (I5).
            "access": { "type": "string", "title": "Access", "oneOf": choices, "default": "no" },
        },
        "required": ["access"],
    });
    Ask::Form {
        message,
        schema: schema.to_string(),
    }
}

/// Words of others as a part of the host's own.
fn plain(text: &str, max_chars: usize) -> String {
    let printable = text.chars().filter(|c| !drives_display(*c));
    printable.take(max_chars).collect()
}

/// Declining and dismissing are a no, and so is whatever is not a choice.
fn read_answer(answer: &Answer) -> Choice {
    let Answer::Accept(Some(content)) = answer else {
        return Choice::No;
    };
    let content: Value = serde_json::from_str(content).unwrap_or_default();
    match content["access"].as_str() {
        Some("once") => Choice::Once,
        Some("task") => Choice::Task,
        Some("always") => Choice::Always,
        _ => Choice::No,
    }
}

fn refused(target: &str) -> String {
    format!(
        "the person who was asked for access to {target} did not allow it; call the tool again to be \
         asked anew"
    )
}

fn unasked(error: InputError, target: &str) -> String {
    let why = match error {
        InputError::Stopped => return "the task is being cancelled".to_owned(),
        InputError::MissingCapability(capability) => {
            format!("the client did not declare `{capability}`, so nobody can be asked")
        }
        InputError::Unsupported(why) | InputError::Invalid(why) => why,
    };
    format!(
        "access to {target} has to be asked for: {why}. Call with a client that shows forms, or have \
         the operator grant it"
    )
}

/// Whether a guest tries to use a name that is the host's own.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with(RESERVED_PREFIX)
}

/// Whether a question of this key asks a person for access.
pub fn asks_for_access(key: &str) -> bool {
    key.starts_with(GRANT_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_guest_names_neither_breaks_nor_turns_the_question() {
        let path = "/desk/a\n\u{1b}[2J\u{9b}31m\u{202e}\u{61c}b";
        assert_eq!(plain(path, ABOUT_MAX_CHARS), "/desk/a[2J31mb");
        assert_eq!(plain(path, 5), "/desk");
    }
}
