//! The mappers from sets, cliques and nodes to the topologies that they trigger.

use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use grove_api_types::labels::PART_OF;
use grove_api_types::v1alpha1::ClusterTopology;
use grove_controller::triggers::Trigger;
use grove_runtime::caches::{Cache, Delta};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use crate::slim_clique::SlimClique;
use crate::slim_node::SlimNode;
use crate::slim_set::SlimSet;

/// The topologies that the set refers to, and that it referred to before the change.
pub(super) fn topologies_of_set(
    sets: &Cache<SlimSet>,
    default: Arc<str>,
) -> impl Stream<Item = Trigger<ClusterTopology>> + Send + 'static + use<> {
    sets.subscribe().flat_map(move |delta| stream::iter(of_set_delta(&delta, &default)))
}

fn of_set_delta(delta: &Delta<SlimSet>, default: &str) -> Vec<Trigger<ClusterTopology>> {
    let reference = |set: &Option<Arc<SlimSet>>| {
        set.as_ref().and_then(|set| Some((topology_name(set, default)?.to_owned(), set.domains.clone())))
    };
    let (old, new) = (reference(&delta.old), reference(&delta.new));
    if old == new {
        return Vec::new();
    }
    let mut names: Vec<String> = old.into_iter().chain(new).map(|(name, _)| name).collect();
    names.dedup();
    names.iter().map(|name| Trigger::LowPriority(ObjectRef::new(name))).collect()
}

/// The topology of the set of a clique, if the first pod of the clique was scheduled, or the clique has no scheduled pods any more.
pub(super) fn topologies_of_clique(
    cliques: &Cache<SlimClique>,
    sets: &Cache<SlimSet>,
    default: Arc<str>,
) -> impl Stream<Item = Trigger<ClusterTopology>> + Send + 'static + use<> {
    let sets = sets.clone();
    let of_delta = move |delta: Delta<SlimClique>| {
        let is_scheduled =
            |clique: &Option<Arc<SlimClique>>| clique.as_ref().is_some_and(|clique| clique.has_scheduled_pods());
        let clique = delta.object().filter(|_| is_scheduled(&delta.old) != is_scheduled(&delta.new))?;
        let set = sets.get(&clique.namespace()?, clique.labels().get(PART_OF)?)?;
        topology_name(&set, &default).map(|name| Trigger::LowPriority(ObjectRef::new(name)))
    };
    cliques.subscribe().filter_map(move |delta| std::future::ready(of_delta(delta)))
}

fn topology_name<'a>(set: &'a SlimSet, default: &'a str) -> Option<&'a str> {
    set.topology.as_deref().map(|name| if name.is_empty() { default } else { name })
}

/// All topologies, if a node was created or deleted, or its labels have other keys.
pub(super) fn all_after_node_change(
    nodes: &Cache<SlimNode>,
    topologies: &Cache<ClusterTopology>,
) -> impl Stream<Item = Trigger<ClusterTopology>> + Send + 'static + use<> {
    let topologies = topologies.clone();
    let of_delta = move |delta: Delta<SlimNode>| {
        let keys = |node: &Option<Arc<SlimNode>>| node.as_ref().map(|node| node.label_keys.clone());
        let all = if keys(&delta.old) == keys(&delta.new) { Vec::new() } else { topologies.all() };
        stream::iter(all).map(|topology| Trigger::LowPriority(ObjectRef::from_obj(&*topology)))
    };
    nodes.subscribe().flat_map(of_delta)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "the type of a side of a delta")]
    fn set(topology: Option<&str>, domain: &str) -> Option<Arc<SlimSet>> {
        let (topology, domains) = (topology.map(str::to_owned), [domain.to_owned()].into());
        Some(Arc::new(SlimSet { topology, domains, ..SlimSet::default() }))
    }

    #[test]
    fn a_set_triggers_its_old_and_its_new_topology_if_its_reference_or_its_domains_change() {
        for (old, new, expected) in [
            (None, set(Some("a"), "rack"), vec!["a"]),
            (None, set(None, "rack"), vec![]),
            (set(Some("a"), "rack"), set(Some("a"), "rack"), vec![]),
            (set(Some("a"), "rack"), set(Some("a"), "host"), vec!["a"]),
            (set(Some("a"), "rack"), set(Some(""), "rack"), vec!["a", "default"]),
            (set(Some(""), "rack"), None, vec!["default"]),
        ] {
            let triggers = of_set_delta(&Delta { old, new }, "default");
            let names: Vec<_> = triggers
                .into_iter()
                .map(|trigger| match trigger {
                    Trigger::LowPriority(topology) => topology.name,
                    Trigger::Reconcile(_) | Trigger::Retry(_) => panic!("a reconcile"),
                })
                .collect();
            assert_eq!(names, expected);
        }
    }
}
