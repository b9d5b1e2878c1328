//! The children of a deleted set are deleted unless its deletion orphaned them.

use serde_json::{Value, json};

use super::{SET, yaml};
use crate::informers::PcsCaches;
use crate::informers::tests::{clique_of, manager_with};
use crate::set::Context;
use grove_controller::reconciler::cleanup_plan;

#[tokio::test]
async fn the_children_of_a_deleted_set_stay_if_its_deletion_orphaned_them() {
    for (finalizer, deletes) in [("example.com/hold", 1), ("orphan", 0)] {
        let mut set: Value = serde_saphyr::from_str(SET).expect("YAML");
        let clique = clique_of("PodCliqueSet", &set);
        set["metadata"]["finalizers"] = json!([finalizer]);
        let manager = manager_with([("podcliquesets", set), ("podcliques", clique)]);
        let caches = PcsCaches::start(&manager).expect("the caches");
        let ctx = Context::new(&manager, caches.clone());
        assert!(manager.wait_for_cache_sync().await);
        // Kubernetes removes the finalizer before it deletes the set.
        let plan = cleanup_plan(&ctx, &yaml(SET));
        assert_eq!(plan.steps().count(), deletes, "{finalizer}: {plan}");
    }
}
