//! Parses X.509 certificates: the fields that the rotation reads.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension, X509Certificate};

const PEM_END: &str = "-----END CERTIFICATE-----\n";

/// Certificates are valid from a day before they are issued. The clock of this process may be hours ahead of the API
/// server's, for example with a wrong time zone, and the API server trusts no certificate that is not valid yet.
pub(crate) const BACKDATE: Duration = Duration::from_hours(24);

/// A parsed certificate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Certificate {
    pub(crate) pem: String,
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
    /// Time of issue: [`BACKDATE`] after `not_before`.
    pub(crate) issued_at: Timestamp,
    /// DNS names and IP addresses.
    pub(crate) subject_alt_names: Vec<String>,
    subject_key_id: Vec<u8>,
    authority_key_id: Vec<u8>,
}

impl Certificate {
    /// All certificates of a PEM text; `None` if one of them cannot be parsed.
    pub(crate) fn parse_all(pem: &str) -> Option<Vec<Self>> {
        let blocks = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>().ok()?;
        let texts: Vec<_> = pem.split_inclusive(PEM_END).filter(|text| !text.trim().is_empty()).collect();
        if texts.len() != blocks.len() {
            return None;
        }
        texts.into_iter().zip(&blocks).map(|(text, block)| Self::parse(text, block)).collect()
    }

    fn parse(pem: &str, der: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(der).ok()?;
        let (mut subject_alt_names, mut subject_key_id, mut authority_key_id) = (vec![], vec![], vec![]);
        for extension in parsed.extensions() {
            // The rotation does not read other extensions.
            if let ParsedExtension::SubjectAlternativeName(alternative) = extension.parsed_extension() {
                subject_alt_names = alternative.general_names.iter().filter_map(subject_alt_name).collect();
            } else if let ParsedExtension::SubjectKeyIdentifier(id) = extension.parsed_extension() {
                subject_key_id = id.0.to_vec();
            } else if let ParsedExtension::AuthorityKeyIdentifier(id) = extension.parsed_extension() {
                authority_key_id = id.key_identifier.as_ref()?.0.to_vec();
            }
        }
        let validity = parsed.validity();
        let time = |seconds: i64| Timestamp::from_second(seconds).ok();
        let not_before = time(validity.not_before.timestamp())?;
        Some(Self {
            pem: pem.to_owned(),
            not_before,
            not_after: time(validity.not_after.timestamp())?,
            issued_at: not_before.checked_add(BACKDATE).ok()?,
            subject_alt_names,
            subject_key_id,
            authority_key_id,
        })
    }

    /// Whether the key identifiers name `ca` as the issuer.
    pub(crate) fn is_signed_by(&self, ca: &Self) -> bool {
        !ca.subject_key_id.is_empty() && self.authority_key_id == ca.subject_key_id
    }
}

/// The DNS name or IP address as text. In a certificate, an IP address is a byte string.
fn subject_alt_name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).ok().map(IpAddr::from);
            let address = v4.or_else(|| <[u8; 16]>::try_from(*bytes).ok().map(IpAddr::from));
            address.map(|address| address.to_string())
        }
        GeneralName::OtherName(..)
        | GeneralName::RFC822Name(_)
        | GeneralName::X400Address(_)
        | GeneralName::DirectoryName(_)
        | GeneralName::EDIPartyName(_)
        | GeneralName::URI(_)
        | GeneralName::RegisteredID(_)
        | GeneralName::Invalid(..) => None,
    }
}
