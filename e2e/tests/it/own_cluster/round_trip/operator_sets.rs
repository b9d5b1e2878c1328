//! Sets as other operators write them. This cluster has GPUs and no KAI, so the pods of KAI do not start, and those of the default scheduler do.

use std::path::{Path, PathBuf};

use e2e::{Namespace, NamespaceState, TestCluster, propagation};
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use grove_dev_harness::devices::GPUS;
use kube::ResourceExt;

use crate::it::expansion::{describe, desired_pods};

pub(super) async fn operator_sets_are_expanded(cluster: &TestCluster) {
    let client = cluster.client().await;
    GPUS.install(&client, 8).await.expect("the GPUs");
    let ns = Namespace::create(&client, "inference").await;
    for (shape, is_available) in [("components", "False"), ("multinode", "True")] {
        let manifest = folder("../crates/grove-api-types/tests/admission/examples").join(shape).with_extension("yaml");
        let written = std::fs::read_to_string(manifest).expect("the manifest");
        // The webhook server reads topologies from a cache, which may lack a topology that was just stored.
        propagation::wait_for_dry_run_create(&ns, &written, None).await;
        let name = ns.create_yaml::<PodCliqueSet>(&written).await.name_any();
        let is_complete = |state: &NamespaceState| is_complete(state, is_available);
        let state = ns.wait_for("all objects exist, and the PodGangs reference all pods", is_complete).await;
        expect_test::expect_file![folder("tests/it/own_cluster/round_trip").join(shape).with_extension("txt")]
            .assert_eq(&describe(&state));
        ns.delete_object::<PodCliqueSet>(&name).await;
        ns.wait_for("no objects exist", NamespaceState::is_empty).await;
    }
}

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Whether all pods exist, the statuses of the cliques count them, `PodGang`s reference all of them, and the condition `Available` of the
/// set has its last status.
fn is_complete(state: &NamespaceState, is_available: &str) -> bool {
    let desired = desired_pods(state);
    let replicas_of = |clique: &PodClique| clique.status.as_ref().and_then(|status| status.replicas);
    let has_current_count = |clique: &PodClique| replicas_of(clique).unwrap_or(0) == clique.spec.replicas;
    let has_status = |set: &PodCliqueSet| {
        set.status.as_ref().is_some_and(|status| {
            let mut conditions = status.conditions.iter();
            let is_last =
                conditions.any(|condition| condition.type_ == "Available" && condition.status == is_available);
            status.observed_generation == set.metadata.generation && is_last
        })
    };
    desired > 0
        && state.sets.values().all(has_status)
        && state.cliques.values().all(has_current_count)
        && [state.active_pods().count(), state.reference_count()] == [desired; 2]
}
