//! Names that are taken: what is not ours is left alone, the set says so, and goes on once the name is free.

use e2e::{in_namespace, sets};
use grove_api_types::core::{PodClique, PodCliqueSet};
use grove_api_types::names::{PodCliqueName, PodName};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt;

#[tokio::test]
async fn a_foreign_service_of_a_childs_name_is_left_alone_and_named() {
    in_namespace("e2e-conflict-service", async |ns| {
        let foreign = "{metadata: {name: llm-0}, spec: {ports: [{port: 80}]}}";
        let uid = ns.create_yaml::<Service>(foreign).await.uid();
        ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
        let refused = |world: &e2e::World| {
            let status = world.sets.get("llm").and_then(|set| set.status.as_ref());
            let named = |status: &grove_api_types::core::PodCliqueSetStatus| {
                let condition = status.conditions.iter().find(|condition| condition.type_ == "Available");
                condition.is_some_and(|c| c.status == "False" && c.message.contains("llm-0"))
                    && status.last_errors.iter().any(|error| error.code == "NameTaken")
            };
            status.is_some_and(named)
        };
        let world = ns.until("the set names the conflict", refused).await;
        assert_eq!(world.services["llm-0"].uid(), uid);
        ns.remove::<Service>("llm-0").await;
        ns.until("the set has its own Service, and no error any more", |world| {
            let cleared = |set: &PodCliqueSet| set.status.as_ref().is_some_and(|status| status.last_errors.is_empty());
            world.is_available("llm")
                && world.sets.get("llm").is_some_and(cleared)
                && world.services.get("llm-0").is_some_and(|own| own.uid() != uid)
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_foreign_pod_of_a_pods_name_is_passed_over() {
    in_namespace("e2e-conflict-pod", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
        let world = ns.until("the frontend is there", |world| world.ready_indices("llm-0-frontend") == [0]).await;
        let clique = &world.cliques["llm-0-frontend"];
        let (name, uid) = (PodCliqueName::new(clique.name_any()), clique.uid().expect("a uid"));
        let wanted = PodName::candidates(&name, &uid, 1, None).next().expect("an endless sequence");
        let foreign = format!("{{metadata: {{name: {wanted}}}, spec: {{containers: [{{name: c, image: i}}]}}}}");
        let foreign = ns.create_yaml::<Pod>(&foreign).await;
        ns.scale::<PodClique>("llm-0-frontend", 2).await;
        let world = ns.until("a second frontend", |world| world.ready_indices("llm-0-frontend") == [0, 1]).await;
        assert_eq!(world.pods.get(wanted.as_str()).and_then(ResourceExt::uid), foreign.uid());
    })
    .await;
}
