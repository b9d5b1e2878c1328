//! The translation of the topology constraints of a set: the domains become keys of node labels, by which schedulers pack the pods of a
//! gang.

use crate::scheduler_v1alpha1::{TopologyConstraint, TopologyPackConstraint};
use crate::topology::{Topology, constraints, used_domains};
use crate::v1alpha1::{self, PodCliqueSetTemplateSpec};

/// Translates the constraints of one set by one topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackConstraints {
    topology: Topology,
    /// The key that Grove prefers where the user prefers none.
    generated: Option<String>,
    /// The domains in the constraints that the topology lacks.
    missing: Vec<String>,
}

impl PackConstraints {
    /// The translation of the constraints of a template. If all of them have the form `packDomain`, Grove prefers the narrowest level. With
    /// the form `pack`, which the Go operator defines, it adds nothing.
    pub fn new(template: &PodCliqueSetTemplateSpec, topology: Topology) -> Self {
        let is_generated = constraints(template).all(|constraint| constraint.pack.is_none());
        let generated = topology.levels.last().filter(|_| is_generated).map(|level| level.key.clone());
        let missing = used_domains(template).into_iter().filter(|domain| topology.depth(domain).is_none());
        let missing = missing.map(str::to_owned).collect();
        Self { topology, generated, missing }
    }

    /// The name of the topology.
    pub fn topology_name(&self) -> &str {
        &self.topology.name
    }

    /// The domains in the constraints that the topology lacks, sorted.
    pub fn missing_domains(&self) -> &[String] {
        &self.missing
    }

    /// The constraint of a gang, a group config or a pod group. Domains that the topology lacks are omitted.
    pub fn translate(&self, constraint: Option<&v1alpha1::TopologyConstraint>) -> Option<TopologyConstraint> {
        let required = constraint.and_then(|constraint| self.key(constraint.required()?));
        let preferred = constraint.and_then(|constraint| self.key(constraint.preferred()?));
        let preferred = preferred.or_else(|| self.generated.clone());
        if required.is_none() && preferred.is_none() {
            return None;
        }
        Some(TopologyConstraint { pack_constraint: Some(TopologyPackConstraint { required, preferred }) })
    }

    /// The index of the level of a key; a greater index means a narrower domain.
    pub fn depth(&self, key: &str) -> Option<usize> {
        self.topology.levels.iter().position(|level| level.key == key)
    }

    fn key(&self, domain: &str) -> Option<String> {
        let depth = self.topology.depth(domain)?;
        Some(self.topology.levels[depth].key.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::topology::Level;

    fn topology() -> Topology {
        let level = |domain: &str| Level { domain: domain.to_owned(), key: format!("example/{domain}") };
        Topology { name: "t".to_owned(), levels: ["zone", "rack", "host"].map(level).to_vec(), is_terminating: false }
    }

    fn template(of_set: &Value, of_clique: &Value) -> PodCliqueSetTemplateSpec {
        let clique = json!({ "name": "a", "topologyConstraint": of_clique,
            "spec": { "roleName": "a", "podSpec": { "containers": [] } } });
        serde_json::from_value(json!({ "topologyConstraint": of_set, "cliques": [clique] })).expect("a template")
    }

    /// The required and the preferred key of the set and of its clique.
    fn keys(of_set: &Value, of_clique: &Value) -> [Option<[Option<String>; 2]>; 2] {
        let template = template(of_set, of_clique);
        let constraints = PackConstraints::new(&template, topology());
        let of = [&template.topology_constraint, &template.cliques[0].topology_constraint];
        of.map(|constraint| {
            let pack = constraints.translate(constraint.as_ref())?.pack_constraint.expect("a pack constraint");
            Some([pack.required, pack.preferred])
        })
    }

    fn key(domain: &str) -> Option<String> {
        (!domain.is_empty()).then(|| format!("example/{domain}"))
    }

    #[test]
    fn domains_become_keys() {
        let null = Value::Null;
        let pair = |required: &str, preferred: &str| Some([key(required), key(preferred)]);
        let rows = [
            (json!({ "packDomain": "rack" }), null.clone(), [pair("rack", "host"), pair("", "host")]),
            (null.clone(), json!({ "packDomain": "host" }), [pair("", "host"), pair("host", "host")]),
            (json!({ "packDomain": "block" }), null.clone(), [pair("", "host"), pair("", "host")]),
            (json!({ "pack": { "required": "rack" } }), null.clone(), [pair("rack", ""), None]),
            (json!({ "pack": { "preferred": "rack" } }), null.clone(), [pair("", "rack"), None]),
            (json!({ "pack": { "required": "block" } }), null.clone(), [None, None]),
            (
                json!({ "pack": { "required": "zone", "preferred": "block" } }),
                json!({ "packDomain": "rack" }),
                [pair("zone", ""), pair("rack", "")],
            ),
            (json!({ "packDomain": "zone", "pack": { "preferred": "rack" } }), null, [pair("zone", "rack"), None]),
        ];
        for (of_set, of_clique, expected) in rows {
            assert_eq!(keys(&of_set, &of_clique), expected, "{of_set} {of_clique}");
        }
    }

    #[test]
    fn missing_domains_are_those_that_the_topology_lacks() {
        let template = template(
            &json!({ "pack": { "required": "rack", "preferred": "numa" } }),
            &json!({ "packDomain": "block" }),
        );
        assert_eq!(PackConstraints::new(&template, topology()).missing_domains(), ["block", "numa"]);
    }
}
