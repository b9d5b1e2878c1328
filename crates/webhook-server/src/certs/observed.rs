//! What is seen of certificates: what the Secret holds, and what the API server is told to trust.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension, X509Certificate};

/// Certificates are valid from a day before they are made: clocks differ, and one that takes local time for the world's is
/// hours ahead of the API server's, which would trust nothing that is made until then.
pub(crate) const BACKDATED: Duration = Duration::from_hours(24);

/// Keys of the Secret: those of Kubernetes for TLS, and the authority's.
pub(crate) const CERTIFICATE: &str = "tls.crt";
pub(crate) const CERTIFICATE_KEY: &str = "tls.key";
pub(crate) const AUTHORITIES: &str = "ca.crt";
pub(crate) const AUTHORITY_KEY: &str = "ca.key";

/// By this annotation cert-manager marks a Secret that it looks after.
pub(crate) const OF_CERT_MANAGER: &str = "cert-manager.io/certificate-name";
/// How the annotations begin by which a configuration asks cert-manager to say whom to trust.
pub(crate) const ASKS_CERT_MANAGER: &str = "cert-manager.io/inject-";

/// Everything that the next step depends on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    /// The Secret's version; absent if there is no Secret.
    pub(crate) secret: Option<String>,
    /// What it holds, if that is whole and ours.
    pub(crate) kept: Option<Kept>,
    /// The authorities that it holds, if cert-manager looks after it.
    pub(crate) theirs: Option<String>,
    /// What the API server is told to trust, by each configuration.
    pub(crate) configurations: Vec<Configuration>,
    /// Since when all configurations have been seen to trust the newest authority.
    pub(crate) trusted_since: Option<Timestamp>,
}

/// What a whole Secret holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kept {
    /// All authorities to be trusted, the newest first, as PEM.
    pub(crate) bundle: String,
    /// The newest.
    pub(crate) authority: Parsed,
    /// Its key, as PEM.
    pub(crate) authority_key: String,
    /// What is served.
    pub(crate) certificate: Parsed,
    /// Whether the newest authority vouches for it.
    pub(crate) is_of_newest: bool,
}

/// What a certificate says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parsed {
    pub(crate) pem: String,
    /// From when it is valid.
    pub(crate) begins: Timestamp,
    /// When it was made, if by a build that dates back as this one does.
    pub(crate) issued: Timestamp,
    pub(crate) expires: Timestamp,
    pub(crate) names: Vec<String>,
    key_id: Vec<u8>,
    issuer_key_id: Vec<u8>,
}

/// Which kind of configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Mutating,
    Validating,
}

/// One configuration: by webhook, which authorities the API server is told to trust.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Configuration {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) bundles: BTreeMap<String, Vec<u8>>,
    /// Whether cert-manager is asked to say whom to trust. It does so once the Secret is its own.
    pub(crate) asks_cert_manager: bool,
}

impl Observed {
    /// Whom the API server is to trust.
    pub(crate) fn bundle(&self) -> Option<&str> {
        self.theirs.as_deref().or(self.kept.as_ref().map(|kept| kept.bundle.as_str()))
    }

    /// The configurations that say otherwise. What others write may say more.
    pub(crate) fn lacking(&self) -> impl Iterator<Item = &Configuration> {
        let says =
            |one: &Configuration, bundle| if self.theirs.is_some() { one.includes(bundle) } else { one.has(bundle) };
        self.configurations.iter().filter(move |one| self.bundle().is_some_and(|bundle| !says(one, bundle)))
    }
}

impl Configuration {
    /// Whether all its webhooks are trusted by this bundle, and no other.
    pub(crate) fn has(&self, bundle: &str) -> bool {
        self.bundles.values().all(|had| had == bundle.as_bytes())
    }

    /// Whether this bundle is among what all its webhooks are trusted by.
    fn includes(&self, bundle: &str) -> bool {
        self.bundles.values().all(|had| String::from_utf8_lossy(had).contains(bundle.trim()))
    }
}

impl Kept {
    /// What the data of a Secret holds; nothing unless all of it is there, can be read and fits together.
    pub(crate) fn read(data: &BTreeMap<String, ByteString>) -> Option<Self> {
        let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
        let (bundle, authority_key) = (text(AUTHORITIES)?, text(AUTHORITY_KEY)?);
        let authorities = Parsed::all(&bundle)?;
        let certificate = Parsed::all(&text(CERTIFICATE)?)?.into_iter().next()?;
        let (authority, _) = (authorities.first()?.clone(), text(CERTIFICATE_KEY)?);
        let vouches = |authority: &Parsed| certificate.is_of(authority);
        let is_of_newest = vouches(&authority);
        authorities.iter().any(vouches).then_some(Self { bundle, authority, authority_key, certificate, is_of_newest })
    }

    /// The bundle for a new authority: it, and of those before the ones that may still vouch for what is served.
    pub(crate) fn bundle_with(&self, newest: &str, now: Timestamp, most: usize) -> String {
        let before = Parsed::all(&self.bundle).unwrap_or_default();
        let living = before.into_iter().filter(|authority| authority.expires > now).take(most - 1);
        std::iter::once(newest.to_owned()).chain(living.map(|authority| authority.pem)).collect()
    }
}

impl Parsed {
    /// All certificates of a PEM text; nothing if one of them cannot be read.
    pub(crate) fn all(pem: &str) -> Option<Vec<Self>> {
        let blocks = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>().ok()?;
        let texts = pem.split_inclusive("-----END CERTIFICATE-----\n").filter(|text| !text.trim().is_empty());
        let texts: Vec<_> = texts.collect();
        if texts.len() != blocks.len() {
            return None;
        }
        texts.into_iter().zip(&blocks).map(|(text, block)| Self::of(text, block)).collect()
    }

    fn of(pem: &str, der: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(der).ok()?;
        let (mut names, mut key_id, mut issuer_key_id) = (vec![], vec![], vec![]);
        for extension in parsed.extensions() {
            // Every other extension is none of our concern.
            if let ParsedExtension::SubjectAlternativeName(alternative) = extension.parsed_extension() {
                names = alternative.general_names.iter().filter_map(name).collect();
            } else if let ParsedExtension::SubjectKeyIdentifier(id) = extension.parsed_extension() {
                key_id = id.0.to_vec();
            } else if let ParsedExtension::AuthorityKeyIdentifier(id) = extension.parsed_extension() {
                issuer_key_id = id.key_identifier.as_ref()?.0.to_vec();
            }
        }
        let validity = parsed.validity();
        let time = |seconds: i64| Timestamp::from_second(seconds).ok();
        let begins = time(validity.not_before.timestamp())?;
        Some(Self {
            pem: pem.to_owned(),
            begins,
            issued: begins.checked_add(BACKDATED).ok()?,
            expires: time(validity.not_after.timestamp())?,
            names,
            key_id,
            issuer_key_id,
        })
    }

    fn is_of(&self, authority: &Self) -> bool {
        !authority.key_id.is_empty() && self.issuer_key_id == authority.key_id
    }
}

/// A name as it was asked for; addresses are bytes in a certificate.
fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).ok().map(|bytes| std::net::IpAddr::from(bytes).to_string());
            v4.or_else(|| <[u8; 16]>::try_from(*bytes).ok().map(|bytes| std::net::IpAddr::from(bytes).to_string()))
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

#[cfg(test)]
mod tests {
    use crate::certs::authority;

    use super::*;

    #[test]
    fn what_is_made_here_can_be_read_here() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let hour = Duration::from_hours(1);
        let ca = authority::authority(now, hour).unwrap();
        let names = ["webhook-server".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        let leaf = authority::certificate((&ca.certificate, &ca.key), &names, now, hour).unwrap();
        let data = [
            (AUTHORITIES, &ca.certificate),
            (AUTHORITY_KEY, &ca.key),
            (CERTIFICATE, &leaf.certificate),
            (CERTIFICATE_KEY, &leaf.key),
        ];
        let mut data: BTreeMap<_, _> =
            data.into_iter().map(|(key, text)| (key.to_owned(), ByteString(text.clone().into_bytes()))).collect();
        let kept = Kept::read(&data).unwrap();
        assert!(kept.is_of_newest);
        assert_eq!(kept.certificate.names, names);
        assert_eq!(kept.certificate.issued, now);
        assert_eq!(kept.certificate.expires.as_second(), now.as_second() + 24 * 3600, "a day at least");

        let newer = authority::authority(now, hour).unwrap();
        let bundle = kept.bundle_with(&newer.certificate, now, 2);
        assert_eq!(bundle, format!("{}{}", newer.certificate, ca.certificate));
        data.insert(AUTHORITIES.to_owned(), ByteString(bundle.into_bytes()));
        let kept = Kept::read(&data).unwrap();
        assert!(!kept.is_of_newest, "the old one vouches, which is trusted still");
        let newest = authority::authority(now, hour).unwrap();
        assert_eq!(kept.bundle_with(&newest.certificate, now, 2).matches("BEGIN").count(), 2);

        data.insert(AUTHORITIES.to_owned(), ByteString(newer.certificate.into_bytes()));
        assert_eq!(Kept::read(&data), None, "nobody would trust it");
        data.remove(CERTIFICATE_KEY);
        assert_eq!(Kept::read(&data), None);
        assert_eq!(Kept::read(&BTreeMap::from([(CERTIFICATE.to_owned(), ByteString::default())])), None);
    }
}
