//! What a client was told about one task, and what must be true of the task ever after.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Value, json};

/// What a task does, and so what may become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Steps with effects between questions.
    Resume,
    /// One question, from the beginning after every death.
    Restart,
    /// Ends with its host.
    Fail,
    /// `release-gate` with three steps.
    Release,
    /// `report-export`.
    Export,
}

/// One task, as its client knows it.
#[derive(Debug)]
pub struct Record {
    pub id: String,
    pub kind: Kind,
    /// Every question that was ever open.
    asked: BTreeMap<String, Value>,
    /// Questions whose answer was acknowledged.
    answered: BTreeSet<String>,
    cancel_sent: bool,
    cancel_acknowledged: bool,
    /// The whole task, once it has ended.
    ended: Option<Value>,
}

impl Record {
    pub fn new(id: String, kind: Kind) -> Record {
        Record {
            id,
            kind,
            asked: BTreeMap::new(),
            answered: BTreeSet::new(),
            cancel_sent: false,
            cancel_acknowledged: false,
            ended: None,
        }
    }

    /// Takes what `tasks/get` says and holds it against all that was said before.
    pub fn observe(&mut self, task: &Value) {
        let id = &self.id;
        if let Some(ended) = &self.ended {
            assert_eq!(ended, task, "I3: an ended task changed");
            return;
        }
        for (key, request) in open_questions(task) {
            assert!(
                !self.answered.contains(&key),
                "I7: {key} was answered and is asked again: {task:#}"
            );
            let first = self.asked.entry(key).or_insert_with(|| request.clone());
            assert_eq!(*first, request, "I7: a question of {id} became another one");
        }
        let status = task["status"].as_str().unwrap();
        assert!(
            !(self.cancel_acknowledged && status == "input_required"),
            "a cancelled task waits for an answer: {task:#}"
        );
        if matches!(status, "completed" | "failed" | "cancelled") {
            self.check_end(task, status);
            self.ended = Some(task.clone());
        }
    }

    pub fn ended(&self) -> Option<&Value> {
        self.ended.as_ref()
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancel_acknowledged
    }

    pub fn cancelling(&mut self) {
        self.cancel_sent = true;
    }

    pub fn cancel_acknowledged(&mut self) {
        self.cancel_acknowledged = true;
    }

    pub fn answer_acknowledged(&mut self, key: String) {
        self.answered.insert(key);
    }

    /// The host gave the task up because it kept dying without getting anywhere.
    pub fn is_given_up(&self) -> bool {
        let ended = self.ended.as_ref();
        ended.is_some_and(|task| message(task).contains("the task is given up"))
    }

    /// The answer to a question; the same whenever it is asked for.
    pub fn response_to(&self, key: &str) -> Value {
        let content = match self.names(key) {
            true => json!({"name": self.name_for(key)}),
            false => json!({"confirm": self.says_yes(key)}),
        };
        json!({"action": "accept", "content": content})
    }

    pub fn says_yes(&self, key: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        (&self.id, key).hash(&mut hasher);
        !hasher.finish().is_multiple_of(8)
    }

    fn names(&self, key: &str) -> bool {
        key.starts_with("name-")
    }

    fn name_for(&self, key: &str) -> String {
        format!("{key} of {}", self.id)
    }

    fn check_end(&self, task: &Value, status: &str) {
        let text = task["result"]["content"][0]["text"].as_str();
        match (status, self.kind) {
            ("cancelled", _) => {
                assert!(self.cancel_sent, "nobody cancelled: {task:#}");
                let by_force = message(task).contains("by force");
                assert!(!by_force, "the tool never heard of the cancel: {task:#}");
                // A task that never ran has no effects to tell of.
                let told = message(task).split_once("effects left: ");
                let all_undone = told.is_none_or(|(_, left)| left.starts_with('0'));
                assert!(all_undone, "{task:#}");
            }
            ("failed", Kind::Fail) => {
                let explained = message(task).contains("declares recovery `fail`");
                assert!(explained, "{task:#}");
            }
            ("failed", _) => {
                let given_up = message(task).contains("the task is given up");
                assert!(given_up, "{task:#}");
            }
            (_, Kind::Resume) => self.check_script(text.unwrap()),
            (_, Kind::Restart) => {
                let answer = format!("q: {}", self.says_yes("q"));
                assert_eq!(text.unwrap().lines().nth(1), Some(&*answer), "{task:#}");
            }
            (_, Kind::Fail | Kind::Export) => assert_eq!(task["result"]["isError"], false),
            (_, Kind::Release) => self.check_release(&task["result"]["structuredContent"]),
        }
    }

    /// Every answer is the one that was given, and steps keep the attempt that recorded them.
    fn check_script(&self, text: &str) {
        let lines: Vec<&str> = text.lines().collect();
        let [saved, attempt, a, q, b, first, second, c, again] = lines[..] else {
            panic!("{text}");
        };
        assert_eq!(q, format!("q: {}", self.says_yes("q")));
        for (line, key) in [(first, "name-1"), (second, "name-2")] {
            assert_eq!(line, format!("{key}: {}", self.name_for(key)));
        }
        let last = attempt.split([' ', ',']).nth(1).unwrap().parse().unwrap();
        let [a, b, c] = [a, b, c].map(attempt_of_step);
        assert!(a <= b && b <= c && c <= last, "{text}");
        assert_eq!(attempt_of_step(again), a, "a step was recorded twice");
        // The checkpoint came before the step that an earlier run recorded.
        if b < last {
            assert_eq!(saved, "saved Some(\"one\")", "{text}");
        }
    }

    fn check_release(&self, report: &Value) {
        let steps = report["steps"].as_array().unwrap();
        let mut refused = false;
        for (index, step) in steps.iter().enumerate() {
            let key = format!("step-{}-{}", index + 1, step["name"].as_str().unwrap());
            let expected = match (refused, self.says_yes(&key)) {
                (true, _) => "not_run",
                (false, true) => "done",
                (false, false) => "declined",
            };
            assert_eq!(step["state"], expected, "{report:#}");
            refused |= expected == "declined";
        }
    }
}

/// The open questions of a task.
pub fn open_questions(task: &Value) -> Vec<(String, Value)> {
    let requests = task["inputRequests"].as_object();
    let requests = requests.into_iter().flatten();
    requests
        .map(|(key, request)| (key.clone(), request.clone()))
        .collect()
}

/// The attempt in `step NAME of attempt N`.
pub fn attempt_of_step(line: &str) -> u32 {
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

fn message(task: &Value) -> &str {
    task["statusMessage"].as_str().unwrap_or_default()
}
