//! Makes authorities, and certificates that they vouch for.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::observed::BACKDATED;

/// As the Go operator calls its own.
const NAME: &str = "Grove-CA";
const ORGANISATION: &str = "Grove";
/// Whatever the period, certificates live for at least a day: clocks differ, and nothing may expire while a leader is
/// looked for.
const SHORTEST_LIFE: Duration = Duration::from_hours(24);

/// A certificate and its key, as PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// An authority that is to be followed by another after `period`.
pub(crate) fn authority(now: Timestamp, period: Duration) -> Result<Pair, rcgen::Error> {
    let mut params = CertificateParams::new(vec![])?;
    params.distinguished_name = distinguished(NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    live(&mut params, now, period);
    let key = KeyPair::generate()?;
    Ok(Pair { certificate: params.self_signed(&key)?.pem(), key: key.serialize_pem() })
}

/// A certificate for these names, to be renewed after `period`.
pub(crate) fn certificate(
    (authority, authority_key): (&str, &str),
    names: &[String],
    now: Timestamp,
    period: Duration,
) -> Result<Pair, rcgen::Error> {
    let issuer = Issuer::from_ca_cert_pem(authority, KeyPair::from_pem(authority_key)?)?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = distinguished(names.first().map_or(NAME, String::as_str));
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    live(&mut params, now, period);
    let key = KeyPair::generate()?;
    Ok(Pair { certificate: params.signed_by(&key, &issuer)?.pem(), key: key.serialize_pem() })
}

fn distinguished(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished.push(DnType::OrganizationName, ORGANISATION);
    distinguished
}

/// A certificate lives twice as long as it is used: there is time to renew it.
fn live(params: &mut CertificateParams, now: Timestamp, period: Duration) {
    let now = std::time::SystemTime::from(now);
    params.not_before = (now - BACKDATED).into();
    params.not_after = (now + SHORTEST_LIFE.max(period * 2)).into();
}
