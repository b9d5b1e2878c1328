//! `leaderElection`: the election of the one replica of a service that writes.

use std::time::Duration;

use super::document::Section;
use crate::field_error::FieldError;
use crate::syntax::is_dns_subdomain;

/// The longest prefix with which the name of a Lease stays valid for each service.
const MAX_PREFIX_LENGTH: usize = 200;
/// The shortest valid retry period; a shorter one would put load on the API server.
const MIN_RETRY_PERIOD: Duration = Duration::from_millis(100);
/// The largest jitter of a retry. A renewal must be possible before the deadline.
const JITTER: f64 = 1.2;

/// The election of the one replica of a service that writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// If false, every replica writes, so that each service may have one replica only. Default: true.
    pub enabled: bool,
    /// The time after the last renewal after which another replica may acquire the lease. Default: 15 s.
    pub lease_duration: Duration,
    /// The time after the last renewal after which the leader stops writing. Default: 10 s.
    pub renew_deadline: Duration,
    /// The time between two renewals. Default: 2 s.
    pub retry_period: Duration,
    /// A prefix of the names of the Leases, before the name of the service.
    pub resource_name: Option<String>,
    /// The namespace of the Leases; absent means the namespace that the service runs in.
    pub resource_namespace: Option<String>,
}

impl Default for LeaderElection {
    fn default() -> Self {
        Self {
            enabled: true,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            resource_name: None,
            resource_namespace: None,
        }
    }
}

impl LeaderElection {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let default = Self::default();
        let read = Self {
            enabled: section.bool("enabled").unwrap_or(default.enabled),
            lease_duration: section.duration("leaseDuration").unwrap_or(default.lease_duration),
            renew_deadline: section.duration("renewDeadline").unwrap_or(default.renew_deadline),
            retry_period: section.duration("retryPeriod").unwrap_or(default.retry_period),
            resource_name: section.non_empty_string("resourceName"),
            resource_namespace: section.non_empty_string("resourceNamespace"),
        };
        let lock = section.non_empty_string("resourceLock");
        if read.enabled {
            read.check(section, lock.as_deref());
        }
        read
    }

    fn check(&self, section: &Section<'_>, lock: Option<&str>) {
        let Self { enabled: _, lease_duration, renew_deadline, retry_period, resource_name, resource_namespace } = self;
        if *lease_duration < Duration::from_secs(1) {
            section.invalid("leaseDuration", "must be at least 1s, the smallest value of a Lease");
        }
        if *retry_period < MIN_RETRY_PERIOD {
            section.invalid("retryPeriod", format!("must be at least {MIN_RETRY_PERIOD:?}"));
        }
        if lease_duration <= renew_deadline {
            let remedy = format!("must be greater than renewDeadline ({renew_deadline:?})");
            section.invalid_effective("leaseDuration", format!("{lease_duration:?}"), remedy);
        }
        if *renew_deadline <= retry_period.mul_f64(JITTER) {
            let remedy = format!("must be greater than {JITTER} times retryPeriod ({retry_period:?})");
            section.invalid_effective("renewDeadline", format!("{renew_deadline:?}"), remedy);
        }
        if lock.is_some_and(|lock| lock != "leases") {
            section.report(FieldError::not_supported(
                section.path_of("resourceLock"),
                &lock.unwrap_or_default().into(),
                &["leases"],
            ));
        }
        if resource_name.as_ref().is_some_and(|name| !is_dns_subdomain(name) || name.len() > MAX_PREFIX_LENGTH) {
            let remedy =
                format!("must be lower-case letters, digits, '-' and '.', at most {MAX_PREFIX_LENGTH} of them");
            section.invalid("resourceName", remedy);
        }
        if resource_namespace.as_ref().is_some_and(|name| name.contains('.') || !is_dns_subdomain(name)) {
            section.invalid("resourceNamespace", "must be the name of a namespace");
        }
    }
}
