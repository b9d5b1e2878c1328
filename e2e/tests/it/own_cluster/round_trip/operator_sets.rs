//! What the sets that operators write yield: those that ask for KAI and for devices cannot run here, so all of it is there and
//! no pod starts.

use std::path::{Path, PathBuf};

use e2e::{Namespace, Plane, World, taken_up};
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use kube::ResourceExt;

use crate::it::expansion::{tell, wanted_pods};

pub(super) async fn operators_get_all_that_they_ask_for(plane: &Plane) {
    let ns = Namespace::create(&plane.client().await, "inference").await;
    for shape in ["components", "multinode"] {
        let manifest = folder("../crates/grove-api-types/tests/admission/shapes").join(shape).with_extension("yaml");
        let written = std::fs::read_to_string(manifest).expect("the manifest is there");
        // The webhook server hears of the topologies a moment after they were stored.
        taken_up::judgement(&ns, &written, None).await;
        let name = ns.create_yaml::<PodCliqueSet>(&written).await.name_any();
        let yields = ns.until("all is there, and the gangs know it", is_whole).await;
        expect_test::expect_file![folder("tests/it/own_cluster/round_trip").join(shape).with_extension("txt")]
            .assert_eq(&tell(&yields));
        ns.remove::<PodCliqueSet>(&name).await;
        ns.until("nothing is left", World::is_empty).await;
    }
}

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Whether every clique has its pods and has counted them, and the gangs refer to them all.
fn is_whole(world: &World) -> bool {
    let wanted = wanted_pods(world);
    let replicas_of = |clique: &PodClique| clique.status.as_ref().and_then(|status| status.replicas);
    let is_counted = |clique: &PodClique| replicas_of(clique).unwrap_or(0) == clique.spec.replicas;
    let is_settled = |set: &PodCliqueSet| {
        set.status.as_ref().is_some_and(|status| {
            status.observed_generation == set.metadata.generation && !status.conditions.is_empty()
        })
    };
    wanted > 0
        && world.sets.values().all(is_settled)
        && world.cliques.values().all(is_counted)
        && [world.live_pods().count(), world.references()] == [wanted; 2]
}
