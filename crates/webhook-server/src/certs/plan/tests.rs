//! Rows: what is seen of certificates, and what is done next; and the life of a plane's certificates as a film.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;

use super::*;
use crate::certs::authority::{self, Pair};
use crate::certs::observed::{AUTHORITIES, AUTHORITY_KEY, CERTIFICATE, CERTIFICATE_KEY, Kept, Kind, Parsed};

const HOUR: Duration = Duration::from_hours(1);

fn terms() -> Terms {
    let names = vec!["webhook-server".to_owned()];
    Terms { names, certificate_period: HOUR, authority_period: HOUR * 24 }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

/// A cluster that does what it is told: a Secret, two configurations.
struct World {
    data: BTreeMap<String, ByteString>,
    bundles: [Vec<u8>; 2],
    trusted: Option<(String, Timestamp)>,
    now: Timestamp,
    /// Whether the Secret is cert-manager's.
    is_theirs: bool,
    /// Whether the first configuration asks cert-manager whom to trust.
    asks: bool,
}

impl World {
    fn new() -> Self {
        let (data, bundles) = (BTreeMap::new(), [vec![], vec![]]);
        Self { data, bundles, trusted: None, now: at(0), is_theirs: false, asks: false }
    }

    fn seen(&mut self) -> Observed {
        let kept = Kept::read(&self.data).filter(|_| !self.is_theirs);
        let theirs = self.is_theirs.then(|| self.text(AUTHORITIES));
        let configuration = |(name, bundle): (&str, &Vec<u8>)| Configuration {
            kind: Kind::Mutating,
            name: name.to_owned(),
            version: String::new(),
            bundles: BTreeMap::from([("hook".to_owned(), bundle.clone())]),
            asks_cert_manager: name == "a" && self.asks,
        };
        let configurations: Vec<_> = ["a", "b"].into_iter().zip(&self.bundles).map(configuration).collect();
        let newest = kept.as_ref().filter(|kept| configurations.iter().all(|one| one.has(&kept.bundle)));
        self.trusted = newest.map(|kept| match self.trusted.take() {
            Some((known, since)) if known == kept.authority.pem => (known, since.min(self.now)),
            _ => (kept.authority.pem.clone(), self.now),
        });
        let trusted_since = self.trusted.as_ref().map(|(_, since)| *since);
        Observed { secret: None, kept, theirs, configurations, trusted_since }
    }

    fn put<const N: usize>(&mut self, data: [(&str, &str); N]) {
        let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.as_bytes().to_vec())));
        self.data.extend(data);
    }

    fn text(&self, key: &str) -> String {
        String::from_utf8(self.data[key].0.clone()).unwrap()
    }

    /// Takes the step, or lets time pass, and says what was done.
    fn step(&mut self, terms: &Terms) -> String {
        let seen = self.seen();
        self.nothing_breaks(&seen);
        match plan(&seen, terms, self.now) {
            Plan::Begin => {
                let ca = authority::authority(self.now, terms.authority_period).unwrap();
                self.put([(AUTHORITIES, &ca.certificate), (AUTHORITY_KEY, &ca.key)]);
                self.certify(terms);
                "begin".to_owned()
            }
            Plan::Authority => {
                let Pair { certificate, key } = authority::authority(self.now, terms.authority_period).unwrap();
                let bundle = seen.kept.unwrap().bundle_with(&certificate, self.now, 3);
                self.put([(AUTHORITIES, &bundle), (AUTHORITY_KEY, &key)]);
                "authority".to_owned()
            }
            Plan::Certificate => {
                self.certify(terms);
                "certificate".to_owned()
            }
            Plan::Inject(lacking) => {
                let bundle = self.text(AUTHORITIES).into_bytes();
                self.bundles = [bundle.clone(), bundle];
                format!("inject {}", lacking.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(" "))
            }
            Plan::Rest(until) => {
                assert!(until > self.now, "a rest until {until} at {}", self.now);
                let waited = until.duration_since(self.now).as_secs();
                self.now = until;
                format!("rest {waited} s")
            }
        }
    }

    fn certify(&mut self, terms: &Terms) {
        let (newest, key) = (Parsed::all(&self.text(AUTHORITIES)).unwrap().remove(0).pem, self.text(AUTHORITY_KEY));
        let made = authority::certificate((&newest, &key), &terms.names, self.now, terms.certificate_period).unwrap();
        self.put([(CERTIFICATE, &made.certificate), (CERTIFICATE_KEY, &made.key)]);
    }

    /// Once both configurations trust somebody, what is served is always vouched for by somebody they trust.
    fn nothing_breaks(&self, seen: &Observed) {
        let Some(kept) = &seen.kept else { return };
        for bundle in self.bundles.iter().filter(|bundle| !bundle.is_empty()) {
            let mut data = self.data.clone();
            data.insert(AUTHORITIES.to_owned(), ByteString(bundle.clone()));
            assert!(Kept::read(&data).is_some(), "nobody trusts the certificate of {}", kept.certificate.issued);
        }
        assert!(kept.certificate.expires > self.now && kept.authority.expires > self.now);
    }
}

fn film(terms: &Terms, steps: usize) -> String {
    let mut world = World::new();
    (0..steps).map(|_| world.step(terms) + "\n").collect()
}

#[test]
fn certificates_are_renewed_and_an_authority_is_trusted_before_it_vouches() {
    let terms = Terms { authority_period: HOUR * 3, ..terms() };
    expect_test::expect![[r"
        begin
        inject a b
        rest 3600 s
        certificate
        rest 3600 s
        certificate
        rest 3600 s
        authority
        inject a b
        rest 60 s
        certificate
        rest 3600 s
        certificate
        rest 3600 s
        certificate
        rest 3540 s
        authority
        inject a b
    "]]
    .assert_eq(&film(&terms, 18));
}

#[test]
fn at_the_quickest_pace_nothing_breaks_either() {
    let pace = Duration::from_secs(2);
    film(&Terms { certificate_period: pace, authority_period: pace, ..terms() }, 300);
}

#[test]
fn what_somebody_takes_away_is_put_back() {
    let mut world = World::new();
    world.step(&terms());
    world.step(&terms());
    world.bundles[1].clear();
    assert_eq!(plan(&world.seen(), &terms(), world.now), Plan::Inject(vec![world.seen().configurations[1].clone()]));
    world.step(&terms());
    world.data.clear();
    assert_eq!(plan(&world.seen(), &terms(), world.now), Plan::Begin);
}

#[test]
fn another_name_asks_for_another_certificate() {
    let mut world = World::new();
    world.step(&terms());
    world.step(&terms());
    let named = Terms { names: vec!["webhook-server".to_owned(), "127.0.0.1".to_owned()], ..terms() };
    assert_eq!(plan(&world.seen(), &named, world.now), Plan::Certificate);
    world.step(&named);
    assert!(matches!(plan(&world.seen(), &named, world.now), Plan::Rest(_)));
    assert!(matches!(plan(&world.seen(), &terms(), world.now), Plan::Rest(_)), "a name more does no harm");
}

#[test]
fn what_expired_is_begun_anew() {
    let mut world = World::new();
    world.step(&terms());
    world.step(&terms());
    world.now = at(24 * 3600 + 1);
    assert_eq!(plan(&world.seen(), &terms(), world.now), Plan::Begin);
}

#[test]
fn what_is_not_valid_yet_is_replaced() {
    // By how many hours the clock was ahead when the authority was made, and the certificate, and what follows once it is right.
    for (authority, certificate, expected) in [
        (23, 23, Plan::Rest(at(24 * 3600))),
        (0, 25, Plan::Certificate),
        (25, 25, Plan::Begin),
        (25, 0, Plan::Begin),
        (24 * 400, 24 * 400, Plan::Begin),
    ] {
        let mut world = World::new();
        world.now = at(authority * 3600);
        world.step(&terms());
        world.step(&terms());
        world.now = at(certificate * 3600);
        world.certify(&terms());
        assert_eq!(plan(&world.seen(), &terms(), at(0)), expected, "{authority} h, {certificate} h");
    }
}

#[test]
fn nothing_expires_while_it_rests() {
    let mut world = World::new();
    world.step(&terms());
    world.step(&terms());
    let (seen, hours) = (world.seen(), |hours: i64| at(hours * 3600));
    let with = |change: fn(&mut Kept)| {
        let mut seen = seen.clone();
        change(seen.kept.as_mut().unwrap());
        seen
    };
    // Whoever made it dates back less, or made it for a shorter period than it is used for now.
    let rows = [
        (with(|kept| kept.certificate.issued = at(23 * 3600)), HOUR * 2, HOUR * 24, Plan::Rest(hours(22))),
        (with(|kept| kept.authority.issued = at(23 * 3600)), HOUR * 20, HOUR * 46, Plan::Rest(hours(2))),
        (with(|kept| kept.authority.issued = at(23 * 3600)), HOUR, HOUR * 49, Plan::Authority),
        (seen.clone(), HOUR * 25, HOUR * 24, Plan::Certificate),
        (seen.clone(), Duration::MAX, Duration::MAX, Plan::Rest(hours(24))),
        (
            with(|kept| (kept.is_of_newest, kept.certificate.expires) = (false, at(10))),
            HOUR,
            HOUR * 24,
            Plan::Rest(at(10)),
        ),
    ];
    for (number, (seen, certificate_period, authority_period, expected)) in rows.into_iter().enumerate() {
        let terms = Terms { certificate_period, authority_period, ..terms() };
        assert_eq!(plan(&seen, &terms, at(0)), expected, "row {number}");
    }
}

#[test]
fn what_cert_manager_looks_after_is_left_alone() {
    let mut world = World::new();
    world.step(&terms());
    world.step(&terms());
    // Asked for in the configurations, and not there yet: what was made here goes on.
    world.asks = true;
    assert!(matches!(plan(&world.seen(), &terms(), world.now), Plan::Rest(_)));
    world.bundles[0].clear();
    assert!(matches!(plan(&world.seen(), &terms(), world.now), Plan::Inject(_)));

    // It writes over the Secret; the key of the authority stays in it.
    world.is_theirs = true;
    let others = authority::authority(world.now, HOUR).unwrap();
    world.put([(AUTHORITIES, &others.certificate), (CERTIFICATE, &others.certificate), (CERTIFICATE_KEY, &others.key)]);
    let unasked = world.seen().configurations[1].clone();
    assert_eq!(plan(&world.seen(), &terms(), world.now), Plan::Inject(vec![unasked]), "nobody else would");
    world.bundles[1] = world.text(AUTHORITIES).into_bytes();
    for seconds in [0, 25 * 3600] {
        assert_eq!(plan(&world.seen(), &terms(), at(seconds)), Plan::Rest(Timestamp::MAX), "even when it has expired");
    }
}
