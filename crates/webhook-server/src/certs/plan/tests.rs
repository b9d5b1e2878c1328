//! Rows of observed states with the next step, and simulations of the rotation.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;

use super::*;
use crate::certs::ca::{self, CertKeyPair};
use crate::certs::observed::WebhookConfigKind;
use crate::certs::propagation::CaPropagation;
use crate::certs::secret::{CA_BUNDLE, CA_KEY, CERTIFICATE, CERTIFICATE_KEY, CertSecret};

const HOUR: Duration = Duration::from_hours(1);

fn policy() -> RotationPolicy {
    let subject_alt_names = vec!["webhook-server".to_owned()];
    RotationPolicy { subject_alt_names, certificate_period: HOUR, ca_period: HOUR * 24 }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

/// A cluster with the Secret and two webhook configurations, `a` and `b`. Each step succeeds at once.
struct Cluster {
    data: BTreeMap<String, ByteString>,
    ca_bundles: [Vec<u8>; 2],
    propagation: CaPropagation,
    now: Timestamp,
    is_managed_by_cert_manager: bool,
    /// Whether configuration `a` asks cert-manager to inject the CA bundle.
    uses_cert_manager: bool,
}

impl Cluster {
    fn new() -> Self {
        Self {
            data: BTreeMap::new(),
            ca_bundles: [vec![], vec![]],
            propagation: CaPropagation::default(),
            now: at(0),
            is_managed_by_cert_manager: false,
            uses_cert_manager: false,
        }
    }

    /// A cluster after the first two steps: bootstrap and injection.
    fn bootstrapped(policy: &RotationPolicy) -> Self {
        let mut cluster = Self::new();
        cluster.step(policy);
        cluster.step(policy);
        cluster
    }

    fn observe(&mut self) -> Observed {
        let configuration = |(name, bundle): (&str, &Vec<u8>)| WebhookConfigState {
            kind: WebhookConfigKind::Mutating,
            name: name.to_owned(),
            resource_version: String::new(),
            ca_bundles: BTreeMap::from([("hook".to_owned(), bundle.clone())]),
            uses_cert_manager: name == "a" && self.uses_cert_manager,
        };
        let mut observed = Observed {
            secret_version: None,
            is_secret_protected: false,
            secret: CertSecret::parse(&self.data).filter(|_| !self.is_managed_by_cert_manager),
            cert_manager_bundle: self.is_managed_by_cert_manager.then(|| self.text(CA_BUNDLE)),
            configurations: ["a", "b"].into_iter().zip(&self.ca_bundles).map(configuration).collect(),
            ca_injected_since: None,
        };
        self.propagation.update(&mut observed, self.now);
        observed
    }

    fn write<const N: usize>(&mut self, data: [(&str, &str); N]) {
        let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.as_bytes().to_vec())));
        self.data.extend(data);
    }

    fn text(&self, key: &str) -> String {
        String::from_utf8(self.data[key].0.clone()).unwrap()
    }

    /// Executes the next step, or advances the clock. Returns a description of the step.
    fn step(&mut self, policy: &RotationPolicy) -> String {
        let observed = self.observe();
        self.check_trust(&observed);
        match plan(&observed, policy, self.now) {
            RotationStep::Bootstrap => {
                let ca = ca::issue_ca(self.now, policy.ca_period).unwrap();
                self.write([(CA_BUNDLE, &ca.certificate), (CA_KEY, &ca.key)]);
                self.issue_serving_cert(policy);
                "bootstrap".to_owned()
            }
            RotationStep::IssueCa => {
                let CertKeyPair { certificate, key } = ca::issue_ca(self.now, policy.ca_period).unwrap();
                let ca_bundle = observed.secret.unwrap().ca_bundle_with(&certificate, self.now, 3);
                self.write([(CA_BUNDLE, &ca_bundle), (CA_KEY, &key)]);
                "issue CA".to_owned()
            }
            RotationStep::IssueServingCert => {
                self.issue_serving_cert(policy);
                "issue serving certificate".to_owned()
            }
            RotationStep::InjectCaBundle(targets) => {
                let ca_bundle = self.text(CA_BUNDLE).into_bytes();
                self.ca_bundles = [ca_bundle.clone(), ca_bundle];
                format!("inject {}", targets.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(" "))
            }
            RotationStep::WaitUntil(time) => {
                assert!(time > self.now, "a wait until {time} at {}", self.now);
                let seconds = time.duration_since(self.now).as_secs();
                self.now = time;
                format!("wait {seconds} s")
            }
        }
    }

    fn issue_serving_cert(&mut self, policy: &RotationPolicy) {
        let (newest_ca, key) =
            (Certificate::parse_all(&self.text(CA_BUNDLE)).unwrap().remove(0).pem, self.text(CA_KEY));
        let RotationPolicy { subject_alt_names, certificate_period, ca_period: _ } = policy;
        let issued = ca::issue_serving_cert((&newest_ca, &key), subject_alt_names, self.now, *certificate_period);
        let CertKeyPair { certificate, key } = issued.unwrap();
        self.write([(CERTIFICATE, &certificate), (CERTIFICATE_KEY, &key)]);
    }

    /// Checks that each configuration with a CA bundle trusts the serving certificate.
    fn check_trust(&self, observed: &Observed) {
        let Some(secret) = &observed.secret else { return };
        for ca_bundle in self.ca_bundles.iter().filter(|bundle| !bundle.is_empty()) {
            let mut data = self.data.clone();
            data.insert(CA_BUNDLE.to_owned(), ByteString(ca_bundle.clone()));
            let is_trusted = CertSecret::parse(&data).is_some();
            assert!(is_trusted, "no CA of the bundle signed the certificate of {}", secret.serving.issued_at);
        }
        assert!(secret.serving.not_after > self.now && secret.ca.not_after > self.now);
    }
}

fn simulate(policy: &RotationPolicy, steps: usize) -> String {
    let mut cluster = Cluster::new();
    (0..steps).map(|_| cluster.step(policy) + "\n").collect()
}

#[test]
fn certificates_are_renewed_and_a_ca_signs_only_after_it_is_injected() {
    let policy = RotationPolicy { ca_period: HOUR * 3, ..policy() };
    expect_test::expect![[r"
        bootstrap
        inject a b
        wait 3600 s
        issue serving certificate
        wait 3600 s
        issue serving certificate
        wait 3600 s
        issue CA
        inject a b
        wait 60 s
        issue serving certificate
        wait 3600 s
        issue serving certificate
        wait 3600 s
        issue serving certificate
        wait 3540 s
        issue CA
        inject a b
    "]]
    .assert_eq(&simulate(&policy, 18));
}

#[test]
fn rotation_at_the_shortest_periods_keeps_every_certificate_trusted() {
    let period = Duration::from_secs(2);
    simulate(&RotationPolicy { certificate_period: period, ca_period: period, ..policy() }, 300);
}

#[test]
fn a_removed_ca_bundle_or_secret_is_restored() {
    let mut cluster = Cluster::bootstrapped(&policy());
    cluster.ca_bundles[1].clear();
    let target = cluster.observe().configurations[1].clone();
    assert_eq!(plan(&cluster.observe(), &policy(), cluster.now), RotationStep::InjectCaBundle(vec![target]));
    cluster.step(&policy());
    cluster.data.clear();
    assert_eq!(plan(&cluster.observe(), &policy(), cluster.now), RotationStep::Bootstrap);
}

#[test]
fn a_configuration_that_rejects_the_injection_does_not_delay_the_renewal_of_the_certificate() {
    let mut cluster = Cluster::bootstrapped(&policy());
    cluster.ca_bundles[1].clear();
    cluster.now = at(3600);
    assert_eq!(plan(&cluster.observe(), &policy(), cluster.now), RotationStep::IssueServingCert);
    cluster.issue_serving_cert(&policy());
    assert!(matches!(plan(&cluster.observe(), &policy(), cluster.now), RotationStep::InjectCaBundle(_)));
}

#[test]
fn a_new_name_leads_to_a_new_certificate_and_a_removed_name_does_not() {
    let mut cluster = Cluster::bootstrapped(&policy());
    let names = vec!["webhook-server".to_owned(), "127.0.0.1".to_owned()];
    let with_address = RotationPolicy { subject_alt_names: names, ..policy() };
    assert_eq!(plan(&cluster.observe(), &with_address, cluster.now), RotationStep::IssueServingCert);
    cluster.step(&with_address);
    assert!(matches!(plan(&cluster.observe(), &with_address, cluster.now), RotationStep::WaitUntil(_)));
    assert!(matches!(plan(&cluster.observe(), &policy(), cluster.now), RotationStep::WaitUntil(_)));
}

#[test]
fn an_expired_certificate_leads_to_a_bootstrap() {
    let mut cluster = Cluster::bootstrapped(&policy());
    cluster.now = at(24 * 3600 + 1);
    assert_eq!(plan(&cluster.observe(), &policy(), cluster.now), RotationStep::Bootstrap);
}

#[test]
fn a_certificate_that_is_not_valid_yet_is_replaced() {
    // How many hours the clock was ahead when the CA and the serving certificate were issued, and the step after its
    // correction.
    for (ca_hours, serving_hours, expected) in [
        (23, 23, RotationStep::WaitUntil(at(24 * 3600))),
        (0, 25, RotationStep::IssueServingCert),
        (25, 25, RotationStep::Bootstrap),
        (25, 0, RotationStep::Bootstrap),
        (24 * 400, 24 * 400, RotationStep::Bootstrap),
    ] {
        let mut cluster = Cluster::new();
        cluster.now = at(ca_hours * 3600);
        cluster.step(&policy());
        cluster.step(&policy());
        cluster.now = at(serving_hours * 3600);
        cluster.issue_serving_cert(&policy());
        let step = plan(&cluster.observe(), &policy(), at(0));
        assert_eq!(step, expected, "{ca_hours} h, {serving_hours} h");
    }
}

#[test]
fn no_certificate_expires_during_a_wait() {
    let (observed, hours) = (Cluster::bootstrapped(&policy()).observe(), |hours: i64| at(hours * 3600));
    let with = |change: fn(&mut CertSecret)| {
        let mut observed = observed.clone();
        change(observed.secret.as_mut().unwrap());
        observed
    };
    // The certificate was issued with another backdate, or with a shorter period than the current one.
    let rows = [
        (
            with(|secret| secret.serving.issued_at = at(23 * 3600)),
            HOUR * 2,
            HOUR * 24,
            RotationStep::WaitUntil(hours(22)),
        ),
        (with(|secret| secret.ca.issued_at = at(23 * 3600)), HOUR * 20, HOUR * 46, RotationStep::WaitUntil(hours(2))),
        (with(|secret| secret.ca.issued_at = at(23 * 3600)), HOUR, HOUR * 49, RotationStep::IssueCa),
        (observed.clone(), HOUR * 25, HOUR * 24, RotationStep::IssueServingCert),
        (observed.clone(), Duration::MAX, Duration::MAX, RotationStep::WaitUntil(hours(24))),
        (
            with(|secret| (secret.is_signed_by_newest_ca, secret.serving.not_after) = (false, at(10))),
            HOUR,
            HOUR * 24,
            RotationStep::WaitUntil(at(10)),
        ),
    ];
    for (number, (observed, certificate_period, ca_period, expected)) in rows.into_iter().enumerate() {
        let policy = RotationPolicy { certificate_period, ca_period, ..policy() };
        assert_eq!(plan(&observed, &policy, at(0)), expected, "row {number}");
    }
}

#[test]
fn a_certificate_of_cert_manager_is_not_rotated() {
    let mut cluster = Cluster::bootstrapped(&policy());
    // The configuration asks cert-manager, but cert-manager does not manage the Secret yet: the rotation continues.
    cluster.uses_cert_manager = true;
    assert!(matches!(plan(&cluster.observe(), &policy(), cluster.now), RotationStep::WaitUntil(_)));
    cluster.ca_bundles[0].clear();
    assert!(matches!(plan(&cluster.observe(), &policy(), cluster.now), RotationStep::InjectCaBundle(_)));

    // cert-manager overwrites the Secret, except the key of the CA.
    cluster.is_managed_by_cert_manager = true;
    let CertKeyPair { certificate, key } = ca::issue_ca(cluster.now, HOUR).unwrap();
    cluster.write([(CA_BUNDLE, &certificate), (CERTIFICATE, &certificate), (CERTIFICATE_KEY, &key)]);
    let without_annotation = cluster.observe().configurations[1].clone();
    let step = plan(&cluster.observe(), &policy(), cluster.now);
    assert_eq!(step, RotationStep::InjectCaBundle(vec![without_annotation]), "cert-manager does not inject there");
    cluster.ca_bundles[1] = cluster.text(CA_BUNDLE).into_bytes();
    for seconds in [0, 25 * 3600] {
        let step = plan(&cluster.observe(), &policy(), at(seconds));
        assert_eq!(step, RotationStep::WaitUntil(Timestamp::MAX), "after {seconds} s");
    }
}
