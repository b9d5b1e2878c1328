//! Rows for each rule of the expansion: the input is a set and the current scale as YAML, the result is the expansion as text.

use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::Expect;
use grove_api_types::expansion::{AutoscalerTarget, Clique, CurrentScale, OmittedMinima, Revision, SetReplica};
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_api_types::{admission, expansion};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

mod dependency_count;
mod first_pods;
mod groups;
mod names;
mod object_count;
mod revisions;
mod startup;

fn yaml<K: DeserializeOwned>(text: &str) -> K {
    let value: Value = serde_saphyr::from_str(text).expect("the row is YAML");
    serde_json::from_value(value).expect("the row is an object of its kind")
}

fn set(name: &str, spec: &str) -> PodCliqueSet {
    let mut set: Value = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet" });
    set["metadata"] = json!({ "name": name, "namespace": "prod" });
    set["spec"] = serde_saphyr::from_str(spec).expect("the row is YAML");
    let cliques = set["spec"]["template"]["cliques"].as_array_mut().expect("a set has cliques");
    for clique in cliques {
        clique["spec"]["podSpec"] = json!({ "containers": [] });
    }
    admission::default::pod_clique_set(&serde_json::from_value(set).expect("the row is a set"))
}

/// All replicas of the set, which are built from its template.
fn expand(set: &PodCliqueSet, scale: &CurrentScale) -> Vec<SetReplica> {
    let revision = Revision::new(set.spec.template.clone(), OmittedMinima::default());
    let name = PodCliqueSetName::new(set.metadata.name.clone().unwrap_or_default());
    expansion::expand(&name, set.spec.replicas, &Arc::new(revision), scale)
}

/// The scale of existing groups and cliques, from `{groups: {name: replicas}, cliques: {name: replicas}}`.
fn current_scale(text: &str) -> CurrentScale {
    let sizes: Value = serde_saphyr::from_str(text).expect("the row is YAML");
    let of = |kind: &str| sizes[kind].as_object().cloned().unwrap_or_default();
    let group = |(name, replicas): (String, Value)| {
        let spec = json!({ "replicas": replicas, "cliqueNames": [] });
        yaml::<PodCliqueScalingGroup>(&json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueScalingGroup", "metadata": { "name": name }, "spec": spec }).to_string())
    };
    let clique = |(name, replicas): (String, Value)| {
        let spec = json!({ "roleName": "", "replicas": replicas, "podSpec": { "containers": [] } });
        yaml::<PodClique>(&json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "metadata": { "name": name }, "spec": spec }).to_string())
    };
    let groups: Vec<_> = of("groups").into_iter().map(group).collect();
    let cliques: Vec<_> = of("cliques").into_iter().map(clique).collect();
    CurrentScale::of(&groups, &cliques)
}

fn write_clique(text: &mut String, indent: &str, clique: &Clique) {
    let Clique { name, replicas, starts_after, .. } = clique;
    let after = starts_after.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let after = if after.is_empty() { after } else { format!(" after {after}") };
    let _ = writeln!(text, "{indent}clique {name} × {replicas}{after}");
}

fn to_text(replica: &SetReplica) -> String {
    let SetReplica { index, service_name, cliques, groups, .. } = replica;
    let mut text = format!("replica {index} at {}\n", service_name.address("prod"));
    for clique in cliques {
        write_clique(&mut text, "  ", clique);
    }
    for group in groups {
        let _ = writeln!(text, "  group {} × {} of {} pods", group.name, group.replica_count, group.template_pods);
        for replica in &group.replicas {
            let base = replica.base_gang.as_ref().map(|base| format!(" after {base}")).unwrap_or_default();
            let _ = writeln!(text, "    {} in gang {}{base}", replica.topology_group, replica.gang);
            replica.cliques.iter().for_each(|clique| write_clique(&mut text, "      ", clique));
        }
    }
    for gang in replica.gangs() {
        let names: Vec<_> = gang.cliques.iter().map(|clique| clique.name.as_str()).collect();
        let _ = writeln!(text, "  gang {}: {}", gang.name, names.join(", "));
    }
    for autoscaler in replica.autoscalers() {
        let (kind, target) = match autoscaler.target {
            AutoscalerTarget::Clique(name) => ("clique", name.as_str()),
            AutoscalerTarget::Group(name) => ("group", name.as_str()),
        };
        let (min, max) = (autoscaler.min_replicas.expect("defaulted"), autoscaler.config.max_replicas);
        let _ = writeln!(text, "  autoscaler {} of {kind} {target}: {min} to {max}", autoscaler.name);
    }
    text
}

#[track_caller]
fn check(name: &str, spec: &str, sizes: &str, expected: &Expect) {
    let set = set(name, spec);
    let replicas = expand(&set, &current_scale(sizes));
    for replica in &replicas {
        let in_gangs: Vec<_> = replica.gangs().into_iter().flat_map(|gang| gang.cliques).collect();
        assert_eq!(in_gangs.len(), replica.all_cliques().count(), "each clique is in one gang");
    }
    expected.assert_eq(&replicas.iter().map(to_text).collect::<String>());
}
