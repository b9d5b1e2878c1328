//! The objects of a namespace in the message of a failed test: a short line for each.

use std::fmt::{self, Display, Formatter};

use grove_api_types::deletion::is_terminating;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde_json::{Value, json};

use super::NamespaceState;

impl Display for NamespaceState {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for set in self.sets.values() {
            write_status(f, &format!("PodCliqueSet {}", set.name_any()), &set.status)?;
        }
        for group in self.groups.values() {
            let name = format!("PodCliqueScalingGroup {} of {}", group.name_any(), group.spec.replicas);
            write_status(f, &name, &group.status)?;
        }
        for clique in self.cliques.values() {
            let name = format!("PodClique {} of {}", clique.name_any(), clique.spec.replicas);
            write_status(f, &name, &clique.status)?;
        }
        for gang in self.gangs.values() {
            write_status(f, &format!("PodGang {}", gang.name_any()), &gang.status)?;
        }
        for name in self.services.keys() {
            writeln!(f, "Service {name}")?;
        }
        self.pods.values().try_for_each(|pod| write_pod(f, pod))
    }
}

/// Writes the numbers and texts of a status, and of each condition the type, the status and the reason.
fn write_status(f: &mut Formatter<'_>, name: &str, status: &impl Serialize) -> fmt::Result {
    write!(f, "{name}:")?;
    let status = json!(status);
    for (field, value) in status.as_object().into_iter().flatten() {
        if !value.is_array() && !value.is_object() && field != "selector" && field != "hpaPodSelector" {
            write!(f, " {field}={value}")?;
        }
    }
    for condition in status["conditions"].as_array().into_iter().flatten() {
        let [kind, status, reason] = ["type", "status", "reason"].map(|field| text(&condition[field]));
        write!(f, " {kind}={status}({reason})")?;
    }
    writeln!(f)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

fn write_pod(f: &mut Formatter<'_>, pod: &Pod) -> fmt::Result {
    let (pod_spec, status) = (json!(pod.spec), json!(pod.status));
    let (node, phase) = (text(&pod_spec["nodeName"]), text(&status["phase"]));
    write!(f, "Pod {}: {phase} on {node}", pod.name_any())?;
    for condition in status["conditions"].as_array().into_iter().flatten() {
        if condition["type"] == "Ready" || condition["status"] != "True" {
            let fields = ["type", "status", "reason", "lastTransitionTime"].map(|field| text(&condition[field]));
            write!(f, ", {}={} ({}, {})", fields[0], fields[1], fields[2], fields[3])?;
        }
    }
    writeln!(f, "{}", if is_terminating(pod) { ", terminating" } else { "" })
}

/// How many nodes are ready: pods on others are not.
pub(super) async fn ready_nodes(client: &Client) -> String {
    let Ok(nodes) = Api::<Node>::all(client.clone()).list(&ListParams::default()).await else {
        return "the nodes are unknown".to_owned();
    };
    let is_ready = |node: &&Node| {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    format!("{} of {} nodes are ready", nodes.items.iter().filter(is_ready).count(), nodes.items.len())
}
