//! The Secret that contains the serving certificate and its CA.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::jiff::Timestamp;

use super::x509::Certificate;

/// Key of the serving certificate, as in every `kubernetes.io/tls` Secret.
pub(crate) const CERTIFICATE: &str = "tls.crt";
/// Key of its private key, as in every `kubernetes.io/tls` Secret.
pub(crate) const CERTIFICATE_KEY: &str = "tls.key";
/// Key of the CA bundle.
pub(crate) const CA_BUNDLE: &str = "ca.crt";
/// Key of the private key of the newest CA.
pub(crate) const CA_KEY: &str = "ca.key";

/// The parsed data of a complete and consistent Secret.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CertSecret {
    /// All trusted CAs as PEM, the newest first.
    pub(crate) ca_bundle: String,
    /// The newest CA.
    pub(crate) ca: Certificate,
    /// The private key of the newest CA, as PEM.
    pub(crate) ca_key: String,
    /// The serving certificate.
    pub(crate) serving: Certificate,
    /// Whether the newest CA signed the serving certificate.
    pub(crate) is_signed_by_newest_ca: bool,
}

impl CertSecret {
    /// Parses the data of a Secret. Returns `None` if a key is missing or cannot be parsed, or if no CA of the bundle
    /// signed the serving certificate.
    pub(crate) fn parse(data: &BTreeMap<String, ByteString>) -> Option<Self> {
        let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
        let (ca_bundle, ca_key) = (text(CA_BUNDLE)?, text(CA_KEY)?);
        let cas = Certificate::parse_all(&ca_bundle)?;
        let serving = Certificate::parse_all(&text(CERTIFICATE)?)?.into_iter().next()?;
        let (ca, _) = (cas.first()?.clone(), text(CERTIFICATE_KEY)?);
        let is_signed_by_newest_ca = serving.is_signed_by(&ca);
        let is_signed = cas.iter().any(|ca| serving.is_signed_by(ca));
        is_signed.then_some(Self { ca_bundle, ca, ca_key, serving, is_signed_by_newest_ca })
    }

    /// The bundle of a new CA and the unexpired CAs of the current bundle, the newest `max_cas` of them.
    pub(crate) fn ca_bundle_with(&self, newest: &str, now: Timestamp, max_cas: usize) -> String {
        let current = Certificate::parse_all(&self.ca_bundle).unwrap_or_default();
        let unexpired = current.into_iter().filter(|ca| ca.not_after > now).take(max_cas - 1);
        std::iter::once(newest.to_owned()).chain(unexpired.map(|ca| ca.pem)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::certs::ca;

    #[test]
    fn issued_certificates_are_parsed_and_a_secret_without_a_matching_ca_is_rejected() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let hour = Duration::from_hours(1);
        let first_ca = ca::issue_ca(now, hour).unwrap();
        let names = ["webhook-server".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        let serving = ca::issue_serving_cert((&first_ca.certificate, &first_ca.key), &names, now, hour).unwrap();
        let data = [
            (CA_BUNDLE, &first_ca.certificate),
            (CA_KEY, &first_ca.key),
            (CERTIFICATE, &serving.certificate),
            (CERTIFICATE_KEY, &serving.key),
        ];
        let mut data: BTreeMap<_, _> =
            data.into_iter().map(|(key, text)| (key.to_owned(), ByteString(text.clone().into_bytes()))).collect();
        let secret = CertSecret::parse(&data).unwrap();
        assert!(secret.is_signed_by_newest_ca);
        assert_eq!(secret.serving.subject_alt_names, names);
        assert_eq!(secret.serving.issued_at, now);
        assert_eq!(secret.serving.not_after.as_second(), now.as_second() + 24 * 3600, "at least a day");

        let second_ca = ca::issue_ca(now, hour).unwrap();
        let ca_bundle = secret.ca_bundle_with(&second_ca.certificate, now, 2);
        assert_eq!(ca_bundle, format!("{}{}", second_ca.certificate, first_ca.certificate));
        data.insert(CA_BUNDLE.to_owned(), ByteString(ca_bundle.into_bytes()));
        let secret = CertSecret::parse(&data).unwrap();
        assert!(!secret.is_signed_by_newest_ca, "the older CA signed it");
        let third_ca = ca::issue_ca(now, hour).unwrap();
        assert_eq!(secret.ca_bundle_with(&third_ca.certificate, now, 2).matches("BEGIN").count(), 2);

        data.insert(CA_BUNDLE.to_owned(), ByteString(second_ca.certificate.into_bytes()));
        assert_eq!(CertSecret::parse(&data), None, "no CA of the bundle signed it");
        data.remove(CERTIFICATE_KEY);
        assert_eq!(CertSecret::parse(&data), None);
        assert_eq!(CertSecret::parse(&BTreeMap::from([(CERTIFICATE.to_owned(), ByteString::default())])), None);
    }
}
