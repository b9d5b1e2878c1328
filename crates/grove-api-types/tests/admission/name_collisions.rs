//! What would have one name with something else is refused, and nothing else is: compared with all names that there can be.

use std::collections::BTreeSet;

use grove_api_types::admission::{Rule, validate_create};
use grove_api_types::expansion::{CurrentScale, SetReplica, expand};
use grove_api_types::names::{ClaimOwner, PodCliqueSetName, ResourceClaimName};
use grove_api_types::resource_sharing::{self, SharedClaim};
use grove_api_types::v1alpha1::{PodCliqueSet, ResourceSharingScope};
use grove_test_support::dice::Dice;
use grove_test_support::rows::{Known, changed, object};
use serde_json::{Value, json};

use crate::facts::of_sets;
use crate::laws::typed;

/// Sets that are tried.
const SETS: u64 = 3000;
/// Replicas of everything: indices beyond those that names are made with would find nothing more.
const REPLICAS: i32 = 3;
/// What names are made of: `01` is no index.
const WORDS: [&str; 7] = ["a", "a", "a", "0", "0", "1", "01"];

fn name(dice: &mut Dice) -> String {
    let words: Vec<&str> = (0..=dice.roll(3)).filter_map(|_| dice.one_of(&WORDS).copied()).collect();
    words.join("-")
}

/// Different names, one and a few more.
fn names(dice: &mut Dice, more: usize) -> Vec<String> {
    let names: BTreeSet<String> = (0..=dice.roll(more)).map(|_| name(dice)).collect();
    names.into_iter().collect()
}

fn shares(dice: &mut Dice) -> Value {
    let scope = |dice: &mut Dice| if dice.once_in(2) { "AllReplicas" } else { "PerReplica" };
    let none = dice.once_in(3);
    let shares = names(dice, 3).into_iter().filter(|_| !none);
    let all = |dice: &mut Dice, name: String| if dice.once_in(3) { format!("all-{name}") } else { name };
    shares.map(|name| json!({ "name": all(dice, name), "scope": scope(dice) })).collect()
}

fn set(dice: &mut Dice) -> PodCliqueSet {
    let cliques = names(dice, 9);
    let mut groups: Vec<Value> = names(dice, 5)
        .into_iter()
        .map(|name| json!({ "name": name, "cliqueNames": [], "replicas": REPLICAS, "resourceSharing": shares(dice) }))
        .collect();
    for clique in &cliques {
        let at = dice.roll(groups.len() + 1);
        if let Some(members) = groups.get_mut(at).and_then(|group| group["cliqueNames"].as_array_mut()) {
            members.push(json!(clique));
        }
    }
    let clique = |name: &String| json!({ "name": name, "spec": { "replicas": REPLICAS, "podSpec": { "containers": [] } }, "resourceSharing": shares(dice) });
    let cliques: Vec<Value> = cliques.iter().map(clique).collect();
    let changes = [
        ("/spec/replicas", json!(REPLICAS)),
        ("cliques", json!(cliques)),
        ("podCliqueScalingGroups", json!(groups)),
        ("resourceSharing", shares(dice)),
    ];
    let changes = changes.into_iter().map(|(field, value)| (field.to_owned(), value)).collect();
    typed(&changed(&object("set"), &changes)).expect("a set")
}

/// The names of the claims that are made for an owner.
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

fn claims(set: &PodCliqueSet, replicas: &[SetReplica<'_>]) -> Vec<String> {
    let name = PodCliqueSetName::new(set.metadata.name.clone().unwrap_or_default());
    let mut claims = claims_of(ClaimOwner::Set(&name), 0..REPLICAS, &resource_sharing::of_set(&set.spec.template));
    for replica in replicas {
        for group in &replica.groups {
            claims.extend(claims_of(
                ClaimOwner::Group(&group.name),
                0..REPLICAS,
                &resource_sharing::of_group(group.config),
            ));
        }
        for clique in replica.all_cliques() {
            let shares = resource_sharing::of_clique(clique.template);
            claims.extend(claims_of(ClaimOwner::Clique(&clique.name), 0..REPLICAS, &shares));
        }
    }
    claims
}

fn has_twice(names: &[String]) -> bool {
    names.iter().collect::<BTreeSet<_>>().len() < names.len()
}

#[test]
fn what_would_have_one_name_is_refused_and_nothing_else() {
    let facts = of_sets(&Known::default());
    let mut found = [0, 0];
    for seed in 0..SETS {
        let set = set(&mut Dice::new(seed));
        let replicas = expand(&set, &CurrentScale::default());
        let cliques = replicas.iter().flat_map(SetReplica::all_cliques);
        let cliques: Vec<String> = cliques.map(|clique| clique.name.to_string()).collect();
        let result = validate_create(&set, &facts);
        let kinds = [(Rule::NameClash, has_twice(&cliques)), (Rule::ClaimName, has_twice(&claims(&set, &replicas)))];
        for ((rule, is_twice), found) in kinds.into_iter().zip(&mut found) {
            let is_refused = result.violations.iter().any(|violation| violation.rule == rule);
            assert_eq!(
                is_refused,
                is_twice,
                "seed {seed}, {}: {:?} of {}",
                rule.name(),
                result.message(),
                json!(set.spec.template)
            );
            *found += usize::from(is_twice);
        }
    }
    assert!(found.iter().all(|found| *found > 20), "nothing was compared: {found:?}");
}
