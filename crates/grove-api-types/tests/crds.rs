//! The CRDs: small enough for a plain `kubectl apply`, with schemas that an API server accepts.

use std::sync::LazyLock;

use grove_api_types::configuration::TopologyDomain;
use grove_api_types::crds::crds;
use serde_json::{Value, json};

/// The limit of the architecture, less than the 256 KiB that the annotation of `kubectl apply` can contain.
const LIMIT: usize = 200_000;

#[test]
fn each_crd_is_smaller_than_the_limit() {
    for crd in crds() {
        let size = serde_json::to_string(&crd).expect("a CRD can be serialized").len();
        assert!(size < LIMIT, "{:?} has {size} bytes", crd.metadata.name);
    }
}

/// Each nested schema of a schema, with its path.
fn schemas(schema: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    found.push((path.to_owned(), schema.clone()));
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        schemas(property, &format!("{path}.{name}"), found);
    }
    for (field, step) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[field].is_object() {
            schemas(&schema[field], &format!("{path}{step}"), found);
        }
    }
}

/// Each schema of all CRDs, with its path from the kind. Without optimisation, their generation takes a second.
static ALL_SCHEMAS: LazyLock<Vec<(String, Value)>> = LazyLock::new(|| {
    let mut found = Vec::new();
    for crd in crds() {
        let root = serde_json::to_value(&crd.spec.versions[0].schema).expect("a schema");
        schemas(&root["openAPIV3Schema"], &crd.spec.names.kind, &mut found);
    }
    found
});

/// The paths of all schemas with this property.
fn paths_with(property: impl Fn(&Value) -> bool) -> Vec<String> {
    ALL_SCHEMAS.iter().filter(|(_, schema)| property(schema)).map(|(path, _)| path.clone()).collect()
}

#[test]
fn every_field_has_a_type() {
    let alternatives = ["x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"];
    let typed = |schema: &Value| ["type"].iter().chain(&alternatives).any(|key| schema.get(*key).is_some());
    assert_eq!(paths_with(|schema| !typed(schema)), Vec::<String>::new());
}

/// The same set runs in clusters with and without such hardware. All about it is in the configuration and in annotations.
#[test]
fn the_schemas_of_workloads_name_no_component_of_nvidia() {
    let workloads = ["PodCliqueSet", "PodCliqueScalingGroup", "PodClique"];
    let crds = crds().into_iter().filter(|crd| workloads.contains(&crd.spec.names.kind.as_str()));
    let texts: Vec<_> = crds.map(|crd| serde_json::to_string(&crd).expect("JSON").to_lowercase()).collect();
    assert_eq!(texts.len(), workloads.len());
    for word in ["mnnvl", "nvlink", "imex", "computedomain", "nvidia"] {
        assert!(texts.iter().all(|text| !text.contains(word)), "a schema contains {word}");
    }
}

#[test]
fn no_field_is_nullable() {
    assert_eq!(paths_with(|schema| schema.get("nullable").is_some()), Vec::<String>::new());
}

/// The API server stores an integer or a time that the services cannot decode unless the schema excludes it.
#[test]
fn every_integer_and_every_time_has_bounds() {
    let is_own = |path: &String| [".podSpec", ".metrics", ".templateSpec"].iter().all(|field| !path.contains(field));
    let is = |schema: &Value, key: &str, value: &str| schema.get(key).and_then(Value::as_str) == Some(value);
    let lacks = |schema: &Value, keys: &[&str]| keys.iter().any(|key| schema.get(*key).is_none());
    let integers = paths_with(|schema| is(schema, "type", "integer") && lacks(schema, &["minimum", "maximum"]));
    assert_eq!(integers.into_iter().filter(is_own).collect::<Vec<_>>(), Vec::<String>::new());
    let times = paths_with(|schema| is(schema, "format", "date-time") && lacks(schema, &["pattern"]));
    assert_eq!(times.into_iter().filter(is_own).collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn the_keys_of_map_lists_are_required_or_have_defaults() {
    let may_be_absent = |items: &Value, key: &Value| {
        let key = key.as_str().expect("a key");
        let required = items["required"].as_array().is_some_and(|required| required.contains(&key.into()));
        !required && items["properties"][key].get("default").is_none()
    };
    let wrong = paths_with(|schema| {
        let keys = schema["x-kubernetes-list-map-keys"].as_array();
        keys.into_iter().flatten().any(|key| may_be_absent(&schema["items"], key))
    });
    assert_eq!(wrong, Vec::<String>::new());
}

/// Other tests compare one of these schemas, for example with that of the API server. The result applies to all.
#[test]
fn fields_with_the_same_kubernetes_type_have_the_same_schema() {
    for (field, places) in [
        (".podSpec", ["PodClique.spec.podSpec", "PodCliqueSet.spec.template.cliques[].spec.podSpec"].as_slice()),
        (
            ".metrics",
            &[
                "PodClique.spec.autoScalingConfig.metrics",
                "PodCliqueSet.spec.template.cliques[].spec.autoScalingConfig.metrics",
                "PodCliqueSet.spec.template.podCliqueScalingGroups[].scaleConfig.metrics",
            ],
        ),
    ] {
        let mut found: Vec<&(String, Value)> = ALL_SCHEMAS.iter().filter(|(path, _)| path.ends_with(field)).collect();
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, places);
        for (path, schema) in &found[1..] {
            // `assert_eq` would print schemas of thousands of lines.
            assert!(*schema == found[0].1, "{path} differs from {}", found[0].0);
        }
    }
}

#[test]
fn the_pod_spec_has_the_fields_of_the_newest_kubernetes() {
    let text = serde_json::to_string(&crds()[1]).expect("a CRD can be serialized");
    for field in ["schedulingGroup", "hostnameOverride", "resourceClaims", "nvidia", "terminationGracePeriodSeconds"] {
        assert_eq!(text.contains(&format!("\"{field}\"")), field != "nvidia", "{field}");
    }
}

/// The schema of `spec` of a `ClusterTopology`.
fn cluster_topology_spec() -> &'static Value {
    let found = ALL_SCHEMAS.iter().find(|(path, _)| path == "ClusterTopology.spec");
    &found.expect("the schema of the spec").1
}

/// `kubectl explain clustertopologies.spec.levels.domain` shows the description.
#[test]
fn the_schema_of_a_domain_describes_each_of_the_seven() {
    let spec = cluster_topology_spec();
    let domain = &spec["properties"]["levels"]["items"]["properties"]["domain"];
    let domains: Vec<&str> = TopologyDomain::ALL.iter().map(|(name, _)| *name).collect();
    assert_eq!(domain["enum"], json!(domains));
    let description = domain["description"].as_str().expect("a description");
    let sentences: Vec<(&str, &str)> =
        description.lines().filter_map(|line| line.trim_start_matches("- ").split_once(": ")).collect();
    let expected = [
        ("region", "Network local to a CSP region"),
        ("zone", "Network local to a CSP availability-zone within a region"),
        ("datacenter", "Network local to a data-center within a CSP availability-zone"),
        ("block", "Network local to a switching block unit within a data-center"),
        ("rack", "First-level network grouping of compute hosts (includes NVLink domains as logical racks)"),
        ("host", "Individual compute host"),
        ("numa", "NUMA node (processor and memory locality domain) within a compute host"),
    ];
    assert_eq!(sentences, expected);
}

#[test]
fn cluster_topologies_are_cluster_scoped_and_their_levels_have_a_domain_and_a_key() {
    let crds = crds();
    let crd = crds.iter().find(|crd| crd.spec.names.kind == "ClusterTopology").expect("the CRD");
    assert_eq!(crd.spec.scope, "Cluster");
    let levels = &cluster_topology_spec()["properties"]["levels"];
    assert_eq!((&levels["minItems"], &levels["items"]["required"]), (&json!(1), &json!(["domain", "key"])));
    assert_eq!(levels["items"]["properties"]["key"]["minLength"], 1);
}

/// The design of topology-aware scheduling removes these fields.
#[test]
fn no_crd_has_the_fields_that_topology_constraints_replace() {
    for field in ["replicaSpreadConstraints", "spreadConstraints", "schedulingPolicyConfig", "networkPackGroupConfigs"]
    {
        let suffix = format!(".{field}");
        let paths: Vec<&String> =
            ALL_SCHEMAS.iter().map(|(path, _)| path).filter(|path| path.ends_with(&suffix)).collect();
        assert_eq!(paths, Vec::<&String>::new());
    }
}

#[test]
fn topology_constraints_are_optional_at_each_level() {
    let optional = |path: &str, field: &str| {
        let found = ALL_SCHEMAS.iter().find(|(other, _)| other == path);
        let schema = &found.unwrap_or_else(|| panic!("no schema {path}")).1;
        let is_required =
            schema["required"].as_array().is_some_and(|required| required.iter().any(|name| name == field));
        schema["properties"][field].is_object() && !is_required
    };
    for (path, field) in [
        ("PodCliqueSet.spec.template", "clusterTopologyName"),
        ("PodCliqueSet.spec.template", "topologyConstraint"),
        ("PodCliqueSet.spec.template.podCliqueScalingGroups[]", "topologyConstraint"),
        ("PodCliqueSet.spec.template.cliques[]", "topologyConstraint"),
        ("PodGang.spec", "topologyConstraint"),
        ("PodGang.spec", "topologyConstraintGroupConfigs"),
        ("PodGang.spec.topologyConstraintGroupConfigs[]", "topologyConstraint"),
        ("PodGang.spec.podgroups[]", "topologyConstraint"),
        ("PodGang.spec.topologyConstraint", "packConstraint"),
        ("PodGang.spec.topologyConstraint.packConstraint", "required"),
        ("PodGang.spec.topologyConstraint.packConstraint", "preferred"),
    ] {
        assert!(optional(path, field), "{path}.{field}");
    }
}
