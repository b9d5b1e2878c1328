//! `runtimeClientConnection`: how many requests a service may send.

use std::ops::RangeInclusive;

use super::document::Section;

const BURST: u32 = 120;
/// Requests per second that can be counted. What is beyond is meant as something else, and no clock would tell it apart.
const COUNTABLE: RangeInclusive<f64> = 0.001..=1_000_000.0;

/// A limit of requests to the API server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Requests per second.
    pub qps: f64,
    /// Requests at once.
    pub burst: u32,
}

impl RateLimit {
    pub(super) fn read(section: &Section<'_>) -> Option<Self> {
        for key in ["contentType", "acceptContentTypes"] {
            if section.written(key).is_some_and(|types| !types.contains("json")) {
                section.warn(key, "has no effect, the services speak JSON");
            }
        }
        let burst = section.whole("burst").filter(|burst| *burst != 0);
        let burst = burst.and_then(|burst| {
            let valid = u32::try_from(burst).ok();
            if valid.is_none() {
                section.invalid("burst", format!("must be non-negative and at most {}", u32::MAX));
            }
            valid
        });
        // As in the Go client, zero is unset and a negative rate is none; unset is no limit here.
        let qps = section.number("qps").filter(|qps| *qps > 0.0);
        if qps.is_some_and(|qps| !COUNTABLE.contains(&qps)) {
            let (least, most) = (COUNTABLE.start(), COUNTABLE.end());
            section.invalid("qps", format!("must be between {least} and {most}; leave it out for no limit"));
        }
        if qps.is_none() && burst.is_some() {
            section.warn("burst", "has no effect without qps, requests are not limited");
        }
        qps.map(|qps| Self { qps, burst: burst.unwrap_or(BURST) })
    }
}
