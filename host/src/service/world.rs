//! What a client asks of a plugin beside tools: a resource's contents, a prompt's messages,
//! suggestions. Answered within the request, routed and limited as inline calls are; never a task.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::pending::{Pending, read_outcome};
use super::tasks;
use super::{
    CallError, Earlier, Left, Listener, LiveQuestion, PendingCall, Reply, RoundError, Saved,
    Service, Standing, TaskError,
};
use crate::catalog::offers::Prompt;
use crate::catalog::{Plugin, Snapshot};
use crate::notify::{ResourceKey, Subscription};
use crate::scheduler::{Asks, CallOutcome, Operation, RunEnd, StartedCall, Subject, Submission};
use crate::task::{
    Abilities, CallResult, PartBody, PartUri, Policy, Recovery, ResultPart, Status, TenantId,
    ToolRef, Trace,
};

/// How long a plugin may go on after its client left, before it is stopped by force. Nothing is lost:
/// reading has no effects to clean up after.
const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// What is answered when a plugin suggests nothing.
const NO_SUGGESTIONS: &str = r#"{"completion":{"values":[],"total":0,"hasMore":false}}"#;

/// Something asked within a request.
#[derive(Clone, Debug)]
pub struct AskRequest {
    pub tenant: TenantId,
    pub wanted: Wanted,
    pub abilities: Abilities,
    /// What an earlier round of the same request left; verified by the caller.
    pub earlier: Option<Earlier>,
    /// The client's responses to the questions of that round, unchecked.
    pub responses: Map<String, Value>,
    /// Where a client that is there is asked while the plugin waits.
    pub live: Option<mpsc::Sender<LiveQuestion>>,
    /// The trace the client's request belongs to.
    pub trace: Option<Trace>,
    /// Who hears what the plugin says.
    pub listener: Option<Listener>,
}

/// What is asked for, in names that clients see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    Resource {
        uri: String,
    },
    Prompt {
        name: String,
        arguments: Vec<(String, String)>,
    },
    Completion {
        subject: Subject,
        argument: String,
        value: String,
        /// Arguments that are filled in already; those the subject has not are left out.
        chosen: Vec<(String, String)>,
    },
}

/// Something asked that is under way.
pub(super) struct Asked {
    call: StartedCall,
    within: Duration,
    /// The URI, or the name.
    what: String,
}

impl Asked {
    pub async fn reply(&mut self) -> Result<Reply, CallError> {
        match timeout(self.within, self.call.outcome()).await {
            Ok(CallOutcome::Ended(RunEnd::NotFound)) => {
                Err(CallError::UnknownResource(self.what.clone()))
            }
            Ok(outcome) => read_outcome(outcome),
            // Whoever waits drops the call with this answer, which stops the plugin.
            Err(_) => Err(CallError::TooSlow {
                what: self.what.clone(),
                limit: self.within,
            }),
        }
    }
}

/// A request with its plugin found and its arguments checked.
struct Routed {
    plugin: Arc<Plugin>,
    operation: Operation,
    what: String,
}

impl Service {
    /// Checks a request and starts it.
    pub async fn ask(&self, request: AskRequest) -> Result<PendingCall, CallError> {
        if let Wanted::Resource { uri } = &request.wanted
            && let Some(part) = PartUri::parse(uri)
        {
            return self.read_part(&request.tenant, uri, &part).await;
        }
        let snapshot = self.0.catalog.snapshot();
        let is_completion = matches!(request.wanted, Wanted::Completion { .. });
        let routed = route(&snapshot, request.wanted)?;
        if is_completion && !routed.plugin.component.completes() {
            return Ok(answered(NO_SUGGESTIONS.to_owned()));
        }
        let asks = match request.live {
            _ if is_completion => {
                Asks::Refused("nobody is asked while an argument is typed".to_owned())
            }
            Some(client) => Asks::Live(client),
            None => Asks::InRounds,
        };
        let limits = &self.0.limits;
        let submission = Submission {
            tenant: request.tenant,
            tool: ToolRef {
                plugin: routed.plugin.name.clone(),
                tool: routed.what.clone(),
                digest: routed.plugin.digest,
            },
            arguments: String::new(),
            policy: Policy {
                // Reading again repeats no effect, so a round may run it anew.
                recovery: Recovery::Resume,
                cleanup_on_cancel: false,
                cancel_grace: CANCEL_GRACE,
                poll_interval: limits.poll_interval_default,
            },
            abilities: request.abilities,
            ttl: None,
            trace: request.trace,
            operation: routed.operation,
            listener: request.listener,
        };
        let (saved, round) = match request.earlier {
            None => (Saved::default(), None),
            Some(Earlier { round, left }) => match left {
                Left::State(saved) => (saved, Some(round)),
                // What is asked here never waits otherwise.
                Left::Held(_) | Left::Task(_) => return Err(RoundError::Lost.into()),
            },
        };
        let scheduler = &self.0.scheduler;
        let call = scheduler
            .start_round(submission, asks, saved, round, request.responses)
            .await?;
        Ok(PendingCall {
            progress: call.run.watch_progress(),
            is_fallback: false,
            standing: Standing::with_client(),
            state: Pending::Asked(Asked {
                call,
                within: limits.read_timeout,
                what: routed.what,
            }),
        })
    }

    /// A part of a large result. I4: what is not there and what is another tenant's look the same.
    async fn read_part(
        &self,
        tenant: &TenantId,
        uri: &str,
        part: &PartUri,
    ) -> Result<PendingCall, CallError> {
        let unknown = || CallError::UnknownResource(uri.to_owned());
        let refused = |error| match error {
            TaskError::Unavailable(why) => CallError::Unavailable(why),
            _ => unknown(),
        };
        let task = self.find(tenant, part.task.as_str()).map_err(refused)?;
        // What a run left that has not ended well is no result.
        if task.status() != Status::Completed {
            return Err(unknown());
        }
        let (key, number, name) = (task.key, part.part, uri.to_owned());
        let read = self.read_file(move |store| {
            let part = store.part(&key, number)?;
            Ok(part.map(|part| contents(&name, part)))
        });
        let found = read.await.map_err(tasks::unavailable).map_err(refused)?;
        Ok(answered(found.ok_or_else(unknown)?))
    }

    /// Follows those of `uris` that a plugin serves, for the tenant.
    pub fn watch_resources(
        &self,
        tenant: &TenantId,
        uris: impl IntoIterator<Item = String>,
    ) -> Subscription<ResourceKey> {
        let snapshot = self.0.catalog.snapshot();
        let keys = uris.into_iter().filter_map(|uri| {
            let plugin = snapshot.find_reader(&uri)?.name.clone();
            Some(ResourceKey {
                tenant: tenant.clone(),
                plugin,
                uri,
            })
        });
        self.0.scheduler.watch_resources(keys.collect())
    }
}

/// As the wire has it (server/resources, "Reading Resources").
fn contents(uri: &str, part: ResultPart) -> String {
    let mut one = json!({ "uri": uri });
    if let Some(mime_type) = part.mime_type {
        one["mimeType"] = mime_type.into();
    }
    match part.body {
        PartBody::Text(text) => one["text"] = text.into(),
        PartBody::Blob(bytes) => one["blob"] = STANDARD.encode(bytes).into(),
    }
    json!({ "contents": [one] }).to_string()
}

fn answered(json: String) -> PendingCall {
    PendingCall {
        progress: watch::Sender::new(None).subscribe(),
        is_fallback: false,
        standing: Standing::with_client(),
        state: Pending::Answered(Some(CallResult {
            json,
            is_error: false,
        })),
    }
}

fn route(snapshot: &Snapshot, wanted: Wanted) -> Result<Routed, CallError> {
    match wanted {
        Wanted::Resource { uri } => match snapshot.find_reader(&uri) {
            Some(plugin) => Ok(Routed {
                plugin: plugin.clone(),
                what: uri.clone(),
                operation: Operation::ReadResource { uri },
            }),
            None => Err(CallError::UnknownResource(uri)),
        },
        Wanted::Prompt { name, arguments } => {
            let Some(prompt) = snapshot.prompts.get(&name) else {
                return Err(CallError::UnknownPrompt(name));
            };
            check_arguments(&name, prompt, &arguments)?;
            Ok(Routed {
                plugin: prompt.plugin.clone(),
                what: name,
                operation: Operation::GetPrompt {
                    name: prompt.entry.name.clone(),
                    arguments,
                },
            })
        }
        Wanted::Completion {
            subject,
            argument,
            value,
            chosen,
        } => route_completion(snapshot, subject, argument, value, chosen),
    }
}

fn check_arguments(
    name: &str,
    prompt: &Prompt,
    given: &[(String, String)],
) -> Result<(), CallError> {
    let declared = &prompt.entry.arguments;
    let problem = |problem| CallError::InvalidPromptArguments {
        prompt: name.to_owned(),
        problem,
    };
    let missing = declared
        .iter()
        .filter(|argument| argument.required)
        .find(|argument| !given.iter().any(|(name, _)| *name == argument.name));
    if let Some(missing) = missing {
        return Err(problem(format!("`{}` is missing", missing.name)));
    }
    let is_declared = |name: &String| declared.iter().any(|argument| argument.name == *name);
    match given.iter().find(|(name, _)| !is_declared(name)) {
        Some((unknown, _)) => Err(problem(format!("it has no `{unknown}`"))),
        None => Ok(()),
    }
}

fn route_completion(
    snapshot: &Snapshot,
    subject: Subject,
    argument: String,
    value: String,
    mut chosen: Vec<(String, String)>,
) -> Result<Routed, CallError> {
    let (plugin, names, own, what) = match subject {
        Subject::Prompt(name) => {
            let Some(prompt) = snapshot.prompts.get(&name) else {
                return Err(CallError::UnknownPrompt(name));
            };
            let names: Vec<&str> = prompt
                .entry
                .arguments
                .iter()
                .map(|argument| argument.name.as_str())
                .collect();
            let own = Subject::Prompt(prompt.entry.name.clone());
            (&prompt.plugin, names, own, name)
        }
        Subject::Template(text) => {
            let Some(template) = snapshot.templates.get(&text) else {
                return Err(CallError::UnknownTemplate(text));
            };
            let names = template.checked.template.variables().collect();
            let own = Subject::Template(text.clone());
            (&template.plugin, names, own, text)
        }
    };
    if !names.contains(&argument.as_str()) {
        return Err(CallError::UnknownArgument {
            subject: what,
            argument,
        });
    }
    chosen.retain(|(name, _)| names.contains(&name.as_str()));
    Ok(Routed {
        plugin: plugin.clone(),
        what,
        operation: Operation::Complete {
            subject: own,
            argument,
            value,
            chosen,
        },
    })
}
