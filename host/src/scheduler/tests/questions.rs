//! What a task asks, and where it waits for the answer.

use super::*;

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
