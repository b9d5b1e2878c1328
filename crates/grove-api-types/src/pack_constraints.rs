//! The translation of the topology constraints of a set: the domains become keys of node labels, by which schedulers pack the pods of a
//! gang.

use std::collections::BTreeMap;

use crate::scheduler_v1alpha1::{PodGangSpec, TopologyConstraint, TopologyPackConstraint};
use crate::topology::{Topology, constraints, used_domains};
use crate::v1alpha1::{self, PodCliqueSetTemplateSpec};

/// Translates the constraints of one set by one topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackConstraints {
    topology: Topology,
    /// The key that Grove prefers where the user prefers none.
    generated: Option<String>,
    /// Whether the user prefers a domain anywhere.
    has_preferred: bool,
    /// The domains in the constraints that the topology lacks.
    missing: Vec<String>,
}

impl PackConstraints {
    /// The translation of the constraints of a template. If all of them have the form `packDomain`, Grove prefers the narrowest level. With
    /// the form `pack`, which the Go operator defines, it adds nothing. An existing gang keeps the preferred keys of the other form: see
    /// [`has_preferred_keys_of_other_form`](Self::has_preferred_keys_of_other_form).
    pub fn new(template: &PodCliqueSetTemplateSpec, topology: Topology) -> Self {
        let is_generated = constraints(template).all(|constraint| constraint.pack.is_none());
        let generated = topology.levels.last().filter(|_| is_generated).map(|level| level.key.clone());
        let missing = used_domains(template).into_iter().filter(|domain| topology.depth(domain).is_none());
        let missing = missing.map(str::to_owned).collect();
        let has_preferred = constraints(template).any(|constraint| constraint.preferred().is_some());
        Self { topology, generated, has_preferred, missing }
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

    /// Whether a gang of this topology has exactly the preferred keys of the other form: none, or the narrowest level everywhere. `packDomain`
    /// and `pack.required` mean the same, so such a gang retains its constraints as long as its [required keys](has_equal_required_keys)
    /// stay. If the user prefers a domain anywhere, all preferred keys follow the set.
    pub fn has_preferred_keys_of_other_form(&self, gang: &PodGangSpec) -> bool {
        let mut preferred = parts(gang).map(|(_, pack)| pack?.preferred.as_ref());
        match (&self.generated, self.topology.levels.last()) {
            (Some(_), _) => preferred.all(|key| key.is_none()),
            (None, Some(narrowest)) if !self.has_preferred => preferred.all(|key| key == Some(&narrowest.key)),
            (None, _) => false,
        }
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

/// Whether the same parts of two gangs have the same required keys.
pub fn has_equal_required_keys(gang: &PodGangSpec, other: &PodGangSpec) -> bool {
    let required = |gang| -> BTreeMap<_, _> { parts(gang).map(|(part, pack)| (part, required(pack))).collect() };
    required(gang) == required(other)
}

fn required(pack: Option<&TopologyPackConstraint>) -> Option<&str> {
    pack?.required.as_deref()
}

/// The gang, its group configs and its pod groups, by kind and name, each with its constraint.
fn parts(gang: &PodGangSpec) -> impl Iterator<Item = ((usize, &str), Option<&TopologyPackConstraint>)> {
    let configs = gang.topology_constraint_group_configs.iter();
    let configs = configs.map(|config| ((1, config.name.as_str()), &config.topology_constraint));
    let groups = gang.podgroups.iter().map(|group| ((2, group.name.as_str()), &group.topology_constraint));
    let all = [((0, ""), &gang.topology_constraint)].into_iter().chain(configs).chain(groups);
    all.map(|(part, constraint)| (part, constraint.as_ref().and_then(|it| it.pack_constraint.as_ref())))
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

    /// A gang with a group config and a pod group. A constraint is `required/preferred`, each a domain or empty.
    fn gang([of_gang, of_config, of_group]: [&str; 3]) -> PodGangSpec {
        let constraint = |text: &str| {
            let (required, preferred) = text.split_once('/').expect("two keys");
            json!({ "packConstraint": { "required": key(required), "preferred": key(preferred) } })
        };
        serde_json::from_value(json!({ "topologyConstraint": constraint(of_gang),
            "topologyConstraintGroupConfigs":
                [{ "name": "a", "podGroupNames": ["a"], "topologyConstraint": constraint(of_config) }],
            "podgroups":
                [{ "name": "a", "podReferences": [], "minReplicas": 1, "topologyConstraint": constraint(of_group) }] }))
        .expect("a gang")
    }

    #[test]
    fn a_gang_has_the_keys_of_the_other_form_if_all_its_parts_do() {
        let pack_domain = json!({ "packDomain": "rack" });
        let required = json!({ "pack": { "required": "rack" } });
        let preferred = json!({ "pack": { "required": "rack", "preferred": "host" } });
        let none = ["rack/", "/", "/"];
        let all = ["rack/host", "/host", "/host"];
        let some = ["rack/host", "/", "/"];
        let another = ["rack/zone", "/zone", "/zone"];
        for (form, keys, expected) in [
            (&pack_domain, none, true),
            (&pack_domain, all, false),
            (&pack_domain, some, false),
            (&required, all, true),
            (&required, none, false),
            (&required, some, false),
            (&required, another, false),
            (&preferred, all, false),
            (&preferred, none, false),
        ] {
            let constraints = PackConstraints::new(&template(form, &Value::Null), topology());
            assert_eq!(constraints.has_preferred_keys_of_other_form(&gang(keys)), expected, "{form} {keys:?}");
        }
        let without_levels = Topology { levels: vec![], ..topology() };
        let constraints = PackConstraints::new(&template(&required, &Value::Null), without_levels);
        assert!(!constraints.has_preferred_keys_of_other_form(&gang(["/", "/", "/"])));
    }

    #[test]
    fn required_keys_are_compared_part_by_part() {
        let first = gang(["zone/", "rack/", "host/"]);
        assert!(has_equal_required_keys(&first, &gang(["zone/host", "rack/host", "host/host"])));
        for other in [["rack/", "rack/", "host/"], ["zone/", "host/", "rack/"], ["zone/", "rack/", "/"]] {
            assert!(!has_equal_required_keys(&first, &gang(other)), "{other:?}");
        }
        let mut without_config = gang(["zone/", "rack/", "host/"]);
        without_config.topology_constraint_group_configs.clear();
        assert!(!has_equal_required_keys(&first, &without_config));
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
