//! What is to be done about certificates next. At any moment the API server trusts whatever any replica serves: a new
//! authority is trusted everywhere before anything that it vouches for is served, and the old one for long after.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::observed::{Configuration, Observed, Parsed};

/// API servers take in a configuration a moment after it was written; that moment is generously this long, and shorter
/// only where authorities change faster.
const SETTLE: Duration = Duration::from_mins(1);
/// Part of an authority's period that may be waited for trust.
const PART: u32 = 4;

/// What is wished for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Terms {
    /// By which the API server may call.
    pub(crate) names: Vec<String>,
    /// After so long the certificate is renewed.
    pub(crate) certificate_period: Duration,
    /// After so long the authority is followed by another.
    pub(crate) authority_period: Duration,
}

/// The next step, or when to look again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Plan {
    /// Nothing that is there can be used: a new authority and a certificate of it.
    Begin,
    /// A new authority, trusted beside the others; what is served stays.
    Authority,
    /// A new certificate by the newest authority.
    Certificate,
    /// The authorities are written into these configurations.
    Inject(Vec<Configuration>),
    /// All is well until then.
    Rest(Timestamp),
}

/// The next step.
pub(crate) fn plan(seen: &Observed, terms: &Terms, now: Timestamp) -> Plan {
    if seen.theirs.is_some() {
        // Whatever cert-manager writes is left alone.
        let lacking: Vec<_> = seen.lacking().filter(|one| !one.asks_cert_manager).cloned().collect();
        return if lacking.is_empty() { Plan::Rest(Timestamp::MAX) } else { Plan::Inject(lacking) };
    }
    let Some(kept) = &seen.kept else { return Plan::Begin };
    let (certificate, authority) = (&kept.certificate, &kept.authority);
    let expires = certificate.expires.min(authority.expires);
    // Made by a clock that was ahead, it is trusted by nobody until that time comes.
    if expires <= now || authority.begins > now {
        return Plan::Begin;
    }
    if certificate.begins > now {
        return Plan::Certificate;
    }
    let lacking: Vec<_> = seen.lacking().cloned().collect();
    if !lacking.is_empty() {
        return Plan::Inject(lacking);
    }
    if !kept.is_of_newest {
        let settled = after(seen.trusted_since.unwrap_or(now), settle(terms));
        return if settled <= now { Plan::Certificate } else { Plan::Rest(settled.min(expires)) };
    }
    let authority_due = due(authority, terms.authority_period);
    let certificate_due = due(certificate, terms.certificate_period);
    if authority_due <= now {
        Plan::Authority
    } else if certificate_due <= now || !names_fit(&certificate.names, &terms.names) {
        Plan::Certificate
    } else {
        Plan::Rest(authority_due.min(certificate_due))
    }
}

fn settle(terms: &Terms) -> Duration {
    SETTLE.min(terms.authority_period / PART)
}

fn names_fit(had: &[String], wished: &[String]) -> bool {
    wished.iter().all(|name| had.contains(name))
}

/// When another has to follow: as long before the end as it is used for, also if it was made for another period, or by a build
/// that dates back less.
fn due(made: &Parsed, period: Duration) -> Timestamp {
    let last = SignedDuration::try_from(period).ok().and_then(|period| made.expires.checked_sub(period).ok());
    after(made.issued, period).min(last.unwrap_or(made.expires))
}

fn after(time: Timestamp, period: Duration) -> Timestamp {
    // What lies beyond all time never comes.
    SignedDuration::try_from(period).ok().and_then(|period| time.checked_add(period).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
