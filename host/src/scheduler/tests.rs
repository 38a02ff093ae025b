//! The scheduler with a scripted runner, a manual clock and a real store.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use serde_json::{Map, json};
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::*;
use crate::clock::Timestamp;
use crate::notify::Notifier;
use crate::store::{RoundName, StoreOptions};
use crate::task::{
    Abilities, Ask, Digest, Ending, InputRequest, Policy, Recovery, Status, TenantId, ToolRef,
};

const TASKS_UNFINISHED_MAX: usize = 100;

type Script = Arc<dyn Fn(Call, Run) -> BoxFuture<'static, RunEnd> + Send + Sync>;

struct Scripted(Script);

impl Runner for Scripted {
    fn run(&self, call: Call, run: Run) -> BoxFuture<'static, RunEnd> {
        let work = (self.0)(call, run.clone());
        async move {
            tokio::select! {
                end = work => end,
                () = run.killed() => RunEnd::Abandoned,
            }
        }
        .boxed()
    }
}

/// A scheduler over a store in a temporary directory.
struct Fixture {
    scheduler: Scheduler,
    store: Store,
    notifier: Notifier,
    clock: Clock,
    _dir: TempDir,
}

impl Fixture {
    fn new<F>(script: impl Fn(Call, Run) -> F + Send + Sync + 'static) -> Fixture
    where
        F: Future<Output = RunEnd> + Send + 'static,
    {
        Fixture::with(|_| {}, script)
    }

    fn with<F>(
        adjust: impl FnOnce(&mut SchedulerLimits),
        script: impl Fn(Call, Run) -> F + Send + Sync + 'static,
    ) -> Fixture
    where
        F: Future<Output = RunEnd> + Send + 'static,
    {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::manual(Timestamp(1_000_000));
        let notifier = Notifier::default();
        let options = StoreOptions {
            queue_max: 64,
            cache_bytes: 8 << 20,
            free_disk_min_bytes: 0,
            tenant_rounds_max_bytes: 1 << 20,
            tenant_results_kept_max_bytes: 1 << 20,
            tasks_unfinished_max: TASKS_UNFINISHED_MAX,
        };
        let store = Store::open(dir.path(), options, clock.clone(), notifier.clone()).unwrap();
        let mut limits = SchedulerLimits {
            tasks_running_max: 8,
            tenant_tasks_running_max: 8,
            calls_running_max: 8,
            tenant_calls_running_max: 8,
            call_wait_max: Duration::from_secs(5),
            held_instances_max: 8,
            round_hold: Duration::from_secs(600),
            tenant_rounds_held_max: 8,
            held_memory_max_bytes: 1 << 20,
            park_after: Duration::ZERO,
            save_interval: Duration::from_millis(5),
            sweep_interval: Duration::from_secs(3_600),
        };
        adjust(&mut limits);
        let script: Script = Arc::new(move |call, run| script(call, run).boxed());
        let runner = Arc::new(Scripted(script));
        let scheduler = Scheduler::new(
            store.clone(),
            notifier.clone(),
            runner,
            clock.clone(),
            limits,
        );
        Fixture {
            scheduler,
            store,
            notifier,
            clock,
            _dir: dir,
        }
    }

    async fn submit(&self, submission: Submission) -> TaskKey {
        self.scheduler.submit(submission).await.unwrap().key
    }

    /// Waits until the task is as `holds` says.
    async fn until(&self, key: &TaskKey, holds: impl Fn(&Task) -> bool) -> Task {
        let mut changes = self.notifier.subscribe(vec![key.clone()]);
        loop {
            let task = self.store.get(key).unwrap().expect("the task is there");
            if holds(&task) {
                return task;
            }
            changes.changed().await;
        }
    }

    async fn until_status(&self, key: &TaskKey, status: Status) -> Task {
        self.until(key, |task| task.status() == status).await
    }

    fn result(&self, key: &TaskKey) -> String {
        self.store
            .result(key)
            .unwrap()
            .expect("a result is stored")
            .json
    }
}

fn submission(tool: &str, recovery: Recovery) -> Submission {
    Submission {
        tenant: TenantId::local(),
        tool: ToolRef {
            plugin: "p".into(),
            tool: tool.into(),
            digest: Digest([1; 32]),
        },
        arguments: "{}".into(),
        policy: Policy {
            recovery,
            cleanup_on_cancel: false,
            cancel_grace: Duration::from_secs(60),
            poll_interval: Duration::from_secs(1),
        },
        abilities: Abilities {
            form: true,
            ..Abilities::default()
        },
        ttl: Some(Duration::from_secs(3_600)),
        trace: None,
        operation: Default::default(),
        listener: None,
    }
}

fn returned(text: impl Into<String>) -> RunEnd {
    RunEnd::Returned(CallResult {
        json: text.into(),
        is_error: false,
    })
}

fn question(key: &str) -> InputRequest {
    let schema =
        json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]});
    let ask = Ask::Form {
        message: "Go on?".into(),
        schema: schema.to_string(),
    };
    InputRequest {
        key: InputKey::parse(key).unwrap(),
        ask,
    }
}

fn accept() -> Answer {
    Answer::Accept(Some(r#"{"ok":true}"#.into()))
}

async fn run_number(run: &Run) -> RunEnd {
    let attempt = run.context().await.attempt;
    returned(format!("run {attempt}"))
}

async fn ask(run: &Run, key: &str) -> Result<Vec<Answer>, RunEnd> {
    match run.request_input(vec![question(key)]).await {
        Ok(Ok(answers)) => Ok(answers),
        Ok(Err(InputError::Stopped)) => Err(RunEnd::Cancelled(Some("cleaned up".into()))),
        Ok(Err(error)) => Err(returned(format!("{error:?}"))),
        Err(Abandoned) => Err(RunEnd::Abandoned),
    }
}

/// Runs until it is told to stop.
async fn work_until_stopped(run: Run) -> RunEnd {
    loop {
        match run.checkpoint(Some(b"state".to_vec())).await {
            Ok(Ok(())) => tokio::task::yield_now().await,
            Ok(Err(stopped)) => return RunEnd::Cancelled(Some(stopped.reason)),
            Err(Abandoned) => return RunEnd::Abandoned,
        }
    }
}

#[tokio::test]
async fn a_submitted_task_is_stored_and_runs() {
    let host = Fixture::new(|call, run| async move {
        let context = run.context().await;
        returned(format!("{} run {}", call.tool.tool, context.attempt))
    });
    let task = host
        .scheduler
        .submit(submission("export", Recovery::Fail))
        .await
        .unwrap();
    assert!(host.store.get(&task.key).unwrap().is_some());
    host.until_status(&task.key, Status::Completed).await;
    assert_eq!(host.result(&task.key), "export run 1");
}

#[tokio::test]
async fn tasks_beyond_the_places_wait_and_tenants_take_turns() {
    let (started, mut starts) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let opened = gate.clone();
    let host = Fixture::with(
        |limits| limits.tasks_running_max = 1,
        move |call, _| {
            let (started, gate) = (started.clone(), gate.clone());
            async move {
                started.send(call.arguments).unwrap();
                gate.acquire().await.unwrap().forget();
                returned("")
            }
        },
    );
    for (tenant, name) in [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1")] {
        let tenant = TenantId::parse(tenant).unwrap();
        let call = Submission {
            tenant,
            arguments: name.into(),
            ..submission("t", Recovery::Fail)
        };
        host.submit(call).await;
    }
    let mut order = Vec::new();
    for _ in 0..4 {
        order.push(starts.recv().await.unwrap());
        opened.add_permits(1);
    }
    assert_eq!(order, ["a1", "a2", "b1", "a3"]);
}

#[tokio::test]
async fn a_tenant_may_only_have_so_many_tasks() {
    let host = Fixture::new(|_, run| async move { work_until_stopped(run).await });
    let submit = || host.scheduler.submit(submission("t", Recovery::Fail));
    let outcomes = join_all((0..3 * TASKS_UNFINISHED_MAX).map(|_| submit())).await;
    let accepted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(accepted, TASKS_UNFINISHED_MAX);
    for refused in outcomes.into_iter().filter_map(Result::err) {
        let expected = StoreError::TooManyTasks(TASKS_UNFINISHED_MAX);
        assert_eq!(refused.to_string(), expected.to_string());
    }
}

#[tokio::test]
async fn a_parked_task_resumes_with_its_answer_and_asks_once() {
    let host = Fixture::new(|_, run| async move {
        let saved = run.saved_state().await.unwrap();
        if saved.is_none() {
            run.checkpoint(Some(b"half".to_vec()))
                .await
                .unwrap()
                .unwrap();
        }
        match ask(&run, "go").await {
            Ok(answers) => {
                let run = run.context().await.attempt;
                returned(format!("run {run}, saved {}, {answers:?}", saved.is_some()))
            }
            Err(end) => end,
        }
    });
    let key = host.submit(submission("t", Recovery::Resume)).await;
    let parked = host.until(&key, |task| task.phase == Phase::Parked).await;
    assert_eq!(parked.status(), Status::InputRequired);
    let answers = vec![(InputKey::parse("go").unwrap(), accept())];
    host.scheduler.answer(&key, answers).await.unwrap();
    host.until_status(&key, Status::Completed).await;
    let expected = format!("run 2, saved true, {:?}", vec![accept()]);
    assert_eq!(host.result(&key), expected);
    host.scheduler.until_no_run_is_live().await;
}

#[tokio::test]
async fn a_tool_that_does_not_resume_waits_in_memory() {
    let host = Fixture::new(|_, run| async move {
        match ask(&run, "go").await {
            Ok(_) => run_number(&run).await,
            Err(end) => end,
        }
    });
    let key = host.submit(submission("t", Recovery::Fail)).await;
    let waiting = host.until_status(&key, Status::InputRequired).await;
    assert_eq!(waiting.phase, Phase::Running);
    let answers = vec![(InputKey::parse("go").unwrap(), accept())];
    host.scheduler.answer(&key, answers).await.unwrap();
    host.until_status(&key, Status::Completed).await;
    assert_eq!(host.result(&key), "run 1");
}

#[tokio::test]
async fn only_so_many_instances_are_held() {
    let host = Fixture::with(
        |limits| limits.held_instances_max = 1,
        |_, run| async move {
            match ask(&run, "go").await {
                Ok(_) => returned("answered"),
                Err(end) => end,
            }
        },
    );
    let one = host.submit(submission("t", Recovery::Fail)).await;
    let other = host.submit(submission("t", Recovery::Fail)).await;
    // Whichever comes second finds no room.
    let refused = tokio::select! {
        task = host.until_status(&one, Status::Completed) => task,
        task = host.until_status(&other, Status::Completed) => task,
    };
    assert!(
        host.result(&refused.key)
            .contains("declares recovery `resume`")
    );
}

#[tokio::test]
async fn instances_that_wait_share_a_budget_of_memory() {
    let host = Fixture::new(|call, run| async move {
        run.note_memory(if call.tool.tool == "large" {
            600 << 10
        } else {
            1
        });
        match ask(&run, "go").await {
            Ok(_) => returned("answered"),
            Err(end) => end,
        }
    });
    let first = host.submit(submission("large", Recovery::Fail)).await;
    host.until_status(&first, Status::InputRequired).await;
    let second = host.submit(submission("large", Recovery::Fail)).await;
    let refused = host.until_status(&second, Status::Completed).await;
    assert!(refused.inputs.is_empty(), "nobody was asked in vain");
    let words = host.result(&second);
    assert!(words.contains("1024 KiB"), "{words}");
    // There is room for a small one, and for another large one once the first is answered.
    let small = host.submit(submission("small", Recovery::Fail)).await;
    host.until_status(&small, Status::InputRequired).await;
    let answers = vec![(InputKey::parse("go").unwrap(), accept())];
    host.scheduler.answer(&first, answers).await.unwrap();
    host.until_status(&first, Status::Completed).await;
    let third = host.submit(submission("large", Recovery::Fail)).await;
    host.until_status(&third, Status::InputRequired).await;
}

#[tokio::test]
async fn a_cancel_reaches_the_next_checkpoint() {
    let host = Fixture::new(|_, run| async move { work_until_stopped(run).await });
    let key = host.submit(submission("t", Recovery::Resume)).await;
    host.scheduler.cancel(&key, "not needed").await.unwrap();
    let task = host.until_status(&key, Status::Cancelled).await;
    assert_eq!(task.message.as_deref(), Some("cancelled: not needed"));
}

#[tokio::test]
async fn a_tool_that_ignores_a_cancel_is_stopped_by_force() {
    let host = Fixture::new(|_, _| std::future::pending());
    let mut call = submission("t", Recovery::Resume);
    call.policy.cancel_grace = Duration::from_millis(1);
    let key = host.submit(call).await;
    host.scheduler.cancel(&key, "not needed").await.unwrap();
    let task = host.until_status(&key, Status::Cancelled).await;
    assert!(task.message.unwrap().contains("by force"));
}

#[tokio::test]
async fn a_tool_that_finishes_in_spite_of_a_cancel_completes() {
    let gate = Arc::new(Notify::new());
    let opened = gate.clone();
    let host = Fixture::new(move |_, _| {
        let gate = gate.clone();
        async move {
            gate.notified().await;
            returned("done anyway")
        }
    });
    let key = host.submit(submission("t", Recovery::Resume)).await;
    host.scheduler.cancel(&key, "not needed").await.unwrap();
    opened.notify_one();
    host.until_status(&key, Status::Completed).await;
    // I3: a later cancel is acknowledged and changes nothing.
    let before = host.store.get(&key).unwrap();
    host.scheduler.cancel(&key, "again").await.unwrap();
    assert_eq!(host.store.get(&key).unwrap(), before);
}

#[tokio::test]
async fn a_parked_task_runs_once_more_to_clean_up_when_it_is_cancelled() {
    let host = Fixture::new(|_, run| async move {
        match ask(&run, "go").await {
            Ok(_) => returned("answered"),
            Err(end) => end,
        }
    });
    let mut call = submission("t", Recovery::Resume);
    call.policy.cleanup_on_cancel = true;
    let key = host.submit(call).await;
    host.until(&key, |task| task.phase == Phase::Parked).await;
    host.scheduler.cancel(&key, "not needed").await.unwrap();
    let task = host.until_status(&key, Status::Cancelled).await;
    assert_eq!(task.message.as_deref(), Some("cancelled: cleaned up"));
    assert_eq!(task.attempt.0, 2);
}

#[tokio::test]
async fn a_run_that_begins_before_the_parked_one_is_gone_hears_of_a_cancel() {
    let (unload, begun) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (unloaded, begins) = (unload.clone(), begun.clone());
    let host = Fixture::new(move |_, run| {
        let (unloaded, begins) = (unloaded.clone(), begins.clone());
        async move {
            if run.context().await.attempt > 1 {
                begins.notify_one();
                return work_until_stopped(run).await;
            }
            let end = ask(&run, "go").await.unwrap_err();
            unloaded.notified().await;
            end
        }
    });
    let key = host.submit(submission("t", Recovery::Resume)).await;
    host.until(&key, |task| task.phase == Phase::Parked).await;
    let answers = vec![(InputKey::parse("go").unwrap(), accept())];
    host.scheduler.answer(&key, answers).await.unwrap();
    begun.notified().await;
    let ended = host.scheduler.0.run_ended.notified();
    unload.notify_one();
    ended.await;
    host.scheduler.cancel(&key, "not needed").await.unwrap();
    host.until_status(&key, Status::Cancelled).await;
}

#[tokio::test]
async fn a_start_recovers_what_a_dead_process_left() {
    let host = Fixture::new(|_, run| async move { run_number(&run).await });
    let mut keys = Vec::new();
    for recovery in [Recovery::Resume, Recovery::Restart, Recovery::Fail] {
        let call = submission("t", recovery);
        let task = call.task(host.scheduler.new_key(&call.tenant), true, host.clock.now());
        keys.push(task.key.clone());
        host.store.insert(call.born(task)).await.unwrap();
    }
    host.scheduler.start().await.unwrap();
    for key in &keys[..2] {
        host.until_status(key, Status::Completed).await;
        assert_eq!(host.result(key), "run 2");
    }
    let failed = host.until_status(&keys[2], Status::Failed).await;
    assert!(failed.message.unwrap().contains("declares recovery `fail`"));
}

#[tokio::test]
async fn a_damaged_record_keeps_no_other_task_from_going_on_or_being_swept() {
    let host = Fixture::new(|_, run| async move { run_number(&run).await });
    let mut keys = Vec::new();
    for _ in 0..3 {
        let call = submission("t", Recovery::Resume);
        let task = call.task(host.scheduler.new_key(&call.tenant), true, host.clock.now());
        keys.push(task.key.clone());
        host.store.insert(call.born(task)).await.unwrap();
    }
    host.store.damage_record(&keys[0]);
    host.scheduler.start().await.unwrap();
    for key in &keys[1..] {
        host.until_status(key, Status::Completed).await;
    }
    host.scheduler.until_no_run_is_live().await;
    host.clock.advance(Duration::from_secs(3_600));
    assert_eq!(host.scheduler.sweep().await.unwrap(), 3);
    for key in &keys {
        assert_eq!(host.store.get(key).unwrap(), None);
    }
}

#[tokio::test]
async fn a_superseded_run_can_change_nothing() {
    let (runs, mut handed) = mpsc::unbounded_channel();
    let host = Fixture::new(move |_, run| {
        runs.send(run).unwrap();
        std::future::pending()
    });
    let key = host.submit(submission("t", Recovery::Resume)).await;
    let stale = handed.recv().await.unwrap();
    // Another process would take the lease over like this.
    let lost = Event::Interrupted {
        attempt: crate::task::Attempt(1),
        cause: Interruption::Crash,
    };
    host.store.update(&key, lost).await.unwrap();
    host.store.update(&key, Event::Claimed).await.unwrap();
    assert_eq!(stale.checkpoint(Some(b"x".to_vec())).await, Err(Abandoned));
    assert_eq!(
        stale.record_step("s".into(), b"x".to_vec()).await,
        Err(StepError::Abandoned(Abandoned))
    );
    assert!(stale.request_input(vec![question("q")]).await.is_err());
    assert_eq!(host.store.checkpoint(&key).unwrap(), None);
    assert_eq!(host.store.step(&key, "s").unwrap(), None);
}

#[tokio::test]
async fn a_call_that_becomes_a_task_keeps_what_it_did() {
    let gate = Arc::new(Notify::new());
    let opened = gate.clone();
    let host = Fixture::new(move |_, run| {
        let gate = gate.clone();
        async move {
            run.record_step("first".into(), b"1".to_vec())
                .await
                .unwrap()
                .unwrap();
            run.checkpoint(Some(b"half".to_vec()))
                .await
                .unwrap()
                .unwrap();
            gate.notified().await;
            run.record_step("second".into(), b"2".to_vec())
                .await
                .unwrap()
                .unwrap();
            returned("done")
        }
    });
    let asks = Asks::AsTask {
        first: Default::default(),
        always: false,
    };
    let call = submission("t", Recovery::Resume);
    let mut call = host
        .scheduler
        .start_call(call, asks, Saved::default(), Map::new())
        .await
        .unwrap();
    call.become_task().await.unwrap();
    let CallOutcome::Task(task) = call.outcome().await else {
        panic!("not a task")
    };
    drop(call);
    opened.notify_one();
    host.until_status(&task.key, Status::Completed).await;
    assert_eq!(
        host.store.step(&task.key, "first").unwrap(),
        Some(b"1".to_vec())
    );
    assert_eq!(
        host.store.step(&task.key, "second").unwrap(),
        Some(b"2".to_vec())
    );
    assert_eq!(
        host.store.checkpoint(&task.key).unwrap(),
        Some(b"half".to_vec())
    );
}

#[tokio::test]
async fn a_call_without_a_task_asks_in_rounds_until_the_answer_fits() {
    let host = Fixture::new(|_, run| async move {
        let first = run.step_result("once").await.unwrap().is_none();
        if first {
            run.record_step("once".into(), b"1".to_vec())
                .await
                .unwrap()
                .unwrap();
        }
        match ask(&run, "go").await {
            Ok(_) => returned(format!("first {first}")),
            Err(end) => end,
        }
    });
    let mut saved = Saved::default();
    let rounds = [
        json!({}),
        json!({"wrong": {"action": "accept"}}),
        json!({"go": {"action": "accept", "content": {"ok": "maybe"}}}),
    ];
    for responses in rounds {
        let responses = responses.as_object().unwrap().clone();
        let call = submission("t", Recovery::Resume);
        let mut call = host
            .scheduler
            .start_call(call, Asks::InRounds, saved, responses)
            .await
            .unwrap();
        let CallOutcome::Asks(requests, Left::State(kept)) = call.outcome().await else {
            panic!("no question")
        };
        assert_eq!(requests, [question("go")]);
        saved = kept;
    }
    let responses = json!({"go": {"action": "accept", "content": {"ok": true}}, "extra": 1});
    let responses = responses.as_object().unwrap().clone();
    let call = submission("t", Recovery::Resume);
    let mut call = host
        .scheduler
        .start_call(call, Asks::InRounds, saved, responses)
        .await
        .unwrap();
    let outcome = call.outcome().await;
    assert!(matches!(outcome, CallOutcome::Ended(end) if end == returned("first false")));
}

#[tokio::test]
async fn a_tool_that_must_be_a_task_asks_first_and_then_becomes_one() {
    let host = Fixture::new(|_, run| async move {
        match ask(&run, "first").await {
            Ok(_) => returned("done"),
            Err(end) => end,
        }
    });
    let asks = Asks::AsTask {
        first: ["first".to_owned()].into(),
        always: true,
    };
    let call = submission("t", Recovery::Restart);
    let start = host
        .scheduler
        .start_call(call, asks.clone(), Saved::default(), Map::new());
    let CallOutcome::Asks(_, Left::State(saved)) = start.await.unwrap().outcome().await else {
        panic!("no question")
    };
    assert_eq!(host.store.unfinished(&TenantId::local()), 0);
    let responses = json!({"first": {"action": "decline"}})
        .as_object()
        .unwrap()
        .clone();
    let call = submission("t", Recovery::Restart);
    let mut call = host
        .scheduler
        .start_call(call, asks, saved, responses)
        .await
        .unwrap();
    let CallOutcome::Task(task) = call.outcome().await else {
        panic!("not a task")
    };
    host.until_status(&task.key, Status::Completed).await;
    assert_eq!(host.store.inputs(&task.key).unwrap().len(), 1);
}

/// Counts its runs, asks under two keys one after the other, and tells both.
fn asking_twice(runs: Arc<std::sync::atomic::AtomicUsize>) -> Fixture {
    Fixture::new(move |_, run| {
        runs.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async move {
            match (ask(&run, "one").await, ask(&run, "two").await) {
                (Ok(one), Ok(two)) if one == two => returned("both"),
                (Ok(one), Ok(two)) => panic!("{one:?}, {two:?}"),
                (Err(end), _) | (_, Err(end)) => end,
            }
        }
    })
}

fn yes(key: &str) -> Map<String, serde_json::Value> {
    let yes = json!({key: {"action": "accept", "content": {"ok": true}}});
    yes.as_object().unwrap().clone()
}

async fn held(call: &mut StartedCall, key: &str) -> HeldRound {
    match call.outcome().await {
        CallOutcome::Asks(requests, Left::Held(held)) if requests == [question(key)] => held,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_tool_that_can_not_restart_waits_in_memory_from_round_to_round() {
    let runs = Arc::default();
    let host = asking_twice(Arc::clone(&runs));
    let local = TenantId::local();
    let call = submission("t", Recovery::Fail);
    let start = host
        .scheduler
        .start_call(call, Asks::InHeldRounds, Saved::default(), Map::new());
    let mut call = start.await.unwrap();
    let first = held(&mut call, "one").await;
    drop(call);
    let other = TenantId::parse("other").unwrap();
    let foreign = host.scheduler.resume_round(&other, first, yes("one"));
    assert!(matches!(foreign.await, Err(StartError::Round(_))), "I4");
    // An answer that does not fit asks again, in the same instance.
    let again = host.scheduler.resume_round(&local, first, Map::new());
    let again = held(&mut again.await.unwrap(), "one").await;
    let next = host.scheduler.resume_round(&local, again, yes("one"));
    let second = held(&mut next.await.unwrap(), "two").await;
    let late = host.scheduler.resume_round(&local, first, yes("one"));
    let used = RoundError::HeldUsed;
    assert!(matches!(late.await, Err(StartError::Round(error)) if error == used));
    let last = host.scheduler.resume_round(&local, second, yes("two"));
    let outcome = last.await.unwrap().outcome().await;
    assert!(matches!(outcome, CallOutcome::Ended(end) if end == returned("both")));
    assert_eq!(runs.load(std::sync::atomic::Ordering::SeqCst), 1);
    let elsewhere = HeldRound {
        process: first.process + 1,
        ..first
    };
    let restarted = host.scheduler.resume_round(&local, elsewhere, Map::new());
    let expected = RoundError::Restarted;
    assert!(matches!(restarted.await, Err(StartError::Round(error)) if error == expected));
}

#[tokio::test]
async fn a_round_that_never_comes_stops_the_tool_and_frees_its_place() {
    let (ended, mut ends) = mpsc::unbounded_channel();
    let host = Fixture::with(
        |limits| limits.round_hold = Duration::from_millis(1),
        move |_, run| {
            let ended = ended.clone();
            async move {
                let end = run.request_input(vec![question("go")]).await;
                let stopped = run.cancelled().map(|stopped| stopped.reason);
                ended.send((end, stopped)).unwrap();
                returned("late")
            }
        },
    );
    let call = submission("t", Recovery::Fail);
    let start = host
        .scheduler
        .start_call(call, Asks::InHeldRounds, Saved::default(), Map::new());
    let mut call = start.await.unwrap();
    let waits = held(&mut call, "go").await;
    let reason = Some("nobody answered in time".to_owned());
    let stopped = Ok(Err(InputError::Stopped));
    assert_eq!(ends.recv().await, Some((stopped, reason)));
    assert_eq!(host.scheduler.waiting_rounds(), 0);
    host.clock.advance(Duration::from_millis(1));
    let local = TenantId::local();
    let late = host.scheduler.resume_round(&local, waits, yes("go"));
    assert!(matches!(
        late.await,
        Err(StartError::Round(RoundError::TooLate(_)))
    ));
}

#[tokio::test]
async fn only_so_many_calls_of_a_tenant_wait_in_memory() {
    let host = Fixture::with(
        |limits| limits.tenant_rounds_held_max = 1,
        |_, run| async move {
            match run.request_input(vec![question("go")]).await {
                Ok(Err(InputError::Unsupported(reason))) => returned(reason),
                other => panic!("{other:?}"),
            }
        },
    );
    let start = || {
        let call = submission("t", Recovery::Fail);
        host.scheduler
            .start_call(call, Asks::InHeldRounds, Saved::default(), Map::new())
    };
    let mut first = start().await.unwrap();
    held(&mut first, "go").await;
    let mut second = start().await.unwrap();
    match second.outcome().await {
        CallOutcome::Ended(RunEnd::Returned(result)) => {
            assert!(result.json.contains("1 calls of this tenant"), "{result:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_round_with_a_step_recorded_begins_once_and_one_without_as_often_as_it_comes() {
    let host = Fixture::new(|_, _| async { returned("done") });
    let name = |id: u8| RoundName {
        key: TaskKey {
            tenant: TenantId::local(),
            id: TaskId::from_random([id; 16]),
        },
        expires_at: Timestamp(2_000_000),
    };
    let begin = |saved: &Saved, id| {
        let call = submission("t", Recovery::Resume);
        let round = Some(name(id));
        let saved = saved.clone();
        host.scheduler
            .start_round(call, Asks::InRounds, saved, round, Map::new())
    };
    let mut saved = Saved::default();
    begin(&saved, 1).await.unwrap().outcome().await;
    begin(&saved, 1).await.unwrap().outcome().await;
    saved.steps.insert("sent".to_owned(), Vec::new());
    begin(&saved, 2).await.unwrap().outcome().await;
    let again = begin(&saved, 2).await;
    assert!(matches!(again, Err(StartError::Round(RoundError::Used))));
    begin(&saved, 3).await.unwrap().outcome().await;
    // The marks go with the rounds.
    host.clock.advance(Duration::from_secs(1_000));
    assert_eq!(host.scheduler.sweep_rounds().await.unwrap(), 2);
}

#[tokio::test]
async fn a_client_that_is_there_is_asked_once_while_even_a_tool_that_can_not_restart_waits() {
    let host = Fixture::new(|_, run| async move {
        let first = ask(&run, "go").await;
        let again = ask(&run, "go").await;
        match (first, again) {
            (Ok(first), Ok(again)) if first == again => returned("went"),
            (first, again) => panic!("{first:?}, then {again:?}"),
        }
    });
    let (client, mut questions) = mpsc::channel(1);
    let call = submission("t", Recovery::Fail);
    let start = host
        .scheduler
        .start_call(call, Asks::Live(client), Saved::default(), Map::new());
    let mut call = start.await.unwrap();
    for content in [json!({"ok": "maybe"}), json!({"ok": true})] {
        let asked = questions.recv().await.expect("a question");
        assert_eq!(asked.request, question("go"));
        let response = json!({"action": "accept", "content": content});
        asked.reply.send(Ok(response)).unwrap();
    }
    let outcome = call.outcome().await;
    assert!(matches!(outcome, CallOutcome::Ended(end) if end == returned("went")));
    assert!(questions.recv().await.is_none());
}

#[tokio::test]
async fn a_question_that_waits_for_a_client_that_goes_away_is_stopped() {
    let (ended, mut ends) = mpsc::unbounded_channel();
    let host = Fixture::new(move |_, run| {
        let ended = ended.clone();
        async move {
            let end = run.request_input(vec![question("go")]).await;
            ended.send(end).unwrap();
            returned("late")
        }
    });
    let (client, mut questions) = mpsc::channel(1);
    let call = submission("t", Recovery::Fail);
    let start = host
        .scheduler
        .start_call(call, Asks::Live(client), Saved::default(), Map::new());
    let call = start.await.unwrap();
    let _asked = questions.recv().await.expect("a question");
    drop(call);
    assert_eq!(ends.recv().await, Some(Ok(Err(InputError::Stopped))));
}

#[tokio::test]
async fn a_call_whose_client_goes_away_is_told_to_stop() {
    let (ended, mut ends) = mpsc::unbounded_channel();
    let host = Fixture::new(move |_, run| {
        let ended = ended.clone();
        async move {
            let end = work_until_stopped(run).await;
            ended.send(end.clone()).unwrap();
            end
        }
    });
    let call = submission("t", Recovery::Restart);
    let start = host
        .scheduler
        .start_call(call, Asks::InRounds, Saved::default(), Map::new());
    drop(start.await.unwrap());
    let reason = "the client closed the call".to_owned();
    assert_eq!(ends.recv().await, Some(RunEnd::Cancelled(Some(reason))));
}

#[tokio::test]
async fn a_host_that_stops_takes_resuming_tasks_at_a_checkpoint() {
    let host = Fixture::new(|_, run| async move { work_until_stopped(run).await });
    let key = host.submit(submission("t", Recovery::Resume)).await;
    host.scheduler.drain(Duration::from_secs(60)).await;
    let task = host.store.get(&key).unwrap().unwrap();
    assert!(matches!(task.phase, Phase::Queued { .. }));
    assert_eq!((task.attempt.0, task.crashes), (1, 0));
    let refused = host
        .scheduler
        .submit(submission("t", Recovery::Resume))
        .await;
    assert!(matches!(refused, Err(StartError::Draining)));
}

#[tokio::test]
async fn a_host_that_stops_fails_what_can_not_go_on() {
    let host = Fixture::new(|_, _| std::future::pending());
    let key = host.submit(submission("t", Recovery::Fail)).await;
    host.scheduler.drain(Duration::from_millis(1)).await;
    let task = host.store.get(&key).unwrap().unwrap();
    assert!(matches!(task.phase, Phase::Ended(Ending::Failed(_))));
}

#[tokio::test]
async fn expired_tasks_are_deleted_and_running_ones_stopped_first() {
    let host = Fixture::new(|_, run| async move { work_until_stopped(run).await });
    let ended = host.submit(submission("t", Recovery::Resume)).await;
    host.scheduler.cancel(&ended, "so").await.unwrap();
    host.until_status(&ended, Status::Cancelled).await;
    let running = host.submit(submission("t", Recovery::Resume)).await;
    assert_eq!(host.scheduler.sweep().await.unwrap(), 0);

    host.clock.advance(Duration::from_secs(3_600));
    let mut deleted = 0;
    while deleted < 2 {
        deleted += host.scheduler.sweep().await.unwrap();
        tokio::task::yield_now().await;
    }
    for key in [&ended, &running] {
        assert_eq!(host.store.get(key).unwrap(), None);
        assert_eq!(host.store.checkpoint(key).unwrap(), None);
    }
    host.scheduler.until_no_run_is_live().await;
}

#[tokio::test]
async fn progress_shows_at_once_and_is_saved_now_and_then() {
    let gate = Arc::new(Notify::new());
    let opened = gate.clone();
    let host = Fixture::new(move |_, run| {
        let gate = gate.clone();
        async move {
            let message = "37/120, 2 failing".to_owned();
            run.progress(Progress {
                message,
                done: Some(37.0),
                total: Some(120.0),
            });
            gate.notified().await;
            returned("")
        }
    });
    let key = host.submit(submission("t", Recovery::Resume)).await;
    let saved = host.until(&key, |task| task.message.is_some()).await;
    assert_eq!(saved.message.as_deref(), Some("37/120, 2 failing"));
    let live = host.scheduler.progress(&key).unwrap();
    assert_eq!((live.done, live.total), (Some(37.0), Some(120.0)));
    opened.notify_one();
    host.until_status(&key, Status::Completed).await;
}

#[tokio::test]
async fn a_tool_that_reports_without_end_is_saved_all_the_same() {
    let host = Fixture::with(
        // Longer than the pause between two showings, which must not put it off.
        |limits| limits.save_interval = Duration::from_millis(250),
        |_, run| async move {
            for count in 0_u64.. {
                let message = count.to_string();
                run.progress(Progress {
                    message,
                    done: None,
                    total: None,
                });
                tokio::task::yield_now().await;
            }
            returned("")
        },
    );
    let key = host.submit(submission("t", Recovery::Resume)).await;
    host.until(&key, |task| task.message.is_some()).await;
}

#[tokio::test]
async fn watchers_hear_of_progress_before_it_is_saved() {
    let gate = Arc::new(Notify::new());
    let opened = gate.clone();
    let host = Fixture::with(
        |limits| limits.save_interval = Duration::from_secs(3_600),
        move |_, run| {
            let gate = gate.clone();
            async move {
                gate.notified().await;
                let message = "half".to_owned();
                run.progress(Progress {
                    message,
                    done: None,
                    total: None,
                });
                std::future::pending().await
            }
        },
    );
    let key = host.submit(submission("t", Recovery::Resume)).await;
    let mut changes = host.notifier.subscribe(vec![key.clone()]);
    opened.notify_one();
    assert_eq!(changes.changed().await, key);
    assert_eq!(host.scheduler.progress(&key).unwrap().message, "half");
    assert_eq!(host.store.get(&key).unwrap().unwrap().message, None);
}

#[tokio::test]
async fn a_key_names_one_question() {
    let host = Fixture::new(|_, run| async move {
        if let Err(end) = ask(&run, "go").await {
            return end;
        }
        let other = InputRequest {
            ask: Ask::Form {
                message: "Other?".into(),
                schema: r#"{"type":"object","properties":{}}"#.into(),
            },
            ..question("go")
        };
        match run.request_input(vec![other]).await {
            Ok(Err(InputError::Invalid(why))) => returned(why),
            other => returned(format!("{other:?}")),
        }
    });
    let key = host.submit(submission("t", Recovery::Fail)).await;
    host.until_status(&key, Status::InputRequired).await;
    let answers = vec![(InputKey::parse("go").unwrap(), accept())];
    host.scheduler.answer(&key, answers).await.unwrap();
    host.until_status(&key, Status::Completed).await;
    assert_eq!(
        host.result(&key),
        "the key `go` was used for another question"
    );
}

#[tokio::test]
async fn a_question_the_client_can_not_answer_is_refused_to_the_guest() {
    let host = Fixture::new(|_, run| async move {
        let sampling = InputRequest {
            ask: Ask::Sampling("{}".into()),
            ..question("s")
        };
        match run.request_input(vec![sampling]).await {
            Ok(Err(InputError::MissingCapability(name))) => returned(name),
            other => returned(format!("{other:?}")),
        }
    });
    let key = host.submit(submission("t", Recovery::Fail)).await;
    host.until_status(&key, Status::Completed).await;
    assert_eq!(host.result(&key), "sampling");
}

#[tokio::test]
async fn an_end_too_large_for_a_record_still_ends_the_task() {
    let host = Fixture::new(|_, _| async move {
        RunEnd::Failed(RpcError {
            code: 1,
            message: "told".into(),
            data: Some("x".repeat(1 << 20)),
        })
    });
    let key = host.submit(submission("t", Recovery::Resume)).await;
    let task = host.until_status(&key, Status::Failed).await;
    let message = task.message.unwrap();
    assert!(
        message.contains("end could not be stored") && message.contains("the most"),
        "{message}"
    );
    host.scheduler.until_no_run_is_live().await;
}

/// I8: a run that is given up ends its task, also when neither a cancel nor a stop is the reason.
#[tokio::test]
async fn a_run_that_is_given_up_ends_its_task() {
    let host = Fixture::new(|_, _| async move { RunEnd::Abandoned });
    let key = host.submit(submission("t", Recovery::Resume)).await;
    let task = host.until_status(&key, Status::Failed).await;
    assert!(task.message.unwrap().contains("gave it up"));
}
