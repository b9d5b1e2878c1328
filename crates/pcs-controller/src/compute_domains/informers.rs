//! The cache of compute domains, and which sets and scaling groups a change of one triggers.

use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::deletion::is_terminating;
use grove_api_types::ownership::{controller_of, is_controlled_by};
use grove_api_types::v1alpha1::{PodCliqueScalingGroup, PodCliqueSet};
use grove_api_types::{finalizers, labels, mnnvl};
use grove_controller::manager::Manager;
use grove_controller::triggers::controllers_of;
use grove_runtime::caches::{Cache, Delta, InformerOptions};
use grove_runtime::rbac::{PolicyRule, Verb};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use super::observed::{AwaitedDomain, DomainState};

/// The compute domains of all sets. A clone shares the cache.
#[derive(Clone, Debug)]
pub(crate) struct ComputeDomains {
    cache: Cache<ComputeDomain>,
}

impl ComputeDomains {
    /// Starts the informer. Sets without compute domains need neither the kind nor the permission.
    pub(crate) fn start(manager: &Manager) -> Self {
        Self { cache: manager.start_informer(InformerOptions::default().optional()) }
    }

    /// With these domains.
    #[cfg(test)]
    pub(crate) fn of(domains: Vec<ComputeDomain>) -> Self {
        Self { cache: Cache::from_objects(domains) }
    }

    /// The domains that this replica of the set needs and that its pods cannot use yet.
    pub(crate) fn missing(&self, set: &PodCliqueSet, replica: i32) -> Vec<AwaitedDomain> {
        let namespace = set.namespace().unwrap_or_default();
        let missing = mnnvl::required_domains_of_replica(set, replica).into_iter().filter_map(|required| {
            let name = required.name.as_str();
            let state = match self.cache.get(&namespace, name) {
                None if !self.cache.is_served() => DomainState::NotServed,
                None => DomainState::NotFound,
                Some(domain) if !is_controlled_by(&*domain, set) => DomainState::NotControlled,
                Some(domain) if is_terminating(&*domain) => DomainState::Terminating,
                Some(domain) if !is_protected(&domain) => DomainState::Unprotected,
                Some(_) => return None,
            };
            Some(AwaitedDomain { name: name.to_owned(), state })
        });
        missing.collect()
    }

    /// The sets with a domain that appeared, disappeared, or changed in what a replica waits for.
    pub(crate) fn changed_sets(&self) -> impl Stream<Item = ObjectRef<PodCliqueSet>> + Send + 'static + use<> {
        let changed = self.cache.subscribe().filter(|delta| std::future::ready(has_changed(delta)));
        changed.flat_map(|delta| stream::iter(controllers_of(&delta)))
    }

    /// The scaling groups in the replicas of such domains.
    pub(crate) fn changed_groups(
        &self,
        groups: &Cache<PodCliqueScalingGroup>,
    ) -> impl Stream<Item = ObjectRef<PodCliqueScalingGroup>> + Send + 'static + use<> {
        let groups = groups.clone();
        let changed = self.cache.subscribe().filter(|delta| std::future::ready(has_changed(delta)));
        changed.flat_map(move |delta| stream::iter(groups_of_replica(&groups, &delta)))
    }
}

/// The scaling groups of the set that controls the domain, in the replica of the domain.
fn groups_of_replica(
    groups: &Cache<PodCliqueScalingGroup>,
    delta: &Delta<ComputeDomain>,
) -> Vec<ObjectRef<PodCliqueScalingGroup>> {
    let Some(domain) = delta.object() else { return vec![] };
    let owner = controller_of(&domain.metadata).map(|owner| owner.uid.as_str());
    let namespace = domain.namespace().unwrap_or_default();
    let groups = owner.map(|uid| groups.owned_by(&namespace, uid)).unwrap_or_default();
    let replica = |labels: &std::collections::BTreeMap<String, String>| labels.get(labels::SET_REPLICA).cloned();
    let of_replica = groups.into_iter().filter(|group| replica(group.labels()) == replica(domain.labels()));
    of_replica.map(|group| ObjectRef::from_obj(&*group)).collect()
}

/// Whether Grove's finalizer protects the domain against a deletion while pods use it.
fn is_protected(domain: &ComputeDomain) -> bool {
    domain.finalizers().iter().any(|finalizer| finalizer == finalizers::COMPUTE_DOMAIN)
}

/// Whether the delta changed something that a replica waits for. NVIDIA's driver changes other parts of a domain often.
fn has_changed(delta: &Delta<ComputeDomain>) -> bool {
    let state = |domain: &Option<Arc<ComputeDomain>>| {
        let domain = domain.as_ref()?;
        let owner = controller_of(&domain.metadata).map(|owner| owner.uid.clone());
        Some((owner, is_terminating(&**domain), is_protected(domain)))
    };
    state(&delta.old) != state(&delta.new)
}

/// The permission to read the domains.
pub(crate) fn rules() -> [PolicyRule; 1] {
    let reason = "create the cliques and scaling groups of a replica after its compute domains";
    [PolicyRule::for_resource::<ComputeDomain>(&[Verb::List, Verb::Watch], reason)]
}

#[cfg(test)]
mod tests {
    use grove_api_types::ownership::controller_owner_reference;
    use serde_json::json;

    use super::*;
    use crate::tests::yaml;

    const SET: &str = "
metadata: {name: llm, namespace: prod, uid: u-set, annotations: {grove.io/auto-mnnvl: enabled}}
spec: {replicas: 2, template: {cliques: [{name: a, spec: {podSpec: {containers: [{name: c}]}}}]}}
";

    fn domain(set: &PodCliqueSet) -> ComputeDomain {
        let mut domain = ComputeDomain::default();
        domain.metadata.name = Some("llm-0".to_owned());
        domain.metadata.namespace = Some("prod".to_owned());
        domain.metadata.finalizers = Some(vec!["other".to_owned(), finalizers::COMPUTE_DOMAIN.to_owned()]);
        domain.metadata.owner_references = Some(controller_owner_reference(set));
        domain.metadata.labels = Some(labels::of([(labels::SET_REPLICA, "0")]));
        domain
    }

    fn changed(change: impl FnOnce(&mut ComputeDomain)) -> ComputeDomain {
        let mut domain = domain(&yaml(SET));
        change(&mut domain);
        domain
    }

    #[test]
    fn a_replica_waits_for_a_domain_of_the_set_with_the_finalizer() {
        let set: PodCliqueSet = yaml(SET);
        let now = serde_json::from_value(json!("2026-01-01T00:00:00Z")).ok();
        for (existing, expected) in [
            (vec![], Some(DomainState::NotFound)),
            (vec![changed(|domain| domain.metadata.owner_references = None)], Some(DomainState::NotControlled)),
            (vec![changed(|domain| domain.metadata.deletion_timestamp = now)], Some(DomainState::Terminating)),
            (vec![changed(|domain| domain.metadata.finalizers = Some(vec![]))], Some(DomainState::Unprotected)),
            (vec![domain(&set)], None),
        ] {
            let missing = ComputeDomains::of(existing).missing(&set, 0);
            let states: Vec<_> = missing.iter().map(|domain| domain.state).collect();
            assert_eq!(states, expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn only_changes_that_a_replica_may_wait_for_trigger_its_owners() {
        let delta = |old: Option<ComputeDomain>, new: Option<ComputeDomain>| Delta {
            old: old.map(Arc::new),
            new: new.map(Arc::new),
        };
        let domain = || Some(domain(&yaml(SET)));
        let relabelled = changed(|domain| domain.metadata.labels = None);
        assert!(!has_changed(&delta(domain(), Some(relabelled))));
        let unprotected = changed(|domain| domain.metadata.finalizers = None);
        for change in [delta(None, domain()), delta(domain(), None), delta(domain(), Some(unprotected))] {
            assert!(has_changed(&change), "{change:?}");
        }
    }

    #[test]
    fn a_domain_triggers_the_groups_of_its_replica() {
        let set: PodCliqueSet = yaml(SET);
        let group = |name: &str, replica: &str| {
            let mut group: PodCliqueScalingGroup =
                yaml("{spec: {replicas: 1, cliqueNames: [a]}, metadata: {namespace: prod}}");
            group.metadata.name = Some(name.to_owned());
            group.metadata.owner_references = Some(controller_owner_reference(&set));
            group.metadata.labels = Some(labels::of([(labels::SET_REPLICA, replica)]));
            group
        };
        let groups = Cache::from_objects([group("llm-0-g", "0"), group("llm-1-g", "1")]);
        let delta = Delta { old: None, new: Some(Arc::new(domain(&set))) };
        let names: Vec<_> = groups_of_replica(&groups, &delta).into_iter().map(|group| group.name).collect();
        assert_eq!(names, ["llm-0-g"]);
    }
}
