//! What a set implies: which replicas, and in each which cliques, gang and Service, under which names.

use kube::ResourceExt;

use crate::core::{PodCliqueSet, PodCliqueTemplate};
use crate::names::{HeadlessServiceName, Hostname, PodCliqueName, PodCliqueSetName, PodGangName};

/// One replica of a set and all that it consists of.
#[derive(Clone, Debug, PartialEq)]
pub struct SetReplica<'a> {
    /// Index of the replica, from 0.
    pub index: i32,
    /// The headless Service of its pods.
    pub service: HeadlessServiceName,
    /// The gang of its standalone cliques.
    pub base_gang: PodGangName,
    /// Its cliques, in template order.
    pub cliques: Vec<Clique<'a>>,
}

/// One clique of one replica.
#[derive(Clone, Debug, PartialEq)]
pub struct Clique<'a> {
    /// The name of its `PodClique`.
    pub name: PodCliqueName,
    /// What it is made from.
    pub template: &'a PodCliqueTemplate,
}

/// The replicas that the spec of `set` asks for.
pub fn replicas(set: &PodCliqueSet) -> Vec<SetReplica<'_>> {
    let name = PodCliqueSetName::new(set.name_any());
    (0..set.spec.replicas).map(|index| replica(set, &name, index)).collect()
}

fn replica<'a>(set: &'a PodCliqueSet, name: &PodCliqueSetName, index: i32) -> SetReplica<'a> {
    let clique = |template: &'a PodCliqueTemplate| Clique {
        name: PodCliqueName::standalone(name, index, &template.name),
        template,
    };
    SetReplica {
        index,
        service: HeadlessServiceName::of_replica(name, index),
        base_gang: PodGangName::base(name, index),
        cliques: set.spec.template.cliques.iter().map(clique).collect(),
    }
}

/// The hosts of a clique with this many replicas, by pod index.
pub fn hostnames(clique: &PodCliqueName, replicas: i32) -> impl Iterator<Item = (i32, Hostname)> {
    (0..replicas).map(move |index| (index, Hostname::of_pod(clique, index)))
}
