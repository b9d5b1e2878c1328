//! What is counted: reviews by question and outcome, how long they take, and which rules refuse.

use std::time::Instant;

use grove_api_types::admission::Rule;
use prometheus::{Gauge, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry};

use crate::question::Question;

/// From a tenth of a millisecond to the time after which the API server gives up.
const SECONDS: [f64; 10] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.05, 0.25, 1.0, 10.0];

/// The counters of this service. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Counters {
    reviews: IntCounterVec,
    seconds: HistogramVec,
    refusals: IntCounterVec,
    in_flight: IntGauge,
    bytes: IntGauge,
    expiry: Gauge,
}

/// What came of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// As it was sent.
    Allowed,
    /// With changes.
    Changed,
    Refused,
    /// It was no question.
    Malformed,
    TooLarge,
    /// Its body did not come in time.
    TooSlow,
    /// There was no room for it in time.
    Busy,
    /// Answering it went wrong.
    Panicked,
    /// Who asked did not wait for the answer.
    Abandoned,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Changed => "changed",
            Self::Refused => "refused",
            Self::Malformed => "malformed",
            Self::TooLarge => "too-large",
            Self::TooSlow => "too-slow",
            Self::Busy => "busy",
            Self::Panicked => "panicked",
            Self::Abandoned => "abandoned",
        }
    }
}

impl Counters {
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str, labels: &[&str]| IntCounterVec::new(Opts::new(name, help), labels);
        let seconds = HistogramOpts::new(
            "grove_admission_review_duration_seconds",
            "Time from the arrival of a review to its answer.",
        );
        let counters = Self {
            reviews: counter(
                "grove_admission_reviews_total",
                "Reviews by webhook and outcome: allowed, changed, refused, malformed, too-large, too-slow, busy, panicked, \
                 abandoned.",
                &["webhook", "outcome"],
            )?,
            seconds: HistogramVec::new(seconds.buckets(SECONDS.to_vec()), &["webhook"])?,
            refusals: counter(
                "grove_admission_refusals_total",
                "Mistakes that were refused, by rule; docs/admission.md has the rules.",
                &["rule"],
            )?,
            in_flight: IntGauge::new("grove_admission_reviews_in_flight", "Reviews that are not answered yet.")?,
            bytes: IntGauge::new(
                "grove_admission_review_bytes_in_flight",
                "Bytes of reviews that are being received: those that there is room for.",
            )?,
            expiry: Gauge::new(
                "grove_webhook_certificate_expiry_timestamp_seconds",
                "When the certificate that is served expires, in seconds since 1970.",
            )?,
        };
        registry.register(Box::new(counters.reviews.clone()))?;
        registry.register(Box::new(counters.seconds.clone()))?;
        registry.register(Box::new(counters.refusals.clone()))?;
        registry.register(Box::new(counters.in_flight.clone()))?;
        registry.register(Box::new(counters.bytes.clone()))?;
        registry.register(Box::new(counters.expiry.clone()))?;
        Ok(counters)
    }

    /// Measures one review until the guard is dropped.
    pub(crate) fn review(&self, question: Question) -> Reviewing {
        self.in_flight.inc();
        Reviewing { counters: self.clone(), question, outcome: Outcome::Abandoned, began: Instant::now() }
    }

    /// How many bytes are being received.
    pub(crate) fn bytes(&self) -> IntGauge {
        self.bytes.clone()
    }

    pub(crate) fn refused(&self, rule: Rule) {
        self.refusals.with_label_values(&[rule.name()]).inc();
    }

    pub(crate) fn serves_until(&self, seconds: i64) {
        #[expect(clippy::cast_precision_loss, reason = "no certificate lives for 2^53 seconds")]
        self.expiry.set(seconds as f64);
    }
}

/// One review on its way.
pub(crate) struct Reviewing {
    counters: Counters,
    question: Question,
    outcome: Outcome,
    began: Instant,
}

impl Reviewing {
    /// Says what came of it; unsaid, it counts as abandoned.
    pub(crate) fn ended(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Reviewing {
    fn drop(&mut self) {
        let Counters { reviews, seconds, in_flight, .. } = &self.counters;
        let webhook = self.question.name();
        let outcome = if std::thread::panicking() { Outcome::Panicked } else { self.outcome };
        reviews.with_label_values(&[webhook, outcome.name()]).inc();
        seconds.with_label_values(&[webhook]).observe(self.began.elapsed().as_secs_f64());
        in_flight.dec();
    }
}
