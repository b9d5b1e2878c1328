//! Exactly the sets with colliding generated names are denied: compared with all names of the expansion.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use grove_api_types::admission::{Rule, validate_create};
use grove_api_types::expansion::{CurrentScale, OmittedMinima, Revision, SetReplica, expand};
use grove_api_types::names::{ClaimOwner, PodCliqueSetName, ResourceClaimName};
use grove_api_types::resource_sharing::{self, SharedClaim};
use grove_api_types::v1alpha1::{PodCliqueSet, ResourceSharingScope};
use grove_test_support::fuzz::{self, FuzzConfig};
use grove_test_support::rows::{RowFacts, changed, object};
use proptest::bool::weighted;
use proptest::collection::{btree_map, vec};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use super::facts::set_facts;
use super::laws::typed;

/// The number of checked sets.
const SETS: u64 = 3000;
/// The replicas of all objects. More indices than the names contain would find no further collisions.
const REPLICAS: i32 = 3;
/// The words of names; `01` is not an index.
const WORDS: [&str; 7] = ["a", "a", "a", "0", "0", "1", "01"];

fn name() -> impl Strategy<Value = String> {
    vec(select(&WORDS[..]), 1..=3).prop_map(|words| words.join("-"))
}

/// Different names: one, and up to `more` more.
fn names(more: usize) -> impl Strategy<Value = Vec<String>> {
    vec(name(), 1..=more).prop_map(|names| names.into_iter().collect::<BTreeSet<_>>().into_iter().collect())
}

fn shares() -> impl Strategy<Value = Value> {
    let share = |(name, (is_prefixed, is_shared)): (String, (bool, bool))| {
        let name = if is_prefixed { format!("all-{name}") } else { name };
        json!({ "name": name, "scope": if is_shared { "AllReplicas" } else { "PerReplica" } })
    };
    let shares = btree_map(name(), (weighted(1.0 / 3.0), any::<bool>()), 1..=3);
    let shares = shares.prop_map(move |shares| shares.into_iter().map(share).collect());
    prop_oneof![1 => Just(json!([])), 2 => shares]
}

/// A clique: its shared claims, and the index of its scaling group among the groups and "no group".
fn memberships(cliques: usize) -> impl Strategy<Value = Vec<(Value, Index)>> {
    vec((shares(), any::<Index>()), cliques)
}

fn set() -> impl Strategy<Value = PodCliqueSet> {
    let cliques = names(9).prop_flat_map(|names| (memberships(names.len()), Just(names)));
    let groups = names(5).prop_flat_map(|names| (vec(shares(), names.len()), Just(names)));
    (cliques, groups, shares()).prop_map(|((memberships, cliques), (group_shares, groups), shares)| {
        let mut members = vec![vec![]; groups.len() + 1];
        for (clique, (_, group)) in cliques.iter().zip(&memberships) {
            group.get_mut(&mut members).push(clique);
        }
        let groups = groups.iter().zip(&group_shares).zip(&members).map(|((name, shares), members)| {
            json!({ "name": name, "cliqueNames": members, "replicas": REPLICAS, "resourceSharing": shares })
        });
        let cliques = cliques.iter().zip(&memberships).map(|(name, (shares, _))| {
            let spec = json!({ "replicas": REPLICAS, "podSpec": { "containers": [] } });
            json!({ "name": name, "spec": spec, "resourceSharing": shares })
        });
        let changes = [
            ("/spec/replicas", json!(REPLICAS)),
            ("cliques", cliques.collect()),
            ("podCliqueScalingGroups", groups.collect()),
            ("resourceSharing", shares),
        ];
        let changes = changes.into_iter().map(|(field, value)| (field.to_owned(), value)).collect();
        typed(&changed(&object("set"), &changes)).expect("a set")
    })
}

/// The names of the claims of an owner.
fn claims_of(owner: ClaimOwner<'_>, replicas: std::ops::Range<i32>, shares: &[SharedClaim<'_>]) -> Vec<String> {
    let of_share = |share: &SharedClaim<'_>| -> Vec<ResourceClaimName> {
        match share.scope {
            ResourceSharingScope::AllReplicas => vec![ResourceClaimName::of_all_replicas(owner, share.template)],
            ResourceSharingScope::PerReplica => {
                replicas.clone().map(|at| ResourceClaimName::of_replica(owner, at, share.template)).collect()
            }
        }
    };
    shares.iter().flat_map(of_share).map(String::from).collect()
}

fn claims(set: &PodCliqueSet, replicas: &[SetReplica]) -> Vec<String> {
    let name = PodCliqueSetName::new(set.metadata.name.clone().unwrap_or_default());
    let mut claims = claims_of(ClaimOwner::Set(&name), 0..REPLICAS, &resource_sharing::of_set(&set.spec.template));
    for replica in replicas {
        for group in &replica.groups {
            claims.extend(claims_of(
                ClaimOwner::Group(&group.name),
                0..REPLICAS,
                &resource_sharing::of_group(&group.config),
            ));
        }
        for clique in replica.all_cliques() {
            let shares = resource_sharing::of_clique(&clique.template);
            claims.extend(claims_of(ClaimOwner::Clique(&clique.name), 0..REPLICAS, &shares));
        }
    }
    claims
}

fn has_duplicates(names: &[String]) -> bool {
    names.iter().collect::<BTreeSet<_>>().len() < names.len()
}

#[test]
fn exactly_the_sets_with_colliding_names_are_denied() {
    let facts = set_facts(&RowFacts::default());
    let collisions = [Rule::NameCollision, Rule::ClaimName].map(|rule| (rule, AtomicUsize::new(0)));
    let check = |_, set: &PodCliqueSet| {
        let revision = Revision::new(set.spec.template.clone(), OmittedMinima::default());
        let name = PodCliqueSetName::new(set.metadata.name.clone().unwrap_or_default());
        let replicas = expand(&name, set.spec.replicas, &Arc::new(revision), &CurrentScale::default());
        let cliques = replicas.iter().flat_map(SetReplica::all_cliques);
        let cliques: Vec<String> = cliques.map(|clique| clique.name.to_string()).collect();
        let result = validate_create(set, &facts);
        let collide = [has_duplicates(&cliques), has_duplicates(&claims(set, &replicas))];
        for ((rule, count), collide) in collisions.iter().zip(collide) {
            let is_denied = result.violations.iter().any(|violation| violation.rule == *rule);
            if is_denied != collide {
                return Err(format!("{}: {:?}, names collide: {collide}", rule.name(), result.message()));
            }
            count.fetch_add(usize::from(collide), Ordering::Relaxed);
        }
        Ok(true)
    };
    let stats = fuzz::run(FuzzConfig { inputs: SETS, seed: 0 }, set, check, |_| ());
    stats.unwrap_or_else(|failure| panic!("{}", failure.report("name collisions")));
    let counts = collisions.map(|(_, count)| count.into_inner());
    assert!(counts.iter().all(|count| *count > 20), "too few sets have collisions: {counts:?}");
}
