//! The domains that changes of sets, cliques and pods trigger: tables of deltas.

use std::sync::Arc;

use grove_api_types::v1alpha1::PodCliqueSet;
use grove_runtime::caches::{Cache, Delta, InformerOptions};
use serde_json::{Value, json};

use super::super::triggers::{domains_of_clique, domains_of_pod, domains_of_set};
use super::owners::{controller, decoded, domain, set};
use super::*;
use crate::informers::BY_SET;

/// The domains of the set, of which `llm-1` is terminating and `lost` has only its labels, and one of another set.
fn domains() -> Cache<ComputeDomain> {
    let ours = controller("PodCliqueSet", "llm", "u-llm");
    let mut terminating = domain("llm-1", &ours, "1");
    terminating.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let mut unlabelled = domain("llm-2", &ours, "2");
    unlabelled.metadata.labels = None;
    let mut lost = domain("lost", &Value::Null, "3");
    lost.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let mut foreign = domain("other-0", &controller("PodCliqueSet", "other", "u-other"), "0");
    foreign.metadata.labels.get_or_insert_default().insert("app.kubernetes.io/part-of".to_owned(), "other".to_owned());
    let (cache, writer) = Cache::with_writer(InformerOptions::default().with_index(BY_SET));
    writer.replace(vec![domain("llm-0", &ours, "0"), terminating, unlabelled, lost, foreign]);
    cache
}

/// The names of the domains, each once.
fn names(domains: Vec<kube::runtime::reflector::ObjectRef<ComputeDomain>>) -> Vec<String> {
    let mut names: Vec<String> = domains.into_iter().map(|domain| domain.name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn delta<K>(old: Option<K>, new: Option<K>) -> Delta<K> {
    Delta { old: old.map(Arc::new), new: new.map(Arc::new) }
}

#[test]
fn a_changed_or_deleted_set_triggers_its_domains_and_a_change_of_its_status_does_not() {
    let of = |delta: &Delta<PodCliqueSet>| names(domains_of_set(&domains(), delta));
    let all = ["llm-0", "llm-1", "llm-2", "lost"];
    assert_eq!(of(&delta(None, Some(set()))), all);
    assert_eq!(of(&delta(Some(set()), None)), all);
    let (mut scaled, mut terminating, mut with_status) = (set(), set(), set());
    scaled.metadata.generation = Some(2);
    terminating.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    with_status.status = Some(grove_api_types::v1alpha1::PodCliqueSetStatus::default());
    assert_eq!(of(&delta(Some(set()), Some(scaled))), all);
    assert_eq!(of(&delta(Some(set()), Some(terminating))), all);
    assert_eq!(of(&delta(Some(set()), Some(with_status))), [""; 0]);
}

/// An object of a replica of this set, with these changes.
fn of_replica(set: &str, changes: &Value) -> Value {
    let labels = json!({ "app.kubernetes.io/part-of": set, "grove.io/podcliqueset-replica-index": "1" });
    let owners = controller("PodCliqueSet", "llm", "u-llm");
    let metadata = json!({ "name": "one", "namespace": "prod", "labels": labels, "ownerReferences": owners });
    let mut object = json!({ "metadata": metadata });
    json_patch::merge(&mut object, changes);
    object
}

#[test]
fn a_clique_that_ends_triggers_the_domains_of_its_replica() {
    let (sets, domains) = (Cache::from_objects([set()]), domains());
    let (active, unlabelled) =
        (of_replica("llm", &json!({})), of_replica("llm", &json!({ "metadata": { "labels": null } })));
    let terminating = of_replica("llm", &json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }));
    // The name of `lost` has no replica.
    let all = vec!["llm-1", "lost"];
    for (case, old, new, expected) in [
        ("it is deleted", Some(&active), None, all.clone()),
        ("its deletion begins", Some(&active), Some(&terminating), all),
        ("it is created", None, Some(&active), vec![]),
        ("it changes", Some(&active), Some(&active), vec![]),
        ("its deletion ends", Some(&terminating), None, vec![]),
        ("it has no label of a set", Some(&unlabelled), None, vec![]),
        ("its set has no domains", Some(&of_replica("none", &json!({}))), None, vec![]),
    ] {
        let of_clique = delta(old.cloned().map(decoded), new.cloned().map(decoded));
        assert_eq!(names(domains_of_clique(&sets, &domains, &of_clique)), expected, "{case}");
    }
    let of_user = of_replica("llm", &json!({ "metadata": { "ownerReferences": controller("Other", "a", "b") } }));
    let of_clique = delta(Some(decoded(of_user)), None);
    assert_eq!(names(domains_of_clique(&sets, &domains, &of_clique)), [""; 0], "a clique of a user");
}

#[test]
fn a_pod_that_ends_triggers_its_domains() {
    let claims = |template: &str| {
        json!({ "resourceClaims": [{ "name": "a", "resourceClaimTemplateName": template },
            { "name": "b", "resourceClaimTemplateName": "other" }] })
    };
    let pod = |changes: Value| of_replica("llm", &changes);
    let active = pod(json!({ "spec": claims("llm-1") }));
    let terminating =
        pod(json!({ "spec": claims("llm-1"), "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }));
    let ended = pod(json!({ "spec": claims("llm-1"), "status": { "phase": "Succeeded" } }));
    let domain = vec!["llm-1"];
    for (case, old, new, expected) in [
        ("it is deleted", Some(&active), None, domain.clone()),
        ("it finishes", Some(&active), Some(&ended), domain.clone()),
        ("its deletion begins", Some(&active), Some(&terminating), vec![]),
        ("its deletion ends", Some(&terminating), None, domain),
        ("it is created", None, Some(&active), vec![]),
        ("it had finished", Some(&ended), None, vec![]),
        ("its domain does not exist", Some(&pod(json!({ "spec": claims("llm-9") }))), None, vec![]),
    ] {
        let of_pod = delta(old.cloned().map(decoded), new.cloned().map(decoded));
        assert_eq!(names(domains_of_pod(&domains(), &of_pod)), expected, "{case}");
    }
}
