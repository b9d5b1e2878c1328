//! Token buckets, and a limit of requests, as that of client-go. The limit of tower has fixed periods: after a burst, it lets no request pass
//! until the period is over, and then a whole burst.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use grove_api_types::configuration::RateLimit;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::{Layer, Service};

/// A bucket that is full at first, and gets one token per interval.
#[derive(Clone, Copy, Debug)]
struct TokenBucket {
    /// Between two tokens.
    interval: Duration,
    burst: u32,
    /// When the bucket is full, if no further token is taken; `None` before the first one.
    full_at: Option<Instant>,
}

impl TokenBucket {
    /// A bucket with `burst` tokens.
    fn new(interval: Duration, burst: u32) -> Self {
        Self { interval, burst, full_at: None }
    }

    /// Takes a token. The bucket has one since [`TokenBucket::next`].
    fn take(&mut self, now: Instant) {
        self.full_at = Some(self.full_at.map_or(now, |full_at| full_at.max(now)) + self.interval);
    }

    /// When the bucket has a token. A bucket that lacks all tokens but one is full after the others have come.
    fn next(&self, now: Instant) -> Instant {
        let lacking = self.full_at.map_or(Duration::ZERO, |full_at| full_at.saturating_duration_since(now));
        now + lacking.saturating_sub(self.interval.saturating_mul(self.burst.saturating_sub(1)))
    }
}

/// Limits the requests of a service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLimitLayer(pub(crate) RateLimit);

/// Lets a burst of requests pass at once, and then one request each `1 / qps` seconds.
#[derive(Debug)]
pub(crate) struct RequestLimit<S> {
    inner: S,
    bucket: TokenBucket,
    /// Until the bucket has a token.
    has_token: Pin<Box<Sleep>>,
}

impl<S> Layer<S> for RequestLimitLayer {
    type Service = RequestLimit<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let RateLimit { qps, burst } = self.0;
        let bucket = TokenBucket::new(Duration::from_secs_f64(qps.recip()), burst);
        RequestLimit { inner, bucket, has_token: Box::pin(sleep_until(Instant::now())) }
    }
}

impl<S: Service<R>, R> Service<R> for RequestLimit<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        ready!(self.has_token.as_mut().poll(cx));
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> S::Future {
        let now = Instant::now();
        self.bucket.take(now);
        self.has_token.as_mut().reset(self.bucket.next(now));
        self.inner.call(request)
    }
}
