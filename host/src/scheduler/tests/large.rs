//! Results that are too large for one message, of calls that are no tasks.

use super::*;
use crate::task::{PartBody, ResultPart};

fn large() -> RunEnd {
    let placeholder = TaskId::from_random([5; 16]);
    let part = ResultPart {
        mime_type: None,
        body: PartBody::Text("x".repeat(1_000)),
    };
    RunEnd::ReturnedLarge(LargeResult::new(
        "{}".into(),
        false,
        placeholder,
        vec![part],
    ))
}

fn start(host: &Fixture) -> impl Future<Output = Result<StartedCall, StartError>> {
    let call = submission("t", Recovery::Restart);
    host.scheduler
        .start_call(call, Asks::InRounds, Saved::default(), Map::new())
}

fn kept(host: &Fixture) -> Vec<Task> {
    host.store.tasks(&TenantId::local(), None, 10).unwrap()
}

#[tokio::test]
async fn a_call_with_a_large_result_is_stored_and_nothing_would_run_its_tool_again() {
    let host = Fixture::new(|_, _| async { large() });
    let outcome = start(&host).await.unwrap().outcome().await;
    assert!(matches!(
        outcome,
        CallOutcome::Ended(RunEnd::Returned(result)) if result.json == "{}"
    ));
    let tasks = kept(&host);
    assert_eq!(tasks.len(), 1);
    assert_eq!(tasks[0].status(), Status::Completed);
    assert_eq!(tasks[0].policy.recovery, Recovery::Fail);
    assert!(host.store.part(&tasks[0].key, 1).unwrap().is_some());
}

#[tokio::test]
async fn a_large_result_that_nobody_waits_for_leaves_nothing() {
    let gate = Arc::new(Semaphore::new(0));
    let opened = gate.clone();
    let host = Fixture::new(move |_, _| {
        let gate = gate.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            large()
        }
    });
    drop(start(&host).await.unwrap());
    opened.add_permits(1);
    host.scheduler.0.tracker.close();
    host.scheduler.0.tracker.wait().await;
    assert_eq!(kept(&host), []);
}
