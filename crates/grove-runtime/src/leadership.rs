//! Whether this process leads. A leader knows in advance when its leadership expires, so it stops writing in time even if
//! no request reaches the API server.
//!
//! At the end of the leadership the executor cancels the writes in flight, so running reconciles fail, and the controllers drop the
//! queued keys. The process stays a standby, or exits if another replica acquired the Lease (`LeadershipLost` in `leader_election.rs`).
//!
//! A replica without leadership is a standby. Its informers continue, so its caches stay synced. Its controllers drop their triggers
//! (`grove-controller/src/controller.rs`), and its executor sends no write (`grove-controller/src/executor.rs`). When it becomes the
//! leader, the controllers enqueue all objects (`grove-controller/src/controller/enqueue_all.rs`). A standby of webhook-server responds
//! to admission requests, and does not rotate the certificate (`webhook-server/src/certs/rotator.rs`).

use std::{future::Future, time::Duration};

use futures::{Stream, stream};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// Whether this process leads. A clone shares its state.
///
/// The leadership of a process that cannot renew its Lease expires at a moment that it knows in advance, before another
/// replica can acquire the Lease.
#[derive(Clone, Debug)]
pub struct Leadership {
    term: watch::Sender<Term>,
}

#[derive(Clone, Copy, Debug)]
struct Term {
    expiry: Expiry,
    /// Increases by one with each term that starts.
    number: u64,
}

#[derive(Clone, Copy, Debug)]
enum Expiry {
    Past,
    At(Instant),
    Never,
}

/// Why a process does not lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeadershipEnd {
    /// It did not renew in time.
    Expired,
    /// It released the leadership, or never led.
    Released,
}

impl Term {
    fn is_current(&self) -> bool {
        match self.expiry {
            Expiry::Past => false,
            Expiry::At(expiry) => Instant::now() < expiry,
            Expiry::Never => true,
        }
    }
}

async fn wait_for(expiry: Expiry) -> LeadershipEnd {
    match expiry {
        Expiry::Past => LeadershipEnd::Released,
        Expiry::At(expiry) => {
            sleep_until(expiry).await;
            LeadershipEnd::Expired
        }
        Expiry::Never => std::future::pending().await,
    }
}

impl Leadership {
    /// The leadership of a process without leader election: it always leads.
    pub fn always() -> Self {
        Self { term: watch::Sender::new(Term { expiry: Expiry::Never, number: 1 }) }
    }

    /// The leadership of a process that does not lead yet.
    pub fn standby() -> Self {
        Self { term: watch::Sender::new(Term { expiry: Expiry::Past, number: 0 }) }
    }

    /// Whether this process leads now.
    pub fn is_held(&self) -> bool {
        self.term.borrow().is_current()
    }

    /// Completes when this process stops leading; immediately if it does not lead now.
    pub fn stopped_leading(&self) -> impl Future<Output = LeadershipEnd> + Send + 'static + use<> {
        let mut term = self.term.subscribe();
        async move {
            loop {
                let expiry = term.borrow_and_update().expiry;
                tokio::select! {
                    end = wait_for(expiry) => return end,
                    changed = term.changed() => if changed.is_err() { return LeadershipEnd::Released },
                }
            }
        }
    }

    /// Yields an item each time this process starts to lead, the first immediately if it leads now.
    pub fn started_leading(&self) -> impl Stream<Item = ()> + Send + 'static + use<> {
        stream::unfold((self.term.subscribe(), 0), |(mut term, last)| async move {
            let started = term.wait_for(|term| term.number > last && term.is_current()).await.ok()?.number;
            Some(((), (term, started)))
        })
    }

    /// Starts or prolongs the leadership until `length` after `since`.
    pub fn extend(&self, since: Instant, length: Duration) {
        self.term.send_modify(|term| {
            let is_start = !term.is_current();
            *term = Term { expiry: Expiry::At(since + length), number: term.number + u64::from(is_start) };
        });
    }

    /// Ends the leadership now.
    pub fn release(&self) {
        self.term.send_modify(|term| term.expiry = Expiry::Past);
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};

    use super::*;

    const TEN: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn leadership_expires_unless_it_is_extended() {
        let leadership = Leadership::standby();
        assert!(!leadership.is_held());
        leadership.extend(Instant::now(), TEN);
        let stopped = leadership.stopped_leading();
        tokio::pin!(stopped);
        tokio::time::advance(Duration::from_secs(6)).await;
        leadership.extend(Instant::now(), TEN);
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(leadership.is_held());
        assert_eq!((&mut stopped).now_or_never(), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!leadership.is_held());
        assert_eq!(stopped.await, LeadershipEnd::Expired);
    }

    #[tokio::test(start_paused = true)]
    async fn each_start_is_yielded_once_and_an_extension_is_not_a_start() {
        let leadership = Leadership::standby();
        let mut started = Box::pin(leadership.started_leading());
        assert_eq!(started.next().now_or_never(), None);
        leadership.extend(Instant::now(), TEN);
        started.next().await;
        leadership.extend(Instant::now(), TEN);
        assert_eq!(started.next().now_or_never(), None);
        tokio::time::advance(TEN).await;
        leadership.extend(Instant::now(), TEN);
        started.next().await;
        leadership.release();
        assert!(!leadership.is_held());
        assert_eq!(leadership.stopped_leading().await, LeadershipEnd::Released);
        assert_eq!(started.next().now_or_never(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn without_leader_election_leadership_never_ends() {
        let leadership = Leadership::always();
        Box::pin(leadership.started_leading()).next().await;
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(leadership.stopped_leading().now_or_never(), None);
    }
}
