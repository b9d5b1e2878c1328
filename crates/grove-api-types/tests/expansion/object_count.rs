//! The number of objects of a set equals the number of objects of its expansion.

use grove_api_types::expansion::object_count;
use grove_api_types::expansion::{CurrentScale, Gang, SetReplica};
use grove_api_types::scheduler_v1alpha1::{GangPodGroup, NamespacedName, PodGang, PodGangSpec};
use grove_api_types::v1alpha1::{
    PcsResourceSharingSpec, PcsgResourceSharingSpec, PodCliqueSet, ResourceSharingScope, ResourceSharingSpec,
    SharedResourceClaimTemplates,
};

use super::{current_scale, set};

const SPEC: &str = "
replicas: 3
template:
  cliques:
  - {name: f, spec: {replicas: 4, autoScalingConfig: {maxReplicas: 9}}}
  - {name: p, spec: {replicas: 1}}
  - {name: d, spec: {replicas: 3}}
  - {name: x, spec: {replicas: 2}}
  podCliqueScalingGroups:
  - {name: g, cliqueNames: [p, d], replicas: 5, minAvailable: 2, scaleConfig: {maxReplicas: 9}}
";

/// The number of objects of the expansion.
fn expanded(set: &PodCliqueSet, scale: &CurrentScale) -> u64 {
    let objects = |replica: &SetReplica| {
        let pods: i32 = replica.all_cliques().map(|clique| clique.replicas).sum();
        let children = 1 + replica.gangs().len() + replica.groups.len() + replica.all_cliques().count();
        u64::try_from(pods).expect("a count") + (children + replica.autoscalers().len()) as u64
    };
    super::expand(set, scale).iter().map(objects).sum()
}

#[test]
fn the_object_count_equals_the_size_of_the_expansion() {
    let set = set("s", SPEC);
    assert_eq!(object_count::of_template(&set), expanded(&set, &CurrentScale::default()));
}

/// `SPEC` with claims at each level: 1 + 3 of the set, 3 × (2 + 5) of the group, 3 × 5 of `d` and 3 × 4 × 2 of `f`.
#[test]
fn the_claims_of_all_levels_count() {
    let mut shared = set("s", SPEC);
    let claims =
        |name: &str, scope: ResourceSharingScope| ResourceSharingSpec { name: name.to_owned(), namespace: None, scope };
    let template = &mut shared.spec.template;
    let at_set =
        |name: &str, scope| PcsResourceSharingSpec { name: name.to_owned(), namespace: None, scope, filter: None };
    template.resource_sharing =
        vec![at_set("a", ResourceSharingScope::AllReplicas), at_set("b", ResourceSharingScope::PerReplica)];
    let group = &mut template.pod_clique_scaling_groups[0];
    let at_group = |name: &str| PcsgResourceSharingSpec {
        name: name.to_owned(),
        namespace: None,
        scope: ResourceSharingScope::AllReplicas,
        filter: None,
    };
    group.resource_sharing = vec![at_group("a"), at_group("b")];
    group.resource_claim_template_configs =
        vec![SharedResourceClaimTemplates { names: vec!["c".to_owned()], clique_names: vec![] }];
    template.cliques[2].resource_claim_template_names = vec!["a".to_owned()];
    template.cliques[0].resource_sharing =
        vec![claims("a", ResourceSharingScope::PerReplica), claims("b", ResourceSharingScope::PerReplica)];
    let without = object_count::of_template(&set("s", SPEC));
    assert_eq!(object_count::of_template(&shared) - without, 1 + 3 + 3 * (2 + 5) + 3 * 5 + 3 * 4 * 2);
    assert!(object_count::is_too_large(&shared, &current_scale("{cliques: {s-1-f: 34000}}")));
    assert!(!object_count::is_too_large(&set("s", SPEC), &current_scale("{cliques: {s-1-f: 34000}}")));
}

#[test]
fn the_sizes_of_the_gangs_are_those_of_the_expansion() {
    let set = set("s", SPEC);
    let expanded = super::expand(&set, &CurrentScale::default());
    let gangs = expanded[0].gangs();
    let size =
        |gang: &Gang<'_>| gang.cliques.iter().map(|clique| object_count::clique_size(clique.replicas)).sum::<u64>();
    let largest = gangs.iter().map(size).max().expect("a gang");
    // f: 4 pods, x: 2 pods, two replicas of g with 1 + 3 pods, and six pod groups.
    assert_eq!((object_count::base_gang_size(&set.spec.template), largest), (20, 20));
    let template = &set.spec.template;
    let scaled = object_count::scaled_gang_size(template, &template.pod_clique_scaling_groups[0]);
    assert_eq!((scaled, gangs.iter().map(size).min()), (6, Some(6)), "one replica of g and two pod groups");
}

/// The longest names that are possible. The limit leaves at least 256 KiB for the metadata of the gang.
#[test]
fn a_gang_of_the_largest_size_fits_into_the_storage_of_the_api_server() {
    let longest = "x".repeat(63);
    let reference = NamespacedName { namespace: longest.clone(), name: longest.clone() };
    let gang = |groups: usize, pods_per_group: usize| {
        let group = GangPodGroup {
            name: longest.clone(),
            pod_references: vec![reference.clone(); pods_per_group],
            min_replicas: i32::MAX,
            topology_constraint: None,
        };
        assert_eq!(groups * (1 + pods_per_group), object_count::MAX_GANG_SIZE);
        PodGang::new("g", PodGangSpec { podgroups: vec![group; groups], ..PodGangSpec::default() })
    };
    for (groups, pods_per_group) in [(8000, 0), (4000, 1), (1, 7999)] {
        let bytes = serde_json::to_vec(&gang(groups, pods_per_group)).expect("JSON").len();
        assert!(bytes <= 1536 * 1024 - 256 * 1024, "{groups} pod groups need {bytes} bytes");
    }
}

#[test]
fn the_current_scale_counts_and_not_that_of_the_template() {
    let mut large = set("s", SPEC);
    assert!(
        !object_count::is_too_large(&large, &CurrentScale::default()) && !object_count::may_be_too_large(&large, 0, 0)
    );
    assert!(object_count::may_be_too_large(&large, 0, 10_000) && object_count::may_be_too_large(&large, 100_000, 0));
    assert!(!object_count::is_too_large(&large, &current_scale("{groups: {s-0-g: 13000}}")));
    assert!(object_count::is_too_large(&large, &current_scale("{groups: {s-0-g: 10000, s-2-g: 10000}}")));
    assert!(object_count::is_too_large(&large, &current_scale("{cliques: {s-1-f: 100000}}")));
    assert!(
        !object_count::is_too_large(&large, &current_scale("{groups: {s-3-g: 100000}}")),
        "an index beyond the replicas of the set"
    );
    assert!(object_count::is_replica_too_large(&large, 0, &current_scale("{groups: {s-0-g: 20000}}")));
    assert!(!object_count::is_replica_too_large(&large, 1, &current_scale("{groups: {s-0-g: 20000}}")));
    large.spec.replicas = 1;
    large.spec.template.pod_clique_scaling_groups[0].replicas = Some(100_000);
    assert!(object_count::is_too_large(&large, &CurrentScale::default()));
    assert!(!object_count::is_too_large(&large, &current_scale("{groups: {s-0-g: 3}}")), "it was scaled down");
}

#[test]
fn the_object_count_saturates() {
    let mut set = set("s", SPEC);
    set.spec.replicas = i32::MAX;
    set.spec.template.pod_clique_scaling_groups[0].replicas = Some(i32::MAX);
    for clique in &mut set.spec.template.cliques {
        clique.spec.replicas = i32::MAX;
    }
    assert_eq!(object_count::of_template(&set), u64::MAX);
    assert!(object_count::is_too_large(&set, &CurrentScale::default()));
}
