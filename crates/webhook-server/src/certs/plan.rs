//! Decides the next rotation step. At any time the API server trusts the certificate of every replica: all
//! configurations contain a new CA before it signs a certificate, and they contain the previous CA long after that.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::observed::{Observed, WebhookConfigState};
use super::x509::Certificate;

/// How long to wait until all API servers have read the new CA bundle. It is shorter if the CA is renewed at short
/// intervals.
const CA_PROPAGATION: Duration = Duration::from_mins(1);
/// The wait for the propagation takes at most the CA period divided by this number.
const MAX_PROPAGATION_DIVISOR: u32 = 4;

/// The rules for the certificates.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RotationPolicy {
    /// DNS names and IP addresses by which the API server calls this service.
    pub(crate) subject_alt_names: Vec<String>,
    /// Age at which the serving certificate is renewed.
    pub(crate) certificate_period: Duration,
    /// Age at which the CA is renewed.
    pub(crate) ca_period: Duration,
}

/// The next step of the rotation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RotationStep {
    /// Issue the first CA and serving certificate, or replace unusable ones.
    Bootstrap,
    /// Issue a new CA and add it to the bundle. The serving certificate stays.
    IssueCa,
    /// Issue a new serving certificate, signed by the newest CA.
    IssueServingCert,
    /// Write the CA bundle into these configurations.
    InjectCaBundle(Vec<WebhookConfigState>),
    /// Do nothing until this time.
    WaitUntil(Timestamp),
}

/// Decides the next step.
pub(crate) fn plan(observed: &Observed, policy: &RotationPolicy, now: Timestamp) -> RotationStep {
    if observed.cert_manager_bundle.is_some() {
        // cert-manager writes the other configurations.
        let missing: Vec<_> = observed.missing_ca_bundle().filter(|one| !one.uses_cert_manager).cloned().collect();
        return match missing.as_slice() {
            [] => RotationStep::WaitUntil(Timestamp::MAX),
            _ => RotationStep::InjectCaBundle(missing),
        };
    }
    let Some(secret) = &observed.secret else { return RotationStep::Bootstrap };
    let (serving, ca) = (&secret.serving, &secret.ca);
    let expiry = serving.not_after.min(ca.not_after);
    // `not_before` lies in the future if the clock was ahead at the time of issue.
    if expiry <= now || ca.not_before > now {
        return RotationStep::Bootstrap;
    }
    if serving.not_before > now {
        return RotationStep::IssueServingCert;
    }
    let serving_renewal = renewal_time(serving, policy.certificate_period);
    let missing: Vec<_> = observed.missing_ca_bundle().cloned().collect();
    if !missing.is_empty() {
        // An injection can fail again and again. A renewal under the same CA does not wait for it.
        let is_due = secret.is_signed_by_newest_ca && serving_renewal <= now;
        return if is_due { RotationStep::IssueServingCert } else { RotationStep::InjectCaBundle(missing) };
    }
    if !secret.is_signed_by_newest_ca {
        let trusted_at = after(observed.ca_injected_since.unwrap_or(now), propagation(policy));
        let is_trusted = trusted_at <= now;
        return if is_trusted {
            RotationStep::IssueServingCert
        } else {
            RotationStep::WaitUntil(trusted_at.min(expiry))
        };
    }
    let ca_renewal = renewal_time(ca, policy.ca_period);
    if ca_renewal <= now {
        RotationStep::IssueCa
    } else if serving_renewal <= now || !has_names(serving, &policy.subject_alt_names) {
        RotationStep::IssueServingCert
    } else {
        RotationStep::WaitUntil(ca_renewal.min(serving_renewal))
    }
}

fn propagation(policy: &RotationPolicy) -> Duration {
    CA_PROPAGATION.min(policy.ca_period / MAX_PROPAGATION_DIVISOR)
}

fn has_names(certificate: &Certificate, names: &[String]) -> bool {
    names.iter().all(|name| certificate.subject_alt_names.contains(name))
}

/// The time of renewal: one period after the issue, and at the latest one period before the expiry. The second rule
/// applies to certificates that were issued with another period or another backdate.
fn renewal_time(certificate: &Certificate, period: Duration) -> Timestamp {
    let period_before_expiry =
        SignedDuration::try_from(period).ok().and_then(|period| certificate.not_after.checked_sub(period).ok());
    after(certificate.issued_at, period).min(period_before_expiry.unwrap_or(certificate.not_after))
}

fn after(time: Timestamp, period: Duration) -> Timestamp {
    // A time beyond the range of timestamps counts as "never".
    SignedDuration::try_from(period).ok().and_then(|period| time.checked_add(period).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
