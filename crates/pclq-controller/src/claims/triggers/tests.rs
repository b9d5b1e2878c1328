//! Which cliques a change of a claim or of a template triggers.

use std::sync::Arc;

use grove_api_types::configuration::OperatorConfiguration;
use grove_api_types::resource_claim::SharingLevel;
use grove_controller::manager::Manager;
use grove_controller::resource_claims::{CLAIMS_BY_LEVEL, register_metric};
use grove_runtime::caches::InformerOptions;
use grove_runtime::client::Clients;
use grove_runtime::runtime::Runtime;
use grove_test_support::mock_api_server::{self, MockResponse};
use serde_json::{Value, json};

use super::*;

fn clique(name: &str, claims: &Value) -> PodClique {
    let annotations = json!({ "grove.io/resource-claims": claims.to_string() });
    serde_json::from_value(json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "PodClique",
        "metadata": { "name": name, "namespace": "prod", "uid": name, "annotations": annotations },
        "spec": { "roleName": "r", "replicas": 1, "podSpec": { "containers": [] } },
    }))
    .unwrap()
}

fn cliques() -> Cache<PodClique> {
    let own = |template: &str, namespace: Option<&str>| json!({ "template": template, "namespace": namespace, "scope": "PerReplica" });
    let internal = json!({ "template": "inline", "scope": "AllReplicas", "templateSpec": { "spec": {} } });
    let (cache, writer) = Cache::with_writer(InformerOptions::default().with_index(BY_CLAIM_AND_TEMPLATE));
    writer.replace(vec![
        clique("a", &json!({ "references": ["llm-all-x", "llm-0-y"] })),
        clique("b", &json!({ "references": ["llm-all-x"], "claims": [own("t", None), own("t", Some("shared"))] })),
        clique("c", &json!({ "claims": [internal, own("t", Some("shared"))] })),
        clique("broken", &json!("text")),
    ]);
    cache
}

fn names(cliques: &[ObjectRef<PodClique>]) -> Vec<&str> {
    cliques.iter().map(|clique| clique.name.as_str()).collect()
}

fn claim(change: impl FnOnce(&mut ResourceClaim)) -> Arc<ResourceClaim> {
    let owner = json!([{ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "llm", "uid": "u", "controller": true }]);
    let metadata = json!({ "name": "llm-all-x", "namespace": "prod", "uid": "1", "ownerReferences": owner });
    let mut claim: ResourceClaim = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
    change(&mut claim);
    Arc::new(claim)
}

#[test]
fn a_claim_triggers_the_cliques_that_refer_to_it_if_its_use_may_change() {
    let cliques = cliques();
    let triggered = |old: Option<Arc<ResourceClaim>>, new: Option<Arc<ResourceClaim>>| {
        names(&cliques_of_claim(&cliques, &Delta { old, new })).join(" ")
    };
    let same = || Some(claim(|_| {}));
    assert_eq!(triggered(None, same()), "a b");
    assert_eq!(triggered(same(), None), "a b");
    let deleted_at = serde_json::from_value(json!("2026-01-01T00:00:00Z")).ok();
    let terminating = claim(|claim| claim.metadata.deletion_timestamp = deleted_at);
    let orphan = claim(|claim| claim.metadata.owner_references = None);
    let successor = claim(|claim| claim.metadata.uid = Some("2".to_owned()));
    for changed in [terminating, orphan, successor] {
        assert_eq!(triggered(same(), Some(changed)), "a b");
    }
    let allocated = claim(|claim| claim.metadata.finalizers = Some(vec!["f".to_owned()]));
    assert_eq!(triggered(same(), Some(allocated)), "");
    let in_other_namespace = claim(|claim| claim.metadata.namespace = Some("other".to_owned()));
    assert_eq!(triggered(None, Some(in_other_namespace)), "");
}

#[test]
fn the_creation_of_a_template_triggers_the_cliques_with_claims_from_it() {
    let cliques = cliques();
    let template = |namespace: &str, uid: &str| {
        let metadata = json!({ "name": "t", "namespace": namespace, "uid": uid });
        Some(Arc::new(serde_json::from_value::<SlimResourceClaimTemplate>(json!({ "metadata": metadata })).unwrap()))
    };
    let triggered = |old, new| names(&cliques_of_template(&cliques, &Delta { old, new })).join(" ");
    assert_eq!(triggered(None, template("prod", "1")), "b");
    assert_eq!(triggered(None, template("shared", "1")), "b c");
    assert_eq!(
        triggered(template("shared", "1"), template("shared", "2")),
        "b c",
        "it was replaced during a gap of the watch"
    );
    assert_eq!(triggered(template("shared", "1"), template("shared", "1")), "");
    assert_eq!(triggered(template("shared", "1"), None), "", "existing claims stay");
}

#[tokio::test]
async fn the_metric_counts_the_claims_of_cliques() {
    let (client, _) = mock_api_server::client(|_| MockResponse::error(404, "NotFound"));
    let clients = Clients { requests: client.clone(), watches: client };
    let manager =
        Manager::new(&Runtime::from_clients("test", clients, OperatorConfiguration::default()).unwrap()).unwrap();
    let (claims, writer) = Cache::with_writer(InformerOptions::default().with_sum(CLAIMS_BY_LEVEL));
    register_metric(&manager, &claims, &[SharingLevel::Clique]).unwrap();
    let labelled = |name: &str, clique: Option<&str>| {
        let labels = json!({ "app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/component": "resource-claim",
            "grove.io/podclique": clique });
        let labels: std::collections::BTreeMap<String, Option<String>> = serde_json::from_value(labels).unwrap();
        let labels: Vec<_> = labels.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        let mut claim = ResourceClaim::default();
        claim.metadata.name = Some(name.to_owned());
        claim.metadata.labels = Some(labels.into_iter().collect());
        claim
    };
    writer.replace(vec![
        labelled("a", Some("c")),
        labelled("b", Some("c")),
        labelled("of-set", None),
        ResourceClaim::default(),
    ]);
    let text = manager.metrics().render().unwrap();
    assert!(text.contains("grove_resource_claims{level=\"clique\"} 2"), "{text}");
}
