//! The set and the replica of a domain, and whether the caches have an object that uses it: tables of domains.

use expect_test::expect;
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_runtime::caches::{Cache, Index, InformerOptions};
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::observe::{is_used, owner};
use super::*;
use crate::replica_objects::{BY_REPLICA_OF_CLIQUE, BY_REPLICA_OF_POD, SlimClique, SlimPod};

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

fn text(owner: Owner) -> String {
    match owner {
        Owner::None => "none".to_owned(),
        Owner::NotCached(set) => {
            let ObjectMeta { name, namespace, uid, .. } = set.metadata;
            let [name, namespace, uid] = [name, namespace, uid].map(Option::unwrap_or_default);
            format!("not cached: {namespace}/{name} {uid}")
        }
        Owner::Terminating => "terminating".to_owned(),
        Owner::Active(Replica { set, index, base_gang }) => {
            let gang = base_gang.map(|gang| format!(" with {gang}")).unwrap_or_default();
            format!("replica {} of {set}{gang}", index.map_or("?".to_owned(), |index| index.to_string()))
        }
    }
}

#[test]
fn the_owner_is_the_controlling_set_or_the_one_that_the_domain_lost() {
    let ours = controller("PodCliqueSet", "llm", "u-llm");
    let rows = [
        ("the set needs it", domain("llm-1", &ours, "1")),
        ("an edited label of the replica", domain("llm-1", &ours, "0")),
        ("the replica was removed", domain("llm-5", &ours, "5")),
        ("the replica was removed, and the label is invalid", domain("llm-5", &ours, "x")),
        ("an earlier set of the name", domain("llm-1", &controller("PodCliqueSet", "llm", "u-old"), "1")),
        ("a set that the cache lacks", domain("other-0", &controller("PodCliqueSet", "other", "u-other"), "0")),
        ("another kind", domain("llm-1", &controller("PodClique", "llm", "u-llm"), "1")),
        ("no reference, and the set needs it", domain("llm-1", &Value::Null, "1")),
        ("no reference, and the set does not need it", domain("llm-5", &Value::Null, "5")),
    ];
    let sets = Cache::from_objects([set()]);
    let lines = rows.iter().map(|(case, domain)| format!("{case}: {}\n", text(owner(&sets, domain))));
    expect![[r"
        the set needs it: replica 1 of llm with llm-1
        an edited label of the replica: replica 1 of llm with llm-1
        the replica was removed: replica 5 of llm
        the replica was removed, and the label is invalid: replica ? of llm
        an earlier set of the name: not cached: prod/llm u-old
        a set that the cache lacks: not cached: prod/other u-other
        another kind: none
        no reference, and the set needs it: replica 1 of llm with llm-1
        no reference, and the set does not need it: none
    "]]
    .assert_eq(&lines.collect::<String>());

    let mut terminating = set();
    terminating.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let sets = Cache::from_objects([terminating]);
    assert_eq!(text(owner(&sets, &domain("llm-1", &ours, "1"))), "terminating");
    assert_eq!(text(owner(&sets, &domain("llm-1", &Value::Null, "1"))), "none");
}

/// A cache with one object that has these metadata, the labels of a replica of the set, and this phase.
fn cache<K>(index: Index<K>, replica: &str, changes: &Value) -> Cache<K>
where
    K: Resource + DeserializeOwned,
{
    let labels = json!({ "app.kubernetes.io/part-of": "llm", "grove.io/podcliqueset-replica-index": replica });
    let mut object = json!({ "metadata": { "name": "one", "namespace": "prod", "labels": labels } });
    json_patch::merge(&mut object, changes);
    let (cache, writer) = Cache::with_writer(InformerOptions::default().with_index(index));
    writer.replace(vec![decoded(object)]);
    cache
}

#[test]
fn the_caches_show_which_replica_uses_its_domain() {
    let of_set = json!({ "metadata": { "ownerReferences": controller("PodCliqueSet", "llm", "u-llm") } });
    let terminating = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    let failed = json!({ "status": { "phase": "Failed" } });
    let mut terminating_of_set = of_set.clone();
    json_patch::merge(&mut terminating_of_set, &terminating);
    let none = json!({ "metadata": { "namespace": "other" } });
    for (case, replica, clique, pod, expected) in [
        ("a clique that may create pods", "1", &of_set, &none, true),
        ("a clique of another replica", "0", &of_set, &none, false),
        ("a terminating clique", "1", &terminating_of_set, &none, false),
        ("a clique of a user", "1", &json!({}), &none, false),
        ("a live pod", "1", &none, &json!({}), true),
        ("a live pod of another replica", "0", &none, &json!({}), false),
        ("a terminating pod", "1", &none, &terminating, false),
        ("a finished pod", "1", &none, &failed, false),
    ] {
        let cliques = cache::<SlimClique>(BY_REPLICA_OF_CLIQUE, replica, clique);
        let pods = cache::<SlimPod>(BY_REPLICA_OF_POD, replica, pod);
        let of_replica = Replica { set: "llm".to_owned(), index: Some(1), base_gang: None };
        assert_eq!(is_used(&cliques, &pods, "prod", &of_replica), expected, "{case}");
        let unknown = Replica { index: None, ..of_replica };
        assert!(!is_used(&cliques, &pods, "prod", &unknown), "{case}: the confirmation decides");
    }
}
