//! Grove creates exactly the objects of the wire format for a set.

use e2e::{Namespace, NamespaceState, fixtures, in_namespace, snapshot};
use expect_test::expect;
use grove_api_types::v1alpha1::PodCliqueSet;

use crate::it::composition::assert_pod_references;

#[tokio::test]
async fn two_replicas_of_three_cliques_create_exactly_these_objects() {
    in_namespace("e2e-objects", async |ns| {
        let state = create_set(ns, "llm", 2).await;
        names(&state).assert();
        let clique = snapshot::object(&state.cliques["llm-1-decode"], &["spec"]);
        expect_file("clique", &clique);
        expect_file("service", &snapshot::object(&state.services["llm-1"], &["spec"]));
        expect_file("gang", &snapshot::with_reference_counts(&snapshot::object(&state.gangs["llm-1"], &["spec"])));
        let pod = state
            .active_pods()
            .find(|pod| snapshot::hostname(pod) == "llm-1-decode-1")
            .expect("the decode pod with index 1");
        expect_file("pod", &snapshot::object(pod, &[]));
        expect_file("pod-spec", &snapshot::pod_spec(pod));
    })
    .await;
}

#[tokio::test]
async fn a_pod_gang_references_each_of_its_pods() {
    in_namespace("e2e-objects-references", async |ns| {
        let state = create_set(ns, "llm", 1).await;
        assert_pod_references(&state);
        let gang = &state.gangs["llm-0"];
        let groups = gang.spec.podgroups.iter().map(|group| (group.name.clone(), group.pod_references.len()));
        let expected = [("llm-0-frontend", 1), ("llm-0-prefill", 2), ("llm-0-decode", 2)];
        assert_eq!(groups.collect::<Vec<_>>(), expected.map(|(name, pods)| (name.to_owned(), pods)));
    })
    .await;
}

async fn create_set(ns: &Namespace, name: &str, replicas: i32) -> NamespaceState {
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques(name, replicas)).await;
    let pods = usize::try_from(replicas).expect("not negative") * 5;
    ns.wait_for("all pods are ready and have a reference in a PodGang", |state| {
        state.is_available(name)
            && state.active_pods().filter(|pod| e2e::namespace_state::is_ready(pod)).count() == pods
            && state.reference_count() == pods
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

fn names(state: &NamespaceState) -> Names {
    let joined = |names: Vec<&str>| names.join(" ");
    let mut hosts: Vec<_> = state.pods.values().map(snapshot::hostname).collect();
    hosts.sort_unstable();
    Names(format!(
        "sets: {}\ncliques: {}\ngangs: {}\nservices: {}\nhosts: {}\n",
        joined(state.sets.keys().map(String::as_str).collect()),
        joined(state.cliques.keys().map(String::as_str).collect()),
        joined(state.gangs.keys().map(String::as_str).collect()),
        joined(state.services.keys().map(String::as_str).collect()),
        joined(hosts),
    ))
}

#[track_caller]
fn expect_file(name: &str, actual: &str) {
    let file = expect_test::expect_file![format!("{}/tests/it/objects/{name}.json", env!("CARGO_MANIFEST_DIR"))];
    file.assert_eq(&format!("{actual}\n"));
}
