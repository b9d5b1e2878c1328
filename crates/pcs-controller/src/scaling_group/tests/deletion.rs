//! The cliques of a deleted group are deleted unless its deletion orphaned them.

use serde_json::{Value, json};

use super::GROUP;
use crate::informers::PcsCaches;
use crate::informers::tests::{clique_of, manager_with};
use crate::scaling_group::Context;
use crate::tests::yaml;
use grove_controller::reconciler::cleanup_plan;

#[tokio::test]
async fn the_cliques_of_a_deleted_group_stay_if_its_deletion_orphaned_them() {
    for (finalizer, deletes) in [("example.com/hold", 1), ("orphan", 0)] {
        let mut group: Value = serde_saphyr::from_str(GROUP).expect("YAML");
        let clique = clique_of("PodCliqueScalingGroup", &group);
        group["metadata"]["finalizers"] = json!([finalizer]);
        let manager = manager_with([("podcliquescalinggroups", group), ("podcliques", clique)]);
        let caches = PcsCaches::start(&manager).expect("the caches");
        let ctx = Context::new(&manager, caches.clone());
        assert!(manager.wait_for_cache_sync().await);
        // Kubernetes removes the finalizer before it deletes the group.
        let plan = cleanup_plan(&ctx, &yaml(GROUP));
        assert_eq!(plan.steps().count(), deletes, "{finalizer}: {plan}");
    }
}
