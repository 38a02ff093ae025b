//! What is shown and saved of how far a run is.

use super::*;

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
