//! What a cancel comes to.

use super::*;

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
