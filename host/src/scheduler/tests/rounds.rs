//! Calls that come again with their answers, to an instance that waits or to a new one.

use super::*;

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
    let foreign = host.scheduler.resume_round(&other, first, yes("one"), None);
    assert!(matches!(foreign.await, Err(StartError::Round(_))), "I4");
    // An answer that does not fit asks again, in the same instance.
    let again = host.scheduler.resume_round(&local, first, Map::new(), None);
    let again = held(&mut again.await.unwrap(), "one").await;
    let next = host.scheduler.resume_round(&local, again, yes("one"), None);
    let second = held(&mut next.await.unwrap(), "two").await;
    let late = host.scheduler.resume_round(&local, first, yes("one"), None);
    let used = RoundError::HeldUsed;
    assert!(matches!(late.await, Err(StartError::Round(error)) if error == used));
    let last = host
        .scheduler
        .resume_round(&local, second, yes("two"), None);
    let outcome = last.await.unwrap().outcome().await;
    assert!(matches!(outcome, CallOutcome::Ended(end) if end == returned("both")));
    assert_eq!(runs.load(std::sync::atomic::Ordering::SeqCst), 1);
    let elsewhere = HeldRound {
        process: first.process + 1,
        ..first
    };
    let restarted = host
        .scheduler
        .resume_round(&local, elsewhere, Map::new(), None);
    let expected = RoundError::Restarted;
    assert!(matches!(restarted.await, Err(StartError::Round(error)) if error == expected));
}

#[tokio::test]
async fn what_a_tool_says_in_a_later_round_is_heard_by_that_rounds_client() {
    let host = Fixture::new(|_, run| async move {
        match ask(&run, "go").await {
            Ok(_) => {
                run.tell(Message {
                    level: LogLevel::Info,
                    logger: None,
                    data: "1".into(),
                });
                returned("done")
            }
            Err(end) => end,
        }
    });
    let call = submission("t", Recovery::Fail);
    let start = host
        .scheduler
        .start_call(call, Asks::InHeldRounds, Saved::default(), Map::new());
    let waits = held(&mut start.await.unwrap(), "go").await;
    let (sender, mut heard) = mpsc::channel(1);
    let listener = Some(Listener {
        level: LogLevel::Debug,
        sender,
    });
    let local = TenantId::local();
    let next = host
        .scheduler
        .resume_round(&local, waits, yes("go"), listener);
    next.await.unwrap().outcome().await;
    assert_eq!(heard.recv().await.unwrap().data, "1");
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
    let late = host.scheduler.resume_round(&local, waits, yes("go"), None);
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
async fn a_call_that_waited_once_keeps_its_place_until_it_ends() {
    let host = Fixture::with(
        |limits| limits.tenant_rounds_held_max = 1,
        |_, run| async move {
            match (ask(&run, "one").await, ask(&run, "two").await) {
                (Ok(_), Ok(_)) => returned("both"),
                (Err(end), _) | (_, Err(end)) => end,
            }
        },
    );
    let local = TenantId::local();
    let start = || {
        let call = submission("t", Recovery::Fail);
        host.scheduler
            .start_call(call, Asks::InHeldRounds, Saved::default(), Map::new())
    };
    let resume = |held, key| host.scheduler.resume_round(&local, held, yes(key), None);
    let one = held(&mut start().await.unwrap(), "one").await;
    let two = held(&mut resume(one, "one").await.unwrap(), "two").await;
    let refused = start().await.unwrap().outcome().await;
    assert!(matches!(refused, CallOutcome::Ended(RunEnd::Returned(_))));
    let ended = resume(two, "two").await.unwrap().outcome().await;
    assert!(matches!(ended, CallOutcome::Ended(end) if end == returned("both")));
    host.scheduler.until_no_call_waits().await;
    held(&mut start().await.unwrap(), "one").await;
}
