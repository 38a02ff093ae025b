//! What goes on after a crash, and what a host that stops leaves.

use tokio::time::Instant;

use super::*;

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

fn within(ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(ms)
}

#[tokio::test]
async fn a_stop_waits_once_for_tasks_and_calls_together() {
    const LIMIT_MS: u64 = 2_000;
    let host = Fixture::new(|_, _| std::future::pending());
    let key = host.submit(submission("t", Recovery::Fail)).await;
    host.until(&key, |task| matches!(task.phase, Phase::Running))
        .await;
    let (call, saved) = (submission("c", Recovery::Fail), Saved::default());
    let call = host
        .scheduler
        .start_call(call, Asks::InRounds, saved, Map::new())
        .await
        .unwrap();
    let begun = Instant::now();
    host.scheduler.drain(within(LIMIT_MS)).await;
    // The call goes on: whoever serves it ends it.
    assert!(begun.elapsed() < Duration::from_millis(2 * LIMIT_MS));
    drop(call);
}

#[tokio::test]
async fn a_host_that_stops_takes_resuming_tasks_at_a_checkpoint() {
    let host = Fixture::new(|_, run| async move { work_until_stopped(run).await });
    let key = host.submit(submission("t", Recovery::Resume)).await;
    host.scheduler.drain(within(60_000)).await;
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
    host.scheduler.drain(within(1)).await;
    let task = host.store.get(&key).unwrap().unwrap();
    assert!(matches!(task.phase, Phase::Ended(Ending::Failed(_))));
}
