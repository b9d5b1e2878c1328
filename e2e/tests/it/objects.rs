//! A set yields exactly the objects of the wire format.

use e2e::{Namespace, World, in_namespace, sets, shown};
use expect_test::expect;
use grove_api_types::v1alpha1::PodCliqueSet;

use crate::it::composition::each_group_refers_to_the_pods_of_its_clique;

#[tokio::test]
async fn two_replicas_of_three_cliques_create_exactly_these_objects() {
    in_namespace("e2e-objects", async |ns| {
        let world = available(ns, "llm", 2).await;
        names(&world).assert();
        let clique = shown::object(&world.cliques["llm-1-decode"], &["spec"]);
        expect_file("clique", &clique);
        expect_file("service", &shown::object(&world.services["llm-1"], &["spec"]));
        expect_file("gang", &shown::with_references_counted(&shown::object(&world.gangs["llm-1"], &["spec"])));
        let pod =
            world.live_pods().find(|pod| shown::hostname(pod) == "llm-1-decode-1").expect("the second decode pod");
        expect_file("pod", &shown::object(pod, &[]));
        expect_file("pod-spec", &shown::pod_spec(pod));
    })
    .await;
}

#[tokio::test]
async fn a_pod_gang_references_each_of_its_pods() {
    in_namespace("e2e-references", async |ns| {
        let world = available(ns, "llm", 1).await;
        each_group_refers_to_the_pods_of_its_clique(&world);
        let gang = &world.gangs["llm-0"];
        let groups = gang.spec.podgroups.iter().map(|group| (group.name.clone(), group.pod_references.len()));
        let expected = [("llm-0-frontend", 1), ("llm-0-prefill", 2), ("llm-0-decode", 2)];
        assert_eq!(groups.collect::<Vec<_>>(), expected.map(|(name, pods)| (name.to_owned(), pods)));
    })
    .await;
}

async fn available(ns: &Namespace, name: &str, replicas: i32) -> World {
    ns.create_yaml::<PodCliqueSet>(&sets::three_cliques(name, replicas)).await;
    let pods = usize::try_from(replicas).expect("not negative") * 5;
    ns.until("all pods are ready and referred to", |world| {
        world.is_available(name)
            && world.live_pods().filter(|pod| e2e::world::is_ready(pod)).count() == pods
            && world.references() == pods
    })
    .await
}

struct Names(String);

impl Names {
    fn assert(&self) {
        expect![[r"
            sets: llm
            cliques: llm-0-decode llm-0-frontend llm-0-prefill llm-1-decode llm-1-frontend llm-1-prefill
            gangs: llm-0 llm-1
            services: llm-0 llm-1
            hosts: llm-0-decode-0 llm-0-decode-1 llm-0-frontend-0 llm-0-prefill-0 llm-0-prefill-1 llm-1-decode-0 llm-1-decode-1 llm-1-frontend-0 llm-1-prefill-0 llm-1-prefill-1
        "]]
        .assert_eq(&self.0);
    }
}

fn names(world: &World) -> Names {
    let joined = |names: Vec<&str>| names.join(" ");
    let mut hosts: Vec<_> = world.pods.values().map(shown::hostname).collect();
    hosts.sort_unstable();
    Names(format!(
        "sets: {}\ncliques: {}\ngangs: {}\nservices: {}\nhosts: {}\n",
        joined(world.sets.keys().map(String::as_str).collect()),
        joined(world.cliques.keys().map(String::as_str).collect()),
        joined(world.gangs.keys().map(String::as_str).collect()),
        joined(world.services.keys().map(String::as_str).collect()),
        joined(hosts),
    ))
}

#[track_caller]
fn expect_file(name: &str, actual: &str) {
    let file = expect_test::expect_file![format!("{}/tests/it/objects/{name}.json", env!("CARGO_MANIFEST_DIR"))];
    file.assert_eq(&format!("{actual}\n"));
}
