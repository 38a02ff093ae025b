//! The requests of one client that are being answered: bounded, and cancelled by their ids.

use std::collections::HashMap;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::mcp::RequestId;
use crate::mcp::envelope::Head;
use crate::mcp::error::Refusal;
use crate::service::CallError;

/// Requests of one client that are answered at once.
const REQUESTS_MAX: usize = 256;

#[derive(Default)]
pub struct Requests {
    tasks: JoinSet<()>,
    running: HashMap<RequestId, Running>,
}

struct Running {
    task: AbortHandle,
    is_subscription: bool,
}

impl Requests {
    pub fn start(
        &mut self,
        head: &Head,
        answering: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Refusal> {
        if self.tasks.len() >= REQUESTS_MAX {
            let what = format!("{REQUESTS_MAX} requests are open; wait for some, or cancel them");
            return Err(Refusal::Call(CallError::Busy(what)));
        }
        let task = self.tasks.spawn(answering);
        if let Some(id) = &head.id {
            let is_subscription = head.is_subscription();
            let running = Running {
                task,
                is_subscription,
            };
            self.running.insert(id.clone(), running);
        }
        Ok(())
    }

    /// Drops a request, which stops its tool; an unknown one is done already.
    pub fn cancel(&mut self, id: &RequestId) {
        if let Some(running) = self.running.remove(id) {
            running.task.abort();
        }
    }

    /// Resolves when a request has ended; never while there is none.
    pub async fn next_ended(&mut self) {
        if self.tasks.join_next().await.is_none() {
            return std::future::pending().await;
        }
        self.running
            .retain(|_, running| !running.task.is_finished());
    }

    pub fn end_subscriptions(&mut self) {
        let subscriptions = self.running.values().filter(|one| one.is_subscription);
        for subscription in subscriptions {
            subscription.task.abort();
        }
    }

    /// Waits for what is running, up to `limit`, and stops the rest.
    pub async fn finish(&mut self, limit: Duration) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(limit, all).await.is_err() {
            self.tasks.shutdown().await;
        }
    }
}
