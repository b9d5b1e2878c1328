//! When claims are deleted: after a scale-in, of a terminating clique, and what a scale-out within the same time waits for.

#![allow(clippy::needless_raw_string_hashes, reason = "expect_test writes them")]

use std::sync::Arc;

use expect_test::expect;
use grove_api_types::names::PodCliqueName;
use grove_runtime::caches::UnreadableObject;

use super::{check, snapshot};
use crate::claims::pod_index_of_claim;

#[test]
fn the_claim_of_a_removed_index_stays_while_a_live_pod_uses_it() {
    check(
        "{replicas: 1, gang: [a, b], pods: [{i: 0, name: a, bound: true}, {i: 1, name: b, bound: true}],
          claims: {own: [{t: gpus, per: true}], existing: [{name: 0-gpus, allocated: true}, {name: 1-gpus, allocated: true}], retired: [1-gpus]}}",
        &expect![[r"
            pods: delete Pod ~-b
        "]],
    );
}

#[test]
fn the_deletion_of_an_allocated_claim_begins_when_its_pods_are_terminating() {
    check(
        "{replicas: 1, gang: [a], pods: [{i: 0, name: a, bound: true}, {i: 1, name: b, bound: true, terminating: true}],
          claims: {own: [{t: gpus, per: true}], existing: [{name: 0-gpus, allocated: true}, {name: 1-gpus, allocated: true}], retired: [1-gpus]}}",
        &expect![[r"
            scale-in: delete ResourceClaim ~-1-gpus
        "]],
    );
}

/// Kubernetes would delete such a claim at once.
#[test]
fn a_claim_that_kubernetes_does_not_retain_is_deleted_after_its_last_pod() {
    let row = |pod: &str, claim: &str| {
        format!(
            "{{replicas: 0, gang: [], pods: [{pod}], claims: {{own: [{{t: gpus, per: true}}], existing: [{{name: 0-gpus{claim}}}], retired: [0-gpus]}}}}"
        )
    };
    let waits = expect![[r"
        nothing to do
    "]];
    for (pod, claim) in [
        ("{i: 0, name: a, bound: true, terminating: true}", ""),
        ("{i: 0, name: a, terminating: true}", ", allocated: true"),
        ("{i: 0, name: a, bound: true, terminating: true, phase: Succeeded}", ", allocated: true"),
        ("{i: 0, name: a, bound: true, terminating: true, phase: Failed}", ", allocated: true"),
        ("{name: a, host: none, terminating: true}", ", allocated: true"),
    ] {
        check(&row(pod, claim), &waits);
    }
    check(
        &row("", ""),
        &expect![[r"
        scale-in: delete ResourceClaim ~-0-gpus
    "]],
    );
    check(
        &row("{i: 1, name: a, terminating: true}", ""),
        &expect![[r"
        scale-in: delete ResourceClaim ~-0-gpus
    "]],
    );
}

#[test]
fn a_scale_out_waits_for_the_deletion_of_the_claim_of_the_removed_index() {
    let row = |pods: &str, claim: &str| {
        format!(
            "{{replicas: 2, gang: [a], pods: [{{i: 0, name: a, bound: true}}{pods}], claims: {{own: [{{t: gpus, per: true}}],
               existing: [{{name: 0-gpus}}, {{name: 1-gpus{claim}}}], retired: [1-gpus]}}}}"
        )
    };
    check(
        &row(", {i: 1, name: b, terminating: true, bound: true}", ", allocated: true"),
        &expect![[r"
        scale-in: delete ResourceClaim ~-1-gpus
        wait: ResourceClaimTerminating these ResourceClaims are deleted once no pod uses them; new pods wait for their successors: ~-1-gpus
    "]],
    );
    check(
        &row(", {i: 1, name: b, terminating: true, bound: true}", ", terminating: true"),
        &expect![[r"
        wait: ResourceClaimTerminating these ResourceClaims are deleted once no pod uses them; new pods wait for their successors: ~-1-gpus
    "]],
    );
    check(
        &row("", ""),
        &expect![[r"
        scale-in: delete ResourceClaim ~-1-gpus
        wait: ResourceClaimTerminating these ResourceClaims are deleted once no pod uses them; new pods wait for their successors: ~-1-gpus
    "]],
    );
}

#[test]
fn a_claim_that_the_annotation_does_not_contain_stays() {
    check(
        "{replicas: 1, gang: [a], pods: [{i: 0, name: a, bound: true}], claims: {own: [{t: gpus, per: true}],
          existing: [{name: 0-gpus}, {name: all-other}, {name: 0-other}]}}",
        &expect![[r"
            nothing to do
        "]],
    );
}

#[test]
fn the_claims_of_a_terminating_clique_are_deleted_when_no_live_pod_uses_them() {
    let row = |pods: &str| {
        format!(
            "{{terminating: true, replicas: 2, pods: [{pods}], claims: {{own: [{{t: shared}}, {{t: gpus, per: true}}],
               existing: [{{name: all-shared, allocated: true}}, {{name: 0-gpus, allocated: true}}, {{name: 1-gpus}}]}}}}"
        )
    };
    check(
        &row("{i: 0, name: a, bound: true}"),
        &expect![[r"
        resource-claims: delete ResourceClaim ~-1-gpus at version 3
        pods: delete Pod ~-a
    "]],
    );
    check(
        &row("{i: 0, name: a, bound: true, terminating: true}, {i: 1, name: b, bound: true}"),
        &expect![[r"
        resource-claims: delete ResourceClaim ~-0-gpus at version 3
        pods: delete Pod ~-b
    "]],
    );
    check(
        &row("{i: 0, name: a, bound: true, terminating: true}"),
        &expect![[r"
        resource-claims: delete ResourceClaim ~-0-gpus at version 3
        resource-claims: delete ResourceClaim ~-1-gpus at version 3
        resource-claims: delete ResourceClaim ~-all-shared at version 3
    "]],
    );
    let orphaned = row("").replace("terminating: true, replicas", "terminating: true, orphansPods: true, replicas");
    check(
        &orphaned,
        &expect![[r"
        nothing to do
    "]],
    );
}

/// A created pod may exist although the cache does not show it.
#[test]
fn a_claim_stays_while_the_watch_event_of_its_pod_is_pending() {
    let mut observed = snapshot(
        "{replicas: 0, gang: [], claims: {own: [{t: gpus, per: true}], existing: [{name: 0-gpus}], retired: [0-gpus]}}",
    );
    let deletable = |observed: &crate::clique::observed::Observed| observed.claims.deletable(observed).count();
    assert_eq!(deletable(&observed), 1);
    observed.own_writes.created_names.insert(0, "p".to_owned());
    let pending = grove_controller::expectations::ChildKey { kind: "Pod".to_owned(), name: "p".to_owned() };
    observed.pending_creates.children.push(pending);
    assert_eq!(deletable(&observed), 0);
}

/// A pod that cannot be decoded may use any claim.
#[test]
fn claims_stay_while_a_pod_of_the_clique_is_unreadable() {
    let mut observed = snapshot(
        "{replicas: 0, gang: [], claims: {own: [{t: gpus, per: true}], existing: [{name: 0-gpus}], retired: [0-gpus]}}",
    );
    observed.unreadable_pods = vec![Arc::new(UnreadableObject::default())];
    assert_eq!(observed.claims.deletable(&observed).count(), 0);
}

#[test]
fn the_name_of_a_claim_shows_the_index_of_its_pod() {
    let index = |claim: &str| pod_index_of_claim(&PodCliqueName::new("c"), claim);
    for (claim, expected) in [
        ("c-0-gpus", Some(0)),
        ("c-12-a-3-b", Some(12)),
        ("c-all-gpus", None),
        ("c-all-3-gpus", None),
        ("c-01-gpus", None),
        ("c--1-gpus", None),
        ("c-0", None),
        ("cc-0-gpus", None),
        ("d-0-gpus", None),
    ] {
        assert_eq!(index(claim), expected, "{claim}");
    }
}
