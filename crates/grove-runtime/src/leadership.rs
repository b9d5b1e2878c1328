//! Whether this process may act: it knows until when, so that it stops in time even if nobody tells it to.

use std::{future::Future, time::Duration};

use futures::{Stream, stream};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// Whether this process may act. Cheap to clone; all clones tell the same.
///
/// A process that could not renew its lease ceases to lead at a moment that it knew beforehand, before another one may
/// begin to.
#[derive(Clone, Debug)]
pub struct Leadership {
    term: watch::Sender<Term>,
}

#[derive(Clone, Copy, Debug)]
struct Term {
    end: End,
    /// Counts the terms begun.
    number: u64,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Past,
    At(Instant),
    Never,
}

/// Why a process does not lead any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its time ran out.
    Lapsed,
    /// It gave the lead up, or never had it.
    GivenUp,
}

impl Term {
    fn is_on(&self) -> bool {
        match self.end {
            End::Past => false,
            End::At(end) => Instant::now() < end,
            End::Never => true,
        }
    }
}

async fn over(end: End) -> Ended {
    match end {
        End::Past => Ended::GivenUp,
        End::At(end) => {
            sleep_until(end).await;
            Ended::Lapsed
        }
        End::Never => std::future::pending().await,
    }
}

impl Leadership {
    /// Of a process that has no rivals.
    pub fn undisputed() -> Self {
        Self { term: watch::Sender::new(Term { end: End::Never, number: 1 }) }
    }

    /// Of a process that stands by.
    pub fn awaited() -> Self {
        Self { term: watch::Sender::new(Term { end: End::Past, number: 0 }) }
    }

    /// Whether this process may act now.
    pub fn is_held(&self) -> bool {
        self.term.borrow().is_on()
    }

    /// Returns when this process may not act any more; at once if it may not now.
    pub fn ended(&self) -> impl Future<Output = Ended> + Send + 'static + use<> {
        let mut term = self.term.subscribe();
        async move {
            loop {
                let end = term.borrow_and_update().end;
                tokio::select! {
                    ended = over(end) => return ended,
                    changed = term.changed() => if changed.is_err() { return Ended::GivenUp },
                }
            }
        }
    }

    /// An item each time this process begins to lead, the first at once if it does.
    pub fn begun(&self) -> impl Stream<Item = ()> + Send + 'static + use<> {
        stream::unfold((self.term.subscribe(), 0), |(mut term, seen)| async move {
            let begun = term.wait_for(|term| term.number > seen && term.is_on()).await.ok()?.number;
            Some(((), (term, begun)))
        })
    }

    /// Lets this process act for that long from `since` on.
    pub(crate) fn hold(&self, since: Instant, length: Duration) {
        self.term.send_modify(|term| {
            let begins = !term.is_on();
            *term = Term { end: End::At(since + length), number: term.number + u64::from(begins) };
        });
    }

    /// Ends it now.
    pub(crate) fn give_up(&self) {
        self.term.send_modify(|term| term.end = End::Past);
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};

    use super::*;

    const TEN: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn leading_ends_by_itself_unless_it_is_prolonged() {
        let leadership = Leadership::awaited();
        assert!(!leadership.is_held());
        leadership.hold(Instant::now(), TEN);
        let ended = leadership.ended();
        tokio::pin!(ended);
        tokio::time::advance(Duration::from_secs(6)).await;
        leadership.hold(Instant::now(), TEN);
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(leadership.is_held());
        assert_eq!((&mut ended).now_or_never(), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!leadership.is_held());
        assert_eq!(ended.await, Ended::Lapsed);
    }

    #[tokio::test(start_paused = true)]
    async fn each_beginning_is_told_once_and_prolonging_is_none() {
        let leadership = Leadership::awaited();
        let mut begun = Box::pin(leadership.begun());
        assert_eq!(begun.next().now_or_never(), None);
        leadership.hold(Instant::now(), TEN);
        begun.next().await;
        leadership.hold(Instant::now(), TEN);
        assert_eq!(begun.next().now_or_never(), None);
        tokio::time::advance(TEN).await;
        leadership.hold(Instant::now(), TEN);
        begun.next().await;
        leadership.give_up();
        assert!(!leadership.is_held());
        assert_eq!(leadership.ended().await, Ended::GivenUp);
        assert_eq!(begun.next().now_or_never(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn without_rivals_it_never_ends() {
        let leadership = Leadership::undisputed();
        Box::pin(leadership.begun()).next().await;
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(leadership.ended().now_or_never(), None);
    }
}
