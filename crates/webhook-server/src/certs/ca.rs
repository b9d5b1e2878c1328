//! Issues CAs, and serving certificates that a CA signs.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::x509::BACKDATE;

/// Common name and organization of the Go operator's CA.
const CA_NAME: &str = "Grove-CA";
const ORGANIZATION: &str = "Grove";
/// Shortest validity. Clocks differ, and the election of a new leader takes time: nothing may expire meanwhile.
const MIN_VALIDITY: Duration = Duration::from_hours(24);

/// A certificate and its private key, as PEM.
pub(crate) struct CertKeyPair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Issues a self-signed CA that is renewed after `period`.
pub(crate) fn issue_ca(now: Timestamp, period: Duration) -> Result<CertKeyPair, rcgen::Error> {
    let mut params = CertificateParams::new(vec![])?;
    params.distinguished_name = distinguished_name(CA_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    set_validity(&mut params, now, period);
    let key = KeyPair::generate()?;
    Ok(CertKeyPair { certificate: params.self_signed(&key)?.pem(), key: key.serialize_pem() })
}

/// Issues a serving certificate for these names. It is renewed after `period`.
pub(crate) fn issue_serving_cert(
    (ca, ca_key): (&str, &str),
    subject_alt_names: &[String],
    now: Timestamp,
    period: Duration,
) -> Result<CertKeyPair, rcgen::Error> {
    let issuer = Issuer::from_ca_cert_pem(ca, KeyPair::from_pem(ca_key)?)?;
    let mut params = CertificateParams::new(subject_alt_names)?;
    params.distinguished_name = distinguished_name(subject_alt_names.first().map_or(CA_NAME, String::as_str));
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, now, period);
    let key = KeyPair::generate()?;
    Ok(CertKeyPair { certificate: params.signed_by(&key, &issuer)?.pem(), key: key.serialize_pem() })
}

fn distinguished_name(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name.push(DnType::OrganizationName, ORGANIZATION);
    name
}

/// A certificate is valid for twice its period, which leaves time to renew it.
fn set_validity(params: &mut CertificateParams, now: Timestamp, period: Duration) {
    let now = std::time::SystemTime::from(now);
    params.not_before = (now - BACKDATE).into();
    params.not_after = (now + MIN_VALIDITY.max(period * 2)).into();
}
