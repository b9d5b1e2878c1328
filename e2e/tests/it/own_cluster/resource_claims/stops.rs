//! Each of the two controllers is stopped while a user changes something, and started again.

use futures::future::join_all;

use super::faults::{
    EDITED, deleted_claims_are_created_again, deleted_claims_without_pods_are_created_again, edit_labels, remove_owner,
    wait_until_restored,
};
use super::templates::a_template_is_missing_changed_and_deleted;
use super::*;

pub(super) async fn each_step_completes_after_a_stop(cluster: &TestCluster) {
    join_all(SERVICES.map(|service| async move {
        tokio::join!(
            the_steps_of_a_set_complete(cluster, service),
            a_template_is_missing_changed_and_deleted(cluster, Some(service)),
            deleted_claims_are_created_again(cluster, Some(service)),
            deleted_claims_without_pods_are_created_again(cluster, Some(service)),
        );
    }))
    .await;
}

async fn the_steps_of_a_set_complete(cluster: &TestCluster, service: &str) {
    let fixture = Fixture::create(cluster, &format!("e2e-claims-stop-{service}")).await;
    let stopped = Stopped { cluster, service, fixture: &fixture };
    stopped.create_and_scale_out().await;
    stopped.edit_and_delete_a_clique().await;
    stopped.scale_in_and_delete().await;
    fixture.check_lifetime().await;
}

struct Stopped<'a> {
    cluster: &'a TestCluster,
    service: &'a str,
    fixture: &'a Fixture,
}

impl Stopped<'_> {
    /// Runs the step while the service is stopped.
    async fn during_stop(&self, step: impl Future<Output = ()>) {
        self.cluster.during_stop(self.service, step).await;
    }

    async fn wait_for_sizes(&self, sizes: &[(i32, i32)]) -> Vec<ResourceClaim> {
        self.fixture.ns.wait_for_ready_pods("llm", pod_count(sizes)).await;
        self.fixture.wait_for_claims("llm", &names_of_claims("llm", sizes)).await
    }

    async fn scale(&self, replicas: i32, pods: i32, groups: i32) {
        let ns = &self.fixture.ns;
        ns.scale::<PodCliqueSet>("llm", replicas).await;
        ns.scale::<PodClique>("llm-0-front", pods).await;
        ns.scale::<PodCliqueScalingGroup>("llm-0-g", groups).await;
    }

    async fn create_and_scale_out(&self) {
        self.during_stop(async { drop(self.fixture.ns.create_yaml::<PodCliqueSet>(&set("llm")).await) }).await;
        self.wait_for_sizes(&[(2, 2)]).await;
        self.during_stop(self.scale(2, 3, 3)).await;
        self.wait_for_sizes(&[(3, 3), (2, 2)]).await;
    }

    async fn edit_and_delete_a_clique(&self) {
        let before = self.wait_for_sizes(&[(3, 3), (2, 2)]).await;
        let edits = async {
            for (at, (claim, label)) in EDITED.into_iter().enumerate() {
                if at == 0 {
                    remove_owner(self.fixture, claim).await;
                } else {
                    edit_labels(self.fixture, claim, label).await;
                }
            }
            self.fixture.ns.delete_object::<PodClique>("llm-1-front").await;
        };
        self.during_stop(edits).await;
        for (claim, _) in EDITED {
            wait_until_restored(self.fixture, &before, claim).await;
        }
        let is_new = |name: &str, claims: &[ResourceClaim]| uid_of(claims, name) != uid_of(&before, name);
        let name = "llm-1-front-all-gpus";
        poll_until(async || is_new(name, &self.fixture.claims_of("llm").await?).then_some(())).await;
        let after = self.wait_for_sizes(&[(3, 3), (2, 2)]).await;
        assert!(is_new(name, &after) && !is_new("llm-1-net", &after), "{after:?}");
    }

    async fn scale_in_and_delete(&self) {
        self.during_stop(self.scale(1, 1, 1)).await;
        self.wait_for_sizes(&[(1, 1)]).await;
        self.during_stop(self.fixture.ns.delete_object::<PodCliqueSet>("llm")).await;
        self.fixture.wait_until_nothing_is_left().await;
    }
}
