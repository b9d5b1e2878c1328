//! The requests of one daemon from its start to its end, with each strategy.

use expect_test::{Expect, expect};
use grove_api_types::compute_domain::request::{Request, Verb};
use grove_api_types::compute_domain::strategy::Strategy;

use super::world::{Step, World};

/// A request in one line.
fn line(request: &Request) -> String {
    let verb = match &request.verb {
        Verb::Get => "GET".to_owned(),
        Verb::Create => "POST".to_owned(),
        Verb::Replace => "PUT".to_owned(),
        Verb::Apply { field_manager, force } => format!("APPLY as {field_manager}, force={force}"),
        Verb::MergePatch => "MERGE".to_owned(),
    };
    let Request { target, namespace, name, body, .. } = request;
    format!("{verb} {target:?} {namespace}/{name}\n    {body}\n")
}

/// The requests of the only daemon of a domain after its label: it registers, becomes ready, and ends.
fn requests(strategy: Strategy) -> String {
    let mut world = World::new(strategy, 1, 0);
    let mut requests = String::new();
    let mut run = |world: &mut World| {
        while let Some(step) = world.steps().first().copied() {
            if step == Step::Execute(0) {
                requests.push_str(&line(world.nodes[0].request.as_ref().unwrap()));
            }
            world.take(step);
        }
    };
    run(&mut world);
    world.stop(0);
    run(&mut world);
    requests
}

#[test]
fn read_modify_write_on_the_status_replaces_it_three_times() {
    check(
        Strategy::RmwStatus,
        &expect![[r#"
            PUT DomainStatus team/llm-0
                {"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomain","metadata":{"name":"llm-0","namespace":"team","resourceVersion":"1","uid":"uid-of-domain"},"status":{"nodes":[{"cliqueID":"fabric.7","index":0,"ipAddress":"10.0.0.0","name":"node-0","status":"NotReady"}]}}
            PUT DomainStatus team/llm-0
                {"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomain","metadata":{"name":"llm-0","namespace":"team","resourceVersion":"2","uid":"uid-of-domain"},"status":{"nodes":[{"cliqueID":"fabric.7","index":0,"ipAddress":"10.0.0.0","name":"node-0","status":"Ready"}]}}
            PUT DomainStatus team/llm-0
                {"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomain","metadata":{"name":"llm-0","namespace":"team","resourceVersion":"3","uid":"uid-of-domain"},"status":{}}
        "#]],
    );
}

#[test]
fn server_side_apply_on_the_status_applies_the_own_entry_three_times() {
    check(
        Strategy::SsaStatus,
        &expect![[r#"
        APPLY as cd-writer-node-0, force=false DomainStatus team/llm-0
            {"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomain","status":{"nodes":[{"cliqueID":"fabric.7","index":0,"ipAddress":"10.0.0.0","name":"node-0","status":"NotReady"}]}}
        APPLY as cd-writer-node-0, force=false DomainStatus team/llm-0
            {"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomain","status":{"nodes":[{"cliqueID":"fabric.7","index":0,"ipAddress":"10.0.0.0","name":"node-0","status":"Ready"}]}}
        APPLY as cd-writer-node-0, force=false DomainStatus team/llm-0
            {"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomain","status":{"nodes":[]}}
    "#]],
    );
}

#[test]
fn read_modify_write_on_the_clique_creates_it_and_replaces_it_three_times() {
    check(
        Strategy::RmwClique,
        &expect![[r#"
            POST Clique grove-system/uid-of-domain.fabric.7
                {"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomainClique","metadata":{"labels":{"resource.nvidia.com/computeDomain":"uid-of-domain","resource.nvidia.com/computeDomain.cliqueID":"fabric.7"},"name":"uid-of-domain.fabric.7","namespace":"grove-system","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"daemon-0-0","uid":"uid-0-0"}]}}
            PUT Clique grove-system/uid-of-domain.fabric.7
                {"apiVersion":"resource.nvidia.com/v1beta1","daemons":[{"cliqueID":"fabric.7","index":0,"ipAddress":"10.0.0.0","nodeName":"node-0","status":"NotReady"}],"kind":"ComputeDomainClique","metadata":{"labels":{"resource.nvidia.com/computeDomain":"uid-of-domain","resource.nvidia.com/computeDomain.cliqueID":"fabric.7"},"name":"uid-of-domain.fabric.7","namespace":"grove-system","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"daemon-0-0","uid":"uid-0-0"}],"resourceVersion":"2","uid":"uid-of-clique"}}
            PUT Clique grove-system/uid-of-domain.fabric.7
                {"apiVersion":"resource.nvidia.com/v1beta1","daemons":[{"cliqueID":"fabric.7","index":0,"ipAddress":"10.0.0.0","nodeName":"node-0","status":"Ready"}],"kind":"ComputeDomainClique","metadata":{"labels":{"resource.nvidia.com/computeDomain":"uid-of-domain","resource.nvidia.com/computeDomain.cliqueID":"fabric.7"},"name":"uid-of-domain.fabric.7","namespace":"grove-system","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"daemon-0-0","uid":"uid-0-0"}],"resourceVersion":"3","uid":"uid-of-clique"}}
            PUT Clique grove-system/uid-of-domain.fabric.7
                {"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomainClique","metadata":{"labels":{"resource.nvidia.com/computeDomain":"uid-of-domain","resource.nvidia.com/computeDomain.cliqueID":"fabric.7"},"name":"uid-of-domain.fabric.7","namespace":"grove-system","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"daemon-0-0","uid":"uid-0-0"}],"resourceVersion":"4","uid":"uid-of-clique"}}
        "#]],
    );
}

#[test]
fn server_side_apply_on_the_clique_applies_four_times() {
    check(
        Strategy::SsaClique,
        &expect![[r#"
        APPLY as cd-daemon-node-0, force=false Clique grove-system/uid-of-domain.fabric.7
            {"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomainClique","metadata":{"labels":{"resource.nvidia.com/computeDomain":"uid-of-domain","resource.nvidia.com/computeDomain.cliqueID":"fabric.7"},"name":"uid-of-domain.fabric.7","namespace":"grove-system","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"daemon-0-0","uid":"uid-0-0"}]}}
        APPLY as cd-daemon-node-0, force=false Clique grove-system/uid-of-domain.fabric.7
            {"apiVersion":"resource.nvidia.com/v1beta1","daemons":[{"cliqueID":"fabric.7","index":0,"ipAddress":"10.0.0.0","nodeName":"node-0","status":"NotReady"}],"kind":"ComputeDomainClique","metadata":{"labels":{"resource.nvidia.com/computeDomain":"uid-of-domain","resource.nvidia.com/computeDomain.cliqueID":"fabric.7"},"name":"uid-of-domain.fabric.7","namespace":"grove-system","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"daemon-0-0","uid":"uid-0-0"}]}}
        APPLY as cd-daemon-node-0, force=false Clique grove-system/uid-of-domain.fabric.7
            {"apiVersion":"resource.nvidia.com/v1beta1","daemons":[{"cliqueID":"fabric.7","index":0,"ipAddress":"10.0.0.0","nodeName":"node-0","status":"Ready"}],"kind":"ComputeDomainClique","metadata":{"labels":{"resource.nvidia.com/computeDomain":"uid-of-domain","resource.nvidia.com/computeDomain.cliqueID":"fabric.7"},"name":"uid-of-domain.fabric.7","namespace":"grove-system","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"daemon-0-0","uid":"uid-0-0"}]}}
        APPLY as cd-daemon-node-0, force=false Clique grove-system/uid-of-domain.fabric.7
            {"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomainClique","metadata":{"labels":{"resource.nvidia.com/computeDomain":"uid-of-domain","resource.nvidia.com/computeDomain.cliqueID":"fabric.7"},"name":"uid-of-domain.fabric.7","namespace":"grove-system","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"daemon-0-0","uid":"uid-0-0"}]}}
    "#]],
    );
}

#[test]
fn with_the_controller_as_only_writer_a_daemon_writes_only_its_pod() {
    check(
        Strategy::ControllerClique,
        &expect![[r#"
        MERGE Pod grove-system/daemon-0-0
            {"metadata":{"annotations":{"grove.io/compute-domain-index":"0"},"uid":"uid-0-0"}}
        GET Clique grove-system/uid-of-domain.fabric.7
            null
    "#]],
    );
}

fn check(strategy: Strategy, expected: &Expect) {
    expected.assert_eq(&requests(strategy));
}
