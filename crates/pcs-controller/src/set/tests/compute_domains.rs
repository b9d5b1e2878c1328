//! The claims of compute domains in cliques, and replicas that wait for their domains.

use expect_test::{Expect, expect};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup};
use grove_controller::executor::ExecutionResult;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{change, child, executed, new, plan, status_of};
use crate::compute_domains::{AwaitedDomain, AwaitedDomains, DomainState};
use crate::set::observed::Observed;

/// A set with these annotations: one clique with GPUs, one without, and a scaling group with GPUs.
fn set(annotations: &str) -> String {
    let gpu =
        "{roleName: r, replicas: 1, podSpec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 8}}}]}}";
    format!(
        "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: llm, namespace: prod, uid: u-set, generation: 3, annotations: {{{annotations}}}}}
spec:
  replicas: 2
  template:
    cliques:
    - {{name: gpu, spec: {gpu}}}
    - {{name: cpu, spec: {{roleName: r, replicas: 1, podSpec: {{containers: [{{name: c}}]}}}}}}
    - {{name: member, spec: {gpu}}}
    podCliqueScalingGroups:
    - {{name: g, cliqueNames: [member]}}
"
    )
}

const AUTO: &str = "grove.io/auto-mnnvl: enabled";

/// The claims of the pods and of the first containers of the cliques.
fn claims(observed: &Observed) -> String {
    let line = |clique: &std::sync::Arc<PodClique>| {
        let claims = clique.spec.pod_spec.get("resourceClaims").unwrap_or_default();
        let in_container = &clique.spec.pod_spec.get("containers").unwrap_or_default()[0]["resources"]["claims"];
        format!("{}: {claims} {in_container}\n", clique.name_any())
    };
    observed.children.of_kind::<PodClique>().map(line).collect()
}

#[test]
fn cliques_with_gpus_get_the_claim_of_the_domain_of_their_replica() {
    expect![[r#"
        llm-0-cpu: null null
        llm-0-gpu: [{"name":"mnnvl-claim","resourceClaimTemplateName":"llm-0"}] [{"name":"mnnvl-claim"}]
        llm-1-cpu: null null
        llm-1-gpu: [{"name":"mnnvl-claim","resourceClaimTemplateName":"llm-1"}] [{"name":"mnnvl-claim"}]
    "#]]
    .assert_eq(&claims(&executed(new(&set(AUTO)))));
    expect![[r#"
        llm-0-cpu: null null
        llm-0-gpu: [{"name":"mnnvl-claim","resourceClaimTemplateName":"llm-0-f"}] [{"name":"mnnvl-claim"}]
        llm-1-cpu: null null
        llm-1-gpu: [{"name":"mnnvl-claim","resourceClaimTemplateName":"llm-1-f"}] [{"name":"mnnvl-claim"}]
    "#]]
    .assert_eq(&claims(&executed(new(&set("grove.io/mnnvl-group: f")))));
}

#[test]
fn a_set_without_domains_gets_no_claims() {
    let none = "llm-0-cpu: null null\nllm-0-gpu: null null\nllm-1-cpu: null null\nllm-1-gpu: null null\n";
    for annotations in ["", "grove.io/auto-mnnvl: disabled", "grove.io/mnnvl-group: none"] {
        assert_eq!(claims(&executed(new(&set(annotations)))), none, "{annotations}");
    }
}

#[test]
fn the_claim_changes_no_hash_and_causes_no_write_afterwards() {
    let with_claims = executed(new(&set(AUTO)));
    let without = executed(new(&set("")));
    for name in ["llm-0-gpu", "llm-1-cpu"] {
        let hashes = |observed: &Observed| {
            let clique = child::<PodClique>(observed, name);
            let template = clique.labels().get("grove.io/pod-template-hash").cloned();
            (template, clique.annotations().get("grove.io/podcliqueset-generation-hash").cloned())
        };
        assert_eq!(hashes(&with_claims), hashes(&without));
    }
    assert_eq!(plan(&with_claims).to_string(), "nothing to do\n");
}

#[test]
fn a_removed_claim_is_restored() {
    let mut observed = executed(new(&set(AUTO)));
    change(&mut observed, "llm-0-gpu", |clique: &mut PodClique| {
        clique.spec.pod_spec.edit(|fields| fields.remove("resourceClaims"));
    });
    check_plan(
        &observed,
        &expect![[r#"
            cliques: patch PodClique llm-0-gpu {"spec":{"podSpec":{"resourceClaims":[{"name":"mnnvl-claim","resourceClaimTemplateName":"llm-0"}]}}}
        "#]],
    );
}

#[test]
fn scaling_groups_get_the_annotation_of_the_set() {
    let annotations = |annotations: &str| -> Value {
        let observed = executed(new(&set(annotations)));
        let mut annotations = child::<PodCliqueScalingGroup>(&observed, "llm-0-g").annotations().clone();
        annotations.remove("grove.io/podcliqueset-generation-hash");
        json!(annotations)
    };
    assert_eq!(annotations(AUTO), json!({ "grove.io/auto-mnnvl": "enabled" }));
    assert_eq!(annotations("grove.io/auto-mnnvl: disabled"), json!({ "grove.io/auto-mnnvl": "disabled" }));
    assert_eq!(annotations(""), json!({}));
}

fn awaiting(replica: i32, states: &[(&str, DomainState)]) -> AwaitedDomains {
    let domain = |(name, state): &(&str, DomainState)| AwaitedDomain { name: (*name).to_owned(), state: *state };
    AwaitedDomains::from_iter([(replica, states.iter().map(domain).collect())])
}

#[track_caller]
fn check_plan(observed: &Observed, expected: &Expect) {
    expected.assert_eq(&plan(observed).to_string());
}

#[test]
fn only_the_cliques_and_groups_of_a_replica_without_its_domains_wait() {
    let mut observed = new(&set(AUTO));
    observed.awaited_domains = awaiting(1, &[("llm-1", DomainState::NotFound)]);
    check_plan(
        &observed,
        &expect![[r"
            revisions: create ControllerRevision llm-1db3977aa67d277ce
            services: create Service llm-0
            services: create Service llm-1
            gangs: create PodGang llm-0
            gangs: create PodGang llm-1
            groups: create PodCliqueScalingGroup llm-0-g
            cliques: create PodClique llm-0-gpu
            cliques: create PodClique llm-0-cpu
            wait: ComputeDomainsPending the pods of replica 1 wait for its ComputeDomains: llm-1 does not exist
            wait: ComputeDomainsPending the pods of replica 1 wait for its ComputeDomains: llm-1 does not exist
        "]],
    );
}

#[test]
fn the_condition_states_what_the_replicas_wait_for() {
    let mut observed = new(&set(AUTO));
    observed.awaited_domains = awaiting(
        0,
        &[
            ("a", DomainState::NotServed),
            ("b", DomainState::NotFound),
            ("c", DomainState::NotControlled),
            ("d", DomainState::Terminating),
            ("e", DomainState::Unprotected),
        ],
    );
    let status = status_of(&observed, &ExecutionResult::default(), Timestamp::UNIX_EPOCH);
    let available = status.conditions.iter().find(|condition| condition.type_ == "Available").expect("a condition");
    expect!["ComputeDomainsPending: 0 of 2 replicas are available; the pods wait for ComputeDomains: a does not exist, because the API server does not serve computedomains.resource.nvidia.com, b does not exist, c exists and the set does not control it, d is being deleted, e lacks the finalizer of Grove"]
    .assert_eq(&format!("{}: {}", available.reason, available.message));
}
