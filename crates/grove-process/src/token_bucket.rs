//! A limit of requests, as that of client-go. The limit of tower has fixed periods: after a burst, it lets no request pass until the period is
//! over, and then a whole burst.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use grove_api_types::configuration::RateLimit;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::{Layer, Service};

/// Limits the requests of a service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucketLayer(pub(crate) RateLimit);

/// Lets a burst of requests pass at once, and then one request each `1 / qps` seconds.
#[derive(Debug)]
pub(crate) struct TokenBucket<S> {
    inner: S,
    /// Between two tokens.
    interval: Duration,
    burst: u32,
    /// When the bucket is full, if no further request takes a token.
    full_at: Instant,
    /// Until the bucket has a token.
    has_token: Pin<Box<Sleep>>,
}

impl<S> Layer<S> for TokenBucketLayer {
    type Service = TokenBucket<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let (RateLimit { qps, burst }, now) = (self.0, Instant::now());
        let interval = Duration::from_secs_f64(qps.recip());
        TokenBucket { inner, interval, burst, full_at: now, has_token: Box::pin(sleep_until(now)) }
    }
}

impl<S> TokenBucket<S> {
    /// Takes a token, and waits for the next one.
    fn take(&mut self) {
        let now = Instant::now();
        self.full_at = now.max(self.full_at) + self.interval;
        // A bucket that lacks all tokens but one is full after the others have come.
        let wait = (self.full_at - now).saturating_sub(self.interval.saturating_mul(self.burst.saturating_sub(1)));
        self.has_token.as_mut().reset(now + wait);
    }
}

impl<S: Service<R>, R> Service<R> for TokenBucket<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        ready!(self.has_token.as_mut().poll(cx));
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.take();
        self.inner.call(request)
    }
}
