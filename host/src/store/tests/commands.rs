//! What commands do: insert, update, remove, and what each answers.

use futures_util::future::join_all;

use super::super::{StoreError, StoredInput, UpdateError};
use super::{
    Bench, TASKS_UNFINISHED_MAX, asked, checkpointed, input_key, key, new_task, returned, running,
    step, task,
};
use crate::clock::Timestamp;
use crate::task::{
    Answer, Ask, Attempt, Event, InputRequest, Interruption, Phase, Progress, Rejected, Status,
};

#[tokio::test]
async fn a_new_task_can_be_read() {
    let bench = Bench::new();
    let store = bench.open();
    let mut new = new_task("a");
    new.arguments = r#"{"file":"x"}"#.into();
    new.checkpoint = Some(b"state".to_vec());
    new.steps = vec![("sent".into(), b"1".to_vec())];
    new.inputs = vec![StoredInput {
        request: InputRequest {
            key: input_key("sure"),
            ask: Ask::Roots,
        },
        answer: Some(Answer::Value("[]".into())),
    }];
    store.insert(new.clone()).await.unwrap();
    assert_eq!(store.get(&key("a")).unwrap(), Some(task("a")));
    assert_eq!(store.arguments(&key("a")).unwrap(), Some(new.arguments));
    assert_eq!(store.checkpoint(&key("a")).unwrap(), new.checkpoint);
    assert_eq!(
        store.step(&key("a"), "sent").unwrap().as_deref(),
        Some(&b"1"[..])
    );
    assert_eq!(store.inputs(&key("a")).unwrap(), new.inputs);
    assert_eq!(store.result(&key("a")).unwrap(), None);
}

#[tokio::test]
async fn an_id_is_taken_once() {
    let bench = Bench::new();
    let store = bench.open();
    store.insert(new_task("a")).await.unwrap();
    let error = store.insert(new_task("a")).await.unwrap_err();
    assert!(matches!(error, StoreError::Exists));
}

#[tokio::test]
async fn an_unknown_task_is_not_updated() {
    let bench = Bench::new();
    let store = bench.open();
    let error = store.update(&key("a"), Event::Claimed).await.unwrap_err();
    assert!(matches!(error, UpdateError::Unknown));
}

#[tokio::test]
async fn an_update_answers_the_task_after_the_event() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    let done = store
        .update(&key("a"), returned(r#"{"content":[]}"#))
        .await
        .unwrap();
    assert_eq!(done.status(), Status::Completed);
    assert_eq!(store.get(&key("a")).unwrap(), Some(done));
    let result = store.result(&key("a")).unwrap().unwrap();
    assert_eq!(result.json, r#"{"content":[]}"#);
}

/// I3: a late event of the run is refused and leaves nothing behind.
#[tokio::test]
async fn a_rejected_event_changes_nothing() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    store.update(&key("a"), returned("{}")).await.unwrap();
    let before = store.get(&key("a")).unwrap();
    let error = store
        .update(&key("a"), step("late", b"x"))
        .await
        .unwrap_err();
    assert!(matches!(error, UpdateError::Rejected(Rejected::Terminal)));
    assert_eq!(store.get(&key("a")).unwrap(), before);
    assert_eq!(store.step(&key("a"), "late").unwrap(), None);
}

/// I2: the events of one commit are decided one after another, so only one claim wins.
#[tokio::test]
async fn of_many_claims_at_once_one_wins() {
    let bench = Bench::new();
    let store = bench.open();
    store.insert(new_task("a")).await.unwrap();
    let id = key("a");
    let claims = (0..16).map(|_| store.update(&id, Event::Claimed));
    let outcomes = join_all(claims).await;
    let won = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(won, 1);
}

#[tokio::test]
async fn commands_are_decided_in_the_order_they_came() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    let id = key("a");
    // No more than the queue takes: who has to wait for a place may be overtaken.
    let saves = (0..50_u32).map(|n| store.update(&id, checkpointed(&n.to_be_bytes())));
    for outcome in join_all(saves).await {
        outcome.unwrap();
    }
    let newest = store.checkpoint(&id).unwrap().unwrap();
    assert_eq!(newest, 49_u32.to_be_bytes());
}

/// I7.
#[tokio::test]
async fn the_first_answer_wins() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    store.update(&key("a"), asked(&["k"])).await.unwrap();
    let answered = |answers: &[(&str, Answer)]| Event::Answered {
        answers: answers
            .iter()
            .map(|(key, answer)| (input_key(key), answer.clone()))
            .collect(),
    };
    let twice = answered(&[("k", Answer::Decline), ("k", Answer::Dismiss)]);
    store.update(&key("a"), twice).await.unwrap();
    let late = answered(&[("k", Answer::Accept(None)), ("never", Answer::Decline)]);
    store.update(&key("a"), late).await.unwrap();
    let inputs = store.inputs(&key("a")).unwrap();
    assert_eq!(inputs.len(), 1);
    assert_eq!(inputs[0].answer, Some(Answer::Decline));
}

/// I7: a run that starts again may ask the same key in other words; the question stays.
#[tokio::test]
async fn a_question_is_recorded_once() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    store.update(&key("a"), asked(&["k"])).await.unwrap();
    let other = Event::Asked {
        attempt: Attempt(1),
        requests: vec![InputRequest {
            key: input_key("k"),
            ask: Ask::Roots,
        }],
    };
    store.update(&key("a"), other).await.unwrap();
    let inputs = store.inputs(&key("a")).unwrap();
    assert!(matches!(inputs[0].request.ask, Ask::Form { .. }));
}

#[tokio::test]
async fn the_first_record_of_a_step_wins() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    for value in [b"first", b"other"] {
        store.update(&key("a"), step("s", value)).await.unwrap();
    }
    let kept = store.step(&key("a"), "s").unwrap();
    assert_eq!(kept.as_deref(), Some(&b"first"[..]));
}

#[tokio::test]
async fn a_checkpoint_without_state_keeps_the_saved_one() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    store
        .update(&key("a"), checkpointed(b"saved"))
        .await
        .unwrap();
    let stop_only = Event::Checkpointed {
        attempt: Attempt(1),
        state: None,
    };
    store.update(&key("a"), stop_only).await.unwrap();
    let kept = store.checkpoint(&key("a")).unwrap();
    assert_eq!(kept.as_deref(), Some(&b"saved"[..]));
}

#[tokio::test]
async fn an_event_that_changes_nothing_writes_nothing() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    let cancel = || Event::CancelRequested {
        reason: "enough".into(),
    };
    let before = store.update(&key("a"), cancel()).await.unwrap();
    bench.clock.advance(std::time::Duration::from_secs(1));
    let watch = bench.notifier.subscribe(vec![key("a")]);
    let nobody = Event::Answered {
        answers: vec![(input_key("k"), Answer::Decline)],
    };
    for event in [cancel(), nobody] {
        assert_eq!(store.update(&key("a"), event).await.unwrap(), before);
    }
    assert_eq!(store.get(&key("a")).unwrap(), Some(before));
    assert!(is_silent(watch).await);
}

/// Whoever is told reads the new state, not the old one.
#[tokio::test]
async fn a_change_is_published_after_it_is_committed() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    let mut watch = bench.notifier.subscribe(vec![key("a")]);
    let id = key("a");
    let progress = Event::Progressed {
        attempt: Attempt(1),
        progress: Progress {
            message: "half".into(),
            done: Some(0.5),
            total: Some(1.0),
        },
    };
    let (told, updated) = tokio::join!(
        async {
            watch.changed().await;
            store.get(&id).unwrap().unwrap()
        },
        store.update(&id, progress)
    );
    assert_eq!(told, updated.unwrap());
    store.remove(&id).await.unwrap();
    watch.changed().await;
    assert_eq!(store.get(&id).unwrap(), None);
}

#[tokio::test]
async fn a_task_whose_texts_are_too_long_is_refused() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    let event = Event::CancelRequested {
        reason: "x".repeat(1 << 20),
    };
    let error = store.update(&key("a"), event).await.unwrap_err();
    assert!(matches!(
        error,
        UpdateError::Store(StoreError::TooLarge { .. })
    ));
    assert!(store.is_ready());
}

#[tokio::test]
async fn unfinished_tasks_are_counted_by_tenant() {
    let bench = Bench::new();
    let store = bench.open();
    let tenant = key("a").tenant;
    for id in ["a", "b", "c"] {
        store.insert(new_task(id)).await.unwrap();
    }
    assert_eq!(store.unfinished(&tenant), 3);
    store.update(&key("a"), Event::Claimed).await.unwrap();
    store.update(&key("a"), returned("{}")).await.unwrap();
    store.remove(&key("b")).await.unwrap();
    assert_eq!(store.unfinished(&tenant), 1);
    let other = crate::task::TenantId::parse("other").unwrap();
    assert_eq!(store.unfinished(&other), 0);
    store.close().await;
    drop(store);
    assert_eq!(bench.open().unfinished(&tenant), 1);
}

/// All of them see the same count before the first is committed.
#[tokio::test]
async fn a_tenant_has_no_more_tasks_than_it_may_however_many_come_at_once() {
    let bench = Bench::new();
    let store = bench.open();
    let insert = |wave: usize, number: usize| {
        let (store, id) = (store.clone(), format!("t{wave}-{number}"));
        async move { store.insert(new_task(&id)).await }
    };
    let tenant = key("a").tenant;
    for wave in 0..3 {
        let inserts = (0..4 * TASKS_UNFINISHED_MAX).map(|number| insert(wave, number));
        let outcomes = join_all(inserts).await;
        let accepted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        let expected = if wave == 0 { TASKS_UNFINISHED_MAX } else { 7 };
        assert_eq!(accepted, expected);
        let is_quota = |error: &StoreError| matches!(error, StoreError::TooManyTasks(100));
        assert!(
            outcomes
                .iter()
                .filter_map(|o| o.as_ref().err())
                .all(is_quota)
        );
        assert_eq!(store.unfinished(&tenant), TASKS_UNFINISHED_MAX);
        // Every end makes room for one more, and so does every task that is gone.
        for key in store.queued().unwrap().into_iter().take(7) {
            match key.id.as_str().ends_with('1') {
                true => store.remove(&key).await.unwrap(),
                false => {
                    let reason = "not needed".to_owned();
                    let cancel = Event::CancelRequested { reason };
                    assert!(store.update(&key, cancel).await.unwrap().is_terminal());
                }
            }
        }
    }
    let mut other = new_task("a");
    other.task.key.tenant = crate::task::TenantId::parse("other").unwrap();
    store.insert(other).await.unwrap();
}

/// I8: after an error nothing is accepted that might be lost.
#[tokio::test]
async fn a_store_that_failed_takes_no_writes() {
    let bench = Bench::new();
    let store = running(&bench, "a").await;
    let error = std::io::Error::other("the disk is gone");
    store.core().fail(StoreError::from(error));
    assert!(!store.is_ready());
    let refused = store.insert(new_task("b")).await.unwrap_err();
    assert!(matches!(refused, StoreError::File(_)));
    let refused = store.update(&key("a"), step("s", b"x")).await.unwrap_err();
    assert!(matches!(refused, UpdateError::Store(StoreError::File(_))));
    let seen = store.get(&key("a")).unwrap().unwrap();
    assert_eq!(seen.phase, Phase::Running);
}

#[tokio::test]
async fn closing_commits_what_is_queued() {
    let bench = Bench::new();
    let store = bench.open();
    let inserts = (0..32).map(|n| store.insert(new_task(&format!("t{n}"))));
    let (outcomes, ()) = tokio::join!(join_all(inserts), store.close());
    assert!(outcomes.iter().all(Result::is_ok));
    assert!(!store.is_ready());
    let late = store.insert(new_task("late")).await.unwrap_err();
    assert!(matches!(late, StoreError::Closed));
    drop(store);
    let store = bench.open();
    assert_eq!(store.queued().unwrap().len(), 32);
}

/// Recovery at start is an ordinary event of the run that the dead process had.
#[tokio::test]
async fn a_dead_runs_lease_is_found_and_ended() {
    let bench = Bench::new();
    drop(running(&bench, "a").await);
    let store = bench.open();
    assert_eq!(store.running().unwrap(), [key("a")]);
    let crash = Event::Interrupted {
        attempt: Attempt(1),
        cause: Interruption::Crash,
    };
    store.update(&key("a"), crash).await.unwrap();
    assert_eq!(store.running().unwrap(), []);
    assert_eq!(store.queued().unwrap(), [key("a")]);
}

#[tokio::test]
async fn expired_tasks_are_found_oldest_first() {
    let bench = Bench::new();
    let store = bench.open();
    for (id, at) in [
        ("c", Some(300)),
        ("a", Some(100)),
        ("n", None),
        ("b", Some(200)),
    ] {
        let mut new = new_task(id);
        new.task.expires_at = at.map(Timestamp);
        store.insert(new).await.unwrap();
    }
    let expired = |now, limit| store.expired(Timestamp(now), limit).unwrap();
    assert_eq!(expired(99, 9), []);
    assert_eq!(expired(200, 9), [key("a"), key("b")]);
    assert_eq!(expired(u64::MAX, 2), [key("a"), key("b")]);
}

/// Whether nothing has been published so far.
async fn is_silent(mut watch: crate::notify::Subscription) -> bool {
    use futures_util::FutureExt;
    watch.changed().now_or_never().is_none()
}
