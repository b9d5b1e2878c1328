//! Tenants that need memory: claims that are named but not created, and pod specs of small maps.

use e2e::{Namespace, NamespaceState};
use grove_api_types::labels;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::it::rejected_creates::{CLAIMS, PODS, create_empty_quota};

/// The clique with many claims per pod, which belongs to no set.
const CLIQUE: &str = "hostile-0-a";
/// So many pods of the clique need more claims than a clique may have.
const TOO_MANY_PODS: usize = 7000;
/// The largest number of pods and claims of a clique.
const MAX_OBJECTS: usize = 100_000;
/// The cliques of a dense set, and the tolerations of each: 62,000 maps in 0.8 MB.
const DENSE_CLIQUES: usize = 62;
const TOLERATIONS: usize = 1000;

/// Creates a quota that allows no claim, and the clique with its list of claims. Admission limits the claims of a set, and a user may
/// create a `PodClique`, too.
pub(super) async fn create_clique(ns: &Namespace, claims: usize) {
    create_empty_quota(ns, CLAIMS).await;
    let spec =
        json!({ "spec": { "devices": { "requests": [{ "name": "gpu", "exactly": { "deviceClassName": "gpu" } }] } } });
    let claim = |at: usize| json!({ "template": format!("t-{at}"), "scope": "PerReplica", "templateSpec": spec });
    let claims = json!({ "claims": (0..claims).map(claim).collect::<Vec<_>>() });
    let metadata = json!({
        "name": CLIQUE,
        "labels": { labels::PART_OF: "hostile", labels::SET_REPLICA: "0", labels::POD_GANG: "hostile-0" },
        "annotations": { labels::RESOURCE_CLAIMS: claims.to_string() },
    });
    let pod_spec = json!({ "containers": [{ "name": "main", "image": "pause" }] });
    let spec = json!({ "roleName": "a", "replicas": 1, "minAvailable": 1, "podSpec": pod_spec });
    let clique: PodClique = serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).expect("a clique");
    ns.api::<PodClique>().create(&PostParams::default(), &clique).await.expect("the clique is created");
}

/// Scales the clique to more claims than a clique may have, and to as many as it may have.
pub(super) async fn scale_clique(ns: &Namespace, claims: usize) {
    for pods in [TOO_MANY_PODS, MAX_OBJECTS / (claims + 1)] {
        let scale = Patch::Merge(json!({ "spec": { "replicas": pods } }));
        ns.api::<PodClique>().patch(CLIQUE, &PatchParams::default(), &scale).await.expect("the clique is scaled");
    }
}

/// Creates a quota that allows no pod, and the sets, and waits until their cliques exist.
pub(super) async fn create_dense_sets(ns: &Namespace, sets: usize) {
    create_empty_quota(ns, PODS).await;
    for number in 0..sets {
        let name = format!("dense-{number}");
        let spec = json!({ "replicas": 1, "template": { "cliques": dense_cliques(&name) } });
        let set = json!({ "metadata": { "name": name }, "spec": spec });
        let set: PodCliqueSet = serde_json::from_value(set).expect("a set");
        let created = ns.api::<PodCliqueSet>().create(&PostParams::default(), &set).await;
        // An earlier attempt, to which the API server responded too late, may have been stored.
        let exists = matches!(&created, Err(kube::Error::Api(status)) if status.is_already_exists());
        assert!(created.is_ok() || exists, "{created:?}");
    }
    let exist = |state: &NamespaceState| state.cliques.len() == sets * DENSE_CLIQUES;
    ns.wait_for("all cliques of the dense sets exist", exist).await;
}

/// The cliques of a set. No two pod specs are equal, because services share the memory of equal ones.
fn dense_cliques(key: &str) -> Vec<Value> {
    let clique = |at: usize| {
        let name = format!("c-{at}");
        let mut tolerations = vec![json!({ "key": "a" }); TOLERATIONS];
        tolerations.push(json!({ "key": format!("{key}-{name}") }));
        let pod_spec = json!({ "containers": [{ "name": "main", "image": "pause" }], "tolerations": tolerations });
        json!({ "name": name, "spec": { "roleName": name, "replicas": 1, "minAvailable": 1, "podSpec": pod_spec } })
    };
    (0..DENSE_CLIQUES).map(clique).collect()
}

/// Changes all pod specs of one set.
pub(super) async fn change_dense_set(ns: &Namespace, sets: usize, round: usize) {
    let (name, key) = (format!("dense-{}", round % sets), format!("changed-{round}"));
    let change = Patch::Merge(json!({ "spec": { "template": { "cliques": dense_cliques(&key) } } }));
    let changed = ns.api::<PodCliqueSet>().patch(&name, &PatchParams::default(), &change).await;
    changed.expect("the set is changed");
}
