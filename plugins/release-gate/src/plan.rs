//! The steps after every check: types that cannot be wrong, so that nothing is found wrong after
//! the first effect. It sends nothing and asks nothing.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::arguments::{AfterCrash, Arguments, Method, StepArguments, UndoArguments};
use crate::request::{BODY_MAX_BYTES, Request};

/// Steps of one run. A task may ask 64 questions, and a step may need two.
pub const STEPS_MAX: usize = 30;

/// The name of a step, bytes.
const NAME_MAX_BYTES: usize = 48;

/// What will be carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub steps: Vec<Step>,
    pub reference: String,
    pub reference_url: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub name: String,
    pub description: String,
    pub request: Request,
    /// None: any of 200 to 299.
    pub expect_status: Option<Vec<u16>>,
    pub undo: Option<Request>,
    pub after_crash: AfterCrash,
}

/// Why the arguments are no plan.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    #[error("steps: give 1 to {STEPS_MAX} steps, not {0}")]
    Count(usize),
    #[error(
        "step name {0:?}: use 1 to {NAME_MAX_BYTES} letters, digits, `.`, `_` and `-`, beginning \
         with a letter or digit"
    )]
    Name(String),
    #[error("step name {0:?} is used twice; name each step differently")]
    NameTwice(String),
    #[error("{place}: url {url:?} {fault}")]
    Url {
        place: String,
        url: String,
        fault: &'static str,
    },
    #[error("{place}: header {name:?} {fault}")]
    Header {
        place: String,
        name: String,
        fault: &'static str,
    },
    #[error("{0}: the body has more than {BODY_MAX_BYTES} bytes; let the step fetch it instead")]
    Body(String),
    #[error("{0}: GET and HEAD take no body")]
    SafeBody(String),
    #[error("{0}: expect_status takes one or more numbers of 200 to 599")]
    Status(String),
    #[error("{0}: GET and HEAD change nothing; leave out `undo`, or give it another method")]
    SafeUndo(String),
}

impl Plan {
    /// Checks everything that can be checked before the first effect.
    pub fn new(arguments: Arguments, task_id: &str) -> Result<Plan, PlanError> {
        let count = arguments.steps.len();
        if !(1..=STEPS_MAX).contains(&count) {
            return Err(PlanError::Count(count));
        }
        let mut names = BTreeSet::new();
        let mut steps = Vec::with_capacity(count);
        for step in arguments.steps {
            if !names.insert(step.name.clone()) {
                return Err(PlanError::NameTwice(step.name));
            }
            steps.push(Step::new(step, task_id)?);
        }
        Ok(Plan {
            steps,
            reference: arguments
                .reference
                .unwrap_or_else(|| format!("release-gate:{task_id}")),
            reference_url: arguments.reference_url,
        })
    }

    /// Whether somebody has to be asked.
    pub fn has_effects(&self) -> bool {
        self.steps.iter().any(Step::has_effect)
    }

    /// The key of the question before step `index`, counted from 0.
    pub fn question_key(&self, index: usize) -> String {
        format!("step-{}-{}", index + 1, self.steps[index].name)
    }

    /// The key of the question whether step `index` is taken back after a failure.
    pub fn undo_key(&self, index: usize) -> String {
        format!("undo-{}-{}", index + 1, self.steps[index].name)
    }
}

impl Step {
    fn new(step: StepArguments, task_id: &str) -> Result<Step, PlanError> {
        let name = step.name;
        let letter = |byte: u8| byte.is_ascii_alphanumeric();
        let fits = (1..=NAME_MAX_BYTES).contains(&name.len())
            && name.bytes().next().is_some_and(letter)
            && name
                .bytes()
                .all(|byte| letter(byte) || b"._-".contains(&byte));
        if !fits {
            return Err(PlanError::Name(name));
        }
        let place = format!("step {name}");
        let allowed = |status: &u16| (200..=599).contains(status);
        if let Some(statuses) = &step.expect_status
            && (statuses.is_empty() || !statuses.iter().all(allowed))
        {
            return Err(PlanError::Status(place));
        }
        let undo = match step.undo {
            Some(undo) => {
                let inherited = undo.headers.clone().unwrap_or_else(|| step.headers.clone());
                Some(undo_request(undo, inherited, step.method, &name, task_id)?)
            }
            None => None,
        };
        Ok(Step {
            request: Request::new(
                step.method,
                step.url,
                step.headers,
                step.body,
                &place,
                format!("{task_id}-{name}"),
            )?,
            name,
            description: step.description,
            expect_status: step.expect_status,
            undo,
            after_crash: step.after_crash,
        })
    }

    /// Whether others can see that it was carried out.
    pub fn has_effect(&self) -> bool {
        !self.request.method.is_safe()
    }

    /// Whether `status` means that the step was done.
    pub fn expects(&self, status: u16) -> bool {
        match &self.expect_status {
            Some(statuses) => statuses.contains(&status),
            None => (200..=299).contains(&status),
        }
    }
}

fn undo_request(
    undo: UndoArguments,
    headers: BTreeMap<String, String>,
    step_method: Method,
    name: &str,
    task_id: &str,
) -> Result<Request, PlanError> {
    let place = format!("undo of step {name}");
    if step_method.is_safe() || undo.method.is_safe() {
        return Err(PlanError::SafeUndo(place));
    }
    // `!` is in no step's name, so no step's own key can be the same.
    let key = format!("{task_id}-{name}!undo");
    Request::new(undo.method, undo.url, headers, undo.body, &place, key)
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A plan of the steps given as JSON.
    pub(crate) fn plan(steps: Value) -> Result<Plan, PlanError> {
        let arguments = serde_json::from_value(json!({ "steps": steps })).unwrap();
        Plan::new(arguments, "t1")
    }

    fn step(change: Value) -> Value {
        let mut step = json!({
            "name": "tag",
            "description": "makes the tag",
            "method": "POST",
            "url": "https://git.example/tags"
        });
        for (key, value) in change.as_object().unwrap() {
            step[key] = value.clone();
        }
        step
    }

    #[test]
    fn a_step_becomes_a_request_with_its_key() {
        let plan = plan(json!([step(json!({
            "headers": { "X-Team": "blue" },
            "body": { "tag": "v1" },
            "undo": { "method": "DELETE", "url": "https://git.example/tags/v1" }
        }))]))
        .unwrap();
        let step = &plan.steps[0];
        assert_eq!(step.request.host, "git.example");
        assert_eq!(step.request.idempotency_key, "t1-tag");
        assert_eq!(step.request.body.as_deref(), Some(r#"{"tag":"v1"}"#));
        assert_eq!(
            step.request.headers,
            [
                ("x-team".to_owned(), "blue".to_owned()),
                ("content-type".to_owned(), "application/json".to_owned()),
            ]
        );
        let undo = step.undo.as_ref().unwrap();
        assert_eq!(undo.idempotency_key, "t1-tag!undo");
        assert_eq!(undo.headers, [("x-team".to_owned(), "blue".to_owned())]);
        assert_eq!(plan.reference, "release-gate:t1");
        assert_eq!(plan.question_key(0), "step-1-tag");
    }

    #[test]
    fn a_text_body_goes_as_it_is() {
        let plan = plan(json!([step(json!({ "body": "a=1" }))])).unwrap();
        assert_eq!(plan.steps[0].request.body.as_deref(), Some("a=1"));
        assert!(plan.steps[0].request.headers.is_empty());
    }

    #[test]
    fn what_is_wrong_is_found_before_the_first_effect() {
        let long = "x".repeat(BODY_MAX_BYTES + 1);
        let table = [
            (json!({ "name": "a b" }), "step name \"a b\": use 1 to 48"),
            (json!({ "name": "" }), "step name"),
            (json!({ "name": "-a" }), "step name"),
            (json!({ "url": "ftp://h/" }), "must begin with http"),
            (json!({ "url": "https://" }), "has no host"),
            (json!({ "url": "https:///x" }), "has no host"),
            (json!({ "url": "https://a@h/" }), "user or password"),
            (json!({ "url": "https://h:x/" }), "has a port"),
            (json!({ "url": "https://h:99999/" }), "has a port"),
            (json!({ "url": "https://[::g]/" }), "has no host"),
            (
                json!({ "url": "https://gιt.example/" }),
                "printable ASCII only",
            ),
            (json!({ "url": "https://h/a b" }), "printable ASCII only"),
            (json!({ "url": "https://h/#a" }), "percent-encoded"),
            (json!({ "url": "https://h\\@evil/" }), "percent-encoded"),
            (json!({ "headers": { "a b": "c" } }), "not a header's name"),
            (
                json!({ "headers": { "a": "b\r\nc: d" } }),
                "printable ASCII",
            ),
            (
                json!({ "headers": { "Idempotency-Key": "x" } }),
                "set by the plugin",
            ),
            (json!({ "headers": { "Host": "x" } }), "set by the plugin"),
            (json!({ "body": long }), "more than 65536 bytes"),
            (json!({ "method": "GET", "body": {} }), "take no body"),
            (json!({ "expect_status": [] }), "expect_status"),
            (json!({ "expect_status": [99] }), "expect_status"),
            (
                json!({ "undo": { "method": "GET", "url": "https://h/" } }),
                "undo of step tag: GET and HEAD change nothing",
            ),
            (
                json!({ "method": "GET", "undo": { "method": "DELETE", "url": "https://h/" } }),
                "change nothing",
            ),
            (
                json!({ "undo": { "method": "DELETE", "url": "h" } }),
                "undo of step tag: url \"h\" must begin",
            ),
        ];
        for (change, part) in table {
            let error = plan(json!([step(change.clone())])).expect_err(&change.to_string());
            assert!(error.to_string().contains(part), "{change} gave {error}");
        }
    }

    #[test]
    fn the_list_itself_is_checked() {
        assert_eq!(plan(json!([])), Err(PlanError::Count(0)));
        let many: Vec<Value> = (0..31)
            .map(|i| step(json!({ "name": format!("n{i}") })))
            .collect();
        assert_eq!(plan(Value::from(many)), Err(PlanError::Count(31)));
        let twice = json!([step(json!({})), step(json!({}))]);
        assert_eq!(plan(twice), Err(PlanError::NameTwice("tag".to_owned())));
    }

    #[test]
    fn the_expected_status_is_any_success_unless_said() {
        let plan = plan(json!([
            step(json!({})),
            step(json!({ "name": "b", "expect_status": [409] }))
        ]))
        .unwrap();
        let table = [
            (0, 200, true),
            (0, 299, true),
            (0, 302, false),
            (1, 409, true),
            (1, 200, false),
        ];
        for (index, status, expected) in table {
            assert_eq!(plan.steps[index].expects(status), expected);
        }
    }
}
