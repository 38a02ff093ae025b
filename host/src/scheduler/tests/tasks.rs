//! What a submitted task goes through.

use super::*;

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
        cause: crate::task::Interruption::Crash,
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
