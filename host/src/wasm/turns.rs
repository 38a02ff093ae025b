//! Whose guest computes next. Guests take turns on the guests' threads, tenant by tenant, so that
//! one whose guests compute for ever has the threads of its share and no more (I4, I6).
//!
//! A guest has the turn while it is polled: to its next wait, or to the next tick of the epoch.
//! There are twice as many turns as guests compute at once for a tenant that is alone, and a tenant
//! beside others leaves as many as it has: a guest of another one finds a free thread when it comes.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::scheduler::FairQueue;
use crate::task::TenantId;

/// The turns of all guests. Cheap to clone.
#[derive(Clone)]
pub(super) struct Turns(Arc<Mutex<FairQueue<Arc<Waiting>>>>);

/// A guest in line.
struct Waiting {
    /// Set under the queue's lock, with a turn taken.
    is_granted: AtomicBool,
    waker: Mutex<Waker>,
}

/// A turn that is used; left when dropped.
struct Turn<'a> {
    turns: &'a Turns,
    tenant: &'a TenantId,
}

/// A guest's work, done in turns.
pub(super) struct InTurns<F> {
    turns: Turns,
    tenant: TenantId,
    waiting: Option<Arc<Waiting>>,
    work: Pin<Box<F>>,
}

impl Turns {
    /// Turns for `threads` guests of one tenant at once.
    pub fn new(threads: usize) -> Turns {
        let queue = FairQueue::new(Turns::threads(threads), threads);
        Turns(Arc::new(Mutex::new(queue)))
    }

    /// How many threads that takes.
    pub fn threads(threads: usize) -> usize {
        2 * threads
    }

    pub fn take<F: Future>(&self, tenant: TenantId, work: F) -> InTurns<F> {
        InTurns {
            turns: self.clone(),
            tenant,
            waiting: None,
            work: Box::pin(work),
        }
    }

    fn wait(&self, tenant: &TenantId, waker: &Waker) -> Option<Arc<Waiting>> {
        let mut queue = self.lock();
        if queue.try_take_place(tenant) {
            return None;
        }
        let waiting = Arc::new(Waiting {
            is_granted: AtomicBool::new(false),
            waker: Mutex::new(waker.clone()),
        });
        queue.push(tenant, Arc::clone(&waiting));
        Some(waiting)
    }

    fn leave(&self, tenant: &TenantId) {
        let mut queue = self.lock();
        queue.leave_place(tenant);
        // Mostly one, and mostly none.
        while let Some((_, next)) = queue.pop() {
            next.is_granted.store(true, Ordering::Relaxed);
            drop(queue);
            next.wake();
            queue = self.lock();
        }
    }

    fn lock(&self) -> MutexGuard<'_, FairQueue<Arc<Waiting>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Whether its turn has come; `waker` hears of it otherwise.
    fn is_granted(&self, waker: &Waker) -> bool {
        // The waker first: a turn that is granted meanwhile finds it.
        self.waker().clone_from(waker);
        self.is_granted.load(Ordering::Relaxed)
    }

    fn wake(&self) {
        let waker = self.waker().clone();
        waker.wake();
    }

    fn waker(&self) -> MutexGuard<'_, Waker> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.leave(self.tenant);
    }
}

impl<F: Future> Future for InTurns<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        match &this.waiting {
            Some(waiting) if !waiting.is_granted(context.waker()) => return Poll::Pending,
            Some(_) => this.waiting = None,
            None => {
                this.waiting = this.turns.wait(&this.tenant, context.waker());
                if this.waiting.is_some() {
                    return Poll::Pending;
                }
            }
        }
        let _turn = Turn {
            turns: &this.turns,
            tenant: &this.tenant,
        };
        this.work.as_mut().poll(context)
    }
}

impl<F> Drop for InTurns<F> {
    /// A guest that is stopped in line, by force, leaves it.
    fn drop(&mut self) {
        let Some(waiting) = self.waiting.take() else {
            return;
        };
        let mut queue = self.turns.lock();
        if waiting.is_granted.load(Ordering::Relaxed) {
            drop(queue);
            return self.turns.leave(&self.tenant);
        }
        queue.retain_waiting(&self.tenant, |other| !Arc::ptr_eq(other, &waiting));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures_util::FutureExt;
    use tokio::sync::Notify;

    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name).unwrap()
    }

    #[tokio::test]
    async fn a_turn_lasts_as_long_as_its_guest_is_polled() {
        let turns = Turns::new(1);
        let inner = turns.clone();
        let outer = turns.take(tenant("a"), async move {
            // Alone a tenant has one turn, and this is it.
            assert!(inner.take(tenant("a"), async {}).now_or_never().is_none());
            assert!(inner.take(tenant("b"), async {}).now_or_never().is_some());
        });
        outer.await;
        assert!(turns.take(tenant("a"), async {}).now_or_never().is_some());
        assert_eq!(turns.lock().taken(), 0);
    }

    #[tokio::test]
    async fn a_guest_that_waited_is_woken_when_its_turn_comes() {
        let turns = Turns::new(1);
        let (inner, begun) = (turns.clone(), Arc::new(AtomicUsize::new(0)));
        let started = Arc::new(Notify::new());
        let (count, told) = (Arc::clone(&begun), Arc::clone(&started));
        turns
            .take(tenant("a"), async move {
                for _ in 0..3 {
                    let (count, told) = (Arc::clone(&count), Arc::clone(&told));
                    let mut waiting = Box::pin(inner.take(tenant("a"), async move {
                        count.fetch_add(1, Ordering::Relaxed);
                        told.notify_one();
                    }));
                    assert!(waiting.as_mut().now_or_never().is_none());
                    tokio::spawn(waiting);
                }
            })
            .await;
        while begun.load(Ordering::Relaxed) < 3 {
            started.notified().await;
        }
        assert_eq!(turns.lock().taken(), 0);
    }

    #[tokio::test]
    async fn a_guest_that_goes_away_in_line_leaves_no_turn_taken() {
        let turns = Turns::new(1);
        let inner = turns.clone();
        let [first, second] = turns
            .take(tenant("a"), async move {
                [(); 2].map(|()| {
                    let mut waiting = Box::pin(inner.take(tenant("a"), async {}));
                    assert!(waiting.as_mut().now_or_never().is_none());
                    waiting
                })
            })
            .await;
        // The first was granted the turn that has just been left, and hands it on.
        drop(first);
        assert!(second.now_or_never().is_some());
        assert_eq!(turns.lock().taken(), 0);
        assert!(!turns.lock().is_anybody_waiting());
    }
}
