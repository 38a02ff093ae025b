//! Calls that are answered inline, and those that become tasks.

use super::*;

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

fn tenant(name: &str) -> TenantId {
    TenantId::parse(name).unwrap()
}

#[tokio::test]
async fn a_call_waits_for_a_place_of_its_own_tenant() {
    let host = Fixture::with(
        |limits| {
            limits.tenant_calls_running_max = 1;
            limits.tenant_calls_waiting_max = 1;
        },
        |_, _| async { returned("") },
    );
    let take = |name| {
        let (scheduler, tenant) = (host.scheduler.clone(), tenant(name));
        Box::pin(async move { scheduler.take_call_place(&tenant).await })
    };
    let first = take("a").await.unwrap();
    let mut second = take("a");
    assert!(futures_util::poll!(&mut second).is_pending());
    // One more than may wait, and another tenant, to whom none of it matters.
    let refused = take("a").await.err();
    assert!(matches!(refused, Some(StartError::TooManyCalls)));
    let other = take("b").await.unwrap();
    drop(first);
    let second = second.await.unwrap();
    assert_eq!(host.scheduler.counts().calls, 2);

    // Whoever goes away in line is passed over, and has taken nobody's place in it.
    let mut third = take("a");
    assert!(futures_util::poll!(&mut third).is_pending());
    drop(third);
    let mut fourth = take("a");
    assert!(futures_util::poll!(&mut fourth).is_pending());
    drop(second);
    drop(fourth.await.unwrap());
    drop(other);
    assert_eq!(host.scheduler.counts().calls, 0);
}

#[tokio::test]
async fn tenants_that_flood_leave_a_place_to_the_next_one() {
    let host = Fixture::with(
        |limits| limits.tenant_calls_running_max = 4,
        |_, _| async { returned("") },
    );
    let take = |name| {
        let (scheduler, tenant) = (host.scheduler.clone(), tenant(name));
        Box::pin(async move { scheduler.take_call_place(&tenant).await })
    };
    let mut taken = Vec::new();
    let mut waiting = Vec::new();
    for name in ["a", "b", "c"] {
        for _ in 0..8 {
            let mut place = take(name);
            match futures_util::poll!(&mut place) {
                std::task::Poll::Ready(place) => taken.push((name, place.unwrap())),
                std::task::Poll::Pending => waiting.push(place),
            }
        }
    }
    let names: Vec<_> = taken.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["a", "a", "a", "a", "b", "b", "c"]);
    let fourth = take("d").await.unwrap();
    // What the largest one leaves is not its own again as long as others have less.
    taken.remove(0);
    let fifth = take("e").await.unwrap();
    assert_eq!(host.scheduler.counts().calls, 8);
    drop((waiting, taken, fourth, fifth));
    assert_eq!(host.scheduler.counts().calls, 0);
}
