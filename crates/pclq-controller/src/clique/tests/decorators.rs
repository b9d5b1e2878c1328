//! The parts that Grove adds to pods, and the hash of the pod template.

use grove_api_types::hash;
use grove_api_types::v1alpha1::PodCliqueTemplateSpec;
use serde_json::{Map, json};

use super::snapshot;
use crate::clique::desired::{Add, CommonParts, DECORATORS, OwnParts, PodsOfClique};

/// Each part has an effect on the first pod of this clique.
const ROW: &str = "
annotations: {grove.io/pod-group: llm-0-17, grove.io/podcliqueset-first-pod: 'true',
  grove.io/pack-affinity: '{\"preferred\":[{\"scope\":\"gang\",\"key\":\"block\"}]}'}
podSpec: {containers: [{name: main}]}
claims: {own: [{t: shared}, {t: gpus, per: true}]}
startup: {image: i, parents: [{name: a, required: 1}]}
";
const HASH: &str = "grove.io/pod-template-hash";

/// The hash of a template that contains these parts.
fn hash_of(parts: &CommonParts) -> String {
    let CommonParts { labels, annotations, spec } = parts;
    let mut labels = labels.clone();
    labels.remove(HASH);
    let spec = json!({ "roleName": "decode", "podSpec": spec });
    let template = json!({ "name": "decode", "labels": labels, "annotations": annotations, "spec": spec });
    hash::pod_template(&serde_json::from_value::<PodCliqueTemplateSpec>(template).unwrap(), "")
}

/// pcs-controller stores the hash of the template of the user in a label of the clique, which pods inherit.
#[test]
fn the_hash_of_a_pod_contains_exactly_the_parts_that_the_list_says() {
    let mut observed = snapshot(ROW);
    let hash = hash_of(&CommonParts::of(&observed.clique));
    observed.clique.metadata.labels.as_mut().unwrap().insert(HASH.to_owned(), hash);
    let identity = observed.identity().unwrap();
    for decorator in DECORATORS {
        let mut parts = CommonParts::of(&observed.clique);
        match decorator.add {
            Add::All(add) => add(&mut parts, &observed, &identity),
            Add::Gated(add) => add(&mut parts.spec),
            Add::Each(add) => {
                let mut pod = OwnParts { labels: parts.labels, fields: Map::new(), spec: parts.spec.into() };
                add(&mut pod, &PodsOfClique::of(&observed), 0);
                let mut spec = pod.spec.fields();
                spec.extend(pod.fields);
                parts = CommonParts { labels: pod.labels, spec, ..parts };
            }
        }
        assert_eq!(parts.labels[HASH] == hash_of(&parts), decorator.is_hashed, "{}", decorator.name);
    }
}
