//! The minima of existing children of a set that was stored without webhook-server.

use std::sync::Arc;

use grove_api_types::expansion::{OmittedMinima, Revision};
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use serde_json::{Value, json};

use super::{executed, new, plan, yaml};
use crate::informers::PcsCaches;
use crate::informers::tests::{clique_of, manager_with};
use crate::set::Context;
use crate::set::observe::observe;
use crate::set::observed::Observed;

/// A set without minima.
const SET: &str = "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: m, namespace: prod, uid: u-set, generation: 3}
spec:
  replicas: 1
  template:
    cliques:
    - {name: f, spec: {roleName: f, replicas: 3, autoScalingConfig: {maxReplicas: 9}, podSpec: {containers: [{name: c}]}}}
    - {name: p, spec: {roleName: p, replicas: 3, podSpec: {containers: [{name: c}]}}}
    podCliqueScalingGroups:
    - {name: g, cliqueNames: [p], replicas: 2, minAvailable: 1, scaleConfig: {maxReplicas: 8}}
";

/// The cliques of the scaling group, created before the template changed.
fn members() -> Vec<Arc<PodClique>> {
    ["m-0-g-0-p", "m-0-g-1-p"].map(member).to_vec()
}

fn member(name: &str) -> Arc<PodClique> {
    let owner = json!([{ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueScalingGroup", "name": "m-0-g",
        "uid": "u-m-0-g", "controller": true }]);
    let metadata = json!({ "name": name, "namespace": "prod", "ownerReferences": owner });
    let spec = json!({ "roleName": "p", "replicas": 3, "minAvailable": 3, "podSpec": { "containers": [] } });
    let object = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "metadata": metadata, "spec": spec });
    Arc::new(serde_json::from_value(object).expect("a clique"))
}

/// The set with this template, and with the children of the original template.
fn changed(set: &str) -> Observed {
    Observed { children: executed(new(SET)).children, ..new(set) }
}

/// The snapshot with the minima of the existing children, as `observe` takes it.
fn observed(set: &str, members: Vec<Arc<PodClique>>) -> Observed {
    let (observed, stored) = (changed(set), yaml::<PodCliqueSet>(set));
    let revision = Revision::new(observed.set.spec.template.clone(), OmittedMinima::of(&stored.spec.template));
    Observed { members, revision: Arc::new(revision), ..observed }
}

#[test]
fn changed_replicas_of_a_template_do_not_change_the_default_minima_of_existing_children() {
    for (clique, group) in [("replicas: 5", "replicas: 4"), ("replicas: 2", "replicas: 1")] {
        let set =
            SET.replace("replicas: 3", clique).replace("replicas: 2, minAvailable", &format!("{group}, minAvailable"));
        let text = plan(&observed(&set, members())).to_string();
        assert!(text.lines().all(|line| line.contains(r#"{"metadata":{"annotations":{"grove.io/scale":"#)), "{text}");
        let text = plan(&changed(&set)).to_string();
        for kind in
            ["PodGang m-0 ", "PodClique m-0-f", "HorizontalPodAutoscaler m-0-f", "HorizontalPodAutoscaler m-0-g"]
        {
            assert!(
                text.contains(&format!("patch {kind}")),
                "without the existing minima, {kind} would change:\n{text}"
            );
        }
    }
}

#[test]
fn children_that_do_not_exist_get_the_default_minima_of_the_template() {
    let set = SET.replace("replicas: 3", "replicas: 5");
    let text = plan(&observed(&set, vec![])).to_string();
    assert!(
        text.contains("gangs: patch PodGang m-0 ") && text.contains(r#"{"minReplicas":5,"name":"m-0-g-0-p""#),
        "{text}"
    );
    assert!(text.contains(r#"{"minReplicas":3,"name":"m-0-f""#), "{text}");
}

#[test]
fn a_minimum_of_the_template_applies_to_existing_children() {
    let set = SET.replace(
        "replicas: 3, autoScalingConfig: {maxReplicas: 9}",
        "replicas: 3, minAvailable: 2, autoScalingConfig: {minReplicas: 2, maxReplicas: 9}",
    );
    let text = plan(&observed(&set, members())).to_string();
    assert!(
        text.contains(r#"patch PodClique m-0-f {"spec":{"autoScalingConfig":{"minReplicas":2},"minAvailable":2}}"#),
        "{text}"
    );
    assert!(text.contains(r#"patch HorizontalPodAutoscaler m-0-f {"spec":{"minReplicas":2}}"#), "{text}");
}

#[test]
fn a_retained_minimum_of_an_autoscaler_does_not_exceed_its_maximum() {
    let set = SET.replace("maxReplicas: 9", "maxReplicas: 2").replace("maxReplicas: 8", "maxReplicas: 1");
    let text = plan(&observed(&set, members())).to_string();
    for (name, bound) in [("m-0-f", 2), ("m-0-g", 1)] {
        let change = format!(
            r#"patch HorizontalPodAutoscaler {name} {{"spec":{{"maxReplicas":{bound},"minReplicas":{bound}}}}}"#
        );
        assert!(text.contains(&change), "{text}");
    }
}

#[test]
fn a_set_with_all_minima_omits_none() {
    let omits_minima = |set: PodCliqueSet| {
        let omitted = OmittedMinima::of(&set.spec.template);
        Revision::new(set.spec.template, omitted).omits_minima()
    };
    assert!(!omits_minima(new(SET).set), "the defaults of webhook-server contain all minima");
    assert!(omits_minima(yaml(SET)));
}

#[tokio::test]
async fn the_snapshot_of_a_set_contains_the_minima_of_existing_cliques() {
    let set: Value = serde_saphyr::from_str(SET).expect("YAML");
    let mut clique = clique_of("PodCliqueSet", &set);
    (clique["metadata"]["name"], clique["spec"]["minAvailable"]) = (json!("m-0-f"), json!(2));
    let manager = manager_with([("podcliquesets", set), ("podcliques", clique)]);
    let caches = PcsCaches::start(&manager).expect("the caches");
    let ctx = Context::new(&manager, caches.clone());
    assert!(manager.wait_for_cache_sync().await);
    let observed = observe(&ctx, &yaml(SET));
    let desired = observed.replicas[0].cliques.iter().find(|clique| clique.name.as_str() == "m-0-f");
    assert_eq!(desired.expect("the clique").min_available, 2);
}
