//! `runtimeClientConnection`: the rate limit for the requests of a service.

use std::ops::RangeInclusive;

use super::document::Section;

const BURST: u32 = 120;
/// The valid rates, in requests per second. Rates outside are most likely a mistake, and exceed the resolution of a clock.
const VALID_QPS: RangeInclusive<f64> = 0.001..=1_000_000.0;

/// A rate limit for requests to the API server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Requests per second.
    pub qps: f64,
    /// The number of requests that may exceed the rate for a moment. Default: 120.
    pub burst: u32,
}

impl RateLimit {
    pub(super) fn read(section: &Section<'_>) -> Option<Self> {
        for key in ["contentType", "acceptContentTypes"] {
            if section.non_empty_string(key).is_some_and(|types| !types.contains("json")) {
                section.warn(key, "has no effect: the services use JSON");
            }
        }
        let burst = section.integer("burst").filter(|burst| *burst != 0);
        let burst = burst.and_then(|burst| {
            let valid = u32::try_from(burst).ok();
            if valid.is_none() {
                section.invalid("burst", format!("must be non-negative and at most {}", u32::MAX));
            }
            valid
        });
        // As in client-go, 0 means unset and a negative rate means no limit. Here unset means no limit too.
        let qps = section.number("qps").filter(|qps| *qps > 0.0);
        if qps.is_some_and(|qps| !VALID_QPS.contains(&qps)) {
            let (min, max) = (VALID_QPS.start(), VALID_QPS.end());
            section.invalid("qps", format!("must be between {min} and {max}; omit it for no limit"));
        }
        if qps.is_none() && burst.is_some() {
            section.warn("burst", "has no effect without qps: requests are not limited");
        }
        qps.map(|qps| Self { qps, burst: burst.unwrap_or(BURST) })
    }
}
