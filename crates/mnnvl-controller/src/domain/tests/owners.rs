//! Whether a set needs a domain, and whether the caches have an object that uses it: tables of domains.

use expect_test::expect;
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_runtime::caches::{Cache, Index, InformerOptions};
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::observe::{is_used, need};
use super::super::observed::Retention;
use super::*;
use crate::replica_objects::{BY_DOMAIN, BY_REPLICA, SlimClique, SlimPod, may_use_a_domain};

/// The set `llm` with the uid `u-llm` and two replicas, each with a domain.
pub(super) fn set() -> PodCliqueSet {
    let metadata = json!({ "name": "llm", "namespace": "prod", "uid": "u-llm", "generation": 1,
        "annotations": { "grove.io/auto-mnnvl": "enabled" } });
    decoded(json!({ "metadata": metadata, "spec": { "replicas": 2, "template": { "cliques": [] } } }))
}

pub(super) fn decoded<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

/// A reference to a controller of this kind, name and uid.
pub(super) fn controller(kind: &str, name: &str, uid: &str) -> Value {
    json!([{ "apiVersion": "grove.io/v1alpha1", "kind": kind, "name": name, "uid": uid, "controller": true }])
}

/// A domain of this name with Grove's finalizer and labels, and with these owners and this label of the replica.
pub(super) fn domain(name: &str, owners: &Value, replica: &str) -> ComputeDomain {
    let labels = json!({ "app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "llm",
        "grove.io/podcliqueset-replica-index": replica });
    let metadata = json!({ "name": name, "namespace": "prod", "uid": format!("u-{name}"), "labels": labels,
        "finalizers": [finalizers::COMPUTE_DOMAIN], "ownerReferences": owners });
    let channel = json!({ "resourceClaimTemplate": { "name": name } });
    decoded(json!({ "metadata": metadata, "spec": { "numNodes": 0, "channel": channel } }))
}

fn text(need: DomainNeed) -> String {
    let replica = |Replica { set, index }: Replica| {
        format!("replica {} of {set}", index.map_or("?".to_owned(), |index| index.to_string()))
    };
    match need {
        DomainNeed::Foreign => "foreign".to_owned(),
        DomainNeed::Unknown(of, set) => format!("{} with uid {}", replica(of), set.metadata.uid.unwrap_or_default()),
        DomainNeed::Needed(of) => format!("needed by {}", replica(of)),
        DomainNeed::NotNeeded(of) => format!("not needed by {}", replica(of)),
    }
}

#[test]
fn a_set_needs_the_domains_of_its_replicas() {
    let ours = controller("PodCliqueSet", "llm", "u-llm");
    let mut terminating = domain("llm-1", &Value::Null, "1");
    terminating.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let mut unlabelled = domain("llm-1", &Value::Null, "1");
    unlabelled.metadata.labels = None;
    let rows = [
        ("a replica of the set", domain("llm-1", &ours, "1")),
        ("an edited label of the replica", domain("llm-1", &ours, "0")),
        ("a removed replica", domain("llm-5", &ours, "5")),
        ("a name without a replica", domain("llm-x", &ours, "5")),
        ("an earlier set of the name", domain("llm-1", &controller("PodCliqueSet", "llm", "u-old"), "1")),
        ("a set that the cache lacks", domain("other-0", &controller("PodCliqueSet", "other", "u-other"), "0")),
        ("another kind", domain("llm-1", &controller("PodClique", "llm", "u-llm"), "1")),
        ("no reference, and a replica of the set", domain("llm-1", &Value::Null, "1")),
        ("no reference, and terminating", terminating),
        ("no reference, and a removed replica", domain("llm-5", &Value::Null, "5")),
        ("no reference and no labels", unlabelled),
    ];
    let texts = |set: PodCliqueSet| {
        let sets = Cache::from_objects([set]);
        let lines: Vec<_> =
            rows.iter().map(|(case, domain)| format!("{case}: {}", text(need(&sets, domain)))).collect();
        lines.join("\n")
    };
    expect![[r"
        a replica of the set: needed by replica 1 of llm
        an edited label of the replica: needed by replica 1 of llm
        a removed replica: not needed by replica 5 of llm
        a name without a replica: not needed by replica ? of llm
        an earlier set of the name: replica 1 of llm with uid u-old
        a set that the cache lacks: replica 0 of other with uid u-other
        another kind: foreign
        no reference, and a replica of the set: needed by replica 1 of llm
        no reference, and terminating: not needed by replica 1 of llm
        no reference, and a removed replica: not needed by replica 5 of llm
        no reference and no labels: foreign"]]
    .assert_eq(&texts(set()));
    let mut terminating = set();
    terminating.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    assert!(!texts(terminating).contains(": needed"), "a terminating set needs no domain");
}

/// A cache with one object that has these metadata, the labels of replica 1 of the set, and these fields.
fn cache<K>(index: Index<K>, changes: &Value) -> Cache<K>
where
    K: Resource + DeserializeOwned,
{
    let labels = json!({ "app.kubernetes.io/part-of": "llm", "grove.io/podcliqueset-replica-index": "1" });
    let mut object = json!({ "metadata": { "name": "one", "namespace": "prod", "labels": labels } });
    json_patch::merge(&mut object, changes);
    let (cache, writer) = Cache::with_writer(InformerOptions::default().with_index(index));
    writer.replace(vec![decoded(object)]);
    cache
}

/// Which domains the caches show as used: of a domain that a set needs and a user deleted, of one that no set needs, and of the latter without
/// the index of its replica.
fn uses(clique: &Value, pod: &Value) -> [bool; 3] {
    let (cliques, pods) = (cache::<SlimClique>(BY_REPLICA, clique), cache::<SlimPod>(BY_DOMAIN, pod));
    let domain = domain("llm-1", &controller("PodCliqueSet", "llm", "u-llm"), "1");
    let of = |index| Replica { set: "llm".to_owned(), index };
    let (replica, unknown) = (of(Some(1)), of(None));
    let retentions =
        [Retention::Claims(&replica), Retention::PodsAndCliques(&replica), Retention::PodsAndCliques(&unknown)];
    for retention in [Retention::Set, Retention::Nothing] {
        assert!(!is_used(&cliques, &pods, &domain, retention));
    }
    retentions.map(|retention| is_used(&cliques, &pods, &domain, retention))
}

#[test]
fn the_cliques_of_a_replica_retain_a_domain_that_no_set_needs() {
    let none = json!({ "metadata": { "namespace": "other" } });
    let owned = |kind: &str| json!({ "metadata": { "ownerReferences": controller(kind, "llm", "u-llm") } });
    let mut terminating = owned("PodCliqueSet");
    json_patch::merge(&mut terminating, &json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }));
    let other = json!({ "metadata": { "labels": { "grove.io/podcliqueset-replica-index": "0" } } });
    for (case, clique, expected) in [
        ("of the set", owned("PodCliqueSet"), true),
        ("of a scaling group", owned("PodCliqueScalingGroup"), true),
        ("left by an orphan deletion", json!({}), true),
        ("of another owner", owned("Deployment"), false),
        ("terminating", terminating, false),
        ("of another replica", other, false),
    ] {
        assert_eq!(uses(&clique, &none), [false, expected, false], "{case}");
    }
}

#[test]
fn pods_retain_the_domain_of_their_claim_until_they_have_ended() {
    let none = json!({ "metadata": { "namespace": "other" } });
    let spec = json!({ "resourceClaims": [{ "name": "mnnvl-claim", "resourceClaimTemplateName": "llm-1" }] });
    let bound = json!({ "spec": { "nodeName": "node" }, "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    let claimed =
        json!({ "status": { "resourceClaimStatuses": [{ "name": "mnnvl-claim", "resourceClaimName": "c" }] } });
    let ended = json!({ "spec": { "nodeName": "node" }, "status": { "phase": "Failed" } });
    let other = json!({ "spec": { "nodeName": "node",
        "resourceClaims": [{ "name": "mnnvl-claim", "resourceClaimTemplateName": "llm-0" }] } });
    for (case, changes, is_claimed, is_used) in [
        ("without its claim", json!({}), false, true),
        ("with its claim", claimed, true, true),
        ("bound and terminating", bound, true, true),
        ("ended", ended, false, false),
        ("of another domain", other, false, false),
        ("in another namespace", none.clone(), false, false),
    ] {
        let mut pod = json!({ "spec": spec });
        json_patch::merge(&mut pod, &changes);
        assert_eq!(uses(&none, &pod), [is_claimed, is_used, is_used], "{case}");
    }
}

#[test]
fn only_pods_with_a_claim_from_a_template_are_stored() {
    let pod = |claims: Value| {
        let labels = json!({ "app.kubernetes.io/part-of": "llm", "grove.io/podcliqueset-replica-index": "1" });
        decoded::<SlimPod>(json!({ "metadata": { "labels": labels }, "spec": { "resourceClaims": claims } }))
    };
    assert!(may_use_a_domain(&pod(json!([{ "name": "a", "resourceClaimTemplateName": "t" }]))));
    assert!(!may_use_a_domain(&pod(json!([{ "name": "a", "resourceClaimName": "c" }]))));
    assert!(!may_use_a_domain(&pod(Value::Null)));
    let unlabelled = json!({ "spec": { "resourceClaims": [{ "name": "a", "resourceClaimTemplateName": "t" }] } });
    assert!(!may_use_a_domain(&decoded(unlabelled)));
}
